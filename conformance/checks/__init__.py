"""The checks, one module per section of the contract."""

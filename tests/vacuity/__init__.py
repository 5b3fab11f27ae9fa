"""The suite on peers that are no gateways."""

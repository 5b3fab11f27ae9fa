"""The conformance suite: judges any gateway by the contract, from the client's side and from the worker's."""

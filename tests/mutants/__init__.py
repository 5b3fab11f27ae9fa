"""The suite on trial: deliberately wrong gateways, and what of the suite notices them (`docs/mutation.md`)."""

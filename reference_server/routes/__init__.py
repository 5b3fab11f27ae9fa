"""What each path answers; the way of a request for inference is in `reference_server.pipeline`."""

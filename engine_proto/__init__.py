"""Stubs built from `proto/` (arrives with the gRPC issue)."""

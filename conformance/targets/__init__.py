"""Gateways the suite can start or reach: adapter files and their deviations."""

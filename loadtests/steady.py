"""Steady load, as a locust file: `locust -f loadtests/steady.py --headless -u 1 -r 1 -t 30s --rate 20 --host URL`."""

from __future__ import annotations

from loadtests.generator.users import GatewayUser
from loadtests.scenarios import steady


class Steady(GatewayUser):
    """Answers of several lengths."""

    flow = steady.STEADY

"""Leaving clients, as a locust file: `locust -f loadtests/disconnect_storm.py --headless -u 8 -r 8 -t 30s …`."""

from __future__ import annotations

from loadtests.generator.users import GatewayUser
from loadtests.scenarios import disconnect_storm


class Leaving(GatewayUser):
    """Clients that leave at a random moment."""

    flow = disconnect_storm.LEAVING


class Staying(GatewayUser):
    """Clients that want their whole answer."""

    flow = disconnect_storm.STAYING

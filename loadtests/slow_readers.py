"""Slow readers, as a locust file: `locust -f loadtests/slow_readers.py --headless -u 6 -r 6 -t 30s …`."""

from __future__ import annotations

from loadtests.generator.users import GatewayUser
from loadtests.scenarios import slow_readers


class Brisk(GatewayUser):
    """Clients that read at once."""

    flow = slow_readers.BRISK


class Sipping(GatewayUser):
    """Clients that read a long answer a little at a time."""

    flow = slow_readers.SIPPING


class Stopped(GatewayUser):
    """Clients that stop reading, and leave after a while."""

    flow = slow_readers.STOPPED

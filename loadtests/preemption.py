"""Urgent among bulk requests, as a locust file: `locust -f loadtests/preemption.py --headless -u 11 -r 11 -t 30s …`."""

from __future__ import annotations

from loadtests.generator.users import GatewayUser
from loadtests.scenarios import preemption


class Bulk(GatewayUser):
    """Work that can wait."""

    flow = preemption.BULK


class Urgent(GatewayUser):
    """Requests that cannot."""

    flow = preemption.URGENT


class Crowd(GatewayUser):
    """A crowd of urgent requests that comes and goes."""

    flow = preemption.CROWD

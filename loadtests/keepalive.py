"""Silent streams, as a locust file: `locust -f loadtests/keepalive.py --headless -u 3 -r 3 -t 30s --rate 2 …`."""

from __future__ import annotations

from loadtests.generator.users import GatewayUser
from loadtests.scenarios import keepalive


class Quiet(GatewayUser):
    """Streams with a long silence between events."""

    flow = keepalive.QUIET


class Busy(GatewayUser):
    """Streams that never fall silent."""

    flow = keepalive.BUSY_FLOW


class Torn(GatewayUser):
    """Streams with a long silence inside an event."""

    flow = keepalive.TORN

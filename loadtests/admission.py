"""More than a gateway lets in, as a locust file: `locust -f loadtests/admission.py --headless -u 1 -r 1 -t 30s …`."""

from __future__ import annotations

from loadtests.generator.users import GatewayUser
from loadtests.scenarios import admission


class Crowd(GatewayUser):
    """Arrivals beyond the limit."""

    flow = admission.CROWD

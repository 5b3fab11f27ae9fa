"""From the settings to whoever decides about places."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from reference_server.admission.desk import LimiterDesk
from reference_server.admission.limiter import Limiter
from reference_server.admission.options import first_capacity
from reference_server.admission.priority_desk import SchedulerDesk
from reference_server.admission.rate import RequestRate
from reference_server.admission.scheduler import Scheduler
from reference_server.stages.admit import OpenDoor

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from reference_server.admission.configuration import AdmissionSettings
    from reference_server.stages.admit import Admission

_LEAST_LIMIT, _LIMIT_PER_CORE = 4096, 1024


def build(settings: AdmissionSettings, registry: CollectorRegistry) -> Admission:
    """What the settings ask for."""
    limit = settings.max_concurrent_requests
    if limit < 0:
        limit = max(_LEAST_LIMIT, _LIMIT_PER_CORE * _cores())
    rate = RequestRate(settings.requests_per_s, limit) if settings.requests_per_s and limit else None
    if settings.scheduler is not None:
        stand_in = first_capacity(settings)
        scheduler = Scheduler(settings.scheduler, stand_in, rate)
        return SchedulerDesk(scheduler, settings.scheduler, stand_in, registry)
    if limit == 0:
        return OpenDoor()
    return LimiterDesk(Limiter(limit, settings.queue_size, settings.queue_timeout_s, rate), registry)


def _cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

"""What there is to configure about admission, judged already (`reference_server.admission.options`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from reference_server.admission.priority import PriorityClass

if TYPE_CHECKING:
    from collections.abc import Mapping

STAND_IN_SLOTS = 1024
"""Capacity of the scheduler while no worker is there, unless `--max-concurrent-requests` says another."""

TENANT_METRIC_TOP_N = 32


@dataclass(frozen=True, slots=True)
class ClassSettings:
    """One priority class of the scheduler's file."""

    reserved_floor: int  # slots
    queue_size: int
    queue_timeout_s: float
    starvation_threshold_s: float
    can_preempt: bool
    reserved_per_slot: float = 0.0  # share of the capacity


BUILT_IN_CLASSES: Mapping[PriorityClass, ClassSettings] = MappingProxyType(
    {
        PriorityClass.SYSTEM: ClassSettings(32, 64, 30.0, 5.0, can_preempt=True),
        PriorityClass.INTERACTIVE: ClassSettings(128, 256, 30.0, 5.0, can_preempt=True, reserved_per_slot=0.25),
        PriorityClass.DEFAULT: ClassSettings(0, 512, 60.0, 30.0, can_preempt=False, reserved_per_slot=0.10),
        PriorityClass.BULK: ClassSettings(0, 1024, 300.0, 120.0, can_preempt=False),
    }
)


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """The priority scheduler (`--priority-scheduler-*`)."""

    classes: Mapping[PriorityClass, ClassSettings] = field(default_factory=lambda: BUILT_IN_CLASSES)
    default_max_class: PriorityClass = PriorityClass.DEFAULT
    tenant_max_class: Mapping[str, PriorityClass] = field(default_factory=lambda: MappingProxyType({}))
    tenant_metric_top_n: int = TENANT_METRIC_TOP_N


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """Limits on requests being served (`--max-concurrent-requests` and the flags about its queue).

    `max_concurrent_requests`: -1 is the default of the machine, max(4096, 1024 a core); 0 is no limit.
    """

    max_concurrent_requests: int = -1
    queue_size: int = 100
    queue_timeout_s: float = 60.0
    requests_per_s: int = 0  # 0: any number; without a limit on requests it means nothing
    scheduler: SchedulerSettings | None = None  # set: it takes the place of limit and queue

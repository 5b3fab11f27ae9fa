"""From flags and the scheduler's file to `AdmissionSettings`; what cannot be is refused with its remedy."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from reference_server import located_yaml
from reference_server.admission.configuration import (
    BUILT_IN_CLASSES,
    STAND_IN_SLOTS,
    TENANT_METRIC_TOP_N,
    AdmissionSettings,
    ClassSettings,
    SchedulerSettings,
)
from reference_server.admission.priority import BY_LABEL, HIGHEST_FIRST, PriorityClass
from reference_server.admission.reservations import wanted
from reference_server.errors import ConfigurationError
from reference_server.tenants import policy_file

if TYPE_CHECKING:
    from collections.abc import Mapping

ENABLED = "--priority-scheduler-enabled"
CONFIG = "--priority-scheduler-config"
_MOST_SLOTS = 65_535
_MOST_WAITING = 2**32 - 1


def limit(text: str) -> int:
    """The value of `--max-concurrent-requests`.

    Raises:
        ValueError: it is no such number.
    """
    if text == "-1":
        return -1
    if not text.isdecimal() or not text.isascii() or len(text) > len(str(_MOST_WAITING)):
        raise ValueError(f"{text!r} is no limit; write a whole number, 0 for no limit, -1 for the machine's default")
    return int(text)


def settings(given: dict[str, Any]) -> AdmissionSettings:
    """The settings of admission from the flags given.

    Raises:
        ConfigurationError: the scheduler's file holds a mistake, or reserves more than there is.
    """
    names = {
        "max_concurrent_requests": "--max-concurrent-requests",
        "queue_size": "--queue-size",
        "queue_timeout_s": "--queue-timeout-secs",
        "requests_per_s": "--rate-limit-tokens-per-second",
    }
    picked = {setting: given[flag] for setting, flag in names.items() if flag in given}
    trusted = "--trust-tenant-header" in given
    file = _File(
        given.get(CONFIG), header_trusted=trusted
    )  # read even when the scheduler is off: a mistake in it stays one
    plain = AdmissionSettings(**picked)
    if ENABLED not in given:
        return plain
    _check_reservations(file, first_capacity(plain))
    scheduler = SchedulerSettings(
        classes=MappingProxyType(file.classes),
        tenant_max_class=MappingProxyType(file.tenants),
        default_max_class=BY_LABEL[given.get("--priority-scheduler-default-max-class", "default")],
        tenant_metric_top_n=given.get("--priority-scheduler-tenant-metric-top-n", TENANT_METRIC_TOP_N),
    )
    return AdmissionSettings(**picked, scheduler=scheduler)


def first_capacity(admission: AdmissionSettings) -> int:
    """The scheduler's slots while no worker is there."""
    return admission.max_concurrent_requests if admission.max_concurrent_requests > 0 else STAND_IN_SLOTS


class _File:
    """The scheduler's file: classes, tenants, and where a class stands in it.

    A class that is not in it keeps its built-in settings.
    """

    def __init__(self, path: str | None, *, header_trusted: bool) -> None:
        self.path = path
        self.classes = dict(BUILT_IN_CLASSES)
        self.tenants: dict[str, PriorityClass] = {}
        self.lines: dict[PriorityClass, int] = {}
        if path is None:
            return
        top = located_yaml.read(path, CONFIG).mapping(optional=("classes", "tenant_policies"))
        if "classes" in top:
            for label, node in top["classes"].mapping(optional=tuple(BY_LABEL)).items():
                self.classes[BY_LABEL[label]] = _class(node)
                self.lines[BY_LABEL[label]] = node.line
        if "tenant_policies" in top:
            for name, node in top["tenant_policies"].any_mapping().items():
                tenant = policy_file.tenant_key(name, node.problem, header_trusted=header_trusted)
                if tenant in self.tenants:
                    raise node.problem(f"{tenant!r} has an entry already; keep one")
                self.tenants[tenant] = _max_class(node)


def _max_class(policy: located_yaml.Node) -> PriorityClass:
    node = policy.mapping(required=("max_class",))["max_class"]
    level = BY_LABEL.get(node.text())
    if level is None:
        raise node.problem(f"{node.text()!r} is no class; write one of {', '.join(BY_LABEL)}")
    return level


def _class(node: located_yaml.Node) -> ClassSettings:
    members = node.mapping(
        required=("reserved_floor", "queue_size", "queue_timeout_secs", "starvation_threshold_secs", "can_preempt"),
        optional=("reserved_per_slot",),
    )
    share = members.get("reserved_per_slot")
    return ClassSettings(
        reserved_floor=members["reserved_floor"].whole(0, _MOST_SLOTS),
        reserved_per_slot=0.0 if share is None else share.number(0.0),
        queue_size=members["queue_size"].whole(0, _MOST_WAITING),
        queue_timeout_s=members["queue_timeout_secs"].number(0.0, above=True),
        starvation_threshold_s=members["starvation_threshold_secs"].number(0.0, above=True),
        can_preempt=members["can_preempt"].boolean(),
    )


def _check_reservations(file: _File, capacity: int) -> None:
    """Refuse reservations that not even the first capacity can hold.

    The real gateway logs this and goes on with the plain limit, so its operator has no scheduler and does not know.
    Later the workers may bring fewer slots; then each class gets its share of them.
    """
    slots = wanted(file.classes, capacity)
    total = sum(slots.values())
    if total <= capacity:
        return
    greedy = max(file.lines, key=lambda level: slots[level], default=None)
    where = ENABLED if file.path is None else f"{CONFIG}: {file.path}"
    line = "" if greedy is None else f", line {file.lines[greedy]}"
    shares = ", ".join(f"{level.label} {slots[level]}" for level in HIGHEST_FIRST)
    enough = _enough(file.classes)
    raising = "" if enough is None else f", or write --max-concurrent-requests {enough} or more"
    raise ConfigurationError(
        f"{where}{line}: the classes reserve {total} slots ({shares}) of {capacity}; "
        f"reserve less in a file given by {CONFIG}{raising}"
    )


def _enough(classes: Mapping[PriorityClass, ClassSettings]) -> int | None:
    """The least capacity that holds the reservations; `None`: their shares come to more than the whole."""
    capacity = 1
    while (total := sum(wanted(classes, capacity).values())) > capacity:
        capacity = total
        if capacity > _MOST_SLOTS:
            return None
    return capacity

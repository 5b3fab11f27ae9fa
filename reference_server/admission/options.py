"""From flags and the scheduler's file to `AdmissionSettings`; what cannot be is refused with its remedy."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from reference_server import strict_yaml
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

if TYPE_CHECKING:
    from collections.abc import Mapping

ENABLED = "--priority-scheduler-enabled"
CONFIG = "--priority-scheduler-config"
_MOST_SLOTS = 65_535
_MOST_WAITING = 2**32 - 1
_CLASS_NAMES = (
    "reserved_floor", "reserved_per_slot", "queue_size", "queue_timeout_secs", "starvation_threshold_secs",
    "can_preempt",
)  # fmt: skip
_TENANT_KINDS = ("auth:", "header:", "ip:")


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
    file = _File(given.get(CONFIG))  # read even when the scheduler is off: a mistake in it stays one
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

    def __init__(self, path: str | None) -> None:
        self.path = path
        self.classes = dict(BUILT_IN_CLASSES)
        self.tenants: dict[str, PriorityClass] = {}
        self.lines: dict[PriorityClass, int] = {}
        top = None if path is None else strict_yaml.load(CONFIG, path)
        if top is None:
            return
        top.allow(("classes", "tenant_policies"))
        for label, entry in _entries(top.get("classes"), BY_LABEL):
            self.classes[BY_LABEL[label]] = _class(entry.mapping())
            self.lines[BY_LABEL[label]] = entry.line
        for tenant, entry in _entries(top.get("tenant_policies"), None):
            if not tenant.startswith(_TENANT_KINDS) or tenant in _TENANT_KINDS:
                entry.refuse(f"is no tenant; write auth:{tenant}, header:{tenant} or ip:{tenant}")
            policy = entry.mapping()
            policy.allow(("max_class",))
            self.tenants[tenant] = BY_LABEL[policy.require("max_class").word(tuple(BY_LABEL))]


def _entries(
    section: strict_yaml.Value | None, names: Mapping[str, object] | None
) -> list[tuple[str, strict_yaml.Value]]:
    if section is None or section.is_empty():
        return []
    mapping = section.mapping()
    if names is not None:
        mapping.allow(names)
    return list(mapping)


def _class(entry: strict_yaml.Mapping) -> ClassSettings:
    entry.allow(_CLASS_NAMES)
    share = entry.get("reserved_per_slot")
    return ClassSettings(
        reserved_floor=entry.require("reserved_floor").whole(0, _MOST_SLOTS),
        reserved_per_slot=0.0 if share is None else share.number(0.0),
        queue_size=entry.require("queue_size").whole(0, _MOST_WAITING),
        queue_timeout_s=entry.require("queue_timeout_secs").number(0.0, above=True),
        starvation_threshold_s=entry.require("starvation_threshold_secs").number(0.0, above=True),
        can_preempt=entry.require("can_preempt").switch(),
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
    line = "" if greedy is None else f" line {file.lines[greedy]}"
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

"""How many slots each priority class has for itself."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reference_server.admission.configuration import ClassSettings
    from reference_server.admission.priority import PriorityClass


def wanted(classes: Mapping[PriorityClass, ClassSettings], capacity: int) -> dict[PriorityClass, int]:
    """What the settings ask for at this capacity: the floor, or the share of the slots where that is more."""
    return {
        level: max(each.reserved_floor, math.ceil(each.reserved_per_slot * capacity)) for level, each in classes.items()
    }


def granted(classes: Mapping[PriorityClass, ClassSettings], capacity: int) -> dict[PriorityClass, int]:
    """What they get: all of it where it fits, else each class its share of the capacity, rounded down.

    No class asks for more than there is; so 64 slots and the built-in classes give 19, 39, 4 and 0 from the top.
    """
    asked = {level: min(slots, capacity) for level, slots in wanted(classes, capacity).items()}
    total = sum(asked.values())
    if total <= capacity:
        return asked
    return {level: slots * capacity // total for level, slots in asked.items()}

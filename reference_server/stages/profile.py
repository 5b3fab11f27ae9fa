"""Stage *profile*: what a model's vendor allows or wants otherwise. So far there is the baseline only.

A profile is chosen by the model name as the client sent it, before aliases are resolved. The vendors' profiles are a
feature of their own; what the baseline decides is only what they will decide differently.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Profile:
    """The rules of one family of models.

    Attributes:
        name: The family.
        allows_root_messages: The role `root` is this vendor's own.
        foreign_message_fields: Fields of messages that another vendor's profile knows; they are dropped before
            dispatch, which for these wins over forwarding what is not modelled.
    """

    name: str
    allows_root_messages: bool = False
    foreign_message_fields: frozenset[str] = frozenset({"tools"})


BASELINE = Profile("baseline")


def choose(_model: str) -> Profile:
    """The profile of a model by its name as sent."""
    return BASELINE

"""The flags and the file of admission, and what is said of a mistake in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reference_server import flags
from reference_server.admission.configuration import BUILT_IN_CLASSES, AdmissionSettings, ClassSettings
from reference_server.admission.priority import PriorityClass, asked_for
from reference_server.admission.reservations import granted
from reference_server.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

ON = "--priority-scheduler-enabled"
FILE = "--priority-scheduler-config"
BARE = "{reserved_floor: 0, queue_size: 1, queue_timeout_secs: 1, starvation_threshold_secs: 1, can_preempt: true}"
WHOLE = """
classes:
  interactive:
    reserved_floor: 7
    reserved_per_slot: 0.5
    queue_size: 0
    queue_timeout_secs: 2
    starvation_threshold_secs: 1.5
    can_preempt: false
tenant_policies:
  "auth:gold":
    max_class: system
  ip:127.0.0.1: {max_class: bulk}
"""


def _written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "priority.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_the_defaults_are_the_real_gateways() -> None:
    """No flag: the machine's limit, a queue of 100 for 60 s, any number of requests a second, no scheduler."""
    assert flags.parse([]).admission == AdmissionSettings(-1, 100, 60.0, 0, None)
    given = flags.parse(["--max-concurrent-requests", "0", "--queue-size", "0", "--queue-timeout-secs", "0.5",
                         "--rate-limit-tokens-per-second", "9"]).admission  # fmt: skip
    assert given == AdmissionSettings(0, 0, 0.5, 9, None)


def test_the_file_is_read_whole(tmp_path: Path) -> None:
    """Classes and tenants of the file are taken over; a class it leaves out keeps its built-in settings."""
    scheduler = flags.parse([ON, FILE, _written(tmp_path, WHOLE)]).admission.scheduler
    assert scheduler is not None
    assert scheduler.classes[PriorityClass.INTERACTIVE] == ClassSettings(
        reserved_floor=7, queue_size=0, queue_timeout_s=2.0, starvation_threshold_s=1.5, can_preempt=False,
        reserved_per_slot=0.5,
    )  # fmt: skip
    assert scheduler.classes[PriorityClass.BULK] == BUILT_IN_CLASSES[PriorityClass.BULK]
    assert scheduler.tenant_max_class == {"auth:gold": PriorityClass.SYSTEM, "ip:127.0.0.1": PriorityClass.BULK}


@pytest.mark.parametrize("text", ["", "# nothing\n", "{}", "classes:\n", "tenant_policies: {}\n", "---\n"])
def test_an_empty_file_changes_nothing(tmp_path: Path, text: str) -> None:
    """Built-in classes, no tenants."""
    scheduler = flags.parse([ON, FILE, _written(tmp_path, text)]).admission.scheduler
    assert scheduler is not None
    assert (scheduler.classes, scheduler.tenant_max_class) == (BUILT_IN_CLASSES, {})


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("classes:\n  bulk: [\n", 3, "no YAML"),
        ("a: 1\n", 1, "'a' is no key here; the keys are classes, tenant_policies"),
        ("classes: 3\n", 1, "write keys and values"),
        (f"classes:\n  bulky: {BARE}\n", 2, "'bulky' is no key here"),
        ("classes:\n  bulk: {reserved_floor: 0}\n", 2, "the key queue_size is missing"),
        (f"classes:\n  bulk: {BARE.replace('can_preempt', 'may_preempt')}\n", 2, "'may_preempt' is no key here"),
        (f"classes:\n  bulk: {BARE.replace('queue_timeout_secs: 1', 'queue_timeout_secs: 0')}\n", 2, "above 0"),
        (f"classes:\n  bulk: {BARE.replace('threshold_secs: 1', 'threshold_secs: 0')}\n", 2, "above 0"),
        (f"classes:\n  bulk: {BARE.replace('queue_size: 1', 'queue_size: -1')}\n", 2, "whole number from 0"),
        (f"classes:\n  bulk: {BARE.replace('queue_size: 1', 'queue_size: 1.5')}\n", 2, "whole number from 0"),
        (f"classes:\n  bulk: {BARE.replace('floor: 0', 'floor: -4')}\n", 2, "whole number from 0"),
        (f"classes:\n  bulk: {BARE.replace('true', 'yes')}\n", 2, "true or false"),
        (f"classes:\n  bulk: {BARE}\n  bulk: {BARE}\n", 3, "stands twice"),
        ("classes:\n  bulk:\n    reserved_per_slot: -0.1\n", 3, "the key reserved_floor is missing"),
        (f"classes:\n  bulk: {BARE.replace('{', '{reserved_per_slot: -0.1, ')}\n", 2, "at least 0"),
        (f"classes:\n  bulk: {BARE.replace('{', '{reserved_per_slot: .inf, ')}\n", 2, "at least 0"),
        ("tenant_policies:\n  gold: {max_class: bulk}\n", 2, "no tenant key"),
        ("tenant_policies:\n  auth:gold: {max_class: boss}\n", 2, "no class; write one of system"),
        ("tenant_policies:\n  auth:gold: {}\n", 2, "max_class is missing"),
        ("tenant_policies:\n  header:x: {max_class: bulk}\n", 2, "--trust-tenant-header"),
        ("tenant_policies:\n  auth:a: {max_class: bulk, weight: 2}\n", 2, "'weight' is no key here"),
        ("classes:\n  system: &a {x: *a}\n", 2, "no key here"),
        ("a: 1\n---\nb: 2\n", 2, "no YAML"),
        ("\tclasses: 1\n", 1, "no YAML"),
        ("classes:\n# \0\n", 2, "it holds the character U+0000; take it out"),
        ("classes:\n  bulk: \x07\n", 2, "it holds the character U+0007"),
        ("classes: !!python/object:os.system {}\n", 1, "the tag 'tag:yaml.org,2002:python/object:os.system'"),
        ("classes: !mine {}\n", 1, "the tag '!mine'"),
        (f"classes:\n  bulk: {BARE.replace('queue_size: 1', 'queue_size: !mine 1')}\n", 2, "the tag '!mine'"),
        (f"classes:\n  bulk: {BARE.replace('queue_size: 1', 'queue_size: !!str 1')}\n", 2, "whole number from 0"),
        (f"classes:\n  bulk: {BARE.replace('queue_size: 1', 'queue_size: 0x1')}\n", 2, "whole number from 0"),
        (f"classes:\n  bulk: {BARE.replace('queue_size: 1', 'queue_size: 1e3')}\n", 2, "whole number from 0"),
        (f"classes:\n  bulk: {BARE.replace('queue_size: 1', 'queue_size: 1_0')}\n", 2, "whole number from 0"),
        (f"classes:\n  bulk: {BARE.replace('queue_size: 1', 'queue_size: ' + 400 * '9')}\n", 2, "whole number from 0"),
        (f"classes:\n  bulk: {BARE.replace('timeout_secs: 1', 'timeout_secs: .nan')}\n", 2, "above 0"),
        (f"classes:\n  bulk: {BARE.replace('true', '!!bool x')}\n", 2, "true or false"),
        (f"classes:\n  bulk: &b {BARE}\n  system:\n    <<: *b\n", 4, "'<<', not a key"),
        ("tenant_policies:\n  ? [a]\n  : {max_class: bulk}\n", 2, "a list, not a key"),
        ('tenant_policies:\n  "auth:a\\nb": {max_class: bulk}\n', 2, "control characters"),
        (
            "tenant_policies:\n  ip:127.0.0.1: {max_class: bulk}\n  ip:::ffff:127.0.0.1: {max_class: bulk}\n",
            3,
            "already",
        ),
    ],
)
def test_a_mistake_in_the_file_is_told(tmp_path: Path, text: str, line: int, words: str) -> None:
    """Flag, file, line, and what to write instead, whether or not the scheduler is on."""
    path = _written(tmp_path, text)
    for arguments in ([ON, FILE, path], [FILE, path]):
        with pytest.raises(ConfigurationError) as caught:
            flags.parse(arguments)
        assert caught.value.message.startswith(f"{FILE}: {path}, line {line}: ")
        assert words in caught.value.message


@pytest.mark.parametrize("value", ["-2", "x", "", "1.5", "+3", "٣", "99999999999"])
def test_a_limit_that_is_none_is_told(value: str) -> None:
    """Only whole numbers, and -1 for the default of the machine."""
    with pytest.raises(ConfigurationError, match="--max-concurrent-requests"):
        flags.parse([f"--max-concurrent-requests={value}"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--queue-timeout-secs", "0"], "more than 0"),
        (["--queue-size", "-1"], "at least 0"),
        (["--rate-limit-tokens-per-second", "-1"], "at least 0"),
        (["--priority-scheduler-default-max-class", "boss"], "not one of system, interactive, default, bulk"),
        (["--priority-scheduler-tenant-metric-top-n", "-1"], "at least 0"),
        ([FILE, "/nowhere/to/be/found.yaml"], "cannot be read"),
    ],
)
def test_a_bad_flag_is_told(arguments: list[str], words: str) -> None:
    """Zero timeouts, negative sizes, unknown classes, files that are not there."""
    with pytest.raises(ConfigurationError) as caught:
        flags.parse(arguments)
    assert arguments[0] in caught.value.message
    assert words in caught.value.message


def test_impossible_reservations_are_refused(tmp_path: Path) -> None:
    """Reservations beyond the capacity end the start, with the greediest class's line and the number that is enough."""
    text = f"classes:\n  bulk: {BARE}\n  system: {BARE.replace('floor: 0', 'floor: 9')}\n"
    path = _written(tmp_path, text)
    with pytest.raises(ConfigurationError) as caught:
        flags.parse([ON, FILE, path, "--max-concurrent-requests", "4"])
    message = caught.value.message
    assert message.startswith(f"{FILE}: {path}, line 3: the classes reserve 138 slots (system 9, interactive 128, ")
    number = message.rsplit("--max-concurrent-requests ", 1)[1].split()[0]
    flags.parse([ON, FILE, path, "--max-concurrent-requests", number])
    with pytest.raises(ConfigurationError):
        flags.parse([ON, FILE, path, "--max-concurrent-requests", str(int(number) - 1)])


def test_the_built_in_classes_need_their_slots_too() -> None:
    """A small limit and no file: refused, where the real gateway would quietly go on without its scheduler."""
    with pytest.raises(ConfigurationError, match="the classes reserve 161 slots"):
        flags.parse([ON, "--max-concurrent-requests", "4"])
    assert flags.parse([ON]).admission.scheduler is not None


def test_shares_beyond_the_whole_are_never_enough(tmp_path: Path) -> None:
    """No capacity is named where none would do."""
    text = f"classes:\n  bulk: {BARE.replace('{', '{reserved_per_slot: 1.01, ')}\n"
    with pytest.raises(ConfigurationError) as caught:
        flags.parse([ON, FILE, _written(tmp_path, text)])
    assert "--max-concurrent-requests" not in caught.value.message


@pytest.mark.parametrize(
    ("capacity", "slots"),
    [
        (64, (19, 39, 4, 0)),
        (1024, (32, 256, 103, 0)),
        (1, (0, 0, 0, 0)),
        (178, (32, 128, 18, 0)),
        (177, (31, 127, 17, 0)),
    ],
)
def test_reservations_are_scaled_down(capacity: int, slots: tuple[int, ...]) -> None:
    """At 64 slots the built-in classes get what they were seen to get on the real gateway; never more than there is."""
    got = granted(BUILT_IN_CLASSES, capacity)
    assert tuple(got[level] for level in sorted(got, reverse=True)) == slots
    assert sum(slots) <= capacity


@pytest.mark.parametrize(
    ("value", "level", "known"),
    [
        (None, PriorityClass.DEFAULT, True), ("", PriorityClass.DEFAULT, True), ("  ", PriorityClass.DEFAULT, True),
        ("SyStEm", PriorityClass.SYSTEM, True), ("\tbulk ", PriorityClass.BULK, True),
        ("king", PriorityClass.DEFAULT, False), ("system,bulk", PriorityClass.DEFAULT, False),
        ("system\xa0", PriorityClass.DEFAULT, False), ("\x85system", PriorityClass.DEFAULT, False),
    ],
)  # fmt: skip
def test_what_a_header_asks_for(value: str | None, level: PriorityClass, *, known: bool) -> None:
    """Case and blanks do not matter; what is no class asks for default."""
    assert asked_for(value) == (level, known)

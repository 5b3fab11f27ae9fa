"""Processes of a run: what is said of one that does not come up, and how environments are launched."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import pytest

from conformance.harness.configurations import Configuration, WorkerPlan, configurations
from conformance.harness.environment import launch
from conformance.harness.errors import FleetError, HarnessError, TargetError
from conformance.harness.processes import PORTS, Process, free_port
from conformance.targets.adapter import Adapter, Claims, Launch, Target, Version

if TYPE_CHECKING:
    from pathlib import Path

ONE_WORKER = Configuration(
    name="one", about="", by_hand="", workers=[WorkerPlan(name="vllm", engine="vllm", model="conformance-vllm")]
)


def target(program: str, ready: str = "line", within_s: float = 20.0) -> Target:
    """A gateway that is this Python program."""
    start = Launch(command=[sys.executable, "-c", program], ready=ready, within_s=within_s)
    adapter = Adapter(name="made-up", about="", launch=start, versions=[Version()])
    return Target("made-up", None, Claims(), adapter)


def test_a_process_that_ends_is_told_with_its_last_words(tmp_path: Path) -> None:
    """A process that ends before it is ready: its status, command and last lines, without colours."""
    process = Process("odd", [sys.executable, "-c", r"print('\x1b[31mno luck\x1b[0m'); raise SystemExit(3)"], tmp_path)
    with pytest.raises(HarnessError) as told:
        process.ready_line(within_s=20)
    assert "odd exited with status 3" in str(told.value)
    assert "    no luck" in str(told.value)
    process.stop()


def test_a_process_that_is_never_ready_is_waited_for_within_bounds(tmp_path: Path) -> None:
    """Waiting for a ready line has an end, and the process is stopped afterwards."""
    process = Process("slow", [sys.executable, "-c", "import time; time.sleep(60)"], tmp_path)
    began = time.monotonic()
    with pytest.raises(HarnessError, match=r"was not ready within 0\.3 s"):
        process.ready_line(within_s=0.3)
    process.stop()
    process.stop()
    assert process.status is not None
    assert time.monotonic() - began < 15


def test_a_command_that_does_not_exist_is_told(tmp_path: Path) -> None:
    """A program that is not there is told by its name."""
    process = Process("nothing", ["/no/such/program"], tmp_path)
    with pytest.raises(HarnessError, match="cannot run /no/such/program"):
        process.ready_line(within_s=20)


def test_ports_are_below_the_ephemeral_range() -> None:
    """Ports for gateways that need a number come from below the range of outgoing connections."""
    assert free_port() in PORTS
    assert PORTS.stop <= 32768


@pytest.mark.parametrize(
    ("program", "ready", "said"),
    [
        ("raise SystemExit('I will not')", "line", "I will not"),
        ("raise SystemExit('I will not')", "http", "I will not"),
        ("import time; time.sleep(60)", "http", "did not answer HTTP within"),
    ],
)
def test_a_gateway_that_does_not_start(tmp_path: Path, program: str, ready: str, said: str) -> None:
    """A gateway that does not start is a TargetError with its last output, and its workers are stopped."""
    with pytest.raises(TargetError, match=r"the gateway made-up \(configuration 'one'\)") as told:
        launch(target(program, ready, within_s=1.0 if "sleep" in program else 20.0), ONE_WORKER, tmp_path)
    assert said in str(told.value)


def test_workers_that_do_not_start(tmp_path: Path) -> None:
    """Fake workers that do not come up are a FleetError, whatever the gateway."""
    odd = Configuration(name="odd", about="", by_hand="", workers=[WorkerPlan(name="x", engine="nope", model="m")])
    with pytest.raises(FleetError, match="fake workers of configuration 'odd'"):
        launch(target(""), odd, tmp_path)


def test_configurations_say_what_a_running_gateway_needs() -> None:
    """Every configuration is documented, and its default key is one of its keys."""
    for each in configurations().values():
        assert each.about
        assert each.by_hand
        assert each.default_key is None or each.default_key in each.keys

"""The ``fake-worker`` command: the ready line, bad input, the ways it stops."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from fake_workers.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BOUND_S = 20.0
COMMAND = [sys.executable, "-m", "fake_workers.cli"]
Start = Any


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts the command; whatever still runs at the end is killed."""
    running: list[subprocess.Popen[bytes]] = []

    def run(*arguments: str) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        running.append(subprocess.Popen([*COMMAND, *arguments], stdin=pipe, stdout=pipe, stderr=pipe))
        return running[-1]

    yield run
    for process in running:
        process.kill()
        process.communicate()


def ready(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """Return the ready line."""
    assert process.stdout is not None
    line: dict[str, Any] = json.loads(process.stdout.readline())
    return line


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ready_line_and_signals(start: Start, number: signal.Signals) -> None:
    """One JSON line says where everything is; SIGINT and SIGTERM end it with code 0 and nothing on stderr."""
    process = start(
        "--engine", "sglang", "--model", "a", "--worker", "engine=vllm,model=b,name=x", "--worker", "model=c"
    )
    line = ready(process)
    assert line["ready"] is True
    described = [(worker["name"], worker["engine"], worker["model"]) for worker in line["workers"]]
    assert described == [("x", "vllm", "b"), ("w1", "sglang", "c")]
    with urllib.request.urlopen(line["workers"][1]["url"] + "/v1/models", timeout=BOUND_S) as answer:
        assert json.load(answer)["data"][0]["id"] == "c"
    with urllib.request.urlopen(line["control"], timeout=BOUND_S) as answer:
        assert json.load(answer) == line
    process.send_signal(number)
    out, err = process.communicate(timeout=BOUND_S)
    assert (process.returncode, out, err) == (0, b"", b"")


def test_exit_with_parent(start: Start) -> None:
    """With --exit-with-parent the end of stdin ends it, so that a killed test run leaves nothing."""
    process = start("--exit-with-parent")
    ready(process)
    process.stdin.close()
    process.stdin = None
    assert process.wait(timeout=BOUND_S) == 0


def test_exit_with_a_parent_that_gave_no_pipe() -> None:
    """A stdin that is no pipe and at its end already ends it as cleanly."""
    command = [*COMMAND, "--exit-with-parent"]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=BOUND_S, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_open_streams_do_not_keep_it(start: Start) -> None:
    """A request under way does not keep it from stopping."""
    process = start("--latency", "70b", "--model", "m")
    url = ready(process)["workers"][0]["url"]
    body = json.dumps({"model": "m", "prompt": "x", "max_tokens": 9999, "ignore_eos": True, "stream": True}).encode()
    request = urllib.request.Request(url + "/v1/completions", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=BOUND_S) as answer:
        answer.readline()
        process.terminate()
        assert process.wait(timeout=BOUND_S) == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--worker", "engine=llama"], "engine: Input should be 'sglang', 'vllm' or 'tokenspeed'"),
        (["--worker", "speed=9"], "there is no field 'speed'; fields are engine, model"),
        (["--worker", "vllm"], "'vllm' is not key=value"),
        (["--worker", "port=http"], "port: Input should be a valid integer"),
        (["--port", "99999"], "port: Input should be less than or equal to 65535"),
        (["--latency", "fast"], "latency: Input should be 'none', '8b' or '70b'"),
        (["--model", ""], "model: String should have at least 1 character"),
        (["--worker", "name=a", "--worker", "name=a"], "give each its own name"),
    ],
)
def test_bad_input(capsys: pytest.CaptureFixture[str], arguments: list[str], says: str) -> None:
    """Bad input is one clear line on stderr and exit code 2."""
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("fake-worker: ")
    assert says in err
    assert err.count("\n") == 1


def test_unknown_flag(capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown flag names itself, exit code 2."""
    with pytest.raises(SystemExit) as stopped:
        main(["--modell", "x"])
    assert stopped.value.code == 2
    assert "--modell" in capsys.readouterr().err


def test_port_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    """A port in use is one clear line and exit code 2, for workers and for the control port."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for flag in ("--port", "--control-port"):
            assert main([flag, port]) == 2
            assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in capsys.readouterr().err
    assert main(["--host", "192.0.2.1"]) == 2
    assert "192.0.2.1" in capsys.readouterr().err

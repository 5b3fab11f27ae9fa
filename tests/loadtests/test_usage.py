"""Bad input to `python -m loadtests`: one clear message each, exit status 2, and nothing started."""

from __future__ import annotations

import http.server
import threading
from typing import TYPE_CHECKING

import pytest

from conformance.harness.errors import UserError
from loadtests import figures, scenarios, thresholds
from loadtests.__main__ import main

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "which scenario? One of admission, preemption"),
        ("nonsense", "no scenario 'nonsense'; there are admission"),
        ("steady --rate 0", "--rate 0: must be a number above 0"),
        ("steady --rate -3", "--rate -3: must be a number above 0"),
        ("steady --rate nan", "--rate nan: must be a number above 0"),
        ("steady --duration 0", "--duration 0: must be a number above 0"),
        ("steady --duration 1e9", "at most 86400"),
        ("steady --gateway nobody", "no adapter for 'nobody'"),
        ("steady --gateway reference --target http://127.0.0.1:1", "give one of them"),
        ("steady --target https://127.0.0.1:1", "expected http://HOST:PORT"),
        ("steady --target http://127.0.0.1:1", "nothing listens there"),
        ("steady --api-key k", "--api-key only means something together with --target"),
        ("steady --target http://127.0.0.1:1 --features magic", "unknown magic"),
        ("steady --target http://127.0.0.1:1 --workers-at here", "'here' is not HOST:PORT"),
        ("steady --thresholds /nonexistent.toml", "cannot be read"),
        ("keepalive --gateway smg@1.12.0", "smg@1.12.0 cannot be given keepalive_s, which the scenario needs"),
        ("steady --users 0", "--users 0: must be from 1, one for each flow of steady"),
        ("slow-readers --users 2", "--users 2: must be from 3, one for each flow of slow-readers"),
        ("steady --report-dir /proc/self", "--report-dir /proc/self: cannot be written"),
        ("steady --report-dir /dev/null/x", "cannot be written"),
    ],
)
def test_bad_usage(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What is wrong with a command line is said in one line that names it."""
    assert main(words.split()) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize("word", ["--rat", "--arrivals=sometimes", "--loop=round", "--rate=fast"])
def test_what_is_no_option_ends_with_2(word: str) -> None:
    """Options are neither guessed nor abbreviated."""
    with pytest.raises(SystemExit) as ended:
        main(["steady", word])
    assert ended.value.code == 2


@pytest.fixture
def website() -> Iterator[str]:
    """A server that is no gateway."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_what_is_no_gateway_is_told(website: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A target that does not answer like a gateway is refused before anything is sent to it."""
    assert main(["steady", "--target", website]) == 2
    assert "that is no gateway" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[steady", "not TOML"),
        ("[nonsense]\nfailed_max = 0", "no table [nonsense] is known"),
        ("failed_max = 0", "no table [failed_max] is known"),
        ("[steady]\nttft_p99_max = 3", "ttft_p99_max: no such threshold"),
        ("[steady]\nttft_ms_p99 = 3", "no such threshold"),
        ("[steady]\nttft_ms_p99_max = 'low'", "ttft_ms_p99_max = 'low' must be a number"),
        ("[steady]\nttft_ms_p99_max = nan", "must be a number"),
        ("[steady]\n'slow.ttft_ms_p99_max' = 1", "no flow 'slow'; there are steady"),
        ("[admission]\nttft_ms_p98_max = 3", "[admission] ttft_ms_p98_max"),
        ("[generator]\nmax_late_share = 0", "must be above 0"),
        ("[generator]\nmax_late = 0.5", "[generator] knows no 'max_late'"),
    ],
)
def test_bad_thresholds(text: str, said: str, tmp_path: Path) -> None:
    """A file of thresholds is checked as a whole; what is wrong is told with file, table and key."""
    file = tmp_path / "limits.toml"
    file.write_text(text, "utf-8")
    with pytest.raises(UserError) as refused:
        thresholds.load(file, "steady")
    assert said in str(refused.value)
    assert str(file) in str(refused.value)


def test_thresholds_judge_both_ways(tmp_path: Path) -> None:
    """A value beyond its limit, or not measured, breaks a threshold; a scenario's table comes before the default."""
    file = tmp_path / "limits.toml"
    file.write_text("[default]\nfailed_max = 5\nanswered_min = 3\n[steady]\nfailed_max = 0\n", "utf-8")
    limits = {each.figure: each for each in thresholds.load(file, "steady").limits}
    assert limits["failed"].broken(0) == ""
    assert "failed is 1, at most 0 is allowed" in limits["failed"].broken(1)
    assert limits["answered"].broken(3) == ""
    assert "at least 3" in limits["answered"].broken(2)
    assert "not measured" in limits["answered"].broken(None)


def test_our_own_thresholds_are_sound() -> None:
    """The file that comes with the load tests can be read for every scenario."""
    for name in scenarios.NAMES:
        assert thresholds.load(thresholds.FILE, name).max_late_share > 0


def test_lists(capsys: pytest.CaptureFixture[str]) -> None:
    """Scenarios and figures can be listed without a run."""
    assert main(["--list"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in scenarios.NAMES)
    assert main(["--figures"]) == 0
    listed = capsys.readouterr().out
    assert all(metric in listed for metric in figures.METRICS)

"""Bad input to a run: one clear message each, and nothing started."""

from __future__ import annotations

import argparse
import http.server
import socket
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from conformance import options
from conformance.commands import main
from conformance.harness.configurations import configuration
from conformance.harness.errors import UserError
from conformance.targets import running
from conformance.targets.adapter import Launch, arguments, load
from tests.conformance.suite_runner import suite

if TYPE_CHECKING:
    from collections.abc import Iterator


def read(*words: str) -> options.Options:
    """Options as the command line would give them."""

    class Group:
        """Stands for pytest's group of options."""

        def __init__(self) -> None:
            self.parser = argparse.ArgumentParser()

        def addoption(self, *names: str, **how: Any) -> None:
            """Pass an option on."""
            self.parser.add_argument(*names, **how)

    group = Group()
    options.add(SimpleNamespace(getgroup=lambda *_: group))  # type: ignore[arg-type]  # what the function needs of pytest
    return options.read(SimpleNamespace(option=group.parser.parse_args(list(words))))  # type: ignore[arg-type]  # as above


def test_defaults() -> None:
    """Without options the reference server is launched and every clause selected."""
    found = read()
    assert (found.target.name, found.clauses, found.available) == ("reference", [], None)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--gateway", "smg", "--target", "http://h:1"], "give one of them"),
        (["--gateway", "nosuch"], "there are: reference, smg"),
        (["--gateway", "smg@0.1.0"], "says nothing of this version"),
        (["--gateway", "../smg"], "no adapter"),
        (["--gateway", "reference@9"], "no versions to choose from"),
        (["--api-key", "k"], "only means something together with --target"),
        (["--workers-at", "h:1"], "only means something together with --target"),
        (["--target", "nope=http://h:1"], "no configuration 'nope'"),
        (["--target", "https://h:1"], "expected http://HOST:PORT"),
        (["--target", "http://h:99999"], "Port out of range"),
        (["--target", "http://h:1", "--target", "default=http://h:2"], "two gateways for one configuration"),
        (["--target", "http://h:1", "--workers-at", "h"], "is not HOST:PORT"),
        (["--target", "http://h:1", "--workers-at", "h:70000"], "is not HOST:PORT"),
        (["--target", "http://h:1", "--features", "telepathy"], "unknown telepathy"),
        (["--clauses", "no.such.*"], "no clause id matches"),
        (["--deviations", "/nowhere.yaml"], "cannot be read"),
    ],
)
def test_wrong_options_are_told(words: list[str], said: str) -> None:
    """Each wrong option gets a message that names it and says what to write instead."""
    with pytest.raises(UserError) as told:
        read(*words)
    assert said in str(told.value)


@pytest.fixture
def plain_web_server() -> Iterator[str]:
    """A web server that is no gateway."""

    class Quiet(http.server.BaseHTTPRequestHandler):
        """Answers everything with a page that is not there."""

        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def do_GET(self) -> None:
            """Answer 404."""
            self.send_error(404)

        do_POST = do_GET  # noqa: N815 - the name http.server looks for

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_a_web_server_is_no_gateway(plain_web_server: str) -> None:
    """A target that is no gateway: what was tried, what came back, what to do."""
    with pytest.raises(UserError) as told:
        running.preflight(read("--target", plain_web_server))
    for part in ("that is no gateway", "GET /v1/models answered 404 (text/html", "What to do: give the base URL"):
        assert part in str(told.value)


def test_a_dead_port_is_told() -> None:
    """A target nobody listens on is told as such."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(UserError, match="connection refused"):
        running.preflight(read("--target", f"http://127.0.0.1:{port}"))


def test_a_taken_worker_address_is_told() -> None:
    """An address of --workers-at that is in use is told before anything starts."""
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(UserError, match="cannot listen there"):
        running.preflight(read("--target", "http://127.0.0.1:9", "--workers-at", f"127.0.0.1:{taken.getsockname()[1]}"))


def test_usage_errors_have_their_exit_status(tmp_path: Path) -> None:
    """A usage error ends the run with 4 and one line, before anything is started."""
    ran = suite(tmp_path, "", "--clauses", "no.such.clause")
    assert ran.status == 4
    assert [line for line in ran.output.splitlines() if line] == [
        "ERROR: --clauses no.such.clause: no clause id matches; `python -m conformance clauses` lists them"
    ]


def test_a_gateway_without_admin_api_is_told(tmp_path: Path) -> None:
    """Without an admin API and without --workers-at the run says what to do, once, and judges nothing."""
    source = """
@clause("chat.model.required")
@pytest.mark.parametrize("n", range(3))
async def test_x(gateway, worker, n):
    raise AssertionError("never run")
"""
    ran = suite(tmp_path, source, told=False)
    assert ran.status == 6, ran.output
    assert set(ran.verdicts().values()) == {"harness error"}
    assert "so there is no admin API; let the gateway route to fixed addresses and name them with" in ran.output
    assert ran.output.count("no admin API") <= 2


def test_settings_become_arguments(tmp_path: Path) -> None:
    """Scalars, lists in one option, repeated options and switches are all expressible in an adapter."""
    launch = Launch(
        command=["x"],
        settings={
            "a": ["--a", "{value}"],
            "b": ["--b", "{values}"],
            "c": ["--c", "{each}"],
            "d": ["--d"],
            "e": ["--e"],
        },
    )
    given = {"a": 1, "b": ["x", "y"], "c": ["p", "q"], "d": True, "e": False}
    assert arguments(launch, given, tmp_path) == ["--a", "1", "--b", "x", "y", "--c", "p", "--c", "q", "--d"]


def test_what_a_target_cannot_be_configured_for() -> None:
    """A configuration with a setting the version lacks is known before the run."""
    tenants = configuration("tenants").settings
    assert load("smg@1.12.0").lacks(tenants) == ["tenant_keys"]
    assert load("smg@1.13.0").lacks(tenants) == []


def test_commands_tell_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    """`python -m conformance` answers bad input with one line and status 2."""
    assert main(["up", "--gateway", "nosuch"]) == 2
    assert "no adapter for 'nosuch'" in capsys.readouterr().err
    assert main(["accept", "--report", "/nowhere.json", "--reason", "r"]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_a_setting_that_goes_by_a_file_gets_one(tmp_path: Path) -> None:
    """A setting whose argument is `{file}` is written as YAML, and the gateway is given the path."""
    start = Launch(command=["g"], settings={"classes": ["--classes", "{file}"]})
    wanted = {"classes": {"bulk": {"queue_size": 4}}}
    option, path = arguments(start, {"classes": wanted}, tmp_path)
    assert option == "--classes"
    assert yaml.safe_load(Path(path).read_text("utf-8")) == wanted

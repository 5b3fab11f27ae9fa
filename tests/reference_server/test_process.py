"""The program as a user runs it: the ready line, bad command lines, taken ports, hostile clients, and its end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import httpx
import pytest

from tests.support import READY_WITHIN_S

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = [sys.executable, "-m", "reference_server"]
PORTS = ["--port", "0", "--prometheus-port", "0"]
CHAT = "/v1/chat/completions"
EVENT = b"9\r\ndata: 1\n\n\r\n"
SOON_S = 10.0


class Gateway:
    """A running gateway; `url` is where it listens."""

    def __init__(self, process: subprocess.Popen[str], ready: dict[str, Any]) -> None:
        self.process = process
        self.url: str = ready["url"]
        host, port = self.url.removeprefix("http://").rsplit(":", 1)
        self.address = (host, int(port))

    def ends(self, within_s: float = SOON_S) -> tuple[int, str]:
        """Its exit status and what it wrote to standard error."""
        errors = self.process.communicate(timeout=within_s)[1]
        return self.process.returncode, errors


@contextmanager
def gateway(*arguments: str) -> Iterator[Gateway]:
    """Run the program until it is ready, and see to it that it is gone afterwards."""
    process = subprocess.Popen(
        [*PROGRAM, "launch", *PORTS, *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    watchdog = threading.Timer(READY_WITHIN_S, process.kill)
    watchdog.start()
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        watchdog.cancel()
        assert line, process.communicate()[1]
        yield Gateway(process, json.loads(line))
    finally:
        watchdog.cancel()
        if process.poll() is None:
            process.kill()
        process.communicate()


class Worker:
    """A worker of one model. Chat is one event after the other, `drip_s` apart, for ever; without it a single one.

    With `dies` it hangs up after the single event, without the end of the body.
    """

    def __init__(self, drip_s: float | None = None, *, dies: bool = False) -> None:
        self._drip_s = drip_s
        self._dies = dies
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._stopped = threading.Event()
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.client_gone_at: float | None = None
        self.client_gone = threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            head = connection.recv(65536)
            if head.startswith(b"GET"):
                body = b'{"object":"list","data":[{"id":"m","object":"model","owned_by":"vllm"}]}'
                connection.sendall(_answer(b"application/json", b"Content-Length: %d" % len(body)) + body)
            elif head:
                self._stream(connection)

    def _stream(self, connection: socket.socket) -> None:
        connection.sendall(_answer(b"text/event-stream", b"Transfer-Encoding: chunked"))
        if self._drip_s is None:
            connection.sendall(EVENT if self._dies else EVENT + b"0\r\n\r\n")
            return
        threading.Thread(target=self._watch, args=(connection.dup(),), daemon=True).start()
        while not self._stopped.wait(self._drip_s):
            connection.sendall(EVENT)

    def _watch(self, connection: socket.socket) -> None:
        """Notice when the other side hangs up."""
        with connection, contextlib.suppress(OSError):
            while connection.recv(65536):
                pass
        self.client_gone_at = time.monotonic()
        self.client_gone.set()


def _answer(content_type: bytes, framing: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: " + content_type + b"\r\nConnection: close\r\n" + framing + b"\r\n\r\n"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program to its end."""
    return subprocess.run(
        [*PROGRAM, *arguments],
        capture_output=True,
        text=True,
        timeout=READY_WITHIN_S,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def stream(url: str) -> Any:
    """A streaming chat request."""
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}
    return httpx.stream("POST", url + CHAT, json=body, timeout=SOON_S)


def test_ready_means_that_workers_which_are_there_are_usable() -> None:
    """Right after the ready line a request reaches a worker that was up before; the metrics count it."""
    with Worker() as worker, gateway("--worker-urls", worker.url) as running, stream(running.url) as answer:
        assert answer.status_code == 200
        assert answer.read() == b"data: 1\n\n"
        assert answer.headers["x-smg-routed-worker-id"] == worker.url


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_without_open_requests_it_ends_at_once(number: signal.Signals) -> None:
    """A signal ends an idle server with status 0, also with a kept-alive connection open, and it says nothing bad."""
    with gateway() as running, httpx.Client() as client:
        assert client.get(running.url + "/health").text == "OK"
        running.process.send_signal(number)
        status, errors = running.ends()
    assert status == 0
    assert "Traceback" not in errors


def test_open_streams_get_their_grace_and_are_then_cut() -> None:
    """While it drains, /readiness says so and streams go on; after the grace period they are cut, status 0."""
    grace = ["--shutdown-grace-period-secs", "1"]
    with Worker(0.05) as worker, gateway("--worker-urls", worker.url, *grace) as running, stream(running.url) as answer:
        chunks = answer.iter_raw()
        next(chunks)
        running.process.terminate()
        began = time.monotonic()
        _until_draining(running.url)
        with pytest.raises(httpx.RemoteProtocolError):
            for _ in chunks:
                pass
        went_on_s = time.monotonic() - began
        status, errors = running.ends()
    assert 0.8 < went_on_s < 5
    assert status == 0
    assert "1 open request(s) are cut" in errors
    assert "Traceback" not in errors


def _until_draining(url: str) -> None:
    deadline = time.monotonic() + SOON_S
    while time.monotonic() < deadline:
        answer = httpx.get(url + "/readiness")
        if answer.json().get("reason") == "draining":
            assert answer.status_code == 503
            return
        time.sleep(0.02)
    raise AssertionError("the server never said that it is draining")


def test_a_second_signal_does_not_wait() -> None:
    """Asked twice, the server cuts its streams at once, however long the grace period is."""
    with Worker(0.05) as worker, gateway("--worker-urls", worker.url) as running, stream(running.url) as answer:
        chunks = answer.iter_raw()
        next(chunks)
        running.process.terminate()
        _until_draining(running.url)
        running.process.terminate()
        assert running.ends()[0] == 0


def test_it_ends_with_its_parent_when_asked_to() -> None:
    """With --exit-with-parent the end of standard input is a signal to stop."""
    with gateway("--exit-with-parent") as running:
        assert running.process.stdin is not None
        running.process.stdin.close()
        running.process.stdin = None
        assert running.ends()[0] == 0


@pytest.mark.parametrize("flag", ["--port", "--prometheus-port"])
def test_a_port_in_use_is_one_clear_line(flag: str) -> None:
    """Exit status 1 and one line that names the port and the flag."""
    other = "--prometheus-port" if flag == "--port" else "--port"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = run("launch", flag, port, other, "0")
    assert ended.returncode == 1
    assert ended.stdout == ""
    (line,) = ended.stderr.splitlines()
    assert port in line
    assert flag in line


@pytest.mark.parametrize("arguments", [["launch", "--prot", "1"], ["--port", "x"], ["--mesh-peer-urls", "x"]])
def test_a_bad_command_line_is_one_clear_line(arguments: list[str]) -> None:
    """Exit status 2, one line on standard error, nothing on standard output."""
    ended = run(*arguments)
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert len(ended.stderr.splitlines()) == 1
    assert ended.stderr.startswith("reference-gateway: ")


def test_help_and_version_are_printed() -> None:
    """Both go to standard output with status 0."""
    assert "--worker-urls" in run("launch", "--help").stdout
    assert run("--version").stdout.startswith("reference-gateway ")


HOSTILE = {
    "garbage": b"garbage\r\n\r\n",
    "zeros": b"\x00" * 64 + b"\r\n\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"a" * 100,
    "odd target": b"GET ?x HTTP/1.1\r\nHost: x\r\n\r\n",
    "odd host": b"GET /health HTTP/1.1\r\nHost: a b/\xff@@:99999\r\n\r\n",
    "negative length": b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "bad chunk": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "huge head": b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 300_000 + b"\r\n\r\n",
    "websocket": b"GET /health HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
    "bad id": b"GET /workers/%00 HTTP/1.1\r\nHost: x\r\n\r\n",
    "bad bytes in headers": b"GET /health HTTP/1.1\r\nHost: x\r\nX-Request-ID: \xff\r\nCookie: \xfe\r\n\r\n",
}


def test_hostile_clients_get_no_500_and_leave_no_trace() -> None:
    """Malformed requests end below 500 (or unanswered), and the server answers the next client, without a traceback."""
    with gateway() as running:
        for name, raw in HOSTILE.items():
            status = _status_of(running.address, raw)
            assert status is None or status < 500, f"{name} was answered with {status}"
        assert httpx.get(running.url + "/health").text == "OK"
        running.process.terminate()
        status, errors = running.ends()
    assert status == 0
    assert "Traceback" not in errors


def _status_of(address: tuple[str, int], raw: bytes) -> int | None:
    with socket.create_connection(address, timeout=SOON_S) as connection:
        try:
            connection.sendall(raw)
            first = connection.recv(65536)
        except OSError:
            return None
    return int(first.split(b" ", 2)[1]) if first.startswith(b"HTTP/1.1 ") else None


@pytest.mark.parametrize("http2", [False, True])
def test_a_broken_stream_looks_broken(http2: bool) -> None:
    """When the worker dies, the client gets what came and then an error, over HTTP/1.1 and HTTP/2."""
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}
    with Worker(dies=True) as worker, gateway("--worker-urls", worker.url) as running:
        client = httpx.Client(http1=not http2, http2=http2, timeout=SOON_S)
        with client, client.stream("POST", running.url + CHAT, json=body) as answer:
            chunks = answer.iter_raw()
            assert next(chunks) == b"data: 1\n\n"
            with pytest.raises(httpx.RemoteProtocolError):
                next(chunks)
        assert httpx.get(running.url + "/health").text == "OK"


def test_a_client_that_leaves_is_felt_by_the_worker() -> None:
    """A stream's client hangs up; the connection to the worker is closed within 100 ms."""
    with Worker(SOON_S) as worker, gateway("--worker-urls", worker.url) as running:
        connection = socket.create_connection(running.address, timeout=SOON_S)
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}).encode()
        head = (
            f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        connection.sendall(head.encode() + body)
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        noise_s = _scheduling_noise_s()
        left_at = time.monotonic()
        connection.close()
        assert worker.client_gone.wait(SOON_S)
    assert worker.client_gone_at is not None
    assert worker.client_gone_at - left_at < 0.1 + noise_s


def _scheduling_noise_s() -> float:
    """How late this machine wakes a thread just now: the worst of a few short sleeps, over all cores' load."""
    worst = 0.0
    for _ in range(20):
        began = time.monotonic()
        time.sleep(0.005)
        worst = max(worst, time.monotonic() - began - 0.005)
    return worst * 3 * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def test_many_clients_connect_at_once() -> None:
    """Three hundred connections are established before the busy server looks at any: none has to try again later."""
    with gateway("--worker-urls", "http://127.0.0.1:9") as server, contextlib.ExitStack() as stack:
        os.kill(server.process.pid, signal.SIGSTOP)
        try:
            for _ in range(300):
                stack.enter_context(socket.create_connection(server.address, timeout=SOON_S / 20))
        finally:
            os.kill(server.process.pid, signal.SIGCONT)

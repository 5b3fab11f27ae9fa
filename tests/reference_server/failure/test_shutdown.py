"""The end of the program is bounded, whatever its clients and workers do meanwhile."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.reference_server.test_process import CHAT, Worker, gateway

JSON_TYPE = {"content-type": "application/json"}
GRACE_S = 0.6
SLACK_S = 8.0  # the cut connections (0.5 s), the bound on the HTTP server (3 s), and an interpreter on a busy machine
BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": True}).encode()
HEAD = (
    f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(BODY)}\r\n\r\n".encode()
)


class Silent(Worker):
    """A worker that takes a request and says nothing, or a head alone, until it is let go."""

    def __init__(self, *, head: bool) -> None:
        super().__init__(10.0)
        self._head = head
        self.asked = threading.Event()
        self.let_go = threading.Event()

    def _stream(self, connection: socket.socket) -> None:
        self.asked.set()
        if self._head:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        while not self._stopped.is_set():
            if self.let_go.wait(0.05):
                connection.sendall(b"data: 1\n\n")
                return


OPEN = {"pings only": HEAD + BODY, "no head of the worker": HEAD + BODY, "half a body": HEAD + BODY[:10]}
IDLE = {"half a head": HEAD[:20], "nothing sent": b""}


def test_nothing_outlives_the_grace_period() -> None:
    """Open requests get the grace period and not more, pings or not; connections without one get nothing; status 0."""
    flags = ["--shutdown-grace-period-secs", str(GRACE_S), "--sse-keepalive-secs", "0.1"]
    with (
        Silent(head=True) as first,
        Silent(head=False) as second,
        gateway("--worker-urls", first.url, second.url, *flags) as server,  # in turn, in this order
        contextlib.ExitStack() as stack,
        ThreadPoolExecutor() as pool,
    ):
        clients: dict[str, socket.socket] = {}
        for name, sent in {**OPEN, **IDLE}.items():
            clients[name] = stack.enter_context(socket.create_connection(server.address, timeout=10))
            clients[name].sendall(sent)
            _until_taken_in(server.url)
        assert b" 200 " in clients["pings only"].recv(1000)
        began = time.monotonic()
        server.process.terminate()
        closings = {name: pool.submit(_closed_at, client) for name, client in clients.items()}
        closed_s = {name: closing.result(20) - began for name, closing in closings.items()}
        status, errors = server.ends()
        ended_s = time.monotonic() - began
    assert (status, "Traceback" in errors) == (0, False)
    assert f"{len(OPEN)} open request(s) are cut" in errors
    assert ended_s < GRACE_S + SLACK_S
    assert min(closed_s[name] for name in OPEN) >= GRACE_S - 0.05, closed_s


@pytest.mark.parametrize("http2", [False, True], ids=["HTTP/1.1", "HTTP/2"])
def test_a_client_without_an_answer_gets_one_when_the_grace_period_ends(*, http2: bool) -> None:
    """Whether it waits for the worker or for admission: an enveloped 503, never the HTTP library's bare 500."""
    flags = ["--shutdown-grace-period-secs", str(GRACE_S), "--max-concurrent-requests", "1"]
    with (
        Silent(head=False) as worker,
        gateway("--worker-urls", worker.url, *flags) as server,
        httpx.Client(base_url=server.url, timeout=10, http1=not http2, http2=http2, trust_env=False) as client,
        ThreadPoolExecutor() as pool,
    ):
        asking = [pool.submit(client.post, CHAT, content=BODY, headers=JSON_TYPE) for _ in range(2)]
        deadline = time.monotonic() + 5
        while not worker.asked.wait(0.05):
            assert time.monotonic() < deadline
        _until_taken_in(server.url)
        server.process.terminate()
        answers = [each.result(20) for each in asking]
        status, errors = server.ends()
    assert (status, "Traceback" in errors) == (0, False)
    for answer in answers:
        assert (answer.status_code, answer.headers["x-smg-error-code"]) == (503, "shutting_down")
        assert answer.json()["error"]["type"] == "Service Unavailable"
        assert "x-request-id" in answer.headers


def _closed_at(client: socket.socket) -> float:
    """When the server closed this connection."""
    with contextlib.suppress(ConnectionError):
        while client.recv(65536):
            pass
    return time.monotonic()


def _until_taken_in(url: str) -> None:
    """What was sent before this on other connections has been read: the server has served two requests since."""
    with httpx.Client(base_url=url) as client:
        for _ in range(2):
            assert client.get("/health").text == "OK"


def test_an_answer_under_way_ends_in_peace_and_new_requests_are_let_in() -> None:
    """While it drains the server serves; when the last open answer has ended it ends too, long before the grace."""
    with (
        Silent(head=True) as worker,
        gateway("--worker-urls", worker.url, "--shutdown-grace-period-secs", "60") as server,
    ):
        client = httpx.Client(base_url=server.url, timeout=10)
        with client, client.stream("POST", CHAT, content=BODY, headers={"content-type": "application/json"}) as answer:
            assert answer.status_code == 200
            server.process.terminate()
            deadline = time.monotonic() + 5
            while (readiness := httpx.get(server.url + "/readiness")).status_code != 503:
                assert time.monotonic() < deadline
            assert readiness.json()["reason"] == "draining"
            assert httpx.get(server.url + "/v1/models").status_code == 200
            worker.let_go.set()
            assert answer.read() == b"data: 1\n\n"
        status, errors = server.ends()
    assert (status, "Traceback" in errors) == (0, False)
    assert "are cut" not in errors


def test_without_grace_everything_is_cut_at_once() -> None:
    """A grace period of 0 is none."""
    with (
        Silent(head=True) as worker,
        gateway("--worker-urls", worker.url, "--shutdown-grace-period-secs", "0") as server,
        socket.create_connection(server.address, timeout=10) as client,
    ):
        client.sendall(HEAD + BODY)
        assert b" 200 " in client.recv(1000)
        began = time.monotonic()
        server.process.terminate()
        assert server.ends()[0] == 0
        assert time.monotonic() - began < SLACK_S

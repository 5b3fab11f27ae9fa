"""How long a connection may keep the server waiting: the core, and the program with sockets."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
from hypothesis import given
from hypothesis import strategies as st

from reference_server.patience import Patience
from tests.reference_server.test_process import Worker, gateway

HEAD_S, IDLE_S = 1.0, 2.0
HEALTH = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
HALF = b"GET /hea"
CHAT = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 76\r\n\r\n"
    b'{"model": "m", "messages": [{"role": "user", "content": "x"}],"stream":true}'
)
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5)
PING_FRAME = b"\x00\x00\x08\x06" + bytes(5) + bytes(8)


def test_a_first_head_is_awaited_from_the_beginning() -> None:
    """The first head has its time from the connection on, whatever bytes of it come meanwhile."""
    patience = Patience(30, 90, now=5)
    assert not patience.bytes_came(20)
    assert patience.deadline() == 35


def test_a_request_under_way_is_not_idle() -> None:
    """From the complete head to the end of the answer there is no deadline, and bytes of a body set none."""
    patience = Patience(30, 90, now=0)
    patience.request_began()
    assert not patience.bytes_came(50)
    assert patience.deadline() is None
    patience.request_ended(1000)
    assert patience.deadline() == 1090


def test_a_further_head_has_its_time_from_its_first_byte() -> None:
    """Between two requests the earlier of both limits counts: the rest of the head, or idleness as a whole."""
    patience = Patience(30, 90, now=0)
    patience.request_began()
    patience.request_ended(100)
    assert patience.bytes_came(110)
    assert not patience.bytes_came(120)
    assert patience.deadline() == 140
    patience.request_began()
    patience.request_ended(200)
    assert patience.bytes_came(280)
    assert patience.deadline() == 290


@given(head_s=st.sampled_from([0, 30]), idle_s=st.sampled_from([0, 90]), served=st.booleans(), bytes_came=st.booleans())
def test_a_limit_of_nothing_is_none(head_s: float, idle_s: float, served: bool, bytes_came: bool) -> None:
    """With 0 the one limit or the other is off."""
    patience = Patience(head_s, idle_s, now=0)
    if served:
        patience.request_began()
        patience.request_ended(0)
    if bytes_came:
        patience.bytes_came(0)
    limits = [limit for limit, counts in ((head_s, bytes_came or not served), (idle_s, served)) if limit and counts]
    assert patience.deadline() == min(limits, default=None)


def _closed_after_s(
    address: tuple[str, int], first: bytes, pause_s: float = 0.0, then: bytes = b""
) -> tuple[float, bytes]:
    """Send, perhaps wait for an answer, pause, send; how long after that the server closes, and what it said last."""
    with socket.create_connection(address, timeout=15) as connection:
        began = time.monotonic()
        if first:
            connection.sendall(first)
        if first.endswith(b"\r\n\r\n"):
            answer = b""
            while not answer.endswith(b"OK"):
                answer += connection.recv(65536)
            began = time.monotonic()
        time.sleep(pause_s)
        if then:
            connection.sendall(then)
        said = b""
        while data := connection.recv(65536):
            said += data
        return time.monotonic() - began, said


def test_connections_are_closed_without_a_word() -> None:
    """Nothing or half a head: after the head's time; idle: after the idle time; idle with half a head: the earlier."""
    limits = ["--header-read-timeout-secs", str(HEAD_S), "--idle-connection-timeout-secs", str(IDLE_S)]
    cases: dict[str, tuple[float, tuple[bytes, float, bytes]]] = {
        "nothing": (HEAD_S, (b"", 0, b"")),
        "half a head": (HEAD_S, (HALF, 0, b"")),
        "a head in two halves": (HEAD_S, (HALF, 0.4, b"lth HT")),
        "idle": (IDLE_S, (HEALTH, 0, b"")),
        "idle, half a head at once": (HEAD_S, (HEALTH, 0, HALF)),
        "idle, half a head late": (IDLE_S, (HEALTH, 0.4 * IDLE_S + HEAD_S * 0.5, HALF)),
    }
    with gateway(*limits) as server, ThreadPoolExecutor(len(cases)) as pool:
        waits = {name: pool.submit(_closed_after_s, server.address, *steps) for name, (_, steps) in cases.items()}
        found = {name: wait.result(20) for name, wait in waits.items()}
    for name, (expected_s, _) in cases.items():
        waited_s, said = found[name]
        assert said == b"", name
        assert expected_s - 0.05 <= waited_s < expected_s + 1.5, f"{name}: {waited_s:.2f} s"


def test_a_silent_stream_is_not_idle() -> None:
    """A stream that says nothing for longer than both limits goes on."""
    limits = ["--header-read-timeout-secs", "0.2", "--idle-connection-timeout-secs", "0.2", "--sse-keepalive-secs", "0"]
    with (
        Worker(1.0) as worker,
        gateway("--worker-urls", worker.url, *limits) as server,
        socket.create_connection(server.address, timeout=10) as connection,
    ):
        connection.sendall(CHAT)
        got = b""
        while got.count(b"data: 1") < 2:
            piece = connection.recv(65536)
            assert piece
            got += piece


def test_an_http2_connection_without_a_request_is_closed() -> None:
    """Its preface is no request: behind it the connection is idle, and what keeps it up does not begin a head."""
    limits = ["--header-read-timeout-secs", "0.5", "--idle-connection-timeout-secs", "1.5"]
    with gateway(*limits) as server:
        waited_s, _ = _closed_after_s(server.address, PREFACE, 0.2, PING_FRAME)
    assert 1.45 <= waited_s < 3


def test_a_second_stream_keeps_an_http2_connection_busy() -> None:
    """A connection is idle when none of its streams is open, not when one has ended."""
    limits = ["--idle-connection-timeout-secs", "0.2", "--sse-keepalive-secs", "0"]
    with Worker(1.0) as worker, gateway("--worker-urls", worker.url, *limits) as server:
        client = httpx.Client(http1=False, http2=True, base_url=server.url, timeout=10)
        body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": True}
        with client, client.stream("POST", "/v1/chat/completions", json=body) as answer:
            pieces = answer.iter_raw()
            assert next(pieces) == b"data: 1\n\n"
            assert client.get("/health").text == "OK"
            assert next(pieces) == b"data: 1\n\n"

"""A client that does not read costs a bounded amount of memory, holds up nobody else, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import httpx
import psutil
import pytest

from tests.reference_server.test_process import CHAT, Gateway, Worker, gateway

if TYPE_CHECKING:
    from collections.abc import Iterator

FLOOD_BYTES = 200_000_000
PIECE = b"data: " + b"x" * 65_520 + b"\n\n"
READERS = 5
MEMORY_BYTES = 3_000_000  # for each reader that has stopped: buffers of both connections inside of the program
KERNEL_BYTES = 40_000_000  # what a kernel may hold for one stream, in the four buffers of two loopback connections
SETTLED_S = 1.0
WITHIN_S = 20.0


class Flood(Worker):
    """A worker that answers with events as fast as they are taken, `size` bytes in all."""

    def __init__(self, size: int = FLOOD_BYTES) -> None:
        super().__init__()
        self._size = size
        self._lock = threading.Lock()
        self.sent = 0
        self.cut = 0

    def _stream(self, connection: socket.socket) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n"
        try:
            connection.sendall(head % self._size)
            for _ in range(self._size // len(PIECE)):
                connection.sendall(PIECE)
                with self._lock:
                    self.sent += len(PIECE)
            connection.sendall(b":" * (self._size % len(PIECE)))
        except OSError:
            with self._lock:
                self.cut += 1


def _request() -> bytes:
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": True}).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


@contextmanager
def stopped_readers(server: Gateway, http2: bool) -> Iterator[None]:
    """So many clients that have read the head of a stream and then read nothing more."""
    with contextlib.ExitStack() as stack:
        for _ in range(READERS):
            if http2:
                client = stack.enter_context(httpx.Client(http1=False, http2=True, timeout=WITHIN_S))
                body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": True}
                answer = stack.enter_context(client.stream("POST", server.url + CHAT, json=body))
                assert answer.status_code == 200
            else:
                connection = stack.enter_context(socket.create_connection(server.address, timeout=WITHIN_S))
                connection.sendall(_request())
                assert connection.recv(1000).startswith(b"HTTP/1.1 200")
        yield


def _until_still(worker: Flood) -> int:
    """Wait until the worker gets nothing more out; returns how much it got out."""
    deadline = time.monotonic() + WITHIN_S
    sent, since = worker.sent, time.monotonic()
    while time.monotonic() - since < SETTLED_S:
        assert time.monotonic() < deadline, "the worker is still read from"
        time.sleep(0.05)
        if worker.sent != sent:
            sent, since = worker.sent, time.monotonic()
    return sent


@pytest.mark.parametrize("http2", [False, True], ids=["http/1.1", "http/2"])
def test_readers_that_stop_cost_little_and_leave_nothing(http2: bool) -> None:
    """Five streams of 200 MB whose clients stop: memory stays within 3 MB each, others are served, all of it ends."""
    with Flood() as worker, gateway("--worker-urls", worker.url) as server:
        process = psutil.Process(server.process.pid)
        with httpx.Client(base_url=server.url, timeout=WITHIN_S) as other:
            assert other.get("/health").text == "OK"
            memory, handles = process.memory_info().rss, process.num_fds()
            with stopped_readers(server, http2):
                sent = _until_still(worker)
                grown = process.memory_info().rss - memory
                began = time.monotonic()
                assert other.get("/v1/models").json()["data"]
                served_s = time.monotonic() - began
            deadline = time.monotonic() + WITHIN_S
            while (worker.cut < READERS or process.num_fds() > handles) and time.monotonic() < deadline:
                time.sleep(0.05)
            assert process.num_fds() <= handles
        assert worker.cut == READERS
        assert sent < READERS * KERNEL_BYTES
        assert grown < READERS * MEMORY_BYTES, f"{grown / 1e6:.1f} MB for {READERS} readers"
        assert served_s < 5


def test_a_slow_reader_gets_every_byte() -> None:
    """A client that pauses and reads on gets the stream whole and in order."""
    size = 20_000_000
    with Flood(size) as worker, gateway("--worker-urls", worker.url) as server:
        expected = PIECE * (size // len(PIECE)) + b":" * (size % len(PIECE))
        body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": True}
        got = bytearray()
        with httpx.stream("POST", server.url + CHAT, json=body, timeout=WITHIN_S) as answer:
            for piece in answer.iter_raw():
                if len(got) < 1_000_000 < len(got) + len(piece):
                    time.sleep(0.5)
                got += piece
        assert bytes(got) == expected

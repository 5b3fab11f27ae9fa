"""The measuring client before servers that do one thing: what becomes of an exchange, and what is known of it."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

import gevent
import pytest

from loadtests.generator.client import Client, address_of
from loadtests.observation import Observation
from loadtests.traffic import Manners, reply

if TYPE_CHECKING:
    from collections.abc import Iterator

KIND = reply("00aa", "kind", tokens=1, every_s=0.0)
MARKER = "igc-00aa00000000beef"
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
CHUNKED = STREAM + b"transfer-encoding: chunked\r\n\r\n"
WITHIN_S = 10.0


def chunk(delta: dict[str, str], finish: str | None = None) -> bytes:
    """One chunk of choice 0, as an event."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return f"data: {json.dumps({'id': 'c', 'choices': [choice]})}\n\n".encode()


USAGE = {"prompt_tokens": KIND.prompt_tokens, "completion_tokens": KIND.completion_tokens}
BODY = (
    chunk({"role": "assistant"})
    + chunk({"content": MARKER})
    + chunk({}, "stop")
    + f"data: {json.dumps({'id': 'c', 'choices': [], 'usage': USAGE})}\n\ndata: [DONE]\n\n".encode()
)
WHOLE = STREAM + b"content-length: %d\r\n\r\n" % len(BODY) + BODY
SHED = b'{"error": {"code": "admission_queue_full"}}'
REFUSAL = (
    b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 2\r\nx-smg-error-code: admission_queue_full\r\n"
    b"x-ratelimit-limit: 1\r\ncontent-length: %d\r\n\r\n" % len(SHED)
) + SHED


@contextmanager
def serving(answer: bytes, *, then_close: bool) -> Iterator[tuple[str, int]]:
    """A server that reads a request, sends these bytes, and closes or says nothing more."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with contextlib.suppress(OSError):
                connection = listening.accept()[0]
                with connection:
                    connection.recv(65536)
                    connection.sendall(answer)
                    if not then_close:
                        over.wait(WITHIN_S)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield listening.getsockname()[:2]
        finally:
            over.set()
            thread.join(WITHIN_S)


def exchange(client: Client) -> tuple[Observation, gevent.Greenlet]:
    """Begin an exchange; the observation is filled in when the greenlet is over."""
    made = Observation(MARKER, "flow", KIND.name, sent_at=0.0)
    return made, gevent.spawn(client.exchange, b"GET / HTTP/1.1\r\n\r\n", made, KIND)


def seen(
    answer: bytes, *, then_close: bool = True, manners: Manners | None = None, leave_s: float | None = None
) -> Observation:
    """What a client sees of such an answer."""
    with serving(answer, then_close=then_close) as address:
        made, greenlet = exchange(Client(address, manners or Manners(patience_s=WITHIN_S), leave_s))
        greenlet.get(timeout=WITHIN_S)
    return made


@pytest.mark.parametrize("answer", [WHOLE, b"HTTP/1.1 100 Continue\r\n\r\n" + WHOLE, STREAM + b"\r\n" + BODY])
def test_a_whole_answer(answer: bytes) -> None:
    """An answer ends by its length, or with the connection where none is said; heads before the real one are none."""
    made = seen(answer)
    assert (made.outcome, made.status, made.broken, made.undecided) == ("complete", 200, [], [])
    assert len(made.events) == 5
    assert made.tokens == [made.events[1]] == [made.first_token_at]
    assert (
        made.sent_at
        < (made.head_at or 0)
        <= (made.first_byte_at or 0)
        <= made.events[0]
        <= made.ended_at
        <= monotonic()
    )


@pytest.mark.parametrize(
    ("answer", "outcome", "said"),
    [
        (b"", "cut", "closed without an answer"),
        (CHUNKED + b"5\r\ndata:", "cut", "closed after 5 bytes of body"),
        (WHOLE[:-3], "cut", "bytes of body"),
        (b"SSH-2.0-OpenSSH\r\n", "malformed", "HttpParser"),
    ],
)
def test_what_the_gateway_breaks(answer: bytes, outcome: str, said: str) -> None:
    """A connection that ends too early is a cut, and what is no HTTP is malformed."""
    made = seen(answer)
    assert (made.outcome, made.answered) == (outcome, False)
    assert said in made.problem


def test_a_refusal_is_read() -> None:
    """Of a refusal the code in body and header, Retry-After and the rate limit headers are kept."""
    made = seen(REFUSAL)
    assert (made.status, made.error_body, made.error_code) == (429, "admission_queue_full", "admission_queue_full")
    assert (made.retry_after, made.ratelimit_headers, made.shed) == ("2", ["x-ratelimit-limit"], True)


def test_silence_is_borne_for_so_long() -> None:
    """A gateway that falls silent is given up after the flow's patience."""
    made = seen(CHUNKED, then_close=False, manners=Manners(patience_s=0.2))
    assert (made.outcome, made.status) == ("timeout", 200)
    assert 0.2 <= made.ended_at - made.sent_at < WITHIN_S


def test_a_client_that_leaves() -> None:
    """Who leaves on purpose owes the stream no end, and nobody counts it as one."""
    made = seen(CHUNKED, then_close=False, leave_s=0.2)
    assert (made.outcome, made.answered, made.broken) == ("left", False, [])


def test_nobody_listens() -> None:
    """A refused connection is told apart from one that breaks."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = listening.getsockname()[:2]
    made, greenlet = exchange(Client(address, Manners()))
    greenlet.get(timeout=WITHIN_S)
    assert made.outcome == "refused"


def test_what_is_under_way_when_the_run_is_over_is_a_timeout() -> None:
    """A request that the generator has to give up at the end is kept with what was seen of it: it is not lost."""
    with serving(STREAM + b"\r\n" + chunk({"role": "assistant"}), then_close=False) as address:
        made, greenlet = exchange(Client(address, Manners(patience_s=WITHIN_S)))
        gevent.sleep(0.2)
        greenlet.kill(timeout=WITHIN_S)
    assert (made.outcome, made.status, len(made.events)) == ("timeout", 200, 1)
    assert made.problem == "it was not over when the run was"
    assert isinstance(greenlet.value, gevent.GreenletExit)


@pytest.mark.parametrize("url", [None, "", "127.0.0.1:80", "https://127.0.0.1", "http://", "http://127.0.0.1/v1"])
def test_what_is_no_gateway_url(url: str | None) -> None:
    """A URL without http, host, or with a path is refused with what it should look like."""
    with pytest.raises(ValueError, match="expected http://HOST:PORT"):
        address_of(url)
    assert address_of("http://127.0.0.1:8000/") == ("127.0.0.1", 8000)

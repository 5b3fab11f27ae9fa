"""Whatever bytes a worker sends, and however it ends, the client gets a response or a clean error, soon."""

from __future__ import annotations

import asyncio
import contextlib

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from reference_server.workers.exchange import UpstreamError
from reference_server.workers.upstream import UpstreamClient

FRAGMENTS = st.sampled_from(
    [
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n",
        b"HTTP/1.0 503 \r\n",
        b"HTTP/1.1 999\r\n",
        b"content-length: 5\r\n",
        b"content-length: 0\r\n",
        b"transfer-encoding: chunked\r\n",
        b"transfer-encoding: gzip, chunked\r\n",
        b"connection: close\r\n",
        b"connection: upgrade\r\nupgrade: websocket\r\n",
        b"content-encoding: gzip\r\n",
        b"content-type: text/event-stream\r\n",
        b"x: " + b"y" * 70_000 + b"\r\n",
        b"\r\n",
        b"\n",
        b"\r",
        b"hello",
        b"5\r\nhello\r\n",
        b"0\r\n\r\n",
        b"fffffffffffffffff\r\n",
        b"\x00",
        b" folded\r\n",
        b": no name\r\n",
    ]
)
ANSWERS = st.lists(FRAGMENTS | st.binary(max_size=12), max_size=12).map(b"".join)
LIMIT_S = 0.2


async def _play(answer: bytes, *, keep_open: bool) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            if keep_open:
                await reader.read()
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    client = UpstreamClient(request_timeout_s=LIMIT_S, pool_idle_timeout_s=3.0)
    await client.start()
    try:
        async with asyncio.timeout(10 * LIMIT_S):
            response = await client.send(url, "POST", "/", body=b"x")
            assert 200 <= response.status <= 999
            await response.read(100_000)
    except UpstreamError as error:
        assert error.status in {500, 502, 504}  # noqa: PT017 - a response is as good as a clean error
    finally:
        await client.stop()
        server.close()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(answer=ANSWERS, keep_open=st.booleans())
@example(
    answer=b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    keep_open=True,
)
@example(answer=b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhellogarbage", keep_open=True)
def test_any_bytes_end_in_a_response_or_a_clean_error(answer: bytes, keep_open: bool) -> None:  # noqa: FBT001 - drawn
    """No sequence of valid and invalid pieces of HTTP makes the client hang, crash or raise anything of its own."""
    asyncio.run(_play(answer, keep_open=keep_open))

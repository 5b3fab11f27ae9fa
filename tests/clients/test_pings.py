"""The real OpenAI client for Python reads streams that keepalive comments were put into as if there were none."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import httpx
import openai

from fake_workers.control import Control
from fake_workers.script import Reply, Script
from fake_workers.wire import comment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from openai.types.chat import ChatCompletionMessageParam

    from tests.clients.conftest import Stack

MARKER = "igc-00000000000b1a5e"
MESSAGES: list[ChatCompletionMessageParam] = [{"role": "user", "content": f"hello {MARKER}"}]
SILENCES = {0: "first", 1: "second", 2: "end"}
PING_WITHIN_S = 10.0


class Tapped(httpx.AsyncByteStream):
    """A response's body as it is, its keepalives noticed in passing."""

    def __init__(self, inner: httpx.AsyncByteStream, tap: Tap) -> None:
        self._inner = inner
        self._tap = tap

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The pieces."""
        async for piece in self._inner:
            self._tap.notice(piece)
            yield piece

    async def aclose(self) -> None:
        """Close the body."""
        await self._inner.aclose()


class Tap(httpx.AsyncHTTPTransport):
    """The client's connection, and what of it the client itself does not show."""

    def __init__(self) -> None:
        super().__init__()
        self.pings = 0
        self._pinged = asyncio.Event()

    def notice(self, piece: bytes) -> None:
        """Count keepalives."""
        if found := piece.count(comment()):
            self.pings += found
            self._pinged.set()

    async def another(self) -> None:
        """Wait for the next keepalive."""
        self._pinged.clear()
        await asyncio.wait_for(self._pinged.wait(), PING_WITHIN_S)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; its response is tapped."""
        response = await super().handle_async_request(request)
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = Tapped(response.stream, self)
        return response


async def let_go(control: Control, tap: Tap) -> None:
    """Release each silence when a keepalive has come in it."""
    for hold in SILENCES.values():
        assert await control.reached(MARKER, hold)
        await tap.another()
        await control.release(MARKER, hold)


async def test_pings_are_ignored(pinging_stack: Stack) -> None:
    """With a keepalive before each piece and before the end, content, finish reason and usage are as without."""
    control = Control(pinging_stack.control_url)
    await control.put_script(MARKER, Script.of(Reply(pieces=["Hello", " world"], hold_before=SILENCES)))
    tap = Tap()
    async with openai.AsyncOpenAI(
        base_url=f"{pinging_stack.base_url}/v1",
        api_key="k-shared",
        max_retries=0,
        http_client=httpx.AsyncClient(transport=tap),  # type: ignore[arg-type]  # its stubs name a newer httpx; both work
    ) as client:
        stream = await client.chat.completions.create(
            model="m-vllm", messages=MESSAGES, stream=True, stream_options={"include_usage": True}
        )
        releasing = asyncio.ensure_future(let_go(control, tap))
        chunks = [chunk async for chunk in stream]
        await releasing
    assert tap.pings >= len(SILENCES)
    choices = [choice for chunk in chunks for choice in chunk.choices]
    assert "".join(choice.delta.content or "" for choice in choices) == "Hello world"
    assert [choice.finish_reason for choice in choices if choice.finish_reason] == ["stop"]
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 2

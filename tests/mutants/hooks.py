"""The places where most vices sit, as functions that make a `Vice` of an edit.

```
client ─ front ─► incoming ─► refusing | outgoing ─► worker ─► answering ─► wire ─ front ─► client
```
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any

import simplejson
from simplejson.raw_json import RawJSON

from tests.mutants.vice import Vice, swap

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from reference_server.answers import Answer
    from reference_server.call import Call
    from reference_server.errors import Refused
    from reference_server.stages.parse import ParsedRequest
    from reference_server.workers.exchange import UpstreamRequest

    Headers = list[tuple[str, str]]
    Body = dict[str, Any]

CHOOSE = "reference_server.pipeline:choose"
RELAY = "reference_server.pipeline:relay"
WIRE = "reference_server.connection:_wire_headers"
FROM_SCOPE = "reference_server.call:from_scope"
REFUSAL = "reference_server.answers:refusal"
TO_WORKER = "reference_server.header_rules:to_worker"
TO_CLIENT = "reference_server.header_rules:to_client"
WORKER_HEAD = "aiohttp.http_writer:_serialize_headers"


class Number(RawJSON):
    """A JSON number that keeps its text; equal to another with the same text."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Number) and other.encoded_json == self.encoded_json

    def __hash__(self) -> int:
        return hash(self.encoded_json)

    def __float__(self) -> float:
        return float(self.encoded_json)

    def __bool__(self) -> bool:
        return float(self) != 0


def loads(text: bytes | str) -> Any:
    """JSON whose numbers keep their digits."""
    decoded = text.decode() if isinstance(text, bytes) else text
    return simplejson.loads(decoded, parse_float=Number, parse_int=Number)


def dumps(value: Any) -> bytes:
    """The opposite of `loads`, without blanks."""
    return simplejson.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass")


def containers(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in a value, outermost first."""
    if isinstance(value, dict):
        yield value
        for member in list(value.values()):
            yield from containers(member)
    elif isinstance(value, list):
        for item in value:
            yield from containers(item)


def mapped(value: Any, edit: Callable[[Any], Any]) -> Any:
    """A value with every scalar in it replaced by what the edit makes of it."""
    if isinstance(value, dict):
        return {key: mapped(member, edit) for key, member in value.items()}
    if isinstance(value, list):
        return [mapped(item, edit) for item in value]
    return edit(value)


def outgoing(edit: Callable[[UpstreamRequest, Call, ParsedRequest], UpstreamRequest]) -> Vice:
    """The request to the worker, changed."""

    def choose(original: Any, this: Call, request: ParsedRequest, *rest: Any) -> UpstreamRequest:
        return edit(original(this, request, *rest), this, request)

    return swap(CHOOSE, choose)


def body(edit: Callable[[Body], Body | None], *, route: str = "") -> Vice:
    """The body for the worker, changed in place or replaced; numbers keep their digits. `route`: on this one only."""

    def change(upstream: UpstreamRequest, _this: Call, request: ParsedRequest) -> UpstreamRequest:
        if route and request.endpoint.name != route:
            return upstream
        value = loads(upstream.body)
        changed = edit(value)
        return dataclasses.replace(upstream, body=dumps(value if changed is None else changed))

    return outgoing(change)


def body_bytes(edit: Callable[[bytes], bytes]) -> Vice:
    """The bytes of the body for the worker, changed."""
    return outgoing(lambda upstream, _this, _request: dataclasses.replace(upstream, body=edit(upstream.body)))


def to_worker(edit: Callable[[Headers, Headers], Headers]) -> Vice:
    """The headers for the worker: the edit takes them, and those of the client."""
    return swap(TO_WORKER, lambda original, headers, *rest: edit(original(headers, *rest), list(headers)))


def worker_head(edit: Callable[[bytes], bytes]) -> Vice:
    """The bytes of the head for the worker, behind all that a library would refuse to write; the edit changes them."""
    return swap(WORKER_HEAD, lambda original, *rest: edit(bytes(original(*rest))))


def to_client(edit: Callable[[Headers, Headers], Headers]) -> Vice:
    """The headers of a relayed answer: the edit takes them, and those of the worker."""
    return swap(TO_CLIENT, lambda original, headers, *rest: edit(original(headers, *rest), list(headers)))


def incoming(edit: Callable[[Call], None]) -> Vice:
    """The request as the gateway takes it in, changed in place."""

    def from_scope(original: Any, *arguments: Any) -> Call:
        this: Call = original(*arguments)
        edit(this)
        return this

    return swap(FROM_SCOPE, from_scope)


def refusing(edit: Callable[[Refused, Answer], Answer | None]) -> Vice:
    """The gateway's own refusals, changed."""

    def refusal(original: Any, refused: Refused) -> Answer:
        answer: Answer = original(refused)
        return edit(refused, answer) or answer

    return swap(REFUSAL, refusal)


def wire(edit: Callable[[Call, Answer, list[tuple[bytes, bytes]]], list[tuple[bytes, bytes]]]) -> Vice:
    """The header lines of every answer, changed."""
    return swap(WIRE, lambda original, this, answer: edit(this, answer, original(this, answer)))


def answering(edit: Callable[[Answer, Call, ParsedRequest], None]) -> Vice:
    """The relayed answer, changed in place."""

    async def relay(original: Any, this: Call, request: ParsedRequest, *rest: Any) -> Answer:
        """Relay, then change."""
        answer: Answer = await original(this, request, *rest)
        edit(answer, this, request)
        return answer

    return swap(RELAY, relay)


def answer_json(edit: Callable[[Any], Any], *, route: str = "", status: int = 200) -> Vice:
    """The JSON of complete answers with a status, changed in place or replaced."""

    def change(answer: Answer, _this: Call, request: ParsedRequest) -> None:
        if not isinstance(answer.body, bytes) or answer.status != status or (route and request.endpoint.name != route):
            return
        try:
            value = loads(answer.body)
        except ValueError:
            return
        changed = edit(value)
        answer.body = dumps(value if changed is None else changed)

    return answering(change)


def streaming(transform: Callable[[AsyncIterator[bytes]], AsyncIterator[bytes]], *, route: str = "") -> Vice:
    """The pieces of answers that are streamed, run through a transformation."""

    def change(answer: Answer, _this: Call, request: ParsedRequest) -> None:
        if not isinstance(answer.body, bytes) and not (route and request.endpoint.name != route):
            answer.body = transform(answer.body)

    return answering(change)


def events(edit: Callable[[bytes], bytes], *, route: str = "") -> Vice:
    """Each event of a stream (bytes up to and with its blank line), changed; what is left at the end too."""

    async def transform(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Collect pieces into events."""
        held = b""
        async for piece in pieces:
            held += piece
            while found := re.search(rb"\r\n\r\n|\n\n|\r\r", held):
                event, held = held[: found.end()], held[found.end() :]
                if changed := edit(event):
                    yield changed
        if held and (changed := edit(held)):
            yield changed

    return streaming(transform, route=route)


def chunk_json(edit: Callable[[Any], Any], *, route: str = "") -> Vice:
    """The JSON of each data event of a stream, changed in place or replaced; None from an edit keeps the change."""

    def change(event: bytes) -> bytes:
        if not event.startswith(b"data: {") or event.count(b"\n") > 2:
            return event
        try:
            value = loads(event[6:])
        except ValueError:
            return event
        changed = edit(value)
        return b"data: " + dumps(value if changed is None else changed) + b"\n\n"

    return events(change, route=route)

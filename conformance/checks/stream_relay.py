"""Chat Completions: the bytes of an HTTP worker's stream are handed over as they came, whatever form they have."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from conformance.checks.stream_support import chunk, content_of, joined, media_type, stream_of
from conformance.harness import clause
from fake_workers import wire

if TYPE_CHECKING:
    from conformance.harness import Exchange, Gateway, Worker

ONE, TWO = wire.event(chunk("one")), wire.event(chunk("two", finish="stop"))


async def relayed(gateway: Gateway, worker: Worker, *parts: bytes) -> Exchange:
    """Let the worker stream these parts, one HTTP chunk each, and prove that it was the worker who answered."""
    script = worker.script(stream_of(*parts))
    chat = await gateway.chat(script, stream=True)
    await script.only()
    assert chat.succeeded, chat.brief()
    return chat


@clause("chat.stream.relay.bytes")
async def test_odd_stream_arrives_byte_for_byte(gateway: Gateway, worker: Worker) -> None:
    """Spacing, key order and field order of the worker's stream are those the client gets."""
    parts = (b'data: {"id":"x", "choices":[ ],"n":1.0}\n\n', b"id: 7\nevent: odd\n" + ONE, b"data:\n\n", wire.DONE)
    chat = await relayed(gateway, worker, *parts)
    assert chat.body == b"".join(parts)


@clause("chat.stream.relay.comments")
async def test_comments_never_become_data(gateway: Gateway, worker: Worker) -> None:
    """Comments before, between and inside events arrive as comments, or not at all; the events arrive as they were."""
    parts = (b": UPSTREAM BUSY\n\n", ONE, b":\n\n", b": in between\n" + TWO, wire.DONE)
    chat = await relayed(gateway, worker, *parts)
    assert chat.chunks == [chunk("one"), chunk("two", finish="stop")]
    assert {comment.text for comment in chat.comments} <= {" UPSTREAM BUSY", "", " in between", " ping"}
    assert chat.ended_with_done


@clause("chat.stream.relay.crlf")
async def test_crlf_line_ends(gateway: Gateway, worker: Worker) -> None:
    """A stream with CRLF line ends gives the client the same events as one with LF."""
    parts = tuple(part.replace(b"\n", b"\r\n") for part in (ONE, TWO, wire.DONE))
    chat = await relayed(gateway, worker, *parts)
    assert chat.chunks == [chunk("one"), chunk("two", finish="stop")]
    assert chat.body == b"".join(parts)


@clause("chat.stream.relay.crlf_split")
async def test_cut_inside_crlf(gateway: Gateway, worker: Worker) -> None:
    """Chunk borders between each CR and its LF change nothing."""
    body = b"".join(part.replace(b"\n", b"\r\n") for part in (ONE, TWO, wire.DONE))
    cuts = [offset + 1 for offset, byte in enumerate(body) if byte == ord("\r")]
    script = worker.script(stream_of(*wire.split_at(body, *cuts)))
    chat = await gateway.chat(script, stream=True)
    assert chat.chunks == [chunk("one"), chunk("two", finish="stop")]
    assert chat.body == body


@clause("chat.stream.relay.cr")
async def test_cr_line_ends(gateway: Gateway, worker: Worker) -> None:
    """A stream with bare CR line ends gives the client the same events as one with LF."""
    parts = tuple(part.replace(b"\n", b"\r") for part in (ONE, TWO, wire.DONE))
    chat = await relayed(gateway, worker, *parts)
    assert chat.chunks == [chunk("one"), chunk("two", finish="stop")]


@clause("chat.stream.relay.multi_line_data")
async def test_several_data_lines(gateway: Gateway, worker: Worker) -> None:
    """An event whose JSON is spread over several data lines stays one event with the same object."""
    lines = json.dumps(chunk("one"), indent=1)
    parts = (wire.event(lines), TWO, wire.DONE)
    chat = await relayed(gateway, worker, *parts)
    assert chat.chunks == [chunk("one"), chunk("two", finish="stop")]
    assert chat.body == b"".join(parts)


@clause("chat.stream.relay.event_fields")
async def test_event_id_and_retry_lines(gateway: Gateway, worker: Worker) -> None:
    """event, id and retry lines of the worker reach the client with their events."""
    parts = (wire.event(chunk("one"), name="message", id="41"), b"retry: 3000\n" + TWO, wire.DONE)
    chat = await relayed(gateway, worker, *parts)
    assert (chat.events[0].event, chat.events[0].last_id) == ("message", "41")
    assert b"retry: 3000\n" in chat.body


@clause("chat.stream.relay.control_records")
async def test_records_without_data(gateway: Gateway, worker: Worker) -> None:
    """A lone retry, a lone id and a named event without data neither break the stream nor add a chunk to it."""
    parts = (b"retry: 3000\n\n", b"id: 7\n\n", ONE, b"event: ping\n\n", TWO, wire.DONE)
    chat = await relayed(gateway, worker, *parts)
    assert chat.chunks == [chunk("one"), chunk("two", finish="stop")]
    assert chat.ended_with_done


@clause("chat.stream.relay.no_space")
async def test_no_blank_after_the_colon(gateway: Gateway, worker: Worker) -> None:
    """Data lines without a blank after the colon arrive, and arrive unchanged."""
    parts = tuple(part.replace(b"data: ", b"data:", 1) for part in (ONE, TWO))
    chat = await relayed(gateway, worker, *parts, wire.DONE)
    assert chat.chunks == [chunk("one"), chunk("two", finish="stop")]
    assert chat.body == b"".join((*parts, wire.DONE))


@clause("chat.stream.relay.utf8_split")
@pytest.mark.parametrize("text", ["é", "名", "😀"], ids=["two-bytes", "three-bytes", "four-bytes"])
async def test_cut_inside_a_character(gateway: Gateway, worker: Worker, text: str) -> None:
    """A character cut at each of its bytes by chunk borders arrives whole."""
    event = wire.event(chunk(f"<{text}>"))
    start = event.index(text.encode())
    cuts = wire.split_at(event, *range(start + 1, start + len(text.encode())))
    assert joined(cuts) == event
    chat = await gateway.chat(worker.script(stream_of(*cuts, wire.DONE)), stream=True)
    assert content_of(chat.chunks) == f"<{text}>"


@clause("chat.stream.relay.invalid_utf8")
async def test_bytes_that_are_no_utf8(gateway: Gateway, worker: Worker) -> None:
    """A data line with bytes that are no UTF-8 arrives as it was, and the stream goes on."""
    parts = (b'data: {"x":"\xff\xc3"}\n\n', TWO, wire.DONE)
    chat = await relayed(gateway, worker, *parts)
    assert chat.body == b"".join(parts)


@clause("chat.stream.relay.line_separators")
async def test_unicode_line_separators(gateway: Gateway, worker: Worker) -> None:
    """U+2028, U+2029, U+0085, form feed and vertical tab inside a text do not end a line."""
    text = "a\u2028b\u2029c\u0085d"
    chat = await relayed(gateway, worker, wire.event(chunk(text)), wire.DONE)
    assert content_of(chat.chunks) == text
    assert chat.body == wire.event(chunk(text)) + wire.DONE


@clause("chat.stream.relay.large_event")
async def test_megabyte_event(gateway: Gateway, worker: Worker) -> None:
    """An event of a megabyte arrives whole, and the next one behind it."""
    text = "0123456789abcdef" * 65_536
    chat = await relayed(gateway, worker, wire.event(chunk(text)), TWO, wire.DONE)
    assert content_of(chat.chunks) == f"{text}two"


@clause("chat.stream.relay.many_events")
async def test_thousand_events(gateway: Gateway, worker: Worker) -> None:
    """A thousand events arrive all and in order."""
    chat = await relayed(gateway, worker, *(wire.event(chunk(f"{number} ")) for number in range(1000)), wire.DONE)
    assert content_of(chat.chunks).split() == [str(number) for number in range(1000)]
    assert chat.ended_with_done


@clause("chat.stream.relay.number_text")
@pytest.mark.parametrize("number", ["1.0", "1e2", "1E-3", "12345678901234567890123"])
async def test_numbers_keep_their_spelling(gateway: Gateway, worker: Worker, number: str) -> None:
    """A number inside a chunk is spelt for the client as the worker spelt it."""
    event = wire.event(chunk("x", score="NUMBER")).replace(b'"NUMBER"', number.encode())
    chat = await relayed(gateway, worker, event, wire.DONE)
    assert f'"score":{number}}}'.encode() in chat.body


@clause("chat.stream.relay.engine_keys")
async def test_members_of_one_engine_are_kept(gateway: Gateway, worker: Worker) -> None:
    """Members of a chunk, a choice and a delta that the contract does not name arrive, nulls included."""
    odd = chunk("x", kv_transfer_params=None, prompt_token_ids=None, something_of_tomorrow={"a": [1]})
    odd["choices"][0] |= {"matched_stop": None, "token_ids": None, "stop_reason": 7}
    odd["choices"][0]["delta"] |= {"reasoning_content": None, "role": None}
    chat = await relayed(gateway, worker, wire.event(odd), wire.DONE)
    assert chat.chunks == [odd]


@clause("chat.stream.relay.error_event")
@pytest.mark.parametrize("finished", [True, False], ids=["then-done", "then-nothing"])
async def test_error_event_of_the_engine(gateway: Gateway, worker: Worker, *, finished: bool) -> None:
    """An error that the engine tells inside its stream reaches the client as the engine told it."""
    error = {
        "error": {
            "object": "error",
            "message": "The request queue is full.",
            "type": "SERVICE_UNAVAILABLE",
            "param": None,
            "code": 503,
        }
    }
    tail = (wire.DONE,) if finished else ()
    chat = await relayed(gateway, worker, ONE, wire.event(error), *tail)
    assert chat.chunks == [chunk("one"), error]
    assert chat.body == b"".join((ONE, wire.event(error), *tail))


@clause("chat.stream.relay.empty")
async def test_stream_without_events(gateway: Gateway, worker: Worker) -> None:
    """An event stream without an event arrives as one: 200, text/event-stream, no byte, properly ended."""
    chat = await relayed(gateway, worker)
    assert media_type(chat) == "text/event-stream"
    assert chat.body == b""
    assert chat.closed_cleanly


@clause("chat.stream.relay.json_answer")
async def test_json_in_answer_to_a_stream_request(gateway: Gateway, worker: Worker) -> None:
    """A worker that answers a streaming request with one JSON body is quoted, content type included."""
    script = worker.script(wire.json(200, {"not": "a stream"}))
    chat = await gateway.chat(script, stream=True)
    await script.only()
    assert (chat.status, media_type(chat)) == (200, "application/json")
    assert chat.body == b'{"not":"a stream"}'


@clause("chat.stream.relay.not_compressed")
async def test_stream_is_not_compressed(gateway: Gateway, worker: Worker) -> None:
    """A client that would accept gzip, deflate or br gets the stream uncompressed."""
    script = worker.script(wire.sse(*(chunk("the same text again and again ") for _ in range(50))))
    chat = await gateway.chat(script, headers=[("accept-encoding", "gzip, deflate, br")], stream=True)
    assert chat.headers.get("content-encoding", "identity") == "identity"
    assert chat.body.startswith(b"data: {")
    assert chat.ended_with_done

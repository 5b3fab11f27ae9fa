"""Content parts of a chat request: known ones, unknown ones and malformed ones all arrive as they were sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from conformance.checks.chat_kit import case, deliver, refused, says
from conformance.harness.bodies import PROMPT, literal
from conformance.harness.marks import clause, engines

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker

pytestmark = pytest.mark.asyncio

Part = dict[str, Any]
TEXT: Part = {"type": "text", "text": PROMPT}
EXTRA = "igc_extra"
PNG = "data:image/png;base64,iVBORw0KGgo+/w=="
"""Base64 with the characters that a careless decoder for URLs would change."""


def _image(**payload: Any) -> Part:
    return {"type": "image_url", "image_url": {"url": "https://example.org/a%20b.png?x=1&y=é", **payload}}


def _video(**payload: Any) -> Part:
    return {"type": "video_url", "video_url": {"url": "https://example.org/a.mp4", **payload}}


def _audio(**payload: Any) -> Part:
    return {"type": "input_audio", "input_audio": {"data": "UklGRg+/w==", "format": "wav", **payload}}


def _audio_url(**payload: Any) -> Part:
    return {"type": "audio_url", "audio_url": {"url": "https://example.org/a.wav", **payload}}


KNOWN = [
    case("chat.parts.text.kept", {"type": "text", "text": "é\n\u2028 😀 \\"}),
    case("chat.parts.image_url.kept", _image()),
    *(case(f"chat.parts.image_url.detail_{detail}_kept", _image(detail=detail)) for detail in ("low", "high", "auto")),
    case("chat.parts.image_url.other_detail_kept", _image(detail="original")),
    case("chat.parts.image_url.data_url_kept", _image(url=PNG)),
    case("chat.parts.image_url.max_long_side_pixel_kept", _image(max_long_side_pixel=512)),
    case("chat.parts.video_url.kept", _video()),
    case("chat.parts.video_url.fps_kept", _video(fps=literal("1.5"))),
    case("chat.parts.video_url.fps_kept", _video(fps=literal("0.1")), name="no binary fraction"),
    case("chat.parts.video_url.max_long_side_pixel_kept", _video(max_long_side_pixel=300)),
    case("chat.parts.input_audio.kept", _audio()),
    case("chat.parts.input_audio.kept", _audio(format="mp3"), name="mp3"),
    case("chat.parts.audio_url.kept", _audio_url()),
]


@pytest.mark.parametrize("part", KNOWN)
@engines("sglang", "vllm", "tokenspeed")
async def test_known_part_arrives(gateway: Gateway, worker: Worker, part: Part) -> None:
    """A part of a listed type arrives member by member as it was sent, whatever the engine."""
    delivery = await deliver(gateway, worker, messages=[says([part, TEXT])])
    delivery.unchanged("messages", 0, "content", digits=False)


@clause("chat.parts.image_url.detail_may_lack")
async def test_no_detail_is_invented(gateway: Gateway, worker: Worker) -> None:
    """An image without detail arrives without one: the engine's own default decides."""
    delivery = await deliver(gateway, worker, messages=[says([_image(), TEXT])])
    delivery.unset("messages", 0, "content", 0, "image_url", "detail")


@clause("chat.parts.image_url.large_data_url_kept")
async def test_large_image_arrives(gateway: Gateway, worker: Worker) -> None:
    """Three megabytes of base64 arrive to the last character."""
    part = _image(url=PNG[:-2] + "ABCD+/xyz012" * 262144)
    delivery = await deliver(gateway, worker, messages=[says([part, TEXT])])
    delivery.unchanged("messages", 0, "content", 0)


UNMODELLED = [
    case("chat.parts.unknown.kept", {"type": "hologram", "hologram": {"url": "https://example.org/h"}, "z": None}),
    case("chat.parts.unknown.kept", {"type": "input_text", "text": "of another API"}, name="of another API"),
    case("chat.parts.unknown.kept", {"type": ""}, name="empty type"),
    case("chat.parts.unknown.kept", {"type": "Text", "text": "in another case"}, name="another case"),
    case("chat.parts.unknown.file_kept", {"type": "file", "file": {"file_id": "file-1"}}),
    case(
        "chat.parts.unknown.file_kept", {"type": "file", "file": {"file_data": PNG, "filename": "é.pdf"}}, name="data"
    ),
    case("chat.parts.unknown.untyped_kept", {"text": "without a type"}),
    case("chat.parts.unknown.untyped_kept", {}, name="empty"),
    case("chat.parts.unknown.odd_type_kept", {"type": 5}),
    case("chat.parts.unknown.odd_type_kept", {"type": None, "text": "x"}, name="null"),
    case("chat.parts.unknown.odd_type_kept", {"type": ["text"], "text": "x"}, name="array"),
    case("chat.parts.unknown.numbers_kept", {"type": "tensor", "x": [literal("1.0"), literal("1"), literal("-2.5")]}),
    case("chat.parts.unknown.number_text_kept", {"type": "tensor", "x": literal("1e3")}, name="exponent"),
    case(
        "chat.parts.unknown.number_text_kept", {"type": "tensor", "x": literal("12345678901234567890123")}, name="big"
    ),
    case("chat.parts.unknown.number_text_kept", {"type": "tensor", "x": literal("0.10")}, name="zero"),
    case(
        "chat.parts.unknown.nested_kept", {"type": "tree", "tree": {"b": [{}, [], None, {"a": {"b": "c"}}], "a": False}}
    ),
]
MALFORMED = [
    case("chat.parts.malformed.text_missing_kept", {"type": "text"}),
    case("chat.parts.malformed.text_number_kept", {"type": "text", "text": 5}),
    case("chat.parts.malformed.text_number_kept", {"type": "text", "text": None}, name="null"),
    case("chat.parts.malformed.image_string_kept", {"type": "image_url", "image_url": "https://example.org/a.png"}),
    case("chat.parts.malformed.image_missing_kept", {"type": "image_url"}),
    case("chat.parts.malformed.image_without_url_kept", {"type": "image_url", "image_url": {"detail": "low"}}),
    case("chat.parts.malformed.image_url_number_kept", {"type": "image_url", "image_url": {"url": 5}}),
    case("chat.parts.malformed.video_string_kept", {"type": "video_url", "video_url": "https://example.org/a.mp4"}),
    case("chat.parts.malformed.video_without_url_kept", {"type": "video_url", "video_url": {}}),
    case("chat.parts.malformed.audio_without_format_kept", {"type": "input_audio", "input_audio": {"data": "AAAA"}}),
    case(
        "chat.parts.malformed.audio_data_number_kept",
        {"type": "input_audio", "input_audio": {"data": 1, "format": "wav"}},
    ),
    case("chat.parts.malformed.audio_url_string_kept", {"type": "audio_url", "audio_url": "https://example.org/a.wav"}),
]
KEYED = [
    case("chat.parts.extra_key.text_kept", {**TEXT, "cache_control": {"type": "ephemeral"}}),
    case("chat.parts.extra_key.image_url_kept", {**_image(), "uuid": "u-1"}),
    case("chat.parts.extra_key.image_url_payload_kept", _image(**{EXTRA: 1})),
    case("chat.parts.extra_key.video_url_payload_kept", _video(**{EXTRA: 1})),
    case("chat.parts.extra_key.input_audio_payload_kept", _audio(**{EXTRA: 1})),
    case("chat.parts.extra_key.audio_url_payload_kept", _audio_url(**{EXTRA: 1})),
]


@pytest.mark.parametrize("part", [*UNMODELLED, *MALFORMED, *KEYED])
async def test_any_part_arrives_unchanged(gateway: Gateway, worker: Worker, part: Part) -> None:
    """A part that the gateway does not know, or knows otherwise, arrives as it was sent, its numbers as written."""
    delivery = await deliver(gateway, worker, messages=[says([part, TEXT])])
    delivery.unchanged("messages", 0, "content", 0)


@clause("chat.parts.unknown.on_other_roles")
@pytest.mark.parametrize("role", ["system", "developer", "assistant", "tool"])
async def test_unknown_parts_arrive_on_other_roles(gateway: Gateway, worker: Worker, role: str) -> None:
    """Parts of unmodelled type arrive on messages of the other roles as they do on user messages."""
    members: dict[str, Any] = {"tool_call_id": "call_1"} if role == "tool" else {}
    parts = [{"type": "text", "text": "a"}, {"type": "hologram", "z": [1, None]}]
    delivery = await deliver(gateway, worker, messages=[says(parts, role, **members), says()])
    delivery.unchanged("messages", 0, "content")


@clause("chat.parts.order_kept")
async def test_parts_keep_their_order(gateway: Gateway, worker: Worker) -> None:
    """Texts and images take turns at the worker as they did at the client."""
    parts = [
        TEXT,
        _image(),
        {"type": "text", "text": "b"},
        {"type": "hologram"},
        _image(url=PNG),
        {"type": "text", "text": "a"},
    ]
    delivery = await deliver(gateway, worker, messages=[says(parts)])
    delivery.unchanged("messages", 0, "content")


@clause("chat.parts.text_not_merged")
async def test_text_parts_are_not_merged(gateway: Gateway, worker: Worker) -> None:
    """Three texts are three parts, an empty one among them too."""
    parts = [TEXT, {"type": "text", "text": ""}, {"type": "text", "text": "end"}]
    delivery = await deliver(gateway, worker, messages=[says(parts)])
    delivery.unchanged("messages", 0, "content")


@clause("chat.parts.not_an_object_refused")
@pytest.mark.parametrize("item", [1, True, ["text"]], ids=["number", "boolean", "array"])
async def test_part_that_is_no_object_is_refused(gateway: Gateway, worker: Worker, item: object) -> None:
    """An array item that is no object is no content part: refused, while a part in its place is served."""
    await refused(gateway, worker, {"messages": [says([TEXT, TEXT])]}, {"messages": [says([item, TEXT])]})

"""What a fake worker is told to do for one request.

A :class:`Script` has one answer for each dispatch of its marker, the last one repeating: so a gateway that retries
can be given a failure first and a success next. An answer is a :class:`Reply` (what the model says; the dialect of the
worker words it) or a :class:`Wire` (bytes and moments, exactly).

Everything is a pydantic model, so the control port and tests share one notation; in JSON, bytes are base64.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

DEFAULT_HOLD_S = 30.0
PLACE = "{marker}"  # in the text of a template: the marker of the request it answers


class _Model(BaseModel):
    """Common settings: unknown keys are a mistake worth a message, bytes travel as base64."""

    model_config = ConfigDict(extra="forbid", ser_json_bytes="base64", val_json_bytes="base64")


class ToolCall(_Model):
    """One function call made by the model; ``id`` None lets the dialect make one of its own form."""

    name: str
    arguments: str = "{}"
    id: str | None = None


class Reply(_Model):
    """What the model says, left to the dialect to word.

    Attributes:
        pieces: text as the engine would emit it, one piece a step; joined for a non-streaming request.
        finish_reason: as the engine would report it (stop, length, tool_calls, abort, ...).
        prompt_tokens, completion_tokens, cached_tokens, reasoning_tokens: usage as reported; completion_tokens None
            counts pieces, reasoning pieces and tool calls.
        reasoning: reasoning text before the answer, one piece a step.
        tool_calls: calls made after the text.
        hold_before: content piece (from 0) to hold name; -1 is before any byte, the number of pieces is before the
            finish chunk where the engine sends one of its own. A non-streaming answer waits for all of them first.
        hold_max_s: bound of each hold, in seconds.
        pause_before: content piece, counted as for hold_before, to seconds of silence; every_s: seconds before each
            piece after the first that has no pause of its own. A non-streaming answer takes as long as all together.
        embedding: the vector given for every input of an embeddings request.
        model: overrides the model name the dialect would report.
    """

    kind: Literal["reply"] = "reply"
    pieces: list[str] = Field(default_factory=lambda: ["Hello", " world"])
    finish_reason: str = "stop"
    prompt_tokens: int = 3
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    reasoning: list[str] = Field(default_factory=list)
    tool_calls: list[ToolCall] = Field(default_factory=list)
    hold_before: dict[int, str] = Field(default_factory=dict)
    hold_max_s: float = DEFAULT_HOLD_S
    pause_before: dict[int, Annotated[float, Field(ge=0, le=60)]] = Field(default_factory=dict)
    every_s: float = Field(default=0.0, ge=0, le=10)
    embedding: list[float] | None = None
    model: str | None = None


class Head(_Model):
    """Status line and headers, in the given order and spelling.

    ``framing`` "auto" adds ``transfer-encoding: chunked`` when neither content-length nor transfer-encoding is given
    and the status may have a body; "none" adds nothing, so that the body ends with the connection.
    """

    kind: Literal["head"] = "head"
    status: int = 200
    reason: str | None = None
    headers: list[tuple[str, str]] = Field(default_factory=list)
    framing: Literal["auto", "none"] = "auto"


class Chunk(_Model):
    """Body bytes, framed as one HTTP chunk when the head says chunked, as they are otherwise; sent ``times`` times."""

    kind: Literal["chunk"] = "chunk"
    data: bytes
    times: int = Field(default=1, ge=1)


class Raw(_Model):
    """Bytes put on the connection as they are, before, inside or after a message."""

    kind: Literal["raw"] = "raw"
    data: bytes


class Hold(_Model):
    """Stop here until the test releases ``name``; after ``max_s`` seconds hang up (outcome ``hold_expired``)."""

    kind: Literal["hold"] = "hold"
    name: str
    max_s: float = Field(default=DEFAULT_HOLD_S, gt=0, le=600)


class Pause(_Model):
    """Wait so many seconds."""

    kind: Literal["pause"] = "pause"
    seconds: float = Field(ge=0, le=60)


class Drip(_Model):
    """Send data ``size`` bytes at a time, ``every_s`` seconds apart, framed like :class:`Chunk`."""

    kind: Literal["drip"] = "drip"
    data: bytes
    size: int = Field(default=1, ge=1)
    every_s: float = Field(default=0.01, ge=0, le=10)


class End(_Model):
    """End the body; the connection stays open if HTTP allows it. Steps that run out without one end the same way."""

    kind: Literal["end"] = "end"


class Reset(_Model):
    """Break the connection with a TCP reset, after what was sent has left this process."""

    kind: Literal["reset"] = "reset"


class Close(_Model):
    """Close the connection with a TCP FIN, whatever was promised."""

    kind: Literal["close"] = "close"


class Stall(_Model):
    """Send nothing more and keep the connection open until the peer leaves or ``max_s`` seconds pass, then close."""

    kind: Literal["stall"] = "stall"
    max_s: float = Field(default=DEFAULT_HOLD_S, gt=0, le=600)


Step = Annotated[
    Head | Chunk | Raw | Hold | Pause | Drip | End | Reset | Close | Stall,
    Field(discriminator="kind"),
]


class Wire(_Model):
    """An answer byte by byte and moment by moment."""

    kind: Literal["wire"] = "wire"
    steps: list[Step]


Answer = Annotated[Reply | Wire, Field(discriminator="kind")]


class Script(_Model):
    """Answers to the dispatches of one marker: the n-th dispatch gets ``answers[min(n, len - 1)]``."""

    answers: list[Answer] = Field(min_length=1)

    @classmethod
    def of(cls, *answers: Reply | Wire) -> Script:
        """Build a script from its answers in order."""
        return cls(answers=list(answers))

    def to_json(self) -> bytes:
        """Return the script as the control port takes it."""
        return self.model_dump_json().encode()

    @classmethod
    def from_json(cls, data: bytes | str) -> Script:
        """Read what :meth:`to_json` wrote; raises ``pydantic.ValidationError``."""
        return cls.model_validate_json(data)


def filled(answer: Reply | Wire, marker: str) -> Reply | Wire:
    """Return the answer with every ``{marker}`` in its text and bytes replaced: what a template says to one request."""
    if isinstance(answer, Reply):
        return answer.model_copy(update={"pieces": [piece.replace(PLACE, marker) for piece in answer.pieces]})
    place, name = PLACE.encode(), marker.encode()
    steps = [
        step.model_copy(update={"data": step.data.replace(place, name)})
        if isinstance(step, (Chunk, Raw, Drip)) and place in step.data
        else step
        for step in answer.steps
    ]
    return answer.model_copy(update={"steps": steps})


def as_plain(model: BaseModel) -> dict[str, Any]:
    """Return a model as JSON-ready values, for reports and evidence."""
    plain: dict[str, Any] = model.model_dump(mode="json")
    return plain

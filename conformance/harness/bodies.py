"""Request bodies and heads as bytes: exact, and with nothing a check did not ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import simplejson
from simplejson import RawJSON

if TYPE_CHECKING:
    from collections.abc import Sequence


class _Omit:
    """A field that is left out, which is another thing than null."""

    def __repr__(self) -> str:
        return "OMIT"


OMIT: Final[Any] = _Omit()
PROMPT: Final = "{{prompt}}"
"""Stands for the prompt (with the marker) in bodies given to `refuses` and `proof`."""


def literal(text: str) -> RawJSON:
    """A JSON value written exactly so.

    `literal("1e3")`, `literal("0.10")`, `literal("123456789012345678901234567890")`.
    """
    return RawJSON(text)


def encode(value: Any) -> bytes:
    """JSON as UTF-8, compact, key order as given, literals as written."""
    text: str = simplejson.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, use_decimal=False)
    return text.encode("utf-8", errors="surrogatepass")


def body_for(path: str, model: str, prompt: str, fields: dict[str, Any]) -> dict[str, Any]:
    """The ordinary body of a path with `fields` laid over it; OMIT leaves a member out."""
    if path.endswith("/chat/completions"):
        base: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": prompt}]}
    elif path.endswith("/embeddings"):
        base = {"model": model, "input": prompt}
    else:
        base = {"model": model, "prompt": prompt}
    return {name: value for name, value in {**base, **fields}.items() if value is not OMIT}


def complete(path: str, model: str, body: dict[str, Any] | bytes) -> dict[str, Any] | bytes:
    """Bytes as they are; members laid over the path's ordinary body, whose prompt is PROMPT."""
    return body if isinstance(body, bytes) else body_for(path, model, PROMPT, body)


def with_prompt(value: Any, prompt: str) -> Any:
    """`value` with PROMPT replaced in every text, key and byte string."""
    if isinstance(value, bytes):
        return value.replace(PROMPT.encode(), prompt.encode())
    if isinstance(value, RawJSON):
        return RawJSON(value.encoded_json.replace(PROMPT, prompt))
    if isinstance(value, str):
        return value.replace(PROMPT, prompt)
    if isinstance(value, dict):
        return {with_prompt(key, prompt): with_prompt(member, prompt) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [with_prompt(element, prompt) for element in value]
    return value


def request(
    method: str,
    target: str,
    body: dict[str, Any] | bytes | Sequence[bytes] | None,
    headers: Sequence[tuple[str, str | None]],
    *,
    host: str,
) -> list[bytes]:
    """Head and body of a request, as the pieces to be written."""
    chunks: list[bytes] | None = None
    data = b""
    if isinstance(body, dict):
        data = encode(body)
    elif isinstance(body, bytes):
        data = body
    elif body is not None:
        chunks = list(body)
    given = {name.lower() for name, _ in headers}
    fields: list[tuple[str, str | None]] = [
        ("host", host),
        ("accept", "*/*"),
        ("user-agent", "inference-gateway-conformance"),
    ]
    if body is not None:
        fields.append(("content-type", "application/json"))
        framing = ("transfer-encoding", "chunked") if chunks is not None else ("content-length", str(len(data)))
        if not given & {"content-length", "transfer-encoding"}:
            fields.append(framing)
    lines = [(name, value) for name, value in fields if name not in given] + list(headers)
    head = f"{method} {target} HTTP/1.1\r\n".encode() + b"".join(
        name.encode("latin-1") + b": " + value.encode("utf-8", errors="surrogateescape") + b"\r\n"
        for name, value in lines
        if value is not None
    )
    if chunks is None:
        return [head + b"\r\n" + data]
    framed = [b"%x\r\n" % len(chunk) + chunk + b"\r\n" for chunk in chunks if chunk]
    return [head + b"\r\n", *framed, b"0\r\n\r\n"]

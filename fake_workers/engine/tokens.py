"""A tokeniser without a vocabulary file: three bytes of UTF-8 are one token, its id the three bytes as a number.

It is exact both ways for any text, costs nothing to count, and the words of the fake model are three bytes long
(two letters and a blank), so that one streamed piece is one token, as with a real engine.
"""

from __future__ import annotations

BYTES_PER_TOKEN = 3


def count(text: str) -> int:
    """Return the number of tokens of a text."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return -(-size // BYTES_PER_TOKEN)


def encode(text: str) -> list[int]:
    """Return the token ids of a text."""
    data = text.encode("utf-8", "surrogatepass")
    return [int.from_bytes(data[at : at + BYTES_PER_TOKEN], "big") for at in range(0, len(data), BYTES_PER_TOKEN)]


def decode(ids: list[int]) -> str:
    """Return the text of token ids; ids that are no text give replacement characters."""
    parts = [token.to_bytes(max(1, (token.bit_length() + 7) // 8), "big") for token in ids if token >= 0]
    return b"".join(parts).decode("utf-8", "replace")


def split(text: str) -> list[str]:
    """Return a text in pieces of about one token each, never inside a character."""
    if text.isascii():
        return [text[at : at + BYTES_PER_TOKEN] for at in range(0, len(text), BYTES_PER_TOKEN)]
    return list(text)

"""Which id a request goes by."""

from __future__ import annotations

import re

import pytest

from reference_server.request_ids import choose
from reference_server.settings import DEFAULT_REQUEST_ID_HEADERS

CHAT = "/v1/chat/completions"


def test_the_first_configured_header_wins() -> None:
    """Order of preference is the configured one, not that of the request."""
    headers = [(name, f"id-of-{name}") for name in reversed(DEFAULT_REQUEST_ID_HEADERS)]
    for name in DEFAULT_REQUEST_ID_HEADERS:
        chosen = choose(headers, DEFAULT_REQUEST_ID_HEADERS, CHAT)
        assert (chosen.value, chosen.replaces) == (f"id-of-{name}", None)
        headers.remove((name, f"id-of-{name}"))


def test_another_list_replaces_the_default_one() -> None:
    """With a configured list the usual headers mean nothing."""
    assert choose([("x-request-id", "usual"), ("x-mine", "mine")], ["x-mine"], CHAT).value == "mine"
    assert choose([("x-request-id", "usual")], ["x-mine"], CHAT).value.startswith("chatcmpl-")


@pytest.mark.parametrize(("path", "prefix"), [(CHAT, "chatcmpl-"), ("/v1/completions", "cmpl-"), ("/nope", "req-")])
def test_a_generated_id_has_the_prefix_of_its_route(path: str, prefix: str) -> None:
    """Without any id one is generated: prefix and 24 letters or digits; the worker is not told."""
    chosen = choose([], DEFAULT_REQUEST_ID_HEADERS, path)
    assert re.fullmatch(re.escape(prefix) + "[A-Za-z0-9]{24}", chosen.value)
    assert chosen.replaces is None


@pytest.mark.parametrize("value", ["", " ", "a b", "a\tb", "a\x01b", "\xe9", "x" * 129])
def test_an_unusable_id_is_replaced(value: str) -> None:
    """Blanks, control characters, other alphabets and more than 128 characters are no id, and nothing falls through."""
    headers = [("x-request-id", value), ("x-correlation-id", "good")]
    chosen = choose(headers, DEFAULT_REQUEST_ID_HEADERS, CHAT)
    assert chosen.value.startswith("chatcmpl-")
    assert chosen.replaces == "x-request-id"


@pytest.mark.parametrize("value", ["x", "x" * 128, "".join(map(chr, range(0x21, 0x7F)))])
def test_a_usable_id_is_kept(value: str) -> None:
    """Visible ASCII up to 128 characters is the client's own id."""
    assert choose([("x-request-id", value)], DEFAULT_REQUEST_ID_HEADERS, CHAT).value == value

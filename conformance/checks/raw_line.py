"""The request line and Host: methods, targets, versions, and which server is meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.checks.raw_support import Raw
from conformance.harness.gateway import CHAT
from conformance.harness.marks import clause

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker


def with_hosts(raw: Raw, *lines: str, version: str = "1.1") -> bytes:
    """The honest request with these lines instead of its Host."""
    first = f"POST {CHAT} HTTP/{version}"
    return raw.head(f"Content-Length: {len(raw.body)}", first=first, host=lines) + raw.body


@clause("transport.raw.host.missing")
async def test_missing_host(gateway: Gateway, worker: Worker) -> None:
    """HTTP/1.1 without Host: 400, and no worker hears of it."""
    raw = await Raw.of(gateway, worker)
    await raw.refused(await raw.say(with_hosts(raw)), {400}, answer_owed=True)


@pytest.mark.parametrize("second", ["{host}", "example.com"], ids=["equal", "other"])
@clause("transport.raw.host.twice")
async def test_two_hosts(gateway: Gateway, worker: Worker, second: str) -> None:
    """Two Host lines, even equal ones: 400."""
    raw = await Raw.of(gateway, worker)
    host = gateway.netloc
    await raw.refused(
        await raw.say(with_hosts(raw, f"Host: {host}", f"Host: {second.format(host=host)}")), {400}, answer_owed=True
    )


@pytest.mark.parametrize(
    "value",
    ["exa mple.com", "http://example.com", "example.com/path", "user@example.com", "a:b:c", "exa<mple"],
    ids=["blank", "url", "path", "user", "two-colons", "angle"],
)
@clause("transport.raw.host.invalid")
async def test_invalid_host(gateway: Gateway, worker: Worker, value: str) -> None:
    """A Host that is no host and port: 400."""
    raw = await Raw.of(gateway, worker)
    await raw.refused(await raw.say(with_hosts(raw, f"Host: {value}")), {400}, answer_owed=True)


@clause("transport.raw.host.not_needed_in_1_0")
async def test_http_1_0_needs_no_host(gateway: Gateway, worker: Worker) -> None:
    """HTTP/1.0 without Host is served."""
    raw = await Raw.of(gateway, worker)
    await raw.served(await raw.say(with_hosts(raw, version="1.0")))


@pytest.mark.parametrize(
    "method", ["P(ST", "PO\x01ST", "POST@", '"POST"', ""], ids=["bracket", "soh", "at", "quoted", "empty"]
)
@clause("transport.raw.line.invalid_method")
async def test_invalid_method(gateway: Gateway, worker: Worker, method: str) -> None:
    """A method that is no token is a bad request."""
    raw = await Raw.of(gateway, worker)
    await raw.refused(await raw.say(raw.honest(first=f"{method} {CHAT} HTTP/1.1")), {400})


@pytest.mark.parametrize("method", ["post", "Post"])
@clause("transport.raw.line.method_case")
async def test_method_in_other_case(gateway: Gateway, worker: Worker, method: str) -> None:
    """Methods are case-sensitive: `post` is another method than POST, and is not served."""
    raw = await Raw.of(gateway, worker)
    await raw.refused(await raw.say(raw.honest(first=f"{method} {CHAT} HTTP/1.1")))


@clause("transport.raw.line.unknown_method")
async def test_unknown_method(gateway: Gateway, worker: Worker) -> None:
    """A well-formed method nobody knows is refused with 405 or 501."""
    raw = await Raw.of(gateway, worker)
    await raw.refused(await raw.say(raw.honest(first=f"BREW {CHAT} HTTP/1.1")), {405, 501}, answer_owed=True)


@pytest.mark.parametrize(
    "first",
    [
        "POST /v1/chat completions HTTP/1.1",
        "POST v1/chat/completions HTTP/1.1",
        "POST HTTP/1.1",
        "POST  HTTP/1.1",
        f"POST {CHAT}#part HTTP/1.1",
        f"POST {CHAT}\x01 HTTP/1.1",
        f"POST {CHAT}\x7f HTTP/1.1",
        f"POST {CHAT} HTTP/1.1 more",
        "POST * HTTP/1.1",
    ],
    ids=["blank", "no-slash", "none", "empty", "fragment", "soh", "del", "four-words", "asterisk"],
)
@clause("transport.raw.line.invalid_target")
async def test_invalid_target(gateway: Gateway, worker: Worker, first: str) -> None:
    """A target that no form allows is refused, and no worker hears of it."""
    raw = await Raw.of(gateway, worker)
    await raw.refused(await raw.say(raw.honest(first=first)))


@pytest.mark.parametrize("other_host", [False, True], ids=["same-host", "other-host-line"])
@clause("transport.raw.line.absolute_form")
async def test_absolute_form(gateway: Gateway, worker: Worker, *, other_host: bool) -> None:
    """A target in absolute form is served as its path; the Host line beside it counts for nothing."""
    raw = await Raw.of(gateway, worker)
    hosts = ["Host: elsewhere.example"] if other_host else [f"Host: {gateway.netloc}"]
    head = raw.head(
        f"Content-Length: {len(raw.body)}", first=f"POST http://{gateway.netloc}{CHAT} HTTP/1.1", host=hosts
    )
    await raw.served(await raw.say(head + raw.body))


@clause("transport.raw.line.long_target")
async def test_long_target(gateway: Gateway, worker: Worker) -> None:
    """A target longer than the gateway takes is refused with 414; one of 8,000 bytes is served."""
    raw = await Raw.of(gateway, worker)
    await raw.served(await raw.say(raw.honest(first=f"POST {CHAT}?a={'b' * 7900} HTTP/1.1")))
    other = await Raw.of(gateway, worker)
    talk = await other.say(other.honest(first=f"POST {CHAT}?a={'b' * 300_000} HTTP/1.1"))
    await other.refused_or_served(talk, statuses={414})


@pytest.mark.parametrize(
    "version", ["HTTP/1.", "HTTP/11", "http/1.1", "HTTP/1,1", "HTTP/0.9", "HTP/1.1", "HTTP/3.0", "HTTP/1.1x"]
)
@clause("transport.raw.line.bad_version")
async def test_bad_version(gateway: Gateway, worker: Worker, version: str) -> None:
    """A version that is none, or of another major number, is refused."""
    raw = await Raw.of(gateway, worker)
    await raw.refused(await raw.say(raw.honest(first=f"POST {CHAT} {version}")))

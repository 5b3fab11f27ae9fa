"""Readers of flag values: text in, a checked value out, `ValueError` with what is wrong and what to write instead."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from reference_server.settings import ControlPlaneKey, TenantKey
from reference_server.workers.urls import WorkerUrlError, check_worker_url

if TYPE_CHECKING:
    from collections.abc import Callable

CONTROL_PLANE_ROLES = ("admin", "user")
_HIGHEST_PORT = 65_535
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SECRET_HEADERS = frozenset({"authorization", "proxy-authorization", "cookie", "x-api-key", "x-goog-api-key"})
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


def whole(low: int, high: int | None = None, unit: str = "") -> Callable[[str], int]:
    """A reader of whole numbers from `low` to `high`, both included."""
    wanted = f"a whole number{unit and ' of ' + unit}, " + (
        f"{low} to {high}" if high is not None else f"at least {low}"
    )

    def reader(text: str) -> int:
        value = int(text) if _INTEGER.fullmatch(text) else None
        if value is None or value < low or (high is not None and value > high):
            raise ValueError(f"{text!r} is not {wanted}")
        return value

    return reader


def decimal(low: float, high: float | None = None, unit: str = "") -> Callable[[str], float]:
    """A reader of finite numbers from `low` to `high`, both included; fractions are allowed."""
    wanted = f"a number{unit and ' of ' + unit}, " + (
        f"{low:g} to {high:g}" if high is not None else f"at least {low:g}"
    )

    def reader(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or value < low or (high is not None and value > high):
            raise ValueError(f"{text!r} is not {wanted}")
        return value

    return reader


def positive_seconds(text: str) -> float:
    """Seconds, more than none; fractions are allowed (the real gateway takes whole ones)."""
    value = decimal(0, unit="seconds")(text)
    if value == 0:
        raise ValueError(f"{text!r} is no time at all; write more than 0 seconds")
    return value


def share(text: str) -> float:
    """A share of a whole, more than nothing."""
    value = decimal(0, 1)(text)
    if value == 0:
        raise ValueError(f"{text!r} is no share; write more than 0 and at most 1")
    return value


seconds = decimal(0, unit="seconds")
port = whole(0, _HIGHEST_PORT)


def host(text: str) -> str:
    """A name or address to listen at; brackets round an IPv6 address are taken off."""
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if not bare or any(character.isspace() or character in "/@" for character in bare):
        raise ValueError(f"{text!r} is no host; write for example 127.0.0.1, ::1 or localhost")
    return bare


def worker_url(text: str) -> str:
    """The URL of an HTTP worker, as it will be registered."""
    try:
        return check_worker_url(text.rstrip("/"))
    except WorkerUrlError as error:
        raise ValueError(f"{_without_secrets(text)!r}: {error}") from None


def _without_secrets(url: str) -> str:
    """A URL as far as it may be shown: what stands before an @ or behind a ? may well be a secret."""
    shown, query, _ = url.partition("?")
    before, at, host = shown.rpartition("@")
    scheme, slashes, _ = before.partition("//")
    return (f"{scheme + slashes if slashes else ''}…@{host}" if at else shown) + (query and "?…")


def header_name(text: str) -> str:
    """The name, in lower case, of a header whose value may be shown."""
    if not _HEADER_NAME.fullmatch(text):
        raise ValueError(f"{text!r} is no header name; write for example x-request-id")
    if text.lower() in _SECRET_HEADERS:
        raise ValueError(f"the header {text!r} holds a secret, which metrics or the log would show; name another one")
    return text.lower()


def path(text: str) -> str:
    """An absolute path on a worker."""
    if not text.startswith("/") or any(character.isspace() for character in text):
        raise ValueError(f"{text!r} is no path; write for example /health")
    return text


def key(text: str) -> str:
    """An API key. The text never appears in a message."""
    if not text or text != text.strip() or not text.isprintable():
        raise ValueError("the key is empty, begins or ends with a blank, or holds control characters")
    return text


def tenant_key(text: str) -> TenantKey:
    """`tenant_id:key`, split at the first colon, so that a key may hold colons. The text never appears in a message."""
    tenant_id, colon, secret = text.partition(":")
    if not colon:
        raise ValueError("the value has no colon; write tenant_id:key")
    if not tenant_id.strip():
        raise ValueError("the tenant id before the colon is empty; write tenant_id:key")
    if tenant_id != tenant_id.strip() or not tenant_id.isprintable():
        raise ValueError(f"the tenant id {tenant_id!r} begins or ends with a blank, or holds control characters")
    if not secret:
        raise ValueError(f"the key of tenant {tenant_id!r} is empty; write tenant_id:key")
    return TenantKey(tenant_id, key(secret))


def control_plane_key(text: str) -> ControlPlaneKey:
    """`id:name:role:key`, split at the first three colons. The text never appears in a message."""
    shape = "write id:name:role:key, for example ops:Operations:admin:a-long-random-key"
    key_id, _, rest = text.partition(":")
    name, _, rest = rest.partition(":")
    role, colon, secret = rest.partition(":")
    if not colon:
        raise ValueError(f"a value has fewer than three colons; {shape}")
    if not key_id.strip():
        raise ValueError(f"the id before the first colon is empty; {shape}")
    if role.lower() not in CONTROL_PLANE_ROLES:
        raise ValueError(f"the role of {key_id!r} is not one of {', '.join(CONTROL_PLANE_ROLES)}; {shape}")
    if not secret:
        raise ValueError(f"the key of {key_id!r} is empty; {shape}")
    return ControlPlaneKey(key_id, name, role.lower(), key(secret))


def alias(text: str) -> tuple[str, str]:
    """`alias=canonical`, split at the first equals sign."""
    name, equals, canonical = text.partition("=")
    if not equals or not name or not canonical:
        raise ValueError(f"{text!r} is no alias; write alias=canonical, for example gpt-4=my-model")
    return name, canonical


def one_of(*choices: str) -> Callable[[str], str]:
    """A reader of one of a few words."""

    def reader(text: str) -> str:
        if text not in choices:
            raise ValueError(f"{text!r} is not one of {', '.join(choices)}")
        return text

    return reader


UNBUILT_POLICIES = (
    "bucket", "cache_aware", "consistent_hashing", "least_load", "manual", "passthrough", "power_of_two", "prefix_hash",
)  # fmt: skip


def policy(text: str) -> str:
    """A routing policy that is built."""
    if text in UNBUILT_POLICIES:
        raise ValueError(f"the policy {text!r} of the real gateway is not built here yet; use random or round_robin")
    return one_of("random", "round_robin")(text)

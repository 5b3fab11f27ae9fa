"""Both sides of a check as plain data for reports: what the client sent and got, what the workers were told and saw.

Keys never get in: every key known to the run, and the value of every credential header, is replaced.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from conformance.reports.curl import reproduce
from fake_workers.script import as_plain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from conformance.harness.exchange import Exchange
    from conformance.harness.worker import Scripted
    from fake_workers.journal import Entry

REDACTED = "[redacted]"
CREDENTIAL_HEADERS = ("authorization", "proxy-authorization", "x-api-key", "x-goog-api-key", "api-key", "cookie")
_CREDENTIAL_LINE = re.compile(
    rf"(?im)^((?:{'|'.join(CREDENTIAL_HEADERS)})[ \t]*:[ \t]*)(?:(bearer|basic|token)[ \t]+)?[^\r\n]+"
)
SHORT_BYTES, LONG_BYTES = 2048, 65536


class Redactor:
    """Replaces secrets in text.

    Args:
        keys: values that must not appear anywhere; the longest are replaced first, so that none is left half.
    """

    def __init__(self, keys: Iterable[str]) -> None:
        self._keys = sorted({key for key in keys if len(key) >= 4}, key=len, reverse=True)

    def text(self, text: str) -> str:
        """The text without secrets."""
        for key in self._keys:
            text = text.replace(key, REDACTED)
        return _CREDENTIAL_LINE.sub(lambda match: f"{match[1]}{match[2] + ' ' if match[2] else ''}{REDACTED}", text)

    def command(self, text: str) -> str:
        """A command line without secrets."""
        for key in self._keys:
            text = text.replace(key, "$KEY")
        names = "|".join(CREDENTIAL_HEADERS)
        return re.sub(
            rf"(?i)-H '((?:{names}): ?(?:(?:bearer|basic|token) )?)[^']*'",
            lambda match: f"-H '{match[1]}'\"$KEY\"",
            text,
        )

    def plain(self, value: Any) -> Any:
        """JSON-ready data without secrets."""
        return json.loads(self.text(json.dumps(value)))


def show(data: bytes, limit: int) -> str:
    """Bytes as text: UTF-8 where it is, escapes where it is not, cut at `limit` bytes."""
    cut = f"… ({len(data) - limit} more bytes)" if len(data) > limit else ""
    return data[:limit].decode("utf-8", errors="backslashreplace") + cut


def of_exchange(exchange: Exchange, base_url: str, redact: Redactor, *, full: bool) -> dict[str, Any]:
    """One exchange of the client."""
    limit = LONG_BYTES if full else SHORT_BYTES
    times = exchange.times

    def since(moment: float | None) -> float | None:
        return None if moment is None else round(moment - times.started, 6)

    return {
        "method": exchange.method,
        "target": redact.text(exchange.target),
        "status": exchange.status,
        "outcome": exchange.outcome,
        "problem": exchange.problem,
        "request": redact.text(show(exchange.request, limit)),
        "response": redact.text(show(exchange.legible, limit)),
        "started_at": round(times.started, 6),
        "sent_s": since(times.sent),
        "head_s": since(times.head),
        "ended_s": since(times.ended),
        "reads": [[since(at), size] for at, size in times.reads[: 200 if full else 5]],
        "curl": redact.command(reproduce(exchange, base_url)) if len(exchange.request) <= LONG_BYTES else "",
    }


def of_entry(entry: Entry, redact: Redactor, *, full: bool) -> dict[str, Any]:
    """One dispatch as a worker saw it."""
    limit = LONG_BYTES if full else SHORT_BYTES

    def since(moment: float | None) -> float | None:
        return None if moment is None else round(moment - entry.received_at, 6)

    return {
        "worker": entry.worker,
        "marker": entry.marker,
        "dispatch": entry.dispatch,
        "request": redact.text(show(entry.head.rstrip(b"\r\n") + b"\r\n\r\n" + entry.body, limit)),
        "received_at": round(entry.received_at, 6),
        "answered_s": since(entry.answered_at),
        "completed_s": since(entry.completed_at),
        "peer_closed_s": since(entry.peer_closed_at),
        "sent": [[since(at), size] for at, size in entry.sent[: 200 if full else 5]],
        "outcome": entry.outcome,
    }


def of_script(script: Scripted, redact: Redactor) -> dict[str, Any]:
    """What the workers were told, short values only."""
    return {"marker": script.marker, "answers": redact.plain([_slim(as_plain(each)) for each in script.script.answers])}


def _slim(value: Any) -> Any:
    """The same without members that say nothing, and with long texts cut."""
    if isinstance(value, dict):
        return {key: _slim(member) for key, member in value.items() if member not in (None, [], {})}
    if isinstance(value, list):
        return [_slim(member) for member in value[:50]]
    return f"{value[:2000]}…" if isinstance(value, str) and len(value) > 2000 else value


def as_text(evidence: dict[str, Any]) -> str:
    """Evidence for a terminal."""
    lines: list[str] = []
    for number, exchange in enumerate(evidence["exchanges"], 1):
        lines.append(
            f"client, exchange {number}: {exchange['outcome']} after {exchange['ended_s']} s {exchange['problem']}"
        )
        lines += [
            f"  {exchange['curl']}",
            "  sent:",
            *_indent(exchange["request"]),
            "  got:",
            *_indent(exchange["response"]),
        ]
    for entry in evidence["dispatches"]:
        moments = ", ".join(
            f"{name} {entry[key]} s"
            for name, key in (("answered", "answered_s"), ("completed", "completed_s"), ("peer left", "peer_closed_s"))
            if entry[key] is not None
        )
        lines += [f"worker {entry['worker']} received ({moments or 'no answer yet'}):", *_indent(entry["request"])]
    if not evidence["dispatches"]:
        lines.append("worker: received nothing")
    lines += [f"script {script['marker']}: {json.dumps(script['answers'])[:1500]}" for script in evidence["scripts"]]
    return "\n".join(lines)


def _indent(text: str, limit: int = 40) -> list[str]:
    found = text[:4000].splitlines()
    more = [f"    … ({len(found) - limit} more lines)"] if len(found) > limit else []
    return [f"    {line}" for line in found[:limit]] + more

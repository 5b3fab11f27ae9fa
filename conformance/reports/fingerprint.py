"""How a check fails, in one line that stays the same from run to run.

`KIND | STATUS [CODE]`: the kind is the slug of a `Disproved`, or the assertion's source without its message, or the
exception's class and statement; status and code are those of the last answer the client saw. Values that change between
runs (ids, times, ports, texts) are left out, so that a declared deviation is recognised, and another failure is not.
"""

from __future__ import annotations

import ast
import json
import re
from typing import TYPE_CHECKING

from conformance.harness.errors import Disproved

if TYPE_CHECKING:
    import pytest

    from conformance.harness.exchange import Exchange

MAX_KIND = 160


def fingerprint(excinfo: pytest.ExceptionInfo[BaseException], last: Exchange | None) -> str:
    """The fingerprint of a failure; `last` is the last exchange of the check, if it had one."""
    return f"{_kind(excinfo)} | {_answer(last)}"


def _kind(excinfo: pytest.ExceptionInfo[BaseException]) -> str:
    problem = excinfo.value
    if isinstance(problem, Disproved):
        return problem.kind
    # A library's own line says little; the last line of the check or the harness says more.
    own = [
        each
        for each in excinfo.traceback
        if "site-packages" not in str(each.path) and "/lib/python" not in str(each.path)
    ]
    statement = _statement(str((own or list(excinfo.traceback))[-1].statement)) if excinfo.traceback else ""
    kind = statement if isinstance(problem, AssertionError) else f"{type(problem).__name__}: {statement}"
    return kind[:MAX_KIND]


def _statement(source: str) -> str:
    """One statement on one line; an assertion without its message."""
    text = re.sub(r"\s+", " ", source).strip()
    try:
        parsed = ast.parse(text.rstrip(":") if text.endswith(":") else text).body[0]
    except SyntaxError:
        return text
    if isinstance(parsed, ast.Assert):
        return f"assert {ast.unparse(parsed.test)}"
    return ast.unparse(parsed)


def _answer(last: Exchange | None) -> str:
    if last is None:
        return "no exchange"
    if last.status is None:
        return f"no answer, {last.outcome}"
    end = "" if last.outcome in {"complete", "aborted"} else f" {last.outcome}"
    return f"{last.status}{end}{_code(last)}"


def _code(last: Exchange) -> str:
    """The answer's error code, if it has one."""
    if last.status is None or last.status < 400:
        return ""
    try:
        code = json.loads(last.body)["error"]["code"]
    except (ValueError, LookupError, TypeError):
        return ""
    return f" {code}" if isinstance(code, (str, int)) else ""

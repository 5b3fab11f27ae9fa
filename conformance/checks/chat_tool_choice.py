"""The tool choice of a chat request: its forms arrive, and those that need tools are refused without them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from conformance.checks.chat_kit import Fields, case, deliver, refused, tool
from conformance.harness.marks import engines

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker

pytestmark = pytest.mark.asyncio

PREFIX = "chat.tool_choice"
TOOLS = [tool("first"), tool("second"), tool("third")]


def _named(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


def _allowed(mode: object, *names: str) -> dict[str, Any]:
    return {"type": "allowed_tools", "mode": mode, "tools": [{"type": "function", "name": name} for name in names]}


KEPT = [
    case(f"{PREFIX}.none_kept", "none"),
    case(f"{PREFIX}.auto_kept", "auto"),
    case(f"{PREFIX}.required_kept", "required"),
    case(f"{PREFIX}.named_kept", _named("first")),
    case(f"{PREFIX}.allowed_auto_kept", _allowed("auto", "first", "second", "third")),
    case(f"{PREFIX}.allowed_required_kept", _allowed("required", "first", "second", "third")),
    *(case(f"{PREFIX}.named_among_several_accepted", _named(name), name=name) for name in ("first", "second", "third")),
    case(f"{PREFIX}.allowed_subset_accepted", _allowed("auto", "third"), name="one"),
    case(f"{PREFIX}.allowed_subset_accepted", _allowed("required", "third", "first"), name="two, another order"),
]


@pytest.mark.parametrize("choice", KEPT)
@engines("sglang", "vllm", "tokenspeed")
async def test_tool_choice_arrives(gateway: Gateway, worker: Worker, choice: object) -> None:
    """The choice is accepted beside tools and arrives as the same value, whatever the engine."""
    delivery = await deliver(gateway, worker, tools=TOOLS, tool_choice=choice)
    delivery.unchanged("tool_choice")


WITHOUT = [case(f"{PREFIX}.none_needs_no_tools", "none"), case(f"{PREFIX}.auto_needs_no_tools", "auto")]


@pytest.mark.parametrize("choice", WITHOUT)
@pytest.mark.parametrize("fields", [{}, {"tools": None}, {"tools": []}], ids=["absent", "null", "empty"])
async def test_free_choice_needs_no_tools(gateway: Gateway, worker: Worker, choice: str, fields: Fields) -> None:
    """A choice that forces nothing is accepted without any tool, and forces nothing at the worker."""
    delivery = await deliver(gateway, worker, tool_choice=choice, **fields)
    delivery.unset("tool_choice", neutral=("none", "auto"))


FORCED: dict[str, Any] = {
    "required": "required",
    "named": _named("first"),
    "allowed_auto": _allowed("auto", "first"),
    "allowed_required": _allowed("required", "first"),
}
NEEDS_TOOLS = [
    *(case(f"{PREFIX}.{kind}_needs_tools", choice, {}) for kind, choice in FORCED.items()),
    *(case(f"{PREFIX}.{kind}_needs_some_tool", choice, {"tools": []}) for kind, choice in FORCED.items()),
    case(f"{PREFIX}.required_with_null_tools_refused", "required", {"tools": None}),
]


@pytest.mark.parametrize(("choice", "fields"), NEEDS_TOOLS)
async def test_forced_choice_needs_tools(gateway: Gateway, worker: Worker, choice: object, fields: Fields) -> None:
    """The choice is refused where there is no tool, and served beside one."""
    await refused(gateway, worker, {"tool_choice": choice, "tools": TOOLS}, {"tool_choice": choice, **fields})


GOOD = _named("first")
OTHER = [
    case(f"{PREFIX}.named_missing_refused", _named("fourth")),
    case(f"{PREFIX}.named_missing_refused", _named(""), name="empty"),
    case(f"{PREFIX}.named_missing_refused", _named("firs"), name="beginning of one"),
    case(f"{PREFIX}.name_exact", _named("First")),
    case(f"{PREFIX}.name_exact", _named("first "), name="blank"),
    case(f"{PREFIX}.allowed_missing_refused", _allowed("auto", "fourth")),
    case(f"{PREFIX}.allowed_missing_refused", _allowed("required", "fourth"), name="required"),
    case(f"{PREFIX}.allowed_one_missing_refused", _allowed("auto", "first", "fourth"), name="last"),
    case(f"{PREFIX}.allowed_one_missing_refused", _allowed("auto", "fourth", "first"), name="foremost"),
    case(f"{PREFIX}.allowed_mode_other_refused", _allowed("any", "first")),
    case(f"{PREFIX}.allowed_mode_other_refused", _allowed("none", "first"), name="none"),
    case(f"{PREFIX}.allowed_mode_other_refused", _allowed("AUTO", "first"), name="another case"),
    case(f"{PREFIX}.allowed_mode_other_refused", _allowed("", "first"), name="empty"),
    case(
        f"{PREFIX}.allowed_mode_missing_refused",
        {"type": "allowed_tools", "tools": [{"type": "function", "name": "first"}]},
    ),
    case(f"{PREFIX}.other_string_refused", "any"),
    case(f"{PREFIX}.other_string_refused", "first", name="a tool's name"),
    case(f"{PREFIX}.other_string_refused", "Required", name="another case"),
    case(f"{PREFIX}.other_string_refused", "", name="empty"),
    case(f"{PREFIX}.empty_object_refused", {}),
    case(f"{PREFIX}.unnamed_function_refused", {"type": "function"}),
    case(f"{PREFIX}.unnamed_function_refused", {"type": "function", "function": {}}, name="empty function"),
]


@pytest.mark.parametrize("choice", OTHER)
async def test_bad_choice_is_refused(gateway: Gateway, worker: Worker, choice: object) -> None:
    """Beside the same tools a good choice is served and this one is refused."""
    await refused(gateway, worker, {"tools": TOOLS, "tool_choice": GOOD}, {"tools": TOOLS, "tool_choice": choice})

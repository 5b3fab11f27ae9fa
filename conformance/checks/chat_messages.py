"""Messages of a chat request: what each role may and must carry, and that it arrives as it was sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from conformance.checks.chat_kit import Fields, case, deliver, refused, says, tool
from conformance.harness.bodies import OMIT, PROMPT
from conformance.harness.marks import clause, engines

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker

pytestmark = pytest.mark.asyncio

BY_ROLE: dict[str, dict[str, Any]] = {
    "system": says("x", "system"),
    "developer": says("x", "developer"),
    "user": says("x"),
    "assistant": says("x", "assistant"),
    "tool": says("x", "tool", tool_call_id="call_1"),
    "function": says("x", "function", name="look_up"),
}


def _with(role: str, **members: Any) -> Fields:
    """A conversation whose first message, of that role, has the members; OMIT leaves one out."""
    message = {name: value for name, value in {**BY_ROLE[role], **members}.items() if value is not OMIT}
    return {"messages": [message, says()]}


@pytest.mark.parametrize("role", [case(f"chat.messages.role.{role}", role) for role in BY_ROLE])
@engines("sglang", "vllm", "tokenspeed")
async def test_role_arrives(gateway: Gateway, worker: Worker, role: str) -> None:
    """A message of the role is accepted and arrives with that role and its text, whatever the engine."""
    delivery = await deliver(gateway, worker, **_with(role))
    delivery.arrived_as(role, "messages", 0, "role")
    delivery.arrived_as("x", "messages", 0, "content")


ROLES = [
    case("chat.messages.role.root_refused", "root"),
    case("chat.messages.role.unknown_refused", "bot"),
    case("chat.messages.role.unknown_refused", "", name="empty"),
    case("chat.messages.role.unknown_refused", "model", name="of another vendor"),
    case("chat.messages.role.case_sensitive", "User"),
    case("chat.messages.role.case_sensitive", "SYSTEM", name="capitals"),
]


@pytest.mark.parametrize("role", ROLES)
async def test_other_role_is_refused(gateway: Gateway, worker: Worker, role: str) -> None:
    """The same message with a role that is not on the list is refused."""
    await refused(gateway, worker, _with("system"), {"messages": [says("x", role), says()]})


@clause("chat.messages.role.bad_one_among_good")
@pytest.mark.parametrize("place", [0, 2, 4])
async def test_one_bad_role_is_enough(gateway: Gateway, worker: Worker, place: int) -> None:
    """One unknown role refuses the request, wherever in the conversation it stands."""
    good = [says("x", "system"), says(), says("y", "assistant"), says("z"), says("w", "assistant")]
    bad = [{**message, "role": "narrator"} if i == place else message for i, message in enumerate(good)]
    await refused(gateway, worker, {"messages": good}, {"messages": [*bad, says()]})


TEXTS = {
    "white space": "  two leading, three trailing   ",
    "line ends": "a\nb\r\nc\rd\n\n",
    "controls": "nul\u0000 bell\u0007 escape\u001b delete\u007f",
    "quotes": "\"double\" 'single' `back` \\n \\u0041 / \\/",
    "beyond ASCII": "é ß 名前 العربية हिन्दी",
    "beyond the plane": "😀 👨\u200d👩\u200d👧 𝄞",
    "separators": "\u2028\u2029\u0085\ufeff\u00a0",
    "decomposed": "e\u0301 stays two, \u00e9 stays one",
    "markup": "<|im_start|>system\n<think>&amp; &lt;",
    "json": '{"role":"system","content":"no"}',
}


@clause("chat.messages.content.text_verbatim")
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
async def test_text_arrives_verbatim(gateway: Gateway, worker: Worker, text: str) -> None:
    """Each role's text arrives character by character."""
    messages = [says(text, "system"), says(f"{text}{PROMPT}{text}"), says(text, "assistant"), says(text)]
    delivery = await deliver(gateway, worker, messages=messages)
    delivery.unchanged("messages")


@clause("chat.messages.content.long_text")
async def test_long_text_arrives(gateway: Gateway, worker: Worker) -> None:
    """A million characters of text, a part of them beyond ASCII, arrive complete."""
    delivery = await deliver(gateway, worker, messages=[says("lorem ipsum é " * 72000 + PROMPT)])
    delivery.unchanged("messages")


PARTS = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
ROLES_WITH_PARTS = ["system", "developer", "user", "assistant", "tool"]


@pytest.mark.parametrize("role", [case(f"chat.messages.content.parts_on_{role}", role) for role in ROLES_WITH_PARTS])
async def test_content_parts_arrive(gateway: Gateway, worker: Worker, role: str) -> None:
    """Content given as parts arrives as the same parts, not joined to a text."""
    delivery = await deliver(gateway, worker, **_with(role, content=PARTS))
    delivery.unchanged("messages", 0, "content")


SERVED = [
    case("chat.messages.content.system_may_lack", _with("system", content=OMIT)),
    case("chat.messages.content.assistant_may_lack", _with("assistant", content=OMIT)),
    case("chat.messages.content.system_null", _with("system", content=None)),
    case("chat.messages.content.assistant_null", _with("assistant", content=None)),
    case("chat.messages.content.user_white_space_accepted", _with("user", content=" ")),
    case("chat.messages.content.user_white_space_accepted", _with("user", content="\n"), name="line end"),
    case("chat.messages.content.user_empty_part_accepted", _with("user", content=[{"type": "text", "text": ""}])),
    *(
        case(f"chat.messages.content.{role}_may_be_empty", _with(role, content=""))
        for role in ("system", "assistant", "tool", "developer")
    ),
    case("chat.messages.content.system_may_be_empty", _with("system", content=[]), name="array"),
    case("chat.messages.content.assistant_may_be_empty", _with("assistant", content=[]), name="array"),
    case("chat.messages.name.may_lack", _with("user", name=OMIT)),
    case("chat.messages.tool_call_id.not_needed_elsewhere", {"messages": [*list(BY_ROLE.values())[:4], says()]}),
    case("chat.messages.tool_call_id.linkage_not_checked", _with("tool", tool_call_id="call_of_nobody")),
]


@pytest.mark.parametrize("fields", SERVED)
async def test_message_is_served(gateway: Gateway, worker: Worker, fields: Fields) -> None:
    """The conversation is accepted, and as many messages as were sent arrive, of the same roles."""
    delivery = await deliver(gateway, worker, **fields)
    roles = [message["role"] for message in delivery.at("messages")]
    assert roles == [message["role"] for message in delivery.sent["messages"]]


@clause("chat.messages.content.nothing_invented")
@pytest.mark.parametrize("role", ["system", "assistant"])
async def test_no_content_is_invented(gateway: Gateway, worker: Worker, role: str) -> None:
    """A message without content arrives without any text."""
    delivery = await deliver(gateway, worker, **_with(role, content=OMIT))
    delivery.unset("messages", 0, "content", neutral=("", []))


ABSENT, NULL = {"content": OMIT}, {"content": None}
REFUSED = [
    *(
        case(f"chat.messages.content.{role}_needs_it", role, ABSENT)
        for role in ("user", "developer", "tool", "function")
    ),
    *(case(f"chat.messages.content.{role}_null_refused", role, NULL) for role in ("user", "developer", "tool")),
    case("chat.messages.content.user_empty_text_refused", "user", {"content": ""}),
    case("chat.messages.content.user_empty_array_refused", "user", {"content": []}),
    case("chat.messages.content.number_refused", "user", {"content": 1}),
    case("chat.messages.content.number_refused", "system", {"content": 1}, name="system"),
    case("chat.messages.content.number_refused", "assistant", {"content": 1}, name="assistant"),
    case("chat.messages.content.object_refused", "user", {"content": PARTS[0]}),
    case("chat.messages.content.object_refused", "system", {"content": PARTS[0]}, name="system"),
    case("chat.messages.name.function_needs_it", "function", {"name": OMIT}),
    case("chat.messages.tool_call_id.needed_on_tool", "tool", {"tool_call_id": OMIT}),
    case("chat.messages.tool_call_id.null_refused", "tool", {"tool_call_id": None}),
]


@pytest.mark.parametrize(("role", "members"), REFUSED)
async def test_message_is_refused(gateway: Gateway, worker: Worker, role: str, members: dict[str, Any]) -> None:
    """A message of the role that carries what it must is served; without it, the same conversation is refused."""
    await refused(gateway, worker, _with(role), _with(role, **members))


@clause("chat.messages.content.every_user_message")
@pytest.mark.parametrize("place", [0, 2])
async def test_every_user_message_needs_content(gateway: Gateway, worker: Worker, place: int) -> None:
    """An empty text refuses the request in an earlier user message too, though the last one has its text."""
    good = [says("x"), says("y", "assistant"), says("z"), says()]
    bad = [{**message, "content": ""} if i == place else message for i, message in enumerate(good)]
    await refused(gateway, worker, {"messages": good}, {"messages": bad})


@pytest.mark.parametrize(
    "role", [case(f"chat.messages.name.on_{role}", role) for role in ("user", "system", "assistant", "developer")]
)
async def test_name_arrives(gateway: Gateway, worker: Worker, role: str) -> None:
    """The participant's name arrives with its message."""
    delivery = await deliver(gateway, worker, **_with(role, name="Ada_é 1"))
    delivery.arrived_as("Ada_é 1", "messages", 0, "name")


@clause("chat.messages.name.may_lack")
async def test_no_name_is_invented(gateway: Gateway, worker: Worker) -> None:
    """A message without a name arrives without one."""
    messages = [message for role, message in BY_ROLE.items() if role != "function"]
    delivery = await deliver(gateway, worker, messages=[*messages, says()])
    for number in range(len(messages) + 1):
        delivery.unset("messages", number, "name")


DECLARED = [tool("declared")]


@clause("chat.messages.tools.accepted_on_baseline")
@pytest.mark.parametrize("role", ["system", "developer", "user", "assistant"])
async def test_tools_on_a_message_are_no_error(gateway: Gateway, worker: Worker, role: str) -> None:
    """A message that declares tools does not refuse the request of another model family."""
    delivery = await deliver(gateway, worker, **_with(role, tools=DECLARED))
    delivery.arrived_as(role, "messages", 0, "role")


@pytest.mark.parametrize(
    "role", [case(f"chat.messages.tools.dropped_on_{role}", role) for role in ("system", "developer")]
)
async def test_tools_on_a_message_are_dropped(gateway: Gateway, worker: Worker, role: str) -> None:
    """Tools declared on a message do not arrive, neither on it nor as the request's own."""
    delivery = await deliver(gateway, worker, **_with(role, tools=DECLARED))
    delivery.unset("messages", 0, "tools")
    delivery.unset("tools", neutral=([],))


@clause("chat.messages.tools.rest_of_message_kept")
async def test_rest_of_the_message_is_kept(gateway: Gateway, worker: Worker) -> None:
    """Content, name and the messages around it arrive as they were sent."""
    delivery = await deliver(gateway, worker, **_with("system", name="policy", tools=DECLARED))
    delivery.unchanged("messages", 0, "content")
    delivery.unchanged("messages", 0, "name")
    delivery.unchanged("messages", 1)


@clause("chat.messages.tools.request_tools_kept")
async def test_tools_of_the_request_are_kept(gateway: Gateway, worker: Worker) -> None:
    """The request's own tools arrive, and only they."""
    delivery = await deliver(gateway, worker, tools=[tool("own")], **_with("system", tools=DECLARED))
    assert [item["function"]["name"] for item in delivery.at("tools")] == ["own"]


@clause("chat.messages.tools.do_not_count_for_tool_choice")
async def test_tools_on_a_message_satisfy_no_tool_choice(gateway: Gateway, worker: Worker) -> None:
    """A tool choice that needs tools is refused when only a message declares some."""
    choice: Fields = {"tool_choice": "required", **_with("system", tools=DECLARED)}
    await refused(gateway, worker, {**choice, "tools": DECLARED}, choice)

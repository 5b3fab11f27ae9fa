"""Vices of messages, content parts, tools and structured output on their way to the worker."""

# ruff: noqa: E501 - a mutant is a row of a table, and a row is best on a line
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.mutants.edits import accepts, changes, messages, parts, refuses
from tests.mutants.hooks import Number, dumps

if TYPE_CHECKING:
    from tests.mutants.hooks import Body

ROLES = ("system", "developer", "user", "assistant", "tool", "function")
MAPPED = {"developer": "system", "function": "tool", "system": "developer", "tool": "function"}
KNOWN_PARTS = ("text", "image_url", "video_url", "input_audio", "audio_url")


def _has(body: Body, test: Any) -> bool:
    """Whether a message passes the test; one that stumbles over it does not."""
    for message in body["messages"]:
        try:
            if test(message):
                return True
        except (KeyError, TypeError, IndexError, AttributeError):
            continue
    return False


def _any_part(body: Body, test: Any) -> bool:
    return _has(body, lambda m: isinstance(m["content"], list) and any(test(part) for part in m["content"]))


for _role in ROLES:
    refuses(f"refuses_role_{_role}", f"Messages of the role {_role} are refused.", (f"chat.messages.role.{_role}",),
            lambda b, role=_role: _has(b, lambda m: m["role"] == role), "chat")  # fmt: skip
    changes(f"drops_unknown_keys_of_{_role}", f"Messages of the role {_role} lose keys that are not known.",
            (f"chat.unknown.in_message.{_role}",),
            messages(lambda m, role=_role: [m.pop(k) for k in list(m) if m["role"] == role and k not in
                                            {"role", "content", "name", "tool_calls", "tool_call_id",
                                             "reasoning_content", "refusal", "function_call", "audio"}]), "chat")  # fmt: skip
for _role, _other in MAPPED.items():
    changes(f"turns_{_role}_into_{_other}", f"The role {_role} becomes {_other}.", (f"chat.messages.role.{_role}",),
            messages(lambda m, role=_role, other=_other: m.update(role=other) if m["role"] == role else None), "chat")  # fmt: skip

changes("reverses_messages", "Messages arrive backwards.", ("chat.messages.order_kept",),
        lambda b: b["messages"].reverse(), "chat")  # fmt: skip
changes("sends_the_last_message_only", "Earlier messages are dropped.", ("chat.messages.all_delivered",),
        lambda b: b.update(messages=b["messages"][-1:]), "chat")  # fmt: skip
changes("adds_a_system_message", "A system message is put before the others.", ("chat.messages.none_added",),
        lambda b: b["messages"].insert(0, {"role": "system", "content": "Be nice."}), "chat")  # fmt: skip
changes("joins_text_parts", "Text parts are joined into one text.", ("chat.parts.text_not_merged", "chat.parts.text.kept"),
        messages(lambda m: m.update(content="".join(p["text"] for p in m["content"]))), "chat")  # fmt: skip
changes("makes_texts_parts", "A text becomes an array of one part.", ("chat.messages.content.text_verbatim",),
        messages(lambda m: m.update(content=[{"type": "text", "text": m["content"]}])
                 if isinstance(m["content"], str) else None), "chat")  # fmt: skip
changes("drops_text_of_parts", "Parts lose their text.", ("chat.parts.text.kept", "chat.messages.content.parts_on_*"),
        parts(lambda p: p.pop("text", None)), "chat")  # fmt: skip
changes("reverses_parts", "Content parts arrive backwards.", ("chat.parts.order_kept",),
        messages(lambda m: m["content"].reverse()), "chat")  # fmt: skip
changes("drops_unknown_parts", "Parts of unknown types are dropped.", ("chat.parts.unknown.*",),
        messages(lambda m: m.update(content=[p for p in m["content"] if p.get("type") in KNOWN_PARTS])
                 if isinstance(m["content"], list) else None), "chat")  # fmt: skip
changes("drops_unknown_keys_of_parts", "Parts lose keys that are not known.", ("chat.parts.extra_key.*",),
        parts(lambda p: [o.pop(k) for o in [p, *(v for v in p.values() if isinstance(v, dict))] for k in list(o)
                         if k not in {"type", "text", "url", "detail", "fps", "max_long_side_pixel", "data", "format",
                                      *KNOWN_PARTS} and p.get("type") in KNOWN_PARTS]), "chat")  # fmt: skip
for _kind, _members in {
    "image_url": ("url", "detail", "max_long_side_pixel"), "video_url": ("url", "fps", "max_long_side_pixel"),
    "input_audio": ("data", "format"), "audio_url": ("url",),
}.items():  # fmt: skip
    for _member in _members:
        changes(f"drops_{_member}_of_{_kind}", f"Parts with {_kind} lose {_member}.",
                (f"chat.parts.{_kind}.{'kept' if _member in {'url', 'data', 'format'} else _member + '*_kept'}",),
                parts(lambda p, kind=_kind, member=_member: p[kind].pop(member)
                      if isinstance(p.get(kind), dict) and member in p[kind] else None), "chat")  # fmt: skip
changes("invents_image_detail", "Images without detail are given one.", ("chat.parts.image_url.detail_may_lack",),
        parts(lambda p: p["image_url"].setdefault("detail", "auto")
              if isinstance(p.get("image_url"), dict) else None), "chat")  # fmt: skip
refuses("wants_image_detail", "Images without detail are refused.", ("chat.parts.image_url.detail_may_lack",),
        lambda b: _any_part(b, lambda p: p["type"] == "image_url" and "detail" not in p["image_url"]), "chat")  # fmt: skip
refuses("judges_parts", "Parts that do not fit what is known of their type are refused.", ("chat.parts.malformed.*",),
        lambda b: _any_part(b, lambda p: not {
            "text": lambda: isinstance(p.get("text"), str),
            "image_url": lambda: isinstance(p.get("image_url"), dict) and isinstance(p["image_url"].get("url"), str),
            "video_url": lambda: isinstance(p.get("video_url"), dict) and isinstance(p["video_url"].get("url"), str),
            "audio_url": lambda: isinstance(p.get("audio_url"), dict),
            "input_audio": lambda: isinstance(p.get("input_audio"), dict) and {"data", "format"} <= p["input_audio"].keys()
            and isinstance(p["input_audio"]["data"], str),
        }.get(p["type"], lambda: True)()), "chat")  # fmt: skip
refuses("refuses_unknown_parts", "Parts of unknown types are refused.", ("chat.parts.unknown.*",),
        lambda b: _any_part(b, lambda p: p.get("type") not in KNOWN_PARTS), "chat")  # fmt: skip
accepts("takes_anything_for_a_part", "Content arrays may hold anything.", ("chat.parts.not_an_object_refused",),
        lambda b: _has(b, lambda m: isinstance(m["content"], list) and any(not isinstance(p, dict) for p in m["content"])), "chat")  # fmt: skip
changes(
    "drops_names",
    "Messages lose their name.",
    ("chat.messages.name.on_*",),
    messages(lambda m: m.pop("name", None)),
    "chat",
)
for _role in ("system", "assistant"):
    refuses(f"wants_content_of_{_role}", f"Messages of the role {_role} need content.",
            (f"chat.messages.content.{_role}_may_lack", f"chat.messages.content.{_role}_null"),
            lambda b, role=_role: _has(b, lambda m: m["role"] == role and m.get("content") is None), "chat")  # fmt: skip
for _role in ("system", "assistant", "tool", "developer"):
    refuses(f"refuses_empty_{_role}", f"Empty content of the role {_role} is refused.",
            (f"chat.messages.content.{_role}_may_be_empty",),
            lambda b, role=_role: _has(b, lambda m: m["role"] == role and m["content"] in ("", [])), "chat")  # fmt: skip
refuses("refuses_white_space", "User messages of white space are refused.",
        ("chat.messages.content.user_white_space_accepted",),
        lambda b: _has(b, lambda m: not m["content"].strip()), "chat")  # fmt: skip
refuses("refuses_empty_text_parts", "Text parts without text are refused.",
        ("chat.messages.content.user_empty_part_accepted",),
        lambda b: _any_part(b, lambda p: p["text"] == ""), "chat")  # fmt: skip
refuses("wants_names", "Messages without a name are refused.", ("chat.messages.name.may_lack",),
        lambda b: _has(b, lambda m: "name" not in m), "chat")  # fmt: skip
for _role in ("user", "developer", "tool", "function"):
    accepts(f"wants_no_content_of_{_role}", f"Messages of the role {_role} may lack content.",
            (f"chat.messages.content.{_role}_needs_it",),
            lambda b, role=_role: _has(b, lambda m: m["role"] == role and "content" not in m), "chat")  # fmt: skip
    if _role != "function":
        accepts(f"takes_null_of_{_role}", f"Messages of the role {_role} may have null content.",
                (f"chat.messages.content.{_role}_null_refused",),
                lambda b, role=_role: _has(b, lambda m: m["role"] == role and m["content"] is None), "chat")  # fmt: skip
accepts("takes_empty_users", "User messages may be empty.",
        ("chat.messages.content.user_empty_*_refused", "chat.messages.content.every_user_message"),
        lambda b: _has(b, lambda m: m["role"] == "user" and m["content"] in ("", [])), "chat")  # fmt: skip
accepts("judges_the_last_user_only", "Only the last user message must have content.",
        ("chat.messages.content.every_user_message",),
        lambda b: len(b["messages"]) > 1 and b["messages"][-1].get("content") not in ("", [])
        and _has(b, lambda m: m["role"] == "user" and m["content"] in ("", [])), "chat")  # fmt: skip
accepts("takes_numbers_for_content", "Content may be a number.", ("chat.messages.content.number_refused",),
        lambda b: _has(b, lambda m: isinstance(m["content"], (int, float))), "chat")  # fmt: skip
accepts("takes_objects_for_content", "Content may be an object.", ("chat.messages.content.object_refused",),
        lambda b: _has(b, lambda m: isinstance(m["content"], dict)), "chat")  # fmt: skip
accepts("takes_any_role", "Roles may be any string.",
        ("chat.messages.role.unknown_refused", "chat.messages.role.case_sensitive", "chat.messages.role.bad_one_among_good"),
        lambda b: _has(b, lambda m: m["role"] not in (*ROLES, "root")), "chat")  # fmt: skip
accepts("takes_root", "The role root is taken on the baseline.", ("chat.messages.role.root_refused",),
        lambda b: _has(b, lambda m: m["role"] == "root"), "chat")  # fmt: skip
accepts("takes_roles_in_any_case", "Roles may be in capitals.", ("chat.messages.role.case_sensitive",),
        lambda b: _has(b, lambda m: m["role"] not in ROLES and m["role"].lower() in ROLES), "chat")  # fmt: skip
accepts("takes_functions_without_name", "Function messages need no name.", ("chat.messages.name.function_needs_it",),
        lambda b: _has(b, lambda m: m["role"] == "function" and m.get("name") is None), "chat")  # fmt: skip
accepts("takes_tools_without_call_id", "Tool messages need no call id.",
        ("chat.messages.tool_call_id.needed_on_tool", "chat.messages.tool_call_id.null_refused"),
        lambda b: _has(b, lambda m: m["role"] == "tool" and m.get("tool_call_id") is None), "chat")  # fmt: skip
refuses("wants_call_ids_everywhere", "Every message needs a tool call id.",
        ("chat.messages.tool_call_id.not_needed_elsewhere",),
        lambda b: _has(b, lambda m: "tool_call_id" not in m), "chat")  # fmt: skip
refuses("checks_call_ids", "Tool messages must answer a call of the message before, once.",
        ("chat.messages.tool_call_id.linkage_not_checked",),
        lambda b: _has(b, lambda m: m["role"] == "tool") and (
            sorted(m["tool_call_id"] for m in b["messages"] if m["role"] == "tool")
            != sorted(c["id"] for m in b["messages"] for c in m.get("tool_calls") or ())), "chat")  # fmt: skip
changes("forgets_tools_of_messages", "tools of messages reach the worker.",
        ("chat.messages.tools.dropped_on_*",), messages(lambda m: m.setdefault("tools", [])
                                                        if m["role"] in {"system", "developer"} else None), "chat")  # fmt: skip
refuses("refuses_tools_on_messages", "Messages with tools are refused.", ("chat.messages.tools.accepted_on_baseline",),
        lambda b: _has(b, lambda m: "tools" in m), "chat")  # fmt: skip
changes("drops_tool_calls", "Assistant messages lose their tool calls.", ("chat.messages.tool_calls.*",),
        messages(lambda m: m.pop("tool_calls", None)), "chat")  # fmt: skip
changes("reverses_tool_calls", "Tool calls arrive backwards.", ("chat.messages.tool_calls.order_kept",),
        messages(lambda m: m["tool_calls"].reverse()), "chat")  # fmt: skip
changes("drops_unknown_keys_of_tool_calls", "Tool calls lose keys that are not known.", ("chat.unknown.in_tool_call",
        "chat.unknown.in_tool_call_function"),
        messages(lambda m: [o.pop(k) for c in m["tool_calls"] for o in (c, c["function"]) for k in list(o)
                            if k not in {"id", "type", "function", "name", "arguments"}]), "chat")  # fmt: skip


def _read_arguments(message: Body) -> None:
    """Arguments read as JSON and written anew."""
    from tests.mutants.hooks import loads  # noqa: PLC0415 - beside its opposite

    for call in message["tool_calls"]:
        call["function"]["arguments"] = dumps(loads(call["function"]["arguments"])).decode()


changes("rewrites_arguments", "Arguments of tool calls are parsed and written anew.",
        ("chat.messages.tool_calls.arguments_verbatim",), messages(_read_arguments), "chat")  # fmt: skip
refuses("judges_arguments", "Arguments of tool calls must be JSON.",
        ("chat.messages.tool_calls.arguments_need_not_be_json",),
        lambda b: _has(b, lambda m: any(not c["function"]["arguments"].startswith("{") or
                                        not c["function"]["arguments"].endswith("}") for c in m["tool_calls"])), "chat")  # fmt: skip
refuses("refuses_calls_beside_content", "Tool calls beside content are refused.", ("chat.messages.tool_calls.beside_content",),
        lambda b: _has(b, lambda m: m["tool_calls"] and m["content"]), "chat")  # fmt: skip
refuses("wants_content_beside_calls", "Tool calls without content are refused.",
        ("chat.messages.tool_calls.without_content",),
        lambda b: _has(b, lambda m: m["tool_calls"] and not m.get("content")), "chat")  # fmt: skip
accepts("takes_calls_without_id", "Tool calls need no id.", ("chat.messages.tool_calls.id_needed",),
        lambda b: _has(b, lambda m: any(c.get("id") is None for c in m["tool_calls"])), "chat")  # fmt: skip
accepts("takes_calls_without_name", "Tool calls need no name.", ("chat.messages.tool_calls.name_needed",),
        lambda b: _has(b, lambda m: any(c["function"].get("name") is None for c in m["tool_calls"])), "chat")  # fmt: skip
changes("drops_call_ids", "Tool messages lose their call id.", ("chat.messages.tool_call_id.kept",),
        messages(lambda m: m.pop("tool_call_id", None)), "chat")  # fmt: skip
changes("drops_reasoning_content", "Assistant messages lose their reasoning.",
        ("chat.messages.reasoning_content.*", "chat.messages.reasoning.becomes_reasoning_content"),
        messages(lambda m: m.pop("reasoning_content", None)), "chat")  # fmt: skip
changes("keeps_both_reasonings", "reasoning is sent under both names.", ("chat.messages.reasoning.alias_not_repeated",),
        messages(lambda m: m.update(reasoning=m["reasoning_content"])), "chat")  # fmt: skip
refuses("refuses_reasoning", "The name reasoning is refused.", ("chat.messages.reasoning.accepted",),
        lambda b: _has(b, lambda m: "reasoning" in m), "chat")  # fmt: skip
accepts("takes_both_reasonings", "Both names of reasoning may be there.", ("chat.messages.reasoning.both_refused",),
        lambda b: _has(b, lambda m: "reasoning" in m and "reasoning_content" in m), "chat")  # fmt: skip
changes("shortens_numbers_of_parts", "Numbers in parts are written as integers.", ("chat.parts.unknown.number_text_kept",),
        parts(lambda p: p.update({k: Number(str(int(float(v)))) for k, v in p.items() if isinstance(v, Number)})), "chat")  # fmt: skip

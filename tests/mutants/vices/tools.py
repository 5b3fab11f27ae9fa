"""Vices of tools, tool choice and structured output."""

# ruff: noqa: E501 - a mutant is a row of a table, and a row is best on a line
from __future__ import annotations

from tests.mutants.edits import accepts, changes, refuses, shortened
from tests.mutants.hooks import mapped

BAD_SCHEMAS = {
    "string": lambda s: isinstance(s, str), "array": lambda s: isinstance(s, list), "true": lambda s: s is True,
    "false": lambda s: s is False, "number": lambda s: isinstance(s, (int, float)) and not isinstance(s, bool),
    "null": lambda s: s is None,
}  # fmt: skip


def _kind(body: dict[str, object]) -> str:
    """What a tool choice is: the string, or the name of its form."""
    choice = body["tool_choice"]
    if isinstance(choice, str):
        return choice
    assert isinstance(choice, dict)
    return "named" if choice["type"] == "function" else f"allowed_{choice['mode']}"


changes("reverses_tools", "Tools arrive backwards.", ("chat.tools.order_kept",), lambda b: b["tools"].reverse(), "chat")
changes("sends_ten_tools", "Tools after the tenth are dropped.", ("chat.tools.many_kept",),
        lambda b: b.update(tools=b["tools"][:10]), "chat")  # fmt: skip
changes("drops_parameters", "Tools lose their parameters.",
        ("chat.tools.parameters_verbatim", "chat.tools.parameters_numbers_kept", "chat.tools.parameters_number_text_kept"),
        lambda b: [t["function"].pop("parameters", None) for t in b["tools"]] and None, "chat")  # fmt: skip
changes("shortens_numbers_of_parameters", "Numbers in parameters lose trailing zeros.", ("chat.tools.parameters_number_text_kept",),
        lambda b: b.update(tools=mapped(b["tools"], shortened)), "chat")  # fmt: skip
changes("drops_descriptions", "Tools lose their description.", ("chat.tools.description_verbatim",),
        lambda b: [t["function"].pop("description", None) for t in b["tools"]] and None, "chat")  # fmt: skip
refuses("wants_parameters", "Tools without parameters are refused.", ("chat.tools.without_parameters_accepted",),
        lambda b: any("parameters" not in t["function"] for t in b["tools"]), "chat")  # fmt: skip
refuses("refuses_empty_tools", "An empty array of tools is refused.", ("chat.tools.empty_accepted",),
        lambda b: b["tools"] == [], "chat")  # fmt: skip
changes("drops_unknown_keys_of_tools", "Tools lose keys that are not known.", ("chat.unknown.in_tool", "chat.unknown.in_tool_function"),
        lambda b: [o.pop(k) for t in b["tools"] for o in (t, t["function"]) for k in list(o)
                   if k not in {"type", "function", "name", "description", "parameters", "strict"}] and None, "chat")  # fmt: skip
for _choice in ("none", "auto", "required", "named", "allowed_auto", "allowed_required"):
    changes(f"drops_tool_choice_{_choice}", f"The tool choice {_choice} is lost.", (f"chat.tool_choice.{_choice}_kept",),
            lambda b, choice=_choice: b.pop("tool_choice") and None if _kind(b) == choice else None, "chat")  # fmt: skip
    if _choice in {"none", "auto"}:
        refuses(f"wants_tools_for_{_choice}", f"The tool choice {_choice} needs tools.", (f"chat.tool_choice.{_choice}_needs_no_tools",),
                lambda b, choice=_choice: _kind(b) == choice and not b.get("tools"), "chat")  # fmt: skip
    else:
        accepts(f"wants_no_tools_for_{_choice}", f"The tool choice {_choice} needs no tools.",
                (f"chat.tool_choice.{_choice}_needs_tools", f"chat.tool_choice.{_choice}_needs_some_tool"),
                lambda b, choice=_choice: _kind(b) == choice and not b.get("tools"), "chat")  # fmt: skip
accepts("takes_null_for_tools", "tools: null counts as tools.", ("chat.tool_choice.required_with_null_tools_refused",),
        lambda b: _kind(b) == "required" and "tools" in b and b["tools"] is None, "chat")  # fmt: skip
refuses("refuses_null_tool_choice", "tool_choice: null needs tools.", ("chat.tool_choice.null_needs_no_tools",),
        lambda b: b["tool_choice"] is None, "chat")  # fmt: skip
accepts("takes_any_function", "The chosen function need not be among the tools.", ("chat.tool_choice.named_missing_refused",),
        lambda b: bool(b["tools"]) and _kind(b) == "named", "chat")  # fmt: skip
accepts("compares_names_in_any_case", "The chosen function is found in any case.", ("chat.tool_choice.name_exact",),
        lambda b: b["tool_choice"]["function"]["name"].lower().strip() in
        {t["function"]["name"].lower().strip() for t in b["tools"]}, "chat")  # fmt: skip
refuses("knows_the_first_tool_only", "Only the first tool may be chosen.", ("chat.tool_choice.named_among_several_accepted",),
        lambda b: b["tool_choice"]["function"]["name"] != b["tools"][0]["function"]["name"], "chat")  # fmt: skip
accepts("takes_any_allowed_tools", "Allowed tools need not be among the tools.",
        ("chat.tool_choice.allowed_missing_refused", "chat.tool_choice.allowed_one_missing_refused"),
        lambda b: bool(b["tools"]) and _kind(b).startswith("allowed"), "chat")  # fmt: skip
accepts("looks_at_the_first_allowed_tool", "Only the first allowed tool is looked for.", ("chat.tool_choice.allowed_one_missing_refused",),
        lambda b: b["tool_choice"]["tools"][0]["name"] in {t["function"]["name"] for t in b["tools"]}
        and b["tool_choice"]["mode"] in ("auto", "required"), "chat")  # fmt: skip
refuses("wants_all_tools_allowed", "Allowed tools must be all of them.", ("chat.tool_choice.allowed_subset_accepted",),
        lambda b: len(b["tool_choice"]["tools"]) < len(b["tools"]), "chat")  # fmt: skip
accepts("takes_any_mode", "The mode of allowed tools may be any string.", ("chat.tool_choice.allowed_mode_other_refused",),
        lambda b: b["tool_choice"]["type"] == "allowed_tools" and b["tool_choice"]["mode"] not in ("auto", "required"), "chat")  # fmt: skip
accepts("wants_no_mode", "Allowed tools need no mode.", ("chat.tool_choice.allowed_mode_missing_refused",),
        lambda b: b["tool_choice"]["type"] == "allowed_tools" and b["tool_choice"].get("mode") is None, "chat")  # fmt: skip
accepts("takes_any_choice", "A tool choice may be any string.", ("chat.tool_choice.other_string_refused",),
        lambda b: isinstance(b["tool_choice"], str) and b["tool_choice"] not in ("none", "auto", "required"), "chat")  # fmt: skip
accepts("takes_an_empty_choice", "A tool choice may be an empty object.", ("chat.tool_choice.empty_object_refused",),
        lambda b: b["tool_choice"] == {}, "chat")  # fmt: skip
accepts("takes_unnamed_functions", "A chosen function needs no name.", ("chat.tool_choice.unnamed_function_refused",),
        lambda b: b["tool_choice"]["type"] == "function" and not isinstance((b["tool_choice"].get("function") or {}).get("name"), str), "chat")  # fmt: skip
changes("drops_unknown_keys_of_choices", "Tool choices lose keys that are not known.",
        ("chat.unknown.in_tool_choice", "chat.unknown.in_tool_choice_function", "chat.unknown.in_allowed_tools_entry"),
        lambda b: [o.pop(k) for o in [b["tool_choice"], b["tool_choice"].get("function", {}), *b["tool_choice"].get("tools", ())]
                   for k in list(o) if k not in {"type", "function", "name", "mode", "tools"}] and None, "chat")  # fmt: skip
for _member in ("strict", "schema", "description", "name"):
    changes(f"drops_{_member}_of_json_schema", f"json_schema loses {_member}.",
            (f"chat.response_format.json_schema.{ {'strict': 'strict_*_kept', 'schema': 'schema_verbatim', 'description': 'description_kept', 'name': 'accepted'}[_member] }",),
            lambda b, member=_member: b["response_format"]["json_schema"].pop(member) and None, "chat")  # fmt: skip
changes("invents_strict", "json_schema without strict is given it.", ("chat.response_format.json_schema.strict_not_invented",),
        lambda b: b["response_format"]["json_schema"].setdefault("strict", True) and None, "chat")  # fmt: skip
changes("shortens_numbers_of_schemas", "Numbers in schemas lose trailing zeros.", ("chat.response_format.json_schema.number_text_kept",),
        lambda b: b.update(response_format=mapped(b["response_format"], shortened)), "chat")  # fmt: skip
changes("drops_unknown_keys_of_formats", "response_format loses keys that are not known.",
        ("chat.unknown.in_response_format", "chat.unknown.in_json_schema"),
        lambda b: [o.pop(k) for o in (b["response_format"], b["response_format"].get("json_schema", {})) for k in list(o)
                   if k not in {"type", "json_schema", "name", "schema", "strict", "description"}] and None, "chat")  # fmt: skip
refuses("refuses_empty_schemas", "An empty schema is refused.", ("chat.response_format.json_schema.empty_schema_accepted",),
        lambda b: b["response_format"]["json_schema"]["schema"] == {}, "chat")  # fmt: skip
refuses("refuses_short_names", "Names of one letter are refused.", ("chat.response_format.json_schema.one_letter_name_accepted",),
        lambda b: len(b["response_format"]["json_schema"]["name"]) == 1, "chat")  # fmt: skip
for _kind_name, _test in BAD_SCHEMAS.items():
    _group = "boolean" if _kind_name in {"true", "false"} else _kind_name
    accepts(f"takes_{_kind_name}_for_a_schema", f"A schema may be {_kind_name}.",
            (f"chat.response_format.json_schema.{_kind_name}_schema_refused", f"chat.response_format.json_schema.{_group}_schema_never_dispatched"),
            lambda b, test=_test: "schema" in b["response_format"]["json_schema"] and test(b["response_format"]["json_schema"]["schema"]), "chat")  # fmt: skip
accepts("wants_no_schema", "json_schema needs no schema.", ("chat.response_format.json_schema.missing_schema_refused",),
        lambda b: "schema" not in b["response_format"]["json_schema"], "chat")  # fmt: skip
accepts("takes_empty_names", "Names of schemas may be empty.", ("chat.response_format.json_schema.empty_name_refused",),
        lambda b: b["response_format"]["json_schema"]["name"] == "", "chat")  # fmt: skip
accepts("wants_no_name", "json_schema needs no name.", ("chat.response_format.json_schema.missing_name_refused",),
        lambda b: b["response_format"]["json_schema"].get("name") is None, "chat")  # fmt: skip
accepts("wants_no_json_schema", "The type json_schema needs no json_schema.", ("chat.response_format.json_schema.needed",),
        lambda b: b["response_format"]["type"] == "json_schema" and not isinstance(b["response_format"].get("json_schema"), dict), "chat")  # fmt: skip
accepts("takes_bad_schemas_of_streams", "In a stream a schema may be anything.", ("chat.response_format.json_schema.refused_in_stream",),
        lambda b: b["stream"] is True and not isinstance(b["response_format"]["json_schema"].get("schema"), dict), "chat")  # fmt: skip
accepts("takes_any_format", "Types of response_format may be anything.",
        ("chat.response_format.unknown_type_refused", "chat.response_format.missing_type_refused"),
        lambda b: b["response_format"].get("type") not in ("text", "json_object", "json_schema"), "chat")  # fmt: skip
accepts("takes_a_bare_format", "response_format may be a string.", ("chat.response_format.bare_string_refused",),
        lambda b: isinstance(b["response_format"], str), "chat")  # fmt: skip

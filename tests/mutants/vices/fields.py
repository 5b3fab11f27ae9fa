"""Vices of single fields of a chat request: dropped, invented, turned on, changed."""

# ruff: noqa: E501 - a mutant is a row of a table, and a row is best on a line
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.mutants.edits import changes, refuses
from tests.mutants.hooks import Number

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.mutants.hooks import Body

INVENTED: dict[str, Any] = {
    "temperature": 1, "top_p": 1, "n": 1, "presence_penalty": 0, "frequency_penalty": 0, "stop": [], "logit_bias": {},
    "top_logprobs": 0, "parallel_tool_calls": True, "response_format": {"type": "text"}, "user": "someone",
    "stream_options": {"include_usage": True}, "tools": [], "tool_choice": "auto", "chat_template_kwargs": {},
    "reasoning_effort": "medium", "thinking": {"type": "enabled"},
}  # fmt: skip
SWITCHES = ("logprobs", "ignore_eos", "no_stop_trim", "continue_final_message", "return_hidden_states")
ON_BY_DEFAULT = ("skip_special_tokens", "separate_reasoning", "stream_reasoning")


def _setting(field: str, *, value: Any, when: Callable[[Body], bool]) -> Callable[[Body], None]:
    def edit(body: Body) -> None:
        if when(body):
            body[field] = value

    return edit


for _field, _value in INVENTED.items():
    changes(
        f"invents_{_field}", f"A request without {_field} is given one.", (f"chat.{_field}.not_invented",),
        _setting(_field, value=_value, when=lambda body, field=_field: field not in body), "chat",
    )  # fmt: skip
for _field in SWITCHES:
    changes(
        f"turns_{_field}_on", f"A request without {_field} is sent with it on.", (f"chat.{_field}.not_turned_on",),
        _setting(_field, value=True, when=lambda body, field=_field: field not in body), "chat",
    )  # fmt: skip
    if _field != "logprobs":
        changes(
            f"turns_false_{_field}_on", f"{_field}: false is sent as true.", (f"chat.{_field}.false_stays_off",),
            _setting(_field, value=True, when=lambda body, field=_field: body.get(field) is False), "chat",
        )  # fmt: skip
for _field in ON_BY_DEFAULT:
    changes(
        f"turns_{_field}_off", f"A request without {_field} is sent with it off.", (f"chat.{_field}.default_true",),
        _setting(_field, value=False, when=lambda body, field=_field: field not in body), "chat",
    )  # fmt: skip
    changes(
        f"ignores_false_{_field}", f"{_field}: false is lost.", (f"chat.{_field}.false_reaches_worker",),
        lambda body, field=_field: body.pop(field) and None if body.get(field) is False else None, "chat",
    )  # fmt: skip
    changes(
        f"inverts_true_{_field}", f"{_field}: true becomes false.", (f"chat.{_field}.true_stays_true",),
        _setting(_field, value=False, when=lambda body, field=_field: body.get(field) is True), "chat",
    )  # fmt: skip
changes(
    "streams_by_default", "A request that says nothing of streams is sent as one.",
    ("chat.stream.not_turned_on", "chat.stream.null_stays_off", "chat.stream.false_stays_off"),
    _setting("stream", value=True, when=lambda _: True), "chat",
)  # fmt: skip
changes(
    "makes_null_a_value", "null becomes a value of the field.",
    ("chat.request.null_never_becomes_a_value",), lambda body: {k: 0 if v is None else v for k, v in body.items()},
    "chat",
)  # fmt: skip
changes(
    "never_migrates_max_tokens", "max_tokens keeps its name.",
    ("chat.max_tokens.migrated", "chat.max_tokens.migrated_away", "chat.max_tokens.migrated_when_null",
     "chat.max_tokens.migrated_in_stream"),
    lambda body: {"max_tokens" if k == "max_completion_tokens" else k: v for k, v in body.items()}, "chat",
)  # fmt: skip
changes(
    "keeps_both_limits", "After the migration max_tokens is still there.", ("chat.max_tokens.migrated_away",),
    lambda body: body.setdefault("max_tokens", body["max_completion_tokens"]) and None, "chat",
)  # fmt: skip
changes(
    "lets_max_tokens_win", "max_tokens overrides max_completion_tokens.", ("chat.max_tokens.never_overrides",),
    lambda body: body.update(max_completion_tokens=body["max_tokens"]), "chat",
)  # fmt: skip
changes(
    "invents_a_limit", "A request without a limit is given one.", ("chat.max_completion_tokens.not_invented",),
    lambda body: body.setdefault("max_completion_tokens", 4096) and None, "chat",
)  # fmt: skip
changes(
    "keeps_only_the_first_choice", "n is forwarded as 1.", ("chat.n.all_choices_returned",),
    _setting("n", value=1, when=lambda body: "n" in body), "chat",
)  # fmt: skip
changes(
    "makes_stop_an_array", "A single stop string becomes an array.", ("chat.stop.string_stays_string",),
    lambda body: body.update(stop=[body["stop"]]) if isinstance(body["stop"], str) else None, "chat",
)  # fmt: skip
for _field, _breaks in {
    "stop": ("chat.stop.sequences_kept",), "logit_bias": ("chat.logit_bias.pairs_kept",),
    "user": ("chat.user.kept_verbatim",), "lora_path": ("chat.lora_path.kept_verbatim",),
    "rid": ("chat.rid.sent_to_worker",), "sampling_seed": ("chat.sampling_seed.digits_kept",),
    "stop_token_ids": ("chat.stop_token_ids.order_kept",), "logprobs": ("chat.request.all_fields_at_once",),
    "chat_template_kwargs": ("chat.chat_template_kwargs.entries_kept", "chat.unknown.in_chat_template_kwargs"),
    "continue_final_message": ("chat.continue_final_message.assistant_stays_last",),
    "return_hidden_states": ("chat.extensions.all_at_once",), "thinking": ("chat.thinking.*_kept",),
    "reasoning_effort": ("chat.reasoning_effort.*_kept",), "tools": ("chat.tools.function_kept",),
    "tool_choice": ("chat.tool_choice.*_kept",), "response_format": ("chat.response_format.*accepted",),
    "stream_options": ("chat.usage.stream.true_reaches_engine", "chat.usage.stream.options_*"),
    "seed": ("chat.request.seed_digits_kept",), "regex": ("chat.constraints.text_kept_verbatim",),
    "max_completion_tokens": ("chat.max_completion_tokens.own_name",),
}.items():  # fmt: skip
    changes(
        f"drops_{_field}", f"{_field} never reaches the worker.", _breaks,
        lambda body, field=_field: body.pop(field, None) and None, "chat",
    )  # fmt: skip
changes(
    "reverses_stop_token_ids", "Stop token ids arrive backwards.", ("chat.stop_token_ids.order_kept",),
    lambda body: body["stop_token_ids"].reverse(), "chat",
)  # fmt: skip
changes(
    "reads_template_arguments", "Template arguments become fields of the request.",
    ("chat.chat_template_kwargs.not_interpreted",), lambda body: body.update(body["chat_template_kwargs"]), "chat",
)  # fmt: skip
changes(
    "keeps_effort_a_number", "A number in reasoning_effort is forwarded as a number.",
    ("chat.reasoning_effort.*_becomes_string", "chat.reasoning_effort.converted_in_stream"),
    lambda body: body.update(reasoning_effort=Number(body["reasoning_effort"]))
    if body["reasoning_effort"].lstrip("-").replace(".", "").isdecimal() else None, "chat",
)  # fmt: skip
changes(
    "rounds_effort", "reasoning_effort is rounded to an integer.", ("chat.reasoning_effort.decimal_becomes_string",),
    lambda body: body.update(reasoning_effort=str(int(float(body["reasoning_effort"])))), "chat",
)  # fmt: skip
changes(
    "derives_thinking_from_effort", "reasoning_effort turns thinking on.", ("chat.thinking.not_derived_from_effort",),
    lambda body: body.setdefault("thinking", {"type": "enabled"}) and None if body["reasoning_effort"] else None, "chat",
)  # fmt: skip
changes(
    "derives_effort_from_thinking", "thinking sets reasoning_effort.", ("chat.thinking.effort_not_derived",),
    lambda body: body.setdefault("reasoning_effort", "high") and None if body["thinking"] else None, "chat",
)  # fmt: skip
changes(
    "thinks_in_templates", "thinking becomes a template argument.", ("chat.thinking.no_template_variables",),
    lambda body: body.update(chat_template_kwargs={"enable_thinking": True}) if body["thinking"] else None, "chat",
)  # fmt: skip
changes(
    "makes_null_thinking_an_object", "thinking: null becomes an object.", ("chat.thinking.null_sets_nothing",),
    lambda body: body.update(thinking={"type": "disabled"}) if body["thinking"] is None else None, "chat",
)  # fmt: skip
for _member in ("type", "effort", "keep", "clear_thinking"):
    changes(
        f"drops_{_member}_of_thinking", f"thinking loses its {_member}.", (f"chat.thinking.{_member}*_kept",),
        lambda body, member=_member: body["thinking"].pop(member) and None, "chat",
    )  # fmt: skip
for _field in ("thinking", "reasoning_effort", "regex", "ebnf", "response_format", "tools", "stream_options"):
    refuses(
        f"refuses_{_field}", f"A request with {_field} is refused.", (f"chat.{_field.replace('regex', 'constraints')}*",)
        if _field != "ebnf" else ("chat.constraints.ebnf_alone_accepted",),
        lambda body, field=_field: body.get(field) is not None, "chat",
    )  # fmt: skip

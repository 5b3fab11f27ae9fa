"""Vices of rules: single rules not looked at, or looked at too strictly (chat and completions)."""

# ruff: noqa: E501 - a mutant is a row of a table, and a row is best on a line
from __future__ import annotations

from typing import Any

from tests.mutants.edits import accepts, known_keys, refuses
from tests.mutants.vice import add, swap

VALIDATE = "reference_server.stages.validate"
SKIPPED: dict[str, tuple[str, ...]] = {
    "chat][0": ("chat.top_logprobs.*refused*", "chat.top_logprobs.requires_logprobs", "chat.top_logprobs.zero_needs_logprobs",
                "codes.validation.top_logprobs_without_logprobs"),
    "chat][1": ("chat.stream_options.requires_stream", "chat.stream_options.refused_*", "chat.stream_options.empty_needs_stream",
                "codes.validation.stream_options_without_stream"),
    "chat][2": ("chat.min_tokens.above_*",),
    "chat][3": ("chat.constraints.*_with_json_*_refused", ),
    "chat][4": ("chat.constraints.regex_with_ebnf_refused",),
    "chat][5": ("chat.tool_choice.*_needs_tools", "chat.tool_choice.named_missing_refused", "codes.validation.tool_choice_missing_tool"),
    "chat][6": ("chat.logit_bias.key_is_token_id",),
    "completions][0": ("completions.stream_options.without_stream", "completions.stream_options.with_stream_false",
                       "completions.stream_options.empty_without_stream"),
    "completions][1": ("completions.extensions.min_tokens_above_max",),
    "completions][2": ("completions.extensions.regex_with_*", "completions.extensions.ebnf_with_json_schema"),
    "completions][3": ("completions.best_of.equal_to_n", "completions.best_of.below_n"),
    "completions][4": ("completions.best_of.with_stream",),
}  # fmt: skip

for _place, _breaks in SKIPPED.items():
    _route, _index = _place.split("][")
    add(f"skips_rule_{_index}_of_{_route}", f"Rule {_index} between fields of {_route} is not looked at.", _breaks,
        swap(f"{VALIDATE}:_RULES[{_place}]", lambda _original, _body: None))  # fmt: skip


def _no_bounds(original: Any, request: Any, profile: Any) -> None:
    request.out_of_bounds = []
    original(request, profile)


add("knows_no_bounds", "No field has a range.", ("errors.validation.range.refused", "codes.validation.field_range", "chat.top_k.below_minus_one_refused"),
    swap("reference_server.pipeline:validate", _no_bounds))  # fmt: skip
add("takes_zero_for_top_k", "top_k may be 0.", ("chat.top_k.zero_refused",),
    swap(f"{VALIDATE}:_beyond_the_model", lambda _original, _request: []))  # fmt: skip

CHAT_REFUSALS: dict[str, tuple[str, str, Any]] = {
    "refuses_minus_one_for_top_k": ("top_k: -1 is refused.", "chat.top_k.minus_one_disables", lambda b: b["top_k"] == -1),
    "refuses_one_for_top_k": ("top_k: 1 is refused.", "chat.top_k.one_accepted", lambda b: b["top_k"] == 1),
    "refuses_regex_with_text": ("A regex beside the text format is refused.", "chat.constraints.regex_with_text_accepted",
                                lambda b: b.get("regex") and b["response_format"]["type"] == "text"),
    "refuses_ebnf_with_text": ("An EBNF beside the text format is refused.", "chat.constraints.ebnf_with_text_accepted",
                               lambda b: b.get("ebnf") and b["response_format"]["type"] == "text"),
    "refuses_ebnf_alone": ("An EBNF is refused.", "chat.constraints.ebnf_alone_accepted", lambda b: b["ebnf"] is not None),
    "counts_null_constraints": ("A null constraint counts.", "chat.constraints.null_is_no_constraint",
                                lambda b: sum(n in b for n in ("regex", "ebnf")) + (b.get("response_format") or {"type": "text"}).get("type").startswith("json") > 1),
    "refuses_stream_options_of_streams": ("stream_options are refused in a stream.", "chat.stream_options.accepted_with_stream",
                                          lambda b: b["stream"] and b.get("stream_options")),
    "counts_null_stream_options": ("stream_options: null needs a stream.", "chat.stream_options.null_needs_no_stream",
                                   lambda b: b["stream_options"] is None and not b.get("stream")),
    "refuses_white_space_stops": ("Stop sequences of white space are refused.", "chat.stop.white_space_is_not_empty",
                                  lambda b: any(not s.strip() for s in ([b["stop"]] if isinstance(b["stop"], str) else b["stop"]))),
    "refuses_no_stops": ("An empty array of stop sequences is refused.", "chat.stop.empty_list_accepted", lambda b: b["stop"] == []),
    "refuses_logprobs_alone": ("logprobs need top_logprobs.", "chat.logprobs.alone_accepted",
                               lambda b: b["logprobs"] and b.get("top_logprobs") is None),
    "refuses_top_logprobs": ("top_logprobs are refused.", "chat.top_logprobs.accepted_with_logprobs", lambda b: b["top_logprobs"] is not None),
    "counts_null_top_logprobs": ("top_logprobs: null needs logprobs.", "chat.top_logprobs.null_needs_no_logprobs",
                                 lambda b: b["top_logprobs"] is None and not b.get("logprobs")),
    "refuses_empty_logit_bias": ("An empty logit_bias is refused.", "chat.logit_bias.empty_accepted", lambda b: b["logit_bias"] == {}),
    "wants_min_below_max": ("min_tokens must be less than max_completion_tokens.", "chat.min_tokens.equal_accepted",
                            lambda b: b["min_tokens"] >= b["max_completion_tokens"]),
    "refuses_min_tokens_with_limit": ("min_tokens beside a limit is refused.", "chat.min_tokens.below_accepted",
                                      lambda b: 0 < b["min_tokens"] < b["max_completion_tokens"]),
    "wants_min_below_migrated": ("min_tokens must be less than max_tokens.", "chat.min_tokens.equal_to_migrated_accepted",
                                 lambda b: b["min_tokens"] >= b["max_tokens"]),
    "compares_min_with_max_tokens": ("min_tokens is compared with max_tokens even beside max_completion_tokens.",
                                     "chat.min_tokens.compared_with_max_completion_tokens", lambda b: b["min_tokens"] > b["max_tokens"]),
    "wants_a_limit_for_min_tokens": ("min_tokens without a limit is refused.", "chat.min_tokens.unlimited_accepted",
                                     lambda b: b["min_tokens"] and not (b.get("max_completion_tokens") or b.get("max_tokens"))),
    "refuses_zero_for_min_tokens": ("min_tokens: 0 is refused.", "chat.min_tokens.zero_accepted", lambda b: b["min_tokens"] == 0),
    "refuses_max_tokens": ("max_tokens is refused.", "chat.max_tokens.still_accepted", lambda b: b.get("max_tokens") is not None),
    "refuses_other_efforts": ("reasoning_effort may be low, medium or high only.", "chat.reasoning_effort.any_string_kept",
                              lambda b: b["reasoning_effort"] not in ("low", "medium", "high")),
    "refuses_number_efforts": ("reasoning_effort must be a string.", "chat.reasoning_effort.integer_becomes_string",
                               lambda b: not isinstance(b["reasoning_effort"], str)),
    "wants_type_of_thinking": ("thinking needs a type.", "chat.thinking.type_may_lack", lambda b: "type" not in b["thinking"]),
    "refuses_minus_zero": ("-0.0 is refused.", "chat.numbers.negative_zero_accepted",
                           lambda b: any(str(v) == "-0.0" for v in b.values())),
    "refuses_null": ("A field that is null is refused.", "chat.request.null_counts_as_unset", lambda b: any(v is None for v in b.values())),
    "refuses_unknown_fields": ("Unknown fields are refused.", "chat.unknown.kept", lambda b: not b.keys() <= known_keys()),
}  # fmt: skip
for _name, (_about, _clause, _when) in CHAT_REFUSALS.items():
    refuses(_name, _about, (_clause,), _when, "chat")

CHAT_ACCEPTANCES: dict[str, tuple[str, tuple[str, ...], Any]] = {
    "takes_all_constraints": ("Any constraints may be combined.", ("chat.constraints.all_three_refused",),
                              lambda b: sum(b.get(n) is not None for n in ("regex", "ebnf", "response_format")) == 3),
    "takes_empty_stops": ("Stop sequences may be empty.", ("chat.stop.empty_string_refused", "chat.stop.empty_among_others_refused"),
                          lambda b: b["stop"] == "" or "" in b["stop"]),
    "takes_any_thinking": ("thinking.type may be any string.", ("chat.thinking.other_type_refused", "chat.thinking.type_case_sensitive",
                           "chat.thinking.empty_type_refused"), lambda b: isinstance(b["thinking"].get("type"), str)),
    "takes_min_over_migrated": ("min_tokens is not compared with max_tokens.", ("chat.min_tokens.above_migrated_max_tokens_refused",),
                                lambda b: b["min_tokens"] > b["max_tokens"] and not b.get("max_completion_tokens")),
    "lets_max_tokens_raise_the_limit": ("min_tokens is compared with the greater limit.", ("chat.min_tokens.above_it_refused_despite_max_tokens",),
                                        lambda b: b["min_tokens"] <= max(b["max_tokens"], b["max_completion_tokens"])),
}  # fmt: skip
for _name, (_about, _clauses, _when) in CHAT_ACCEPTANCES.items():
    accepts(_name, _about, _clauses, _when, "chat")

COMPLETION_REFUSALS: dict[str, tuple[str, str, Any]] = {
    "refuses_best_of": ("best_of is refused.", "completions.best_of.above_n", lambda b: b.get("best_of") is not None),
    "wants_n_for_best_of": ("best_of needs n.", "completions.best_of.without_n", lambda b: b["best_of"] and b.get("n") is None),
    "refuses_best_of_beside_stream": ("best_of beside stream is refused, also when it is false.", "completions.best_of.with_stream_false",
                                      lambda b: b["best_of"] and "stream" in b),
    "refuses_stream_options_of_completions": ("stream_options are refused.", "completions.stream_options.with_stream",
                                              lambda b: b["stream_options"] is not None),
    "wants_min_below_max_of_completions": ("min_tokens must be less than max_tokens.", "completions.extensions.min_tokens_equal_max",
                                           lambda b: b["min_tokens"] >= b["max_tokens"]),
    "wants_a_limit_of_completions": ("min_tokens needs max_tokens.", "completions.extensions.min_tokens_alone",
                                     lambda b: b["min_tokens"] and b.get("max_tokens") is None),
    "refuses_constraints_of_completions": ("Constraints are refused.", "completions.extensions.one_constraint",
                                           lambda b: b.get("regex") or b.get("ebnf") or b.get("json_schema")),
    "refuses_json_schema_of_completions": ("json_schema is refused.", "completions.extensions.json_schema_text",
                                           lambda b: b.get("json_schema") is not None),
    "refuses_empty_prompts": ("An empty prompt is refused.", "completions.prompt.empty_text", lambda b: b["prompt"] == ""),
    "refuses_arrays_of_prompts": ("Prompts in an array are refused.", "completions.prompt.array_order", lambda b: isinstance(b["prompt"], list)),
    "refuses_zero_logprobs": ("logprobs: 0 is refused.", "completions.logprobs.zero", lambda b: b["logprobs"] == 0),
    "refuses_negative_seeds": ("A negative seed is refused.", "completions.seed.negative", lambda b: b["seed"] < 0),
    "takes_one_stop": ("More than one stop sequence is refused.", "completions.stop.four", lambda b: len(b["stop"]) > 1),
}  # fmt: skip
for _name, (_about, _clause, _when) in COMPLETION_REFUSALS.items():
    refuses(_name, _about, (_clause,), _when, "completions")
for _field in (
    "continue_final_message",
    "separate_reasoning",
    "stream_reasoning",
    "chat_template_kwargs",
    "max_completion_tokens",
):
    refuses(f"refuses_{_field}_of_completions", f"{_field} is refused on completions.", (f"completions.chat_only.{_field}",),
            lambda b, field=_field: field in b, "completions")  # fmt: skip
accepts("takes_token_ids_for_a_prompt", "A prompt may be token ids.", ("completions.prompt.token_ids",),
        lambda b: isinstance(b["prompt"], list) and not all(isinstance(item, str) for item in b["prompt"]), "completions")  # fmt: skip
accepts("takes_objects_for_json_schema", "json_schema may be an object.", ("completions.extensions.json_schema_object",),
        lambda b: isinstance(b["json_schema"], dict), "completions")  # fmt: skip

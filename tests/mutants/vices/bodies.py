"""Vices of forwarding: what the worker gets is not what the client sent."""

# ruff: noqa: E501 - a mutant is a row of a table, and a row is best on a line
from __future__ import annotations

import json
import unicodedata
from typing import Any

from tests.mutants.edits import (
    changes,
    drop_where,
    everywhere,
    known_keys,
    shortened,
    texts,
    through_float,
    through_float32,
    through_int64,
    top_keys,
)
from tests.mutants.hooks import Number, body_bytes, mapped
from tests.mutants.vice import Vice, mutant

NUMBERS = ("chat.numbers.*_not_widened", "chat.numbers.on_every_engine", "completions.numbers.not_widened")
FALSY: tuple[tuple[str, Any], ...] = (
    ("null", None), ("false", False), ("empty_string", ""), ("empty_object", {}), ("empty_array", []),
)  # fmt: skip

changes("widens_decimals", "Decimals pass through four-byte floats.", NUMBERS, lambda b: mapped(b, through_float32))
changes(
    "makes_every_number_a_float", "Integers reach the worker as decimals.",
    ("chat.unknown.integer_stays_integer", "chat.request.integers_stay_integers"), lambda b: mapped(b, through_float),
)  # fmt: skip
changes(
    "shortens_decimals", "Decimals are written anew, trailing zeros lost.",
    ("chat.unknown.trailing_zeros_kept", "chat.unknown.decimal_stays_decimal"),
    lambda b: mapped(b, shortened),
)  # fmt: skip
changes(
    "knows_doubles_only", "Integers beyond 53 bits lose their last digits.",
    ("chat.unknown.sixty_four_bits_kept", "chat.unknown.big_integer_kept", "chat.request.seed_digits_kept"),
    lambda b: mapped(b, through_int64),
)  # fmt: skip
changes(
    "writes_numbers_as_text", "Numbers of unknown fields reach the worker as strings.", ("chat.unknown.*",),
    lambda b: {k: v if k in known_keys() else mapped(v, lambda n: str(n.encoded_json) if isinstance(n, Number) else n)
               for k, v in b.items()},
)  # fmt: skip
changes(
    "drops_minus_of_zero", "-0.0 becomes 0.0.", ("chat.unknown.negative_zero_kept",),
    lambda b: mapped(b, lambda n: Number("0.0") if isinstance(n, Number) and float(n) == 0 else n),
)  # fmt: skip
changes(
    "drops_unknown_fields", "Fields of a chat request that the gateway does not know are dropped.",
    ("chat.unknown.kept", "chat.unknown.several_kept", "chat.unknown.text_kept", "chat.unknown.nested_kept"),
    drop_where(lambda key, _: key not in top_keys("ChatCompletionRequest")), "chat",
)  # fmt: skip
changes(
    "drops_unknown_fields_of_completions", "Fields of a completion that the gateway does not know are dropped.",
    ("completions.unknown_fields.*",), drop_where(lambda key, _: key not in top_keys("CompletionRequest")),
    "completions",
)  # fmt: skip
changes(
    "drops_unknown_fields_inside", "Keys the gateway does not know are dropped from objects inside the body.",
    ("chat.unknown.in_*",), lambda b: [everywhere(drop_where(lambda key, _: key not in known_keys()))(member)
                                       for member in b.values() if isinstance(member, (dict, list))] and None,
)  # fmt: skip
changes(
    "drops_unknown_fields_of_streams", "Only a streamed request loses what is not known.",
    ("chat.unknown.kept_in_stream",),
    lambda b: {k: v for k, v in b.items() if k in top_keys("ChatCompletionRequest") or not b.get("stream")}, "chat",
)  # fmt: skip
for _word, _value in FALSY:
    changes(
        f"drops_{_word}_values", f"Members whose value is {json.dumps(_value)} are dropped.",
        (f"chat.unknown.{_word}_value_kept",),
        everywhere(drop_where(lambda _, member, value=_value: type(member) is type(value) and member == value)),
    )  # fmt: skip
changes(
    "drops_zeros", "Members whose value is 0 are dropped.", ("chat.unknown.zero_value_kept",),
    everywhere(drop_where(lambda _, member: isinstance(member, Number) and float(member) == 0)),
)  # fmt: skip
changes(
    "renames_unknown_fields", "Names of unknown fields become snake case in lower case.",
    ("chat.unknown.name_kept_verbatim",),
    lambda b: {k if k in known_keys() else "_".join(k.lower().split()): v for k, v in b.items()},
)  # fmt: skip
changes(
    "takes_near_names_for_fields", "temperatur and max_token are taken for what was meant.",
    ("chat.unknown.near_names_kept",),
    lambda b: {next((known for known in top_keys("ChatCompletionRequest") if k.lower().replace("-", "_").strip("_ ")
                     in (known, known + "s", known[:-1]) and k != known), k): v for k, v in b.items()},
)  # fmt: skip


def _sorted(value: Any) -> Any:
    """A value whose objects have their keys in alphabetical order."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


changes(
    "sorts_keys", "Objects reach the worker with their keys sorted.",
    ("chat.unknown.nested_order_kept", "chat.tools.parameters_order_kept",
     "chat.response_format.json_schema.schema_order_kept"), _sorted,
)  # fmt: skip


def _reversed(value: Any, inside: bool = False) -> Any:
    """A value whose unknown arrays are reversed."""
    if isinstance(value, dict):
        return {key: _reversed(member, inside or key not in known_keys()) for key, member in value.items()}
    if isinstance(value, list):
        return [_reversed(item, inside) for item in (reversed(value) if inside else value)]
    return value


changes("reverses_unknown_arrays", "Unknown arrays arrive backwards.", ("chat.unknown.array_order_kept",), _reversed)
changes("trims_texts", "White space round texts is cut.", ("chat.messages.content.text_verbatim",), texts(str.strip))
changes(
    "normalises_unicode", "Texts are brought into Unicode's compatibility form.",
    ("chat.messages.content.text_verbatim",), texts(lambda text: unicodedata.normalize("NFKC", text)),
)  # fmt: skip
changes(
    "writes_ascii_only", "Characters beyond ASCII become question marks.",
    ("chat.messages.content.text_verbatim", "chat.unknown.text_kept", "chat.user.kept_verbatim",
     "completions.unicode.prompt", "embeddings.input.unicode", "chat.constraints.text_kept_verbatim",
     "chat.tools.description_verbatim", "chat.lora_path.kept_verbatim", "completions.suffix.verbatim"),
    texts(lambda text: text.encode("ascii", "replace").decode()),
)  # fmt: skip
changes(
    "cuts_long_texts", "Texts end after 2000 characters.",
    ("chat.messages.content.long_text", "chat.parts.image_url.large_data_url_kept"), texts(lambda text: text[:2000]),
)  # fmt: skip
changes(
    "drops_back_slashes", "Back slashes in texts are lost.",
    ("chat.messages.tool_calls.arguments_verbatim", "chat.constraints.text_kept_verbatim"),
    texts(lambda text: text.replace("\\", "")),
)  # fmt: skip


@mutant(
    breaks=["chat.unknown.exponent_kept", "chat.unknown.tiny_and_huge_not_changed", "chat.unknown.long_decimal_kept"]
)
def reads_and_writes_numbers() -> Vice:
    """Bodies are parsed and written again by a library that knows integers and doubles."""
    return body_bytes(lambda raw: json.dumps(json.loads(raw), ensure_ascii=False).encode())


@mutant(breaks=["chat.body.escapes_accepted"])
def forwards_escapes_twice() -> Vice:
    """Escaped characters are escaped once more."""
    return body_bytes(lambda raw: raw.replace(b"\\u", b"\\\\u"))

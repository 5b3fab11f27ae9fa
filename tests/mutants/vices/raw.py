"""Vices of readers of HTTP/1.1: what they take and must refuse, what they stumble over, and what they lose."""

# ruff: noqa: E501 - a mutant is a row of a table, and a row is best on a line
from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.mutants import fronts
from tests.mutants.chunk_rules import ChunkRules, Rechunking
from tests.mutants.fronts import Stumbling
from tests.mutants.hooks import worker_head
from tests.mutants.vice import Front, Vice, add, both

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.mutants.fronts import Reading

LIMIT_BYTES = 20_000  # of bodies, in the configuration `limits`
_GET = rb"\A(?=(?:GET|DELETE|OPTIONS|HEAD) )"
_NOT_SERVED = rb"\A(?=\S+ /(?!v1/)[^\r\n]*(?:\r\n[^\r\n]+)*?\r\nExpect: 100)"


def _reads(
    name: str, about: str, breaks: tuple[str, ...], reading: Callable[[], Reading], *, alone: bool = False
) -> None:
    add(name, about, tuple(f"transport.{each}" for each in breaks), Vice(front=Front(reading=reading)), alone=alone)


def _edits(name: str, about: str, breaks: tuple[str, ...], pattern: bytes, to: bytes, *, alone: bool = False) -> None:  # fmt: skip
    found = re.compile(pattern)
    _reads(name, about, breaks, lambda: fronts.Reading(lambda data: found.sub(to, data)), alone=alone)


def _chunks(name: str, about: str, clause: str, rules: ChunkRules) -> None:
    _reads(name, about, (f"raw.chunk.{clause}",), lambda: Rechunking(rules))


def _first_digits(line: bytes) -> int:
    found = re.match(rb"[0-9a-fA-F]+", line)
    if found is None:
        raise ValueError("no digit")
    return int(found[0], 16)


def _from_digits(line: bytes) -> int:
    return _first_digits(re.sub(rb"\A(?:0x|[+-])", b"", line))


def _narrow(line: bytes) -> int:
    return int(line.partition(b";")[0], 16) % 2**64


def _line_skipped(rest: bytes) -> bytes:
    return rest.partition(b"\r\n")[2]


for _name, _about, _clause, _rules in (
    ("forgives_prefixes_of_chunk_sizes", "Signs and 0x before the size of a chunk are passed over.", "bad_size", ChunkRules(size=_from_digits)),
    ("reads_chunk_sizes_to_the_first_oddity", "The size of a chunk ends at the first byte that is no digit.", "bad_size", ChunkRules(size=_first_digits)),
    ("counts_chunks_in_64_bits", "Sizes of chunks wrap at 64 bits.", "bad_size", ChunkRules(size=_narrow)),
    ("needs_no_line_end_behind_chunks", "The line end behind a chunk's data may be missing.", "no_crlf_behind_data", ChunkRules(behind=lambda rest: rest.removeprefix(b"\r\n"))),
    ("skips_two_bytes_behind_chunks", "Whatever the two bytes behind a chunk's data are, they are skipped.", "no_crlf_behind_data", ChunkRules(behind=lambda rest: rest[2:])),
    ("skips_a_line_behind_chunks", "Whatever stands behind a chunk's data is skipped to the line end.", "no_crlf_behind_data", ChunkRules(behind=_line_skipped)),
    ("reads_on_behind_bare_chunk_lines", "Bare line ends end a chunk's line, and the connection goes on whatever was asked.", "bare_line_end", ChunkRules(line_end=rb"\r?\n|\r", reads_on=True)),
    ("ends_extensions_at_line_feeds", "A bare line feed ends a chunk's line.", "hidden_behind_extension", ChunkRules(line_end=rb"\r?\n")),
    ("takes_extensions_of_any_length", "Chunk extensions are read however long they are.", "extension_bounded", ChunkRules(longest_line_bytes=1 << 22)),
    ("takes_trailers_for_fields", "Trailer fields are taken for fields of the head.", "trailers_kept_apart", ChunkRules(trailers_are_fields=True)),
    ("takes_unfinished_chunks", "A client that ends has sent its last chunk.", "unfinished", ChunkRules(unfinished=True)),
):  # fmt: skip
    _chunks(_name, _about, _clause, _rules)

for _name, _about, _clause, _pattern in (
    ("stumbles_over_blanks_in_chunk_lines", "A blank in a chunk's line is an internal error.", "chunk.extension_blank", rb"\r\n\r\n[0-9a-f]+(?:;[^\r\n ]*)? "),
    ("stumbles_over_bare_line_feeds", "A bare line feed in a head is an internal error.", "head.bare_line_feed", rb"\A\S+ \S+ HTTP/1\.[01](?:\r\n[^\r\n]+)*(?:\r\n)?\n"),
    ("stumbles_over_control_bytes", "A control byte in a field is an internal error.", "head.control_byte", rb"\r\n[\w-]+: [^\r\n]*[\x01-\x08\x0b\x0c\x0e-\x1f\x7f]"),
    ("stumbles_over_leading_zeros", "A length with leading zeros is an internal error.", "length.leading_zeros", rb"(?i)\r\ncontent-length: 0\d"),
    ("stumbles_over_bytes_beyond_ascii", "Bytes beyond ASCII in a field are an internal error.", "head.bytes_beyond_ascii", rb"\r\n[\w-]+: [^\r\n]*[\x80-\xff]"),
):  # fmt: skip
    _reads(_name, _about, (f"raw.{_clause}",), lambda pattern=_pattern: Stumbling(pattern))  # type: ignore[misc]  # bound at once

for _name, _about, _clauses, _pattern, _to in (
    ("knows_no_extensions", "A chunk extension is refused.", ("raw.chunk.extension_ignored",), rb"(\r\n\r\n[0-9a-f]+);", rb"\1?"),
    ("ignores_expectations", "Expect is not looked at.", ("raw.expect.continue_sent",), rb"\r\nExpect: 100-continue", b""),
    ("forgets_bodies_of_refused_expectations", "Behind a refusal in place of 100 Continue the body is the next request.", ("raw.expect.refused_body_is_no_request",), rb"(?i)" + _NOT_SERVED + rb"([^\r\n]*(?:\r\n[^\r\n]+)*?)\r\ncontent-length:[^\r\n]*", rb"\1"),
    ("knows_no_bodies_of_get", "Only POST and PUT have bodies.", ("raw.reuse.body_is_no_request",), rb"(?i)" + _GET + rb"([^\r\n]*(?:\r\n[^\r\n]+)*?)\r\n(?:content-length|transfer-encoding):[^\r\n]*", rb"\1"),
    ("unfolds_the_first_field", "Blanks before the first field are stripped.", ("raw.head.blank_before_first_field",), rb"\A([^\r\n]+\r\n)[ \t]+", rb"\1"),
    ("needs_the_request_line_at_once", "A blank line before a request is refused.", ("raw.head.blank_line_before",), rb"\A(?:\r\n)+", b"( "),
    ("needs_no_version", "A line feed in a target ends the request line.", ("raw.head.nothing_hidden_in_target",), rb"\A(\S+ /\S*)\n", b"\\1 HTTP/1.1\r\n"),
    ("has_no_word_for_unknown_methods", "A method that nobody knows is a bad request.", ("raw.line.unknown_method",), rb"\A(?!GET |POST |PUT |DELETE |PATCH |HEAD |OPTIONS |PRI )[A-Z]+ /", b"( /"),
    ("takes_short_targets_only", "A target of over 4,000 bytes is too long.", ("raw.line.long_target",), rb"\A(\S+ )/\S{4000,}", rb"\1/" + b"a" * 70_000),
    ("knows_codings_by_their_name", "Whatever is written round it, a coding with chunked in it counts, and then no length.", ("raw.te_te.behind",),
     rb"(?is)\A(?=[^\0]*content-length: \d+)(.*?)\r\n(?:content-length: \d+)(.*?)\r\n(?!transfer-encoding: chunked\r\n)transfer[-_]encoding[ \t]*:[^\r\n]*(?:\r\n )?chunked[^\r\n]*", b"\\1\\2\r\nTransfer-Encoding: chunked"),
):  # fmt: skip
    _edits(_name, _about, _clauses, _pattern, _to)

for _name, _about, _clause, _pattern, _status in (
    ("stumbles_over_huge_fields", "A field of over 100,000 bytes is an internal error.", "head.huge_field", rb"\n[^\n]{100000}", 500),
    ("stumbles_over_many_fields", "More than a few thousand fields are an internal error.", "head.many_fields", rb"\A(?:[^\n]*\n){5000}", 500),
    ("calls_long_targets_large_heads", "A target that is too long is answered as a large head.", "line.long_target", rb"\A\S+ /[^\n]{100000}", 431),
):  # fmt: skip
    _reads(
        _name,
        _about,
        (f"raw.{_clause}",),
        lambda pattern=_pattern, status=_status: fronts.StumblingInHeads(pattern, status),
    )  # type: ignore[misc]  # bound at once

for _name, _about, _clause, _reading in (
    ("takes_short_bodies", "A client that ends has sent its whole body.", "raw.length.body_too_short", fronts.Shortening),
    ("stumbles_over_half_heads", "A client that ends inside a head is an internal error.", "raw.half_close.in_head", lambda: fronts.Impatient(in_head=True)),
    ("stumbles_over_half_closes", "A client that ends behind its request is an internal error.", "raw.half_close.settles", lambda: fronts.Impatient(in_head=False)),
    ("never_recovers_from_bad_bytes", "Behind a body that is no text everything belongs to it.", "raw.reuse.after_bad_body", fronts.Swallowing),
    ("takes_large_bodies_for_requests", "Behind a refusal for its size a body is the next request.", "raw.reuse.after_too_large", lambda: fronts.Overflowing(LIMIT_BYTES, 413, "payload_too_large")),
    ("reads_requests_in_bodies", "A body that begins like a request is refused as a body, and read as a request.", "raw.reuse.body_is_no_request", lambda: fronts.Overflowing(0, 400, "json_parse_error")),
    ("waits_for_heads_for_ever", "A head may be as long as it likes.", "raw.head.endless", fronts.Patient),
    ("refuses_two_framings_too_late", "A request with two framings is refused when a worker has had it.", "framing.worker_gets_one", fronts.Regretting),
):  # fmt: skip
    _reads(_name, _about, (_clause,), _reading)
_edits("reads_heads_in_one_piece", "A head that does not come in one segment is refused.", ("raw.slow.*",), rb"(?s)\A([A-Z]+ /)(?!.*\r?\n\r?\n)", rb"( ", alone=True)  # fmt: skip
_edits("loses_an_end_cut_in_two", "The end of a head is not found where it comes in two segments.", ("raw.slow.cut_at_head_end",),
       rb"(?s)\A([A-Z]+ /.*[^\r\n])(?!\r\n\r\n)[\r\n]+\Z", rb"\1", alone=True)  # fmt: skip
_reads("has_room_for_few_unfinished_heads", "While eight heads are unfinished nobody else is served.", ("half_head",), fronts.Rooms(8), alone=True)  # fmt: skip


def _with_worker(pattern: bytes, hidden: bytes, again: Callable[[bytes], bytes]) -> Vice:
    """What the gateway refuses is written otherwise before it, and in the head for the worker as it was."""
    found = re.compile(pattern)
    return both(Vice(front=Front(to_gateway=lambda data: found.sub(hidden, data))), worker_head(again))


def _doubled(head: bytes) -> bytes:
    return re.sub(rb"(?i)(content-length: \d+\r\n)", rb"\1\1", head) if b"x-request-id-twice" in head else head


add("passes_nul_on", "A NUL in a field reaches the worker.", ("transport.raw.head.nul",),
    _with_worker(rb"(\r\n[\w-]+: [^\r\n\0]*)\0", rb"\1igcNUL", lambda head: head.replace(b"igcNUL", b"\0")))  # fmt: skip
add("passes_bare_carriage_returns_on", "A bare carriage return in a field reaches the worker.", ("transport.raw.head.bare_carriage_return",),
    _with_worker(rb"(\r\n[\w-]+: [^\r\n]*)\r(?!\n)", rb"\1igcCR", lambda head: head.replace(b"igcCR", b"\r")))  # fmt: skip
add("passes_folds_on", "A folded line reaches the worker as it is.", ("transport.raw.head.folded",),
    _with_worker(rb"(\r\n[\w-]+:[^\r\n]*)\r\n[ \t]+(?=[^\r\n]*\r\n)", b"\\1\r\nX-Request-ID-Fold: ", lambda head: head.replace(b"x-request-id-fold:", b" ")))  # fmt: skip
add("passes_repeated_lengths_on", "A length given twice reaches the worker twice.", ("transport.raw.length.repeated",),
    _with_worker(rb"(?i)(\r\ncontent-length: \d+)\1(?=\r\n)", rb"\1\r\nX-Request-ID-Twice: 1", _doubled))  # fmt: skip

"""From requests to classes: repeatable, small, tagged, and known or not."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from conformance.differ import classes, run
from conformance.differ.compare import Difference, Observed
from conformance.differ.requests import ODD_VALUES, ROUTES, TWISTS, Generator, Request, ordinary_body
from conformance.differ.run import Differ
from conformance.differ.shrink import shrink
from conformance.differ.sides import answers
from conformance.harness.errors import UserError
from spec import clauses

if TYPE_CHECKING:
    from pathlib import Path

ANSWER = b"{}"


def served(body: Any) -> Observed:
    """A request that was passed on as this body."""
    return Observed(200, "application/json", ANSWER, ANSWER, json.dumps(body).encode(), (), 1)


def refused(code: object) -> Observed:
    """A refusal in one of the contract's two shapes."""
    error = {"error": {"message": "no", "type": "invalid_request_error", "code": code}}
    return Observed(400, "application/json", json.dumps(error).encode(), ANSWER, None)


def test_the_same_seed_gives_the_same_requests() -> None:
    """A generator is its seed; another seed gives other requests."""
    first, again, other = ([each.next() for _ in range(200)] for each in (Generator(7), Generator(7), Generator(8)))
    assert first == again != other


def test_every_request_can_be_sent() -> None:
    """Every request has bytes and a scripted answer; all routes, most twists and several kinds of answer occur."""
    generator = Generator(1)
    requests = [generator.next() for _ in range(1500)]
    for request in requests:
        assert isinstance(request.data(model="m", prompt="p"), bytes)
        assert isinstance(answers(request)[1], bytes)
    assert {request.kind for request in requests} == set(ROUTES)
    assert len({request.twist for request in requests}) > len(TWISTS) / 2
    assert len({request.answer for request in requests}) > 4
    assert sum(request.body == ordinary_body(request.kind) for request in requests) < 300
    assert len(ODD_VALUES) > 20


async def test_shrinking_leaves_what_matters() -> None:
    """Everything that can go without changing the disagreement goes: fields, headers, twist, answer."""
    body = {**ordinary_body("chat"), "n": 3, "user": [1], "tools": [{"type": "function", "function": {"name": "f"}}]}
    start = Request("chat", body, "blanks around", (("content-type", "text/plain"), ("x-a", "b")), "worker 400")

    async def still(candidate: Request) -> bool:
        return isinstance(candidate.body.get("user"), list)

    small = await shrink(start, still)
    assert small == Request("chat", {**ordinary_body("chat"), "user": []})
    assert classes.places(small) == ["user=[]"]


def test_classes_are_named_by_what_is_left_and_tagged_with_clauses() -> None:
    """The name tells route, outcome and places; the tags are clauses about those places."""
    request = Request("chat", {**ordinary_body("chat"), "temperature": 2.5})
    difference = Difference("outcome", "", "400 validation", "served")
    assert classes.name_of(request, difference) == "chat outcome: 400 validation | served [temperature=number]"
    tags = classes.tags(request, difference)
    assert "chat.temperature.maximum" in tags
    assert set(tags) <= clauses().keys()
    body = Difference("worker body", "messages[].name", "string", "absent")
    assert classes.name_of(request, body) == "chat worker body messages[].name: string | absent"
    assert any(tag.startswith("chat.messages.") for tag in classes.tags(request, body))


def test_twists_headers_and_missing_keys_are_places_too() -> None:
    """What is no value in the body shows in the name as well."""
    request = Request("completions", {"model": "{model}"}, "cut off", (("x-a", "b"),), "stream")
    assert classes.places(request) == [
        "no prompt",
        "header x-a: b",
        "no header content-type",
        "bytes: cut off",
        "answer: stream",
    ]


KNOWN = "- {match: 'chat outcome: * | served [*user=*', clause: chat.user.type, reason: It does not look.}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- [", "no list of known classes"),
        (KNOWN.replace("chat.user.type", "chat.nobody.type"), "no clause"),
        (KNOWN.replace("clause: chat.user.type, ", ""), "give either clause"),
        (KNOWN.replace("reason: It does not look.", "silent: x, reason: r"), "give either clause"),
        (KNOWN.replace("reason", "raisin"), "reason"),
    ],
)
def test_a_broken_list_of_known_classes_is_told(tmp_path: Path, text: str, said: str) -> None:
    """A file that cannot be used is an error that says what is wrong with it."""
    file = tmp_path / "known.yaml"
    file.write_text(text, "utf-8")
    with pytest.raises(UserError, match=said):
        classes.load(file)


async def lenient_side(request: Request) -> tuple[Observed, Observed]:
    """The left side refuses a user that is no string and keeps `zz`; the right one does neither."""
    body = request.body
    user = body.get("user", "")
    left = served(body) if isinstance(user, str) or user is None else refused("json_parse_error")
    return left, served({key: value for key, value in body.items() if key != "x_unmodelled"})


async def test_disagreements_become_few_classes(tmp_path: Path) -> None:
    """Hundreds of disagreements come down to the few things that the sides do differently, each with its count."""
    differ = Differ(lenient_side, [])
    await differ.run(Generator(3), 1500)
    assert differ.requests == 1500
    assert sum(found.count for found in differ.found.values()) >= differ.disagreeing > 100
    outcomes = [name for name in differ.found if "outcome" in name]
    assert outcomes
    assert all("[user=" in name for name in outcomes)
    assert {name for name in differ.found if "outcome" not in name} <= {
        f"{kind} worker body x_unmodelled: object | absent" for kind in ROUTES
    }
    assert differ.unknown == list(differ.found.values())
    file = tmp_path / "known.yaml"
    dropped = "- {match: '* x_unmodelled: *', silent: A test., reason: They drop it.}\n"
    file.write_text(KNOWN.replace("chat outcome", "* outcome") + dropped, "utf-8")
    again = Differ(lenient_side, classes.load(file))
    await again.run(Generator(3), 300)
    assert again.unknown == []


async def test_a_request_at_fault_is_kept_with_both_sides() -> None:
    """A class keeps its smallest case and what both sides made of it."""
    differ = Differ(lenient_side, [])
    await differ.one(1, Request("chat", {**ordinary_body("chat"), "user": 5, "n": 2}))
    (found,) = differ.found.values()
    assert found.request.body == {**ordinary_body("chat"), "user": 5}
    assert (found.left.outcome, found.right.outcome) == ("400 parse", "served")
    assert found.seen_at == [1]


def test_equal_gateways_agree(tmp_path: Path) -> None:
    """The command finds no disagreement between the reference server and itself, and says so with exit status 0."""
    report = tmp_path / "differ.json"
    words = [sys.executable, "-m", "conformance", "differ", "--left", "reference", "--right", "reference"]
    words += ["--requests", "150", "--seed", "5", "--report", str(report)]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = json.loads(report.read_text("utf-8"))
    assert (found["requests"], found["disagreeing_requests"], found["classes"]) == (150, 0, [])
    assert "150 requests" in ran.stdout


@pytest.mark.parametrize(
    ("left", "said"), [("nobody", "nobody"), ("https://127.0.0.1:1", "TLS"), ("http://127.0.0.1:9", "/workers")]
)
def test_a_side_that_is_none_is_told(left: str, said: str) -> None:
    """An unknown name, a TLS address and a port where nobody listens are each told in one line, with exit status 2."""
    words = [sys.executable, "-m", "conformance", "differ", "--left", left, "--right", "reference", "--requests", "1"]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 2, ran.stdout + ran.stderr
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


def test_what_was_looked_at_is_readable() -> None:
    """Every committed list of known classes can be read, and each entry has a reason."""
    files = list(classes.FOLDER.glob("*.yaml"))
    assert files
    assert all(known.reason and known.favours for file in files for known in classes.load(file))


def test_the_options_name_the_file_of_a_pair() -> None:
    """Without --known the file is that of the pair, with the default version filled in."""
    parser = argparse.ArgumentParser()
    run.add_options(parser)
    options = parser.parse_args(["--left", "reference", "--right", "smg"])
    assert options.known is None
    assert replace(Request("chat", {}), twist="empty").data(model="", prompt="") == b""

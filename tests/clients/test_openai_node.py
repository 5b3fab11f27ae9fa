"""The real OpenAI client for Node against the reference gateway.

It is installed once, from the locked version, under the ignored folder `.targets/node`; the script `client.mjs` does
the calls and prints what it got, and the judging is done here.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fake_workers.control import Control
from fake_workers.script import Reply, Script
from fake_workers.wire import json as json_answer

if TYPE_CHECKING:
    from tests.clients.conftest import Stack

HERE = Path(__file__).parent / "openai_node"
INSTALLED = Path(__file__).parents[2] / ".targets" / "node"
FILES = ("package.json", "package-lock.json", ".npmrc", "client.mjs")
INSTALL_WITHIN_S, RUN_WITHIN_S = 180, 90
MODELS = ["m-sglang", "m-vllm", "m-tokenspeed"]
MARKER = "igc-00000000000a0de5"


def command(*words: str, cwd: Path, within_s: float) -> str:
    """Run a command of Node's tool chain; its standard output."""
    program = shutil.which(words[0])
    assert program, f"{words[0]} is not installed: the client for Node needs Node 20 or newer with npm"
    done = subprocess.run([program, *words[1:]], cwd=cwd, capture_output=True, text=True, timeout=within_s, check=False)  # noqa: S603 - words of this file, no shell
    assert done.returncode == 0, f"{' '.join(words)} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def installed() -> Path:
    """The folder with the locked client; installed when it is not there or another version is wanted."""
    stamp = INSTALLED / "installed.json"
    wanted = (HERE / "package-lock.json").read_text("utf-8")
    INSTALLED.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        shutil.copyfile(HERE / name, INSTALLED / name)
    if not stamp.exists() or stamp.read_text("utf-8") != wanted:
        command("npm", "ci", "--ignore-scripts", cwd=INSTALLED, within_s=INSTALL_WITHIN_S)
        stamp.write_text(wanted, "utf-8")
    return INSTALLED


@pytest.fixture(scope="module")
def got(stack: Stack, installed: Path) -> dict[str, Any]:
    """What the client got from the gateway, all calls of the script."""
    import asyncio  # noqa: PLC0415 - only to put one script from a synchronous fixture

    async def script() -> None:
        busy = json_answer(409, {"error": {"message": "busy"}})
        await Control(stack.control_url).put_script(MARKER, Script(answers=[busy, Reply(pieces=["ok"])]))

    asyncio.run(script())
    words = ("node", "client.mjs", f"{stack.base_url}/v1", "k-shared", MARKER)
    found: dict[str, Any] = json.loads(command(*words, cwd=installed, within_s=RUN_WITHIN_S))
    return found


@pytest.mark.parametrize("model", MODELS)
def test_chat(got: dict[str, Any], model: str) -> None:
    """A chat completion parses, speaks as the assistant and counts its tokens."""
    answer = got["perModel"][model]["chat"]
    assert answer["object"] == "chat.completion"
    assert answer["choices"][0]["message"]["role"] == "assistant"
    assert answer["choices"][0]["message"]["content"]
    usage = answer["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


@pytest.mark.parametrize("model", MODELS)
def test_chat_stream(got: dict[str, Any], model: str) -> None:
    """A stream yields a role, text, one finish reason and, as asked, the usage last."""
    chunks = got["perModel"][model]["chunks"]
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    assert choices[0]["delta"]["role"] == "assistant"
    assert "".join(choice["delta"].get("content") or "" for choice in choices)
    assert [choice["finish_reason"] for choice in choices if choice.get("finish_reason")] == ["length"]
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] == 5


@pytest.mark.parametrize("model", MODELS)
def test_stream_equals_whole(got: dict[str, Any], model: str) -> None:
    """The client's stream helper puts together the same text as the unstreamed answer to the same seed."""
    whole, streamed = (got["perModel"][model][name]["choices"][0]["message"] for name in ("whole", "streamed"))
    assert streamed["content"] == whole["content"] != ""


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("how", ["tools", "toolsStreamed"])
def test_tools(got: dict[str, Any], model: str, how: str) -> None:
    """A forced tool call, whole or put together from a stream, has the tool's name and arguments that fit."""
    (call,) = got["perModel"][model][how]["choices"][0]["message"]["tool_calls"]
    assert call["function"]["name"] == "weather"
    assert isinstance(json.loads(call["function"]["arguments"])["city"], str)


@pytest.mark.parametrize("model", MODELS)
def test_structured_output(got: dict[str, Any], model: str) -> None:
    """The client's parse helper takes the answer, which is an object of the asked type."""
    found = json.loads(got["perModel"][model]["parsed"])
    assert isinstance(found["name"], str)
    assert isinstance(found["inhabitants"], int)


@pytest.mark.parametrize("model", MODELS)
def test_completions(got: dict[str, Any], model: str) -> None:
    """Legacy completions answer every prompt of an array, and stream to a finish reason."""
    answer = got["perModel"][model]["completion"]
    assert answer["object"] == "text_completion"
    assert [choice["index"] for choice in answer["choices"]] == [0, 1]
    chunks = got["perModel"][model]["completionChunks"]
    reasons = [choice.get("finish_reason") for chunk in chunks for choice in chunk["choices"]]
    assert [reason for reason in reasons if reason] == ["length"]


def test_models(got: dict[str, Any]) -> None:
    """Every served model is listed once and can be retrieved by its id."""
    assert sorted(got["models"]) == sorted(MODELS)
    assert got["retrieved"] == "m-vllm"


def test_embeddings(got: dict[str, Any]) -> None:
    """Asked for floats or left to the client's own choice (base64 on the wire), the vectors are the same numbers."""
    plain, packed = got["floats"]["data"], got["packed"]["data"]
    assert [item["index"] for item in plain] == [0, 1]
    assert packed[1]["embedding"] == pytest.approx(plain[1]["embedding"], abs=1e-6)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("wrongKey", {"name": "AuthenticationError", "status": 401}),
        ("unknownModel", {"name": "NotFoundError", "status": 404, "code": "model_not_found"}),
        ("badRange", {"name": "BadRequestError", "status": 400, "type": "invalid_request_error"}),
    ],
)
def test_errors(got: dict[str, Any], call: str, expected: dict[str, Any]) -> None:
    """Refusals become the client's own exceptions, with status, code and type."""
    assert expected.items() <= got["errors"][call].items()


async def test_the_client_s_own_retries(got: dict[str, Any], stack: Stack) -> None:
    """A worker's 409, which a gateway does not retry, is tried again by the client and then succeeds."""
    assert got["retried"]["choices"][0]["message"]["content"] == "ok"
    assert len(await Control(stack.control_url).entries(MARKER, at_least=2)) == 2


def test_the_lock_names_no_registry() -> None:
    """The lock file has hashes and no addresses, so any registry mirror will do."""
    lock = json.loads((HERE / "package-lock.json").read_text("utf-8"))
    packages = [package for name, package in lock["packages"].items() if name]
    assert packages
    assert all("resolved" not in package and package["integrity"].startswith("sha512-") for package in packages)

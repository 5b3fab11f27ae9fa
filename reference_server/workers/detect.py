"""Find out what a worker is: alive, which engine, which models, and what it says about itself.

The engine comes from `owned_by` of the worker's own model list where that names one; otherwise from which information
endpoint answers; otherwise the worker is `generic`, which changes nothing but what the workers API shows.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from reference_server.workers.exchange import UpstreamError
from reference_server.workers.worker import DEFAULT_SLOTS, ModelInfo, WorkerFacts

if TYPE_CHECKING:
    from reference_server.settings import Settings
    from reference_server.workers.upstream import UpstreamClient
    from reference_server.workers.worker import WorkerSpec

SGLANG, VLLM, GENERIC = "sglang", "vllm", "generic"
_OWNERS = {"sglang": SGLANG, "nvidia": SGLANG, "vllm": VLLM}
_ANSWER_LIMIT_BYTES = 4 * 1024 * 1024
_MODEL_TYPES = ("chat", "completions", "responses", "tools")
_SGLANG_LABELS = (
    "model_path",
    "served_model_name",
    "tokenizer_path",
    "tp_size",
    "dp_size",
    "pp_size",
    "load_balance_method",
    "disaggregation_mode",
    "version",
    "is_embedding",
    "is_generation",
    "max_total_tokens",
    "max_running_requests",
    "weight_version",
    "has_image_understanding",
    "has_audio_understanding",
    "model_type",
    "architectures",
)
_MODEL_DETAILS = (
    ("hf_model_type", "model_type"),
    ("architectures", "architectures"),
    ("tokenizer_path", "tokenizer_path"),
)


class DetectionError(Exception):
    """The worker is not ready or not usable yet; the message says what was asked and what came."""


class Detector:
    """Asks one worker after another; every question is bounded by the health timeout."""

    def __init__(self, settings: Settings, client: UpstreamClient) -> None:
        self._settings = settings
        self._client = client

    async def is_alive(self, spec: WorkerSpec) -> bool:
        """Whether the health endpoint answers with success in time. It is asked without a key."""
        try:
            status, _ = await self.ask(spec, self._settings.health.endpoint, with_key=False)
        except UpstreamError:
            return False
        return _is_success(status)

    async def detect(self, spec: WorkerSpec) -> WorkerFacts:
        """Ask the worker who it is.

        Raises:
            DetectionError: It is not alive, or names no model while none was registered with it.
        """
        if not await self.is_alive(spec):
            raise DetectionError(f"GET {self._settings.health.endpoint} does not succeed")
        cards = await self._cards(spec)
        first = cards[0] if cards else {}
        runtime = spec.runtime or _OWNERS.get(str(first.get("owned_by")))
        if runtime is None:
            runtime = await self._runtime_by_endpoint(spec)
        about = await self._about(spec, runtime, first)
        if not cards and not spec.models:
            raise DetectionError("GET /v1/models lists no model, and none was registered with the worker")
        # The real gateway registers only the first model of a list. The contract's list covers "the models served",
        # and a client would not understand why a model its worker lists is not found, so all are registered.
        models = tuple(_model(card, about if number == 0 else {}) for number, card in enumerate(cards))
        return WorkerFacts(
            runtime=runtime,
            models=models,
            labels={name: _label(value) for name, value in about.items()},
            slots=_slots(about.get("max_running_requests")),
        )

    async def _cards(self, spec: WorkerSpec) -> list[dict[str, Any]]:
        answer = await self._json(spec, "/v1/models")
        data = answer.get("data") if isinstance(answer, dict) else None
        entries = data if isinstance(data, list) else []
        return [entry for entry in entries if isinstance(entry, dict) and _is_name(entry.get("id"))]

    async def _runtime_by_endpoint(self, spec: WorkerSpec) -> str:
        version, server_info = await asyncio.gather(self._json(spec, "/version"), self._json(spec, "/server_info"))
        if version is not None:
            return VLLM
        return SGLANG if server_info is not None else GENERIC

    async def _about(self, spec: WorkerSpec, runtime: str, card: dict[str, Any]) -> dict[str, Any]:
        """What the worker says about itself: flat, without what it leaves open."""
        found: dict[str, Any] = {}
        if runtime == VLLM:
            version = await self._json(spec, "/version")
            found = {"served_model_name": card.get("id"), "model_path": card.get("root")}
            if isinstance(version, dict):
                found["version"] = version.get("version")
        elif runtime == SGLANG:
            for path, older in (("/server_info", "/get_server_info"), ("/model_info", "/get_model_info")):
                answer = await self._json(spec, path) or await self._json(spec, older)
                if isinstance(answer, dict):
                    found |= {name: answer[name] for name in _SGLANG_LABELS if answer.get(name) is not None}
        found["max_model_len"] = card.get("max_model_len")
        return {name: value for name, value in found.items() if value not in (None, "") and not isinstance(value, dict)}

    async def _json(self, spec: WorkerSpec, path: str) -> Any:
        """The JSON of a successful answer; `None` for any other answer and for none."""
        try:
            status, body = await self.ask(spec, path, with_key=True)
        except UpstreamError:
            return None
        if not _is_success(status):
            return None
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            return None

    async def ask(self, spec: WorkerSpec, path: str, *, with_key: bool, method: str = "GET") -> tuple[int, bytes]:
        """Status and body of the answer to a question of our own.

        Raises:
            UpstreamError: the worker could not be asked, or did not answer in time.
        """
        key = spec.api_key or self._settings.api_key
        headers = [("authorization", f"Bearer {key}")] if with_key and key else []
        timeout_s = self._settings.health.timeout_s
        response = await self._client.send(spec.url, method, path, headers=headers, timeout_s=timeout_s)
        return response.status, await response.read(_ANSWER_LIMIT_BYTES)


def _slots(told: object) -> int:
    return told if isinstance(told, int) and not isinstance(told, bool) and told > 0 else DEFAULT_SLOTS


def _is_success(status: int) -> bool:
    return status // 100 == 2  # noqa: PLR2004 - the class of success


def _is_name(value: object) -> bool:
    """Whether a model id is text that can be shown and asked for: not empty, no half of a surrogate pair."""
    return isinstance(value, str) and value != "" and value == value.encode(errors="ignore").decode()


def _model(card: dict[str, Any], about: dict[str, Any]) -> ModelInfo:
    details: dict[str, object] = {"model_type": list(_MODEL_TYPES)}
    for name, source in _MODEL_DETAILS:
        if source in about:
            details[name] = about[source]
    length = card.get("max_model_len")
    if isinstance(length, int) and length > 0:
        details["context_length"] = length
    return ModelInfo(card["id"], details)


def _label(value: object) -> str:
    """Labels are text: strings as they are, everything else as compact JSON."""
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    return text.encode(errors="replace").decode()

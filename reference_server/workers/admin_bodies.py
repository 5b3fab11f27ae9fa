"""Bodies of the workers API: what may be in them, and the `WorkerSpec` they make."""

from __future__ import annotations

import json
from dataclasses import replace
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from reference_server.workers.urls import WorkerUrlError, check_worker_url
from reference_server.workers.worker import (
    DEFAULT_CONNECTION_ATTEMPTS,
    DEFAULT_COST,
    DEFAULT_PRIORITY,
    ModelInfo,
    WorkerSpec,
)

_LARGEST_U32 = 2**32 - 1

Priority = Annotated[int, Field(ge=0, le=_LARGEST_U32)]
Cost = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Runtime = Literal["unspecified", "sglang", "vllm", "trtllm", "mlx", "tokenspeed", "generic", "external"]


class BadBodyError(Exception):
    """The body cannot be used; the message says where and why, and repeats no value that may be a secret."""


class _Body(BaseModel):
    """Strict types, unknown fields ignored, as the real API does."""

    model_config = ConfigDict(strict=True, extra="ignore")


class ModelBody(_Body):
    """One model a worker is registered with."""

    id: Annotated[str, Field(min_length=1)]


class AddBody(_Body):
    """POST /workers, and PUT /workers/{id}."""

    url: str
    models: list[ModelBody] = []
    worker_type: Literal["regular", "prefill", "decode", "encode"] = "regular"
    connection_mode: Literal["http", "grpc", "zmq"] = "http"
    runtime_type: Runtime = "unspecified"
    labels: dict[str, str] = {}
    priority: Priority = DEFAULT_PRIORITY
    cost: Cost = DEFAULT_COST
    api_key: Annotated[str, Field(min_length=1)] | None = Field(default=None, repr=False)
    max_connection_attempts: Priority = DEFAULT_CONNECTION_ATTEMPTS

    def spec(self) -> WorkerSpec:
        """The registration this body asks for.

        Raises:
            BadBodyError: A URL no worker can have, or a kind of worker this gateway does not know yet.
        """
        try:
            check_worker_url(self.url)
        except WorkerUrlError as error:
            raise BadBodyError(f"url: {error}") from None
        if self.worker_type != "regular":
            raise BadBodyError(f"worker_type: {self.worker_type} workers are not built yet; register a regular one")
        if self.connection_mode != "http":
            raise BadBodyError(f"connection_mode: {self.connection_mode} is not built yet; register an http worker")
        if self.runtime_type == "external":
            raise BadBodyError("runtime_type: external providers are not built yet; leave the field out")
        _check_key(self.api_key)
        return WorkerSpec(
            url=self.url,
            models=tuple(ModelInfo(model.id) for model in self.models),
            api_key=self.api_key,
            runtime=None if self.runtime_type == "unspecified" else self.runtime_type,
            labels=MappingProxyType(self.labels),
            priority=self.priority,
            cost=self.cost,
            max_connection_attempts=self.max_connection_attempts,
        )


class UpdateBody(_Body):
    """PATCH /workers/{id}: what is absent stays, labels are merged."""

    labels: dict[str, str] = {}
    priority: Priority | None = None
    cost: Cost | None = None
    api_key: Annotated[str, Field(min_length=1)] | None = Field(default=None, repr=False)

    def applied_to(self, spec: WorkerSpec) -> WorkerSpec:
        """The registration with this update.

        Raises:
            BadBodyError: The key cannot be a header value.
        """
        _check_key(self.api_key)
        return replace(
            spec,
            labels=MappingProxyType({**spec.labels, **self.labels}),
            priority=spec.priority if self.priority is None else self.priority,
            cost=spec.cost if self.cost is None else self.cost,
            api_key=self.api_key or spec.api_key,
        )


Body = TypeVar("Body", bound=_Body)


def _check_key(key: str | None) -> None:
    if key is not None and not (key.isascii() and key.isprintable()):
        raise BadBodyError("api_key: must be printable ASCII, for it is sent as a header")


def read_body(content_type: str | None, body: bytes, model: type[Body]) -> Body:
    """Read a JSON body.

    Raises:
        BadBodyError: Another content type, no JSON, or values that do not fit.
    """
    if not _is_json(content_type):
        raise BadBodyError("the request needs the header Content-Type: application/json")
    try:
        value: Any = json.loads(body)
        json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair is no text that could be shown again
    except (ValueError, RecursionError) as error:
        raise BadBodyError(f"the body is no JSON text: {error}") from None
    if not isinstance(value, dict):
        raise BadBodyError("the body must be a JSON object")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise BadBodyError(f"{place}: {first['msg']}") from None


def _is_json(content_type: str | None) -> bool:
    essence = (content_type or "").split(";", 1)[0].strip().lower()
    return essence == "application/json" or (essence.startswith("application/") and essence.endswith("+json"))

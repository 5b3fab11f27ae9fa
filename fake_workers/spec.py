"""How a worker is described: by keyword in process, by ``key=value,...`` on the command line."""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fake_workers.errors import SpecError

EngineName = Literal["sglang", "vllm", "tokenspeed"]
ENGINES: tuple[str, ...] = get_args(EngineName)
LatencyName = Literal["none", "8b", "70b"]


class WorkerSpec(BaseModel):
    """One worker.

    Attributes:
        engine: the dialect it speaks.
        model: served name; ``aliases`` are further names (vLLM lists and accepts them).
        name: how the control port calls it; empty for w0, w1, ...
        port: 0 lets the system choose.
        model_path: what engines report as path; empty derives one from the name.
        max_model_len: context length in tokens.
        seed: of the generated text and vectors.
        latency: profile of the latency model; "none" answers at once.
        slots: requests running at once, 0 for no limit; ``max_queued`` waiting ones, None for no limit.
        prefix_cache_tokens: size of the prefix cache, 0 for none.
        cache_report: usage carries cached_tokens (off in both engines by default).
        reasoning: a reasoning parser is configured; requests that do not switch thinking off get reasoning first.
        tool_parser: a tool parser is configured; without one vLLM refuses "auto".
        metrics: /metrics answers (None: as the engine does by default, off on SGLang).
        dev_mode: vLLM's /server_info exists.
        force_include_usage: streams carry usage whatever was asked (vLLM flag).
        health_delay_s: how long /health takes (about 1 s on a real SGLang).
        start_refused_s, start_loading_s: seconds of refused connections, then of health 503 (SGLang), after start.
        abort_delay_s: how long a slot stays taken after its client left (None: 0; real SGLang 2 s).
        keep_alive_s: idle connections are closed after this.
        tasks: which kinds of request the model can do.
        dimensions: length of embeddings.
        version: engine version reported, empty for the one this dialect was read from.
        api_key: bearer key the engine asks for, empty for none.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    engine: EngineName = "vllm"
    model: str = Field(default="fake-model", min_length=1)
    aliases: tuple[str, ...] = ()
    name: str = ""
    port: int = Field(default=0, ge=0, le=65535)
    model_path: str = ""
    max_model_len: int = Field(default=32768, ge=1)
    seed: int = 0
    latency: LatencyName = "none"
    slots: int = Field(default=0, ge=0)
    max_queued: int | None = Field(default=None, ge=0)
    prefix_cache_tokens: int = Field(default=0, ge=0)
    cache_report: bool = False
    reasoning: bool = False
    tool_parser: bool = True
    metrics: bool | None = None
    dev_mode: bool = False
    force_include_usage: bool = False
    health_delay_s: float = Field(default=0.0, ge=0, le=60)
    start_refused_s: float = Field(default=0.0, ge=0, le=60)
    start_loading_s: float = Field(default=0.0, ge=0, le=60)
    abort_delay_s: float = Field(default=0.0, ge=0, le=60)
    keep_alive_s: float = Field(default=5.0, gt=0, le=3600)
    tasks: tuple[Literal["generate", "embed"], ...] = ("generate", "embed")
    dimensions: int = Field(default=8, ge=1, le=16384)
    version: str = ""
    api_key: str = ""

    @model_validator(mode="before")
    @classmethod
    def _lists_from_text(cls, values: object) -> object:
        """Let the command line write tuples as ``a+b``."""
        if isinstance(values, dict):
            for key in ("aliases", "tasks"):
                if isinstance(values.get(key), str):
                    values = {**values, key: tuple(filter(None, values[key].split("+")))}
        return values

    @property
    def path(self) -> str:
        """The model path the engine reports."""
        return self.model_path or f"/models/{self.model}"


def parse_worker(text: str, defaults: dict[str, object] | None = None) -> WorkerSpec:
    """Read ``engine=vllm,model=m,port=0``; raises :class:`SpecError` that names the field and what it takes."""
    values: dict[str, object] = dict(defaults or {})
    for item in filter(None, text.split(",")):
        key, equals, value = item.partition("=")
        key = key.strip().replace("-", "_")
        if not equals:
            raise SpecError(f"--worker {text!r}: {item!r} is not key=value (for example engine=vllm,model=m,port=0)")
        if key not in WorkerSpec.model_fields:
            raise SpecError(
                f"--worker {text!r}: there is no field {key!r}; fields are {', '.join(WorkerSpec.model_fields)}"
            )
        values[key] = value.strip()
    return make_spec(values, f"--worker {text!r}")


def make_spec(values: dict[str, object], where: str) -> WorkerSpec:
    """Build a spec; raises :class:`SpecError` with the first problem in one line."""
    try:
        return WorkerSpec.model_validate(values)
    except ValidationError as error:
        problem = error.errors()[0]
        field = ".".join(str(part) for part in problem["loc"]) or "worker"
        raise SpecError(f"{where}: {field}: {problem['msg']}, got {problem['input']!r}") from None

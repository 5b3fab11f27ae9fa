"""One frozen, typed object on which flags, and later environment and file, converge.

Units are in the names: `_s` seconds, `_ms` milliseconds, `_bytes` bytes. Defaults are those of the real gateway
unless the comment beside them says why not. `reference_server.flags` builds a `Settings` from a command line and is
the only place that judges what an operator wrote; code that receives a `Settings` may trust it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from reference_server.admission.configuration import AdmissionSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reference_server.tenants.policy import RateLimitPolicy

Policy = Literal["random", "round_robin"]
LogLevel = Literal["debug", "info", "warn", "error"]

DEFAULT_REQUEST_ID_HEADERS = ("x-request-id", "x-correlation-id", "x-trace-id", "request-id")


@dataclass(frozen=True, slots=True)
class RetrySettings:
    """Repeating a request that failed before its first byte (`--retry-*`, `--disable-retries`).

    `max_attempts` counts the first attempt too (that is what `--retry-max-retries` means); disabled retries are 1.
    """

    max_attempts: int = 5
    initial_backoff_ms: int = 50
    max_backoff_ms: int = 30_000
    backoff_multiplier: float = 1.5
    jitter_factor: float = 0.2


@dataclass(frozen=True, slots=True)
class BreakerSettings:
    """The circuit breaker of each worker (`--cb-*`, `--disable-circuit-breaker`)."""

    enabled: bool = True
    failure_threshold: int = 10
    success_threshold: int = 3
    timeout_s: float = 60.0


@dataclass(frozen=True, slots=True)
class HealthSettings:
    """Repeated probes of registered workers (`--health-*`, `--disable-health-check`)."""

    enabled: bool = True
    failure_threshold: int = 3
    success_threshold: int = 2
    timeout_s: float = 5.0
    interval_s: float = 60.0
    endpoint: str = "/health"


@dataclass(frozen=True, slots=True)
class WorkerStartupSettings:
    """The first probes of a worker, until it is registered (`--worker-startup-*`)."""

    timeout_s: float = 1800.0
    delay_s: float = 0.0
    check_interval_s: float = 30.0


@dataclass(frozen=True, slots=True)
class OverloadSettings:
    """What workers report about their load, and when that is too much (`--worker-overload-*`, `--load-monitor-*`).

    `enabled`: workers at or over a threshold get no requests, and where all are over, requests are refused.
    `monitored`: loads are asked for although nobody decides by them; they are shown.
    """

    enabled: bool = True
    monitored: bool = True
    waiting_requests: int = 8
    token_usage: float = 0.8  # share of the KV cache
    interval_s: float = 10.0

    @property
    def polled(self) -> bool:
        """Whether workers are asked at all."""
        return self.enabled or self.monitored


@dataclass(frozen=True, slots=True)
class TenantKey:
    """One `--tenant-api-key`: the tenant's id and a key that identifies it. The key never appears in a repr."""

    tenant_id: str
    key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ControlPlaneKey:
    """One of `--control-plane-api-keys`. `role` is `admin` or `user`. The key never appears in a repr."""

    key_id: str
    name: str
    role: str
    key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Settings:
    """All there is to configure. Secrets are kept out of the repr, so a Settings may be logged."""

    host: str = "127.0.0.1"  # the real gateway binds every interface; a test tool must not
    port: int = 30_000  # 0: the system chooses, the ready line says which
    worker_urls: tuple[str, ...] = ()  # normalised: scheme://host:port, no trailing slash
    policy: Policy = "round_robin"  # the real default, cache_aware, is not built here
    enable_igw: bool = False  # workers come by POST /workers only; `worker_urls` are then not registered

    api_key: str | None = field(default=None, repr=False)
    tenant_api_keys: tuple[TenantKey, ...] = ()
    control_plane_keys: tuple[ControlPlaneKey, ...] = ()
    control_plane_audit: bool = False
    trust_tenant_header: bool = False
    tenant_header_name: str = "x-smg-tenant-id"  # lower case
    tenant_rate_limits: RateLimitPolicy | None = None  # None: tenants may spend what they like
    model_aliases: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))  # alias → canonical model
    request_id_headers: tuple[str, ...] = DEFAULT_REQUEST_ID_HEADERS  # lower case, in order of preference

    max_payload_size_bytes: int = 536_870_912  # request bodies, and non-streaming worker answers; inclusive
    max_buffered_request_bytes: int = 1_048_576
    request_timeout_s: float = 1800.0  # to the worker's response head, and for the whole of a response
    upstream_pool_idle_timeout_s: float = 3.0  # 0: keep idle connections for ever

    sse_keepalive_s: float = 15.0  # silence of an event stream after which a ping is sent; 0: never
    body_stall_timeout_s: float = 300.0  # between two pieces of a request body; 0: for ever
    header_read_timeout_s: float = 30.0  # for a request head; 0: for ever
    idle_connection_timeout_s: float = 90.0  # between two requests of a connection; 0: for ever

    admission: AdmissionSettings = field(default_factory=AdmissionSettings)
    retry: RetrySettings = RetrySettings()
    breaker: BreakerSettings = BreakerSettings()
    health: HealthSettings = HealthSettings()
    worker_startup: WorkerStartupSettings = WorkerStartupSettings()
    overload: OverloadSettings = OverloadSettings()

    prometheus_host: str = "127.0.0.1"
    prometheus_port: int = 29_000  # 0: the system chooses
    log_level: LogLevel = "info"
    shutdown_grace_period_s: float = 180.0
    exit_with_parent: bool = False  # our own flag: end when standard input closes

    @property
    def has_keys(self) -> bool:
        """Whether any key protects the serving routes."""
        return self.api_key is not None or bool(self.tenant_api_keys)

    def canonical_model(self, name: str) -> str:
        """The served model a client's model name means: one step through the aliases, never two."""
        return self.model_aliases.get(name, name)

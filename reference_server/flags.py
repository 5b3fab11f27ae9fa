"""From a command line to `Settings`: the flags are named as the real gateway names its own, so its lines work here.

A flag of the real gateway that is not built yet is said to be just that; an unknown one gets the nearest known name.
Nothing is guessed: every value is read by `reference_server.flag_values`, and a bad one ends the program with exit
status 2 and one line that says what, where and what to write instead.
"""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from reference_server import flag_values as values
from reference_server.admission import options as admission
from reference_server.admission.priority import BY_LABEL
from reference_server.errors import ConfigurationError
from reference_server.settings import (
    DEFAULT_REQUEST_ID_HEADERS,
    BreakerSettings,
    HealthSettings,
    OverloadSettings,
    RetrySettings,
    Settings,
    WorkerStartupSettings,
)
from reference_server.tenants import policy_file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reference_server.settings import ControlPlaneKey, LogLevel, Policy, TenantKey
    from reference_server.tenants.policy import RateLimitPolicy


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag. `takes`: "none" (a switch), "one" value, "repeat" (one value, as often as wanted), "many" values."""

    name: str
    takes: str
    read: Callable[[str], Any] | None
    metavar: str
    help: str


def _switch(name: str, text: str) -> Flag:
    return Flag(name, "none", None, "", text)


def _one(name: str, read: Callable[[str], Any], metavar: str, text: str) -> Flag:
    return Flag(name, "one", read, metavar, text)


SECTIONS: tuple[tuple[str, tuple[Flag, ...]], ...] = (
    ("Listening", (
        _one("--host", values.host, "HOST", "address to listen at (127.0.0.1; the real gateway binds every interface)"),
        _one("--port", values.port, "PORT", "port to listen at (30000; 0: the system chooses, the ready line tells)"),
        _one("--prometheus-host", values.host, "HOST", "address of the metrics endpoint (127.0.0.1)"),
        _one("--prometheus-port", values.port, "PORT", "port of the metrics endpoint (29000; 0: the system chooses)"),
        _one("--max-payload-size", values.whole(1, unit="bytes"), "BYTES",
             "largest request body and largest non-streaming worker response (536870912)"),
        _one("--max-buffered-request-bytes", values.whole(0, unit="bytes"), "BYTES",
             "accepted for compatibility: every body is parsed here, and what is parsed is buffered anyway"),
        _one("--header-read-timeout-secs", values.seconds, "SECS", "how long a request head may take (30; 0: ever)"),
        _one("--idle-connection-timeout-secs", values.seconds, "SECS",
             "how long a connection is kept between two requests (90; 0: for ever)"),
        _one("--stream-body-stall-timeout-secs", values.seconds, "SECS",
             "longest pause inside of a request body, then 408 (300; 0: for ever)"),
        _one("--sse-keepalive-secs", values.seconds, "SECS",
             "silence of an event stream after which the client gets a ping (15; 0: never)"),
        _one("--shutdown-grace-period-secs", values.seconds, "SECS", "how long open requests may go on (180)"),
        _one("--log-level", values.one_of("debug", "info", "warn", "error"), "LEVEL",
              "debug, info, warn or error (info)"),
        Flag("--request-id-headers", "many", values.header_name, "NAME",
             "headers looked at for the request id, in this order (" + " ".join(DEFAULT_REQUEST_ID_HEADERS) + ")"),
        _switch("--exit-with-parent", "end as on SIGTERM when standard input closes (not a flag of the real gateway)"),
    )),
    ("Workers", (
        Flag("--worker-urls", "many", values.worker_url, "URL", "HTTP workers to register at start"),
        _switch("--enable-igw", "register no worker at start: they come by POST /workers"),
        _one("--policy", values.policy, "NAME", "random or round_robin (round_robin; the real default is not built)"),
        Flag("--model-alias", "repeat", values.alias, "ALIAS=MODEL", "another name for a served model; repeatable"),
        _one("--request-timeout-secs", values.positive_seconds, "SECS", "limit of one request to a worker (1800)"),
        _one("--upstream-pool-idle-timeout-secs", values.seconds, "SECS", "idle life of connections (3; 0: ever)"),
        _one("--worker-startup-timeout-secs", values.positive_seconds, "SECS", "how long a worker may take (1800)"),
        _one("--worker-startup-delay", values.seconds, "SECS", "pause before the first probe of a worker (0)"),
        _one("--worker-startup-check-interval", values.positive_seconds, "SECS", "pause between first probes (30)"),
    )),
    ("Keys", (
        _one("--api-key", values.key, "KEY", "shared key of serving and admin routes"),
        Flag("--tenant-api-key", "repeat", values.tenant_key, "TENANT:KEY", "a tenant's key, serving only; repeatable"),
        Flag("--control-plane-api-keys", "many", values.control_plane_key, "ID:NAME:ROLE:KEY",
             "credentials of admin routes, which then take no others; role admin or user, and only admin opens them"),
        _switch("--control-plane-audit-enabled", "log every decision about a control-plane credential, without keys"),
        _switch("--trust-tenant-header", "let a header name the tenant where no API key has identified the caller"),
        _one("--tenant-header-name", values.header_name, "NAME", "that header's name (x-smg-tenant-id)"),
    )),
    ("Overload of workers", (
        _one("--worker-overload-waiting-requests", values.whole(1), "N",
             "waiting requests, of all ranks together, from which a worker counts as overloaded (8)"),
        _one("--worker-overload-token-usage", values.share, "X",
             "used share of the KV cache, the mean of all ranks, from which it does (0.8)"),
        _switch("--worker-overload-protection", "leave overloaded workers alone; this is the default"),
        _switch("--disable-worker-overload-protection", "send requests to overloaded workers too"),
        _switch("--worker-overload-shed",
                "refuse requests while every worker is overloaded; done without it too, as the contract says"),
        _one("--load-monitor-interval", values.positive_seconds, "SECS", "pause between questions for loads (10)"),
        _switch("--disable-load-monitoring", "ask for loads only where overload protection needs them"),
    )),
    ("Tenant rate limits", (
        _switch("--tenant-rate-limit-enabled", "hold tenants to their limits of tokens and requests a minute"),
        _one("--tenant-rate-limit-config", str, "FILE", "the limits, in YAML"),
    )),
    ("Admission", (
        _one("--max-concurrent-requests", admission.limit, "N",
             "requests served at a time (-1: the larger of 4096 and 1024 a core; 0: any number)"),
        _one("--queue-size", values.whole(0), "N", "requests that may wait for a slot (100; 0: none)"),
        _one("--queue-timeout-secs", values.positive_seconds, "SECS", "how long a request may wait (60)"),
        _one("--rate-limit-tokens-per-second", values.whole(0), "N",
             "requests let in a second, with a burst of --max-concurrent-requests (0: any number)"),
        _switch("--priority-scheduler-enabled", "classes of priority in place of limit and queue"),
        _one("--priority-scheduler-config", str, "FILE", "YAML: classes and the highest class of tenants"),
        _one("--priority-scheduler-default-max-class", values.one_of(*BY_LABEL), "CLASS",
             "highest class of a tenant that the file does not name (default)"),
        _one("--priority-scheduler-tenant-metric-top-n", values.whole(0), "N",
             "tenants with a metric label of their own (32)"),
    )),
    ("Retries", (
        _one("--retry-max-retries", values.whole(1), "N", "attempts in all, the first one included (5)"),
        _one("--retry-initial-backoff-ms", values.whole(1, unit="ms"), "MS", "first pause (50)"),
        _one("--retry-max-backoff-ms", values.whole(1, unit="ms"), "MS", "longest pause (30000)"),
        _one("--retry-backoff-multiplier", values.decimal(1.0), "X", "growth of the pause (1.5)"),
        _one("--retry-jitter-factor", values.decimal(0.0, 1.0), "X", "random share of the pause (0.2)"),
        _switch("--disable-retries", "one attempt only"),
    )),
    ("Circuit breaker", (
        _one("--cb-failure-threshold", values.whole(1), "N", "failures in a row that open it (10)"),
        _one("--cb-success-threshold", values.whole(1), "N", "successes that close it again (3)"),
        _one("--cb-timeout-duration-secs", values.positive_seconds, "SECS", "how long it stays open (60)"),
        _one("--cb-window-duration-secs", values.positive_seconds, "SECS",
             "accepted for compatibility: failures in a row count however old they are, as by the real gateway"),
        _switch("--disable-circuit-breaker", "never open it"),
    )),
    ("Health checks", (
        _one("--health-failure-threshold", values.whole(1), "N", "failures in a row that mean unhealthy (3)"),
        _one("--health-success-threshold", values.whole(1), "N", "successes in a row that mean healthy (2)"),
        _one("--health-check-timeout-secs", values.positive_seconds, "SECS", "limit of one probe (5)"),
        _one("--health-check-interval-secs", values.positive_seconds, "SECS", "pause between probes (60)"),
        _one("--health-check-endpoint", values.path, "PATH", "what is asked for (/health)"),
        _switch("--disable-health-check", "never probe registered workers"),
    )),
)  # fmt: skip

FLAGS = {flag.name: flag for _, flags in SECTIONS for flag in flags}
SECRETS = [FLAGS[name] for name in ("--api-key", "--tenant-api-key", "--control-plane-api-keys")]
"""Flags whose values must never be shown."""


def unbuilt() -> dict[str, str]:
    """Flags of the real gateway that are not built yet, with what they take: "none", "one" or "many"."""
    text = resources.files("reference_server").joinpath("unbuilt_flags.json").read_text(encoding="utf-8")
    table = json.loads(text)
    return {name: takes for takes in ("none", "one", "many") for name in table[takes]}


def parse(arguments: Sequence[str]) -> Settings:
    """Settings from the arguments after the program's name (and after `launch`).

    Raises:
        ConfigurationError: an unknown or unbuilt flag, a missing, superfluous or unusable value, a contradiction.
    """
    given: dict[str, Any] = {}
    position = 0
    flag: Flag | None = None
    while position < len(arguments):
        name, equals, inline = arguments[position].partition("=")
        position += 1
        flag = _flag(name, behind=flag)
        texts = [inline] if equals else []
        if flag.takes == "none":
            if equals:
                raise ConfigurationError(f"{name} is a switch and takes no value; write {name} alone")
            given[name] = True
            continue
        while not equals and position < len(arguments) and not arguments[position].startswith("--"):
            texts.append(arguments[position])
            position += 1
            if flag.takes != "many":
                break
        _take(given, flag, texts)
    return _settings(given)


def _flag(name: str, behind: Flag | None) -> Flag:
    flag = FLAGS.get(name)
    if flag is not None:
        return flag
    if not name.startswith("-"):
        # What stands behind a key may well be a key.
        shown = f"what stands behind {behind.name}" if behind in SECRETS else repr(name)
        raise ConfigurationError(f"{shown} stands alone; flags begin with --, see reference-gateway --help")
    if name in unbuilt():
        raise ConfigurationError(
            f"{name} is a flag of the real gateway that is not built here yet; leave it out or run the real one"
        )
    known = [*FLAGS, *unbuilt()]
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else "see reference-gateway --help"
    raise ConfigurationError(f"{name} is no flag of this program; {hint}")


def _take(given: dict[str, Any], flag: Flag, texts: list[str]) -> None:
    if not texts and flag.takes != "many":
        raise ConfigurationError(f"{flag.name} needs a value; write {flag.name} {flag.metavar}")
    read = cast("Callable[[str], Any]", flag.read)
    try:
        taken = [read(text) for text in texts]
    except ValueError as error:
        raise ConfigurationError(f"{flag.name}: {error}") from None
    if flag in SECRETS and flag.takes == "one" and flag.name in given:
        raise ConfigurationError(f"{flag.name} stands twice; keep one, and give each tenant its own --tenant-api-key")
    if flag.takes == "one":
        given[flag.name] = taken[0]
    else:
        given.setdefault(flag.name, []).extend(taken)


def _settings(given: dict[str, Any]) -> Settings:
    retry = RetrySettings(**_picked(given, max_attempts="--retry-max-retries",
        initial_backoff_ms="--retry-initial-backoff-ms", max_backoff_ms="--retry-max-backoff-ms",
        backoff_multiplier="--retry-backoff-multiplier", jitter_factor="--retry-jitter-factor"))  # fmt: skip
    if "--disable-retries" in given:
        retry = RetrySettings(max_attempts=1)
    breaker = BreakerSettings(enabled="--disable-circuit-breaker" not in given, **_picked(given,
        failure_threshold="--cb-failure-threshold", success_threshold="--cb-success-threshold",
        timeout_s="--cb-timeout-duration-secs"))  # fmt: skip
    health = HealthSettings(enabled="--disable-health-check" not in given, **_picked(given,
        failure_threshold="--health-failure-threshold", success_threshold="--health-success-threshold",
        timeout_s="--health-check-timeout-secs", interval_s="--health-check-interval-secs",
        endpoint="--health-check-endpoint"))  # fmt: skip
    startup = WorkerStartupSettings(**_picked(given, timeout_s="--worker-startup-timeout-secs",
        delay_s="--worker-startup-delay", check_interval_s="--worker-startup-check-interval"))  # fmt: skip
    return Settings(
        worker_urls=tuple(given.get("--worker-urls", ())),
        model_aliases=_aliases(given.get("--model-alias", ())),
        request_id_headers=tuple(given.get("--request-id-headers", ())) or DEFAULT_REQUEST_ID_HEADERS,
        enable_igw="--enable-igw" in given,
        exit_with_parent="--exit-with-parent" in given,
        policy=cast("Policy", given.get("--policy", "round_robin")),
        log_level=cast("LogLevel", given.get("--log-level", "info")),
        admission=admission.settings(given), retry=retry, breaker=breaker, health=health, worker_startup=startup,
        overload=_overload(given), **_identity(given),
        **_picked(given, host="--host", port="--port", prometheus_host="--prometheus-host",
            prometheus_port="--prometheus-port", max_payload_size_bytes="--max-payload-size",
            max_buffered_request_bytes="--max-buffered-request-bytes", request_timeout_s="--request-timeout-secs",
            upstream_pool_idle_timeout_s="--upstream-pool-idle-timeout-secs",
            shutdown_grace_period_s="--shutdown-grace-period-secs",
            sse_keepalive_s="--sse-keepalive-secs",
            body_stall_timeout_s="--stream-body-stall-timeout-secs",
            header_read_timeout_s="--header-read-timeout-secs",
            idle_connection_timeout_s="--idle-connection-timeout-secs"),
    )  # fmt: skip


def _picked(given: dict[str, Any], **names: str) -> dict[str, Any]:
    """The settings whose flags were given; what was not keeps the default of its dataclass."""
    return {setting: given[flag] for setting, flag in names.items() if flag in given}


def _overload(given: dict[str, Any]) -> OverloadSettings:
    kept = {"--worker-overload-protection", "--worker-overload-shed"} & given.keys()
    if kept and "--disable-worker-overload-protection" in given:
        raise ConfigurationError(f"--disable-worker-overload-protection contradicts {min(kept)}; keep one of the two")
    return OverloadSettings(
        enabled="--disable-worker-overload-protection" not in given,
        monitored="--disable-load-monitoring" not in given,
        **_picked(given, waiting_requests="--worker-overload-waiting-requests",
            token_usage="--worker-overload-token-usage", interval_s="--load-monitor-interval"),  # noqa: S106 - no secret
    )  # fmt: skip


def _identity(given: dict[str, Any]) -> dict[str, Any]:
    """The settings that say who is asking, and what tenants may spend."""
    tenants = tuple(given.get("--tenant-api-key", ()))
    control_plane = tuple(given.get("--control-plane-api-keys", ()))
    if "--control-plane-api-keys" in given and not control_plane:
        raise ConfigurationError("--control-plane-api-keys needs a value; without one it would protect nothing")
    _check_keys(given.get("--api-key"), tenants, control_plane)
    return {
        "tenant_api_keys": tenants,
        "control_plane_keys": control_plane,
        "control_plane_audit": "--control-plane-audit-enabled" in given,
        "trust_tenant_header": "--trust-tenant-header" in given,
        "tenant_rate_limits": _rate_limits(given),
        **_picked(given, api_key="--api-key", tenant_header_name="--tenant-header-name"),
    }


def _rate_limits(given: dict[str, Any]) -> RateLimitPolicy | None:
    """The policy in force; a file that is named is judged also where the switch leaves it idle."""
    path = given.get("--tenant-rate-limit-config")
    enabled = "--tenant-rate-limit-enabled" in given
    if path is None:
        if enabled:
            raise ConfigurationError("--tenant-rate-limit-enabled needs limits; add --tenant-rate-limit-config FILE")
        return None
    policy = policy_file.read(path, header_trusted="--trust-tenant-header" in given)
    return policy if enabled else None


def _check_keys(shared: str | None, tenants: Sequence[TenantKey], control_plane: Sequence[ControlPlaneKey]) -> None:
    """A key is good for one thing only, so that it is plain who sent it and what it opens."""
    owners = [] if shared is None else [("--api-key", "--api-key", shared)]
    owners += [("--tenant-api-key", f"tenant {tenant.tenant_id!r}", tenant.key) for tenant in tenants]
    owners += [("--control-plane-api-keys", f"{entry.key_id!r}", entry.key) for entry in control_plane]
    seen: dict[str, str] = {}
    for flag, owner, key in owners:
        if key in seen:
            raise ConfigurationError(f"{flag}: the key of {owner} is that of {seen[key]} too; give each its own")
        seen[key] = owner


def _aliases(pairs: Sequence[tuple[str, str]]) -> MappingProxyType[str, str]:
    table: dict[str, str] = {}
    for name, canonical in pairs:
        if table.setdefault(name, canonical) != canonical:
            raise ConfigurationError(
                f"--model-alias: {name!r} stands for both {table[name]!r} and {canonical!r}; keep one"
            )
    return MappingProxyType(table)


def usage() -> str:
    """The text of --help."""
    lines = ["usage: reference-gateway [launch] [flags]", ""]
    for title, flags in SECTIONS:
        lines.append(f"{title}:")
        for flag in flags:
            values_ = {"none": "", "many": f" [{flag.metavar} ...]"}.get(flag.takes, f" {flag.metavar}")
            lines.append(f"  {flag.name}{values_}")
            lines.append(f"        {flag.help}")
        lines.append("")
    lines.append("exit status: 0 stopped as asked; 1 could not listen; 2 bad command line")
    return "\n".join(lines) + "\n"

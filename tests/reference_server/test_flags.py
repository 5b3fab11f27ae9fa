"""A command line becomes settings, or one sentence that says what to write instead."""

from __future__ import annotations

import pytest

from reference_server import flags
from reference_server.errors import ConfigurationError
from reference_server.settings import RetrySettings, Settings, TenantKey


def test_without_flags_the_defaults_stand() -> None:
    """No flag, no change; and no default binds anything but the loopback interface."""
    settings = flags.parse([])
    assert settings == Settings()
    assert (settings.host, settings.prometheus_host) == ("127.0.0.1", "127.0.0.1")


def test_a_line_of_the_real_gateway_works() -> None:
    """Names, repetitions, lists and switches are those of the real gateway's launcher."""
    settings = flags.parse(
        [
            "--host", "::1", "--port", "0", "--worker-urls", "http://127.0.0.1:1", "http://[::1]:2/",
            "--policy", "random",
            "--api-key=k", "--tenant-api-key", "red:a:b", "--tenant-api-key", "red:c", "--model-alias", "a=m",
            "--model-alias", "b=m", "--request-id-headers", "X-Mine", "x-other", "--max-payload-size", "20000",
            "--request-timeout-secs", "2", "--disable-retries", "--cb-failure-threshold", "3",
            "--disable-circuit-breaker",
            "--health-check-interval-secs", "0.5", "--health-check-endpoint", "/ping", "--disable-health-check",
            "--worker-startup-check-interval", "1", "--prometheus-port", "0", "--log-level", "warn", "--enable-igw",
            "--shutdown-grace-period-secs", "0", "--exit-with-parent",
        ]
    )  # fmt: skip
    assert (settings.host, settings.port, settings.policy) == ("::1", 0, "random")
    assert settings.worker_urls == ("http://127.0.0.1:1", "http://[::1]:2")
    assert settings.tenant_api_keys == (TenantKey("red", "a:b"), TenantKey("red", "c"))
    assert settings.api_key == "k"
    assert dict(settings.model_aliases) == {"a": "m", "b": "m"}
    assert settings.request_id_headers == ("x-mine", "x-other")
    assert settings.retry.max_attempts == 1
    assert (settings.breaker.enabled, settings.breaker.failure_threshold) == (False, 3)
    assert (settings.health.enabled, settings.health.interval_s, settings.health.endpoint) == (False, 0.5, "/ping")
    assert (settings.max_payload_size_bytes, settings.request_timeout_s) == (20_000, 2.0)
    assert settings.enable_igw
    assert settings.exit_with_parent
    assert settings.shutdown_grace_period_s == 0


def test_retries_are_counted_with_the_first_attempt() -> None:
    """`--retry-max-retries` names attempts, as the real gateway counts them."""
    assert flags.parse(["--retry-max-retries", "2"]).retry == RetrySettings(max_attempts=2)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--prot", "1"], "did you mean --port"), (["--nonsense-flag"], "--help"), (["launch"], "stands alone"),
        (["--sse-keepalive-sec", "1"], "did you mean --sse-keepalive-secs"),
        (["--enable-wasm"], "not built here yet"), (["--pd-disaggregation"], "not built here yet"),
        (["--port"], "needs a value"), (["--port", "--host", "x"], "needs a value"),
        (["--port", "1", "2"], "stands alone"),
        (["--port", "x"], "0 to 65535"), (["--port", "65536"], "0 to 65535"), (["--port", "-1"], "0 to 65535"),
        (["--port", "1.0"], "0 to 65535"), (["--host", ""], "no host"), (["--host", "a b"], "no host"),
        (["--worker-urls", "ftp://x"], "http"), (["--worker-urls", "127.0.0.1:1"], "http"),
        (["--worker-urls", "grpc://x:1"], "not built"), (["--policy", "cache_aware"], "round_robin"),
        (["--policy", "best"], "random, round_robin"), (["--retry-max-retries", "0"], "at least 1"),
        (["--retry-jitter-factor", "1.1"], "0 to 1"), (["--retry-backoff-multiplier", "0.9"], "at least 1"),
        (["--retry-backoff-multiplier", "nan"], "at least 1"), (["--cb-failure-threshold", "0"], "at least 1"),
        (["--health-check-interval-secs", "0"], "more than 0"), (["--health-check-endpoint", "ping"], "/health"),
        (["--max-payload-size", "0"], "at least 1"), (["--log-level", "loud"], "debug, info, warn, error"),
        (["--model-alias", "a"], "alias=canonical"), (["--model-alias", "=m"], "alias=canonical"),
        (["--model-alias", "a=m", "--model-alias", "a=n"], "both"), (["--request-id-headers", "x y"], "no header name"),
        (["--enable-igw=true"], "takes no value"), (["--api-key", ""], "empty"),
        (["--tenant-api-key", "x"], "no colon"),
        (["--tenant-api-key", ":k"], "tenant id"), (["--tenant-api-key", "red:"], "empty"),
        (["--tenant-api-key", "a:k", "--tenant-api-key", "b:k"], "tenant 'a'"),
        (["--api-key", "k", "--tenant-api-key", "a:k"], "--api-key"),
    ],
)  # fmt: skip
def test_a_bad_line_is_explained(arguments: list[str], words: str) -> None:
    """Unknown and unbuilt flags, missing, superfluous and unusable values: one line each, with the remedy."""
    with pytest.raises(ConfigurationError) as caught:
        flags.parse(arguments)
    assert words in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("flag", ["--api-key", "--tenant-api-key"])
def test_a_bad_key_is_not_repeated(flag: str) -> None:
    """The message about an unusable key does not contain it."""
    with pytest.raises(ConfigurationError) as caught:
        flags.parse([flag, "red:sec\x01ret" if flag == "--tenant-api-key" else "sec\x01ret"])
    assert "sec" not in caught.value.message


def test_no_flag_is_both_built_and_unbuilt() -> None:
    """The list of unbuilt flags holds none that this server has, and the help names every one it has."""
    assert not flags.FLAGS.keys() & flags.unbuilt().keys()
    assert all(f"  {name}" in flags.usage() for name in flags.FLAGS)

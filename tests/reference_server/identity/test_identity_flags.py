"""Flags that name keys and tenants: what they take, and that nothing secret is ever shown."""

from __future__ import annotations

import pytest

from reference_server import flags
from reference_server.errors import ConfigurationError
from reference_server.settings import ControlPlaneKey, Settings

SECRET = "s3cr3t"


def test_control_plane_keys_are_a_list() -> None:
    """Id, name, role and key are parted by the first three colons; the role may be in any case, the name be empty."""
    settings = flags.parse(["--control-plane-api-keys", "ops:Team Ops:Admin:a:b", "dev::user:k"])
    assert settings.control_plane_keys == (
        ControlPlaneKey("ops", "Team Ops", "admin", "a:b"),
        ControlPlaneKey("dev", "", "user", "k"),
    )
    assert not settings.control_plane_audit


def test_one_operator_may_have_two_keys() -> None:
    """The same id may stand twice, so that a key can be replaced without a gap."""
    settings = flags.parse(
        ["--control-plane-api-keys", "ops:a:admin:old", "--control-plane-api-keys", "ops:a:admin:new"]
    )
    assert [entry.key for entry in settings.control_plane_keys] == ["old", "new"]


def test_the_tenant_header_is_not_trusted_unless_asked_for() -> None:
    """By default no header names a tenant; with the flag X-SMG-Tenant-ID does, or another."""
    assert not Settings().trust_tenant_header
    settings = flags.parse(["--trust-tenant-header", "--control-plane-audit-enabled"])
    assert (settings.trust_tenant_header, settings.tenant_header_name) == (True, "x-smg-tenant-id")
    assert settings.control_plane_audit
    assert flags.parse(["--tenant-header-name", "X-Org"]).tenant_header_name == "x-org"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--control-plane-api-keys"], "needs a value"),
        (["--control-plane-api-keys", f"a:b:{SECRET}"], "three colons"),
        (["--control-plane-api-keys", f":b:admin:{SECRET}"], "id before"),
        (["--control-plane-api-keys", f"a:b:root:{SECRET}"], "admin, user"),
        (["--control-plane-api-keys", "a:b:admin:"], "empty"),
        (["--control-plane-api-keys", f"a:b:admin: {SECRET}"], "blank"),
        (["--control-plane-api-keys", f"a:b:admin:{SECRET}", f"c:d:user:{SECRET}"], "'c' is that of 'a'"),
        (["--control-plane-api-keys", f"a:b:admin:{SECRET}", "--api-key", SECRET], "that of --api-key"),
        (["--control-plane-api-keys", f"a:b:admin:{SECRET}", "--tenant-api-key", f"red:{SECRET}"], "tenant 'red'"),
        (["--tenant-api-key", "red:k", f"blue:{SECRET}"], "behind --tenant-api-key stands alone"),
        (["--api-key", "k", SECRET], "behind --api-key stands alone"),
        (["--api-key", f"{SECRET}\x01"], "control characters"),
        (["--tenant-api-key", f"red:{SECRET}\x01"], "control characters"),
        (["--tenant-header-name", "x y"], "no header name"),
        (["--tenant-header-name", "Authorization"], "name another one"),
        (["--request-id-headers", "x-request-id", "cookie"], "name another one"),
        (["--api-key", SECRET, "--api-key", f"{SECRET}2"], "--api-key stands twice"),
        (["--api-key", SECRET, "--api-key", SECRET], "--api-key stands twice"),
        (["--tenant-api-key", f" red:{SECRET}"], "begins or ends with a blank"),
        (["--tenant-api-key", f"a\nb:{SECRET}"], "control characters"),
        (["--tenant-api-key", f"\udcff:{SECRET}"], "control characters"),
        (["--worker-urls", f"http://user:{SECRET}@host:1"], "'http://…@host:1': the URL must not hold"),
        (["--worker-urls", f"user:{SECRET}@host:1"], "'…@host:1': the URL must start"),
        (["--worker-urls", f"http://user:{SECRET}//{SECRET}@host:1"], "'http://…@host:1': the host or port"),
        (["--worker-urls", f"http://host:1/?key={SECRET}"], "'http://host:1/?…': the URL must end"),
    ],
)  # fmt: skip
def test_a_bad_line_is_explained_without_its_secrets(arguments: list[str], words: str) -> None:
    """One line says what is wrong and what to write; no key is in it."""
    with pytest.raises(ConfigurationError) as caught:
        flags.parse(arguments)
    assert words in caught.value.message
    assert SECRET not in caught.value.message
    assert "\n" not in caught.value.message

"""The policy file: what it says is what holds, and what cannot be meant is refused with file, line and remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reference_server import flags
from reference_server.errors import ConfigurationError
from reference_server.tenants import policy_file
from reference_server.tenants.policy import Limits, ModelRule, RateLimitPolicy, TenantPolicy

if TYPE_CHECKING:
    from pathlib import Path

WHOLE = """\
default_policy:
  tokens_per_minute: 100
  requests_per_minute: 10
  model_rules:
    - rule_id: big
      matcher: {type: prefix, value: big-}
      tokens_per_minute: 50
      requests_per_minute: 5
    - rule_id: biggest
      matcher: {type: prefix, value: big-big-}
      tokens_per_minute: 40
      requests_per_minute: 4
    - rule_id: one
      matcher: {type: exact, value: big-big-one}
      tokens_per_minute: 30
      requests_per_minute: 3
tenants:
  - tenant_key: auth:red
    tokens_per_minute: 7
    requests_per_minute: 6
  - {tenant_key: "ip:2001:DB8::0:7", tokens_per_minute: 9, requests_per_minute: 8}
  - {tenant_key: "ip:::ffff:192.0.2.1", tokens_per_minute: 9, requests_per_minute: 7}
  - {tenant_key: anonymous, tokens_per_minute: 4294967295, requests_per_minute: 1}
"""
LIMITS = "tokens_per_minute: 1, requests_per_minute: 1"
DEFAULT = f"default_policy: {{{LIMITS}}}\n"
RULE = f"{{rule_id: a, matcher: {{type: exact, value: m}}, {LIMITS}}}"
RULE_EMPTY = RULE.replace("value: m", "value: ''")
RULE_B = RULE.replace("rule_id: a", "rule_id: b")


def read(folder: Path, text: str | bytes, *, trusted: bool = False) -> RateLimitPolicy:
    """The policy of a file with this text."""
    path = folder / "limits.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return policy_file.read(str(path), header_trusted=trusted)


def rules(text: str) -> str:
    """A file whose default policy has these rules, each on a line of its own from line 5 on."""
    return f"default_policy:\n  tokens_per_minute: 1\n  requests_per_minute: 1\n  model_rules:\n{text}"


def tenant(members: str) -> str:
    """A file whose one entry, on line 2, has these members."""
    return f"{DEFAULT}tenants: [{{{members}}}]\n"


def test_the_file_is_the_policy(tmp_path: Path) -> None:
    """Limits, rules and tenants are taken as they stand; addresses get their one spelling."""
    policy = read(tmp_path, WHOLE)
    assert policy.default.limits == Limits(100, 10)
    assert policy.default.model_rules[2] == ModelRule("one", "big-big-one", exact=True, limits=Limits(30, 3))
    assert policy.of("auth:red") == TenantPolicy(Limits(7, 6))
    assert policy.of("ip:2001:db8::7").limits == Limits(9, 8)
    assert policy.of("ip:192.0.2.1").limits == Limits(9, 7)
    assert policy.of("anonymous").limits == Limits(2**32 - 1, 1)
    assert policy.of("auth:blue") == policy.default


@pytest.mark.parametrize(
    ("model", "rule_id"),
    [
        ("big-big-one", "one"), ("big-big-two", "biggest"), ("big-big-one-b", "biggest"), ("big-small", "big"),
        ("big", None),
    ],
)  # fmt: skip
def test_the_most_particular_rule_holds(tmp_path: Path, model: str, rule_id: str | None) -> None:
    """An exact rule beats prefixes, and the longest prefix beats shorter ones."""
    rule = read(tmp_path, WHOLE).default.rule_for(model)
    assert (None if rule is None else rule.rule_id) == rule_id


def test_a_trusted_header_may_have_an_entry(tmp_path: Path) -> None:
    """With the trust flag a header's tenant is a tenant like any other."""
    text = tenant(f"tenant_key: 'header:a: b', {LIMITS}")
    assert "header:a: b" in read(tmp_path, text, trusted=True).tenants


@pytest.mark.parametrize(
    "text", [DEFAULT, DEFAULT + "tenants:\n", DEFAULT + "tenants: []\n", rules(""), f"\ufeff{DEFAULT}"]
)
def test_what_may_be_left_out(tmp_path: Path, text: str) -> None:
    """Tenants and rules may be absent or empty; a byte order mark does no harm."""
    assert not read(tmp_path, text).tenants


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", 1, "default_policy is missing"), ("tenants: []\n", 1, "default_policy is missing"),
        ("[1]", 1, "a list"), ("text", 1, "keys and values"), ("a: [", 1, "no YAML"), ("a: b: c", 1, "no YAML"),
        (DEFAULT + "\ttenants: 1", 2, "no YAML"), (f"{DEFAULT}---\n{DEFAULT}", 2, "no YAML"),
        (DEFAULT + "tenant: []\n", 2, "'tenant' is no key here"), (DEFAULT + DEFAULT, 2, "stands twice"),
        (DEFAULT + "? [a]\n: b\n", 2, "not a key"), (DEFAULT + "1: b\n", 2, "not a key"),
        ("default_policy:\n", 1, "tokens_per_minute is missing"),
        ("default_policy: {tokens_per_minute: 1}\n", 1, "requests_per_minute is missing"),
        ("default_policy:\n  tokens_per_minute: 1\n  requests_per_minute: 0\n", 3, "from 1 to 4294967295"),
        *[
            (f"default_policy:\n  requests_per_minute: 1\n  tokens_per_minute: {value}\n", 3, "whole number")
            for value in (
                "0", "-1", "1.0", "1e3", "'1'", '"1"', "", "~", "true", "[1]", "{a: 1}", "0x10", "010", "1_000",
                "1:30", "4294967296", "9" * 5000, ".inf", "many", "|\n    1",
            )
        ],
        (f"default_policy: {{{LIMITS}, burst: 1}}\n", 1, "'burst' is no key here"),
        (DEFAULT + "tenants: {}\n", 2, "a mapping of keys"), (DEFAULT + "tenants: [1]\n", 2, "keys and values"),
        (DEFAULT + "tenants:\n  -\n", 3, "tenant_key is missing"),
        (tenant(LIMITS), 2, "tenant_key is missing"), (tenant("tenant_key: auth:a"), 2, "tokens_per_minute is missing"),
        *[
            (tenant(f"tenant_key: {key}, {LIMITS}"), 2, words)
            for key, words in {
                "red": "no tenant key", "'org:red'": "no tenant key", "'auth:'": "no tenant key",
                "'Auth:a'": "no tenant key",
                "''": "no tenant key", "' auth:red'": "blank", "'auth:red '": "blank", "'ip:foo'": "no address",
                "'ip:1.2.3.4:80'": "no address", "'header:x'": "--trust-tenant-header", "7": "quotes", "~": "quotes",
                "[auth]": "quotes",
            }.items()
        ],
        (tenant(f"tenant_key: auth:a, {LIMITS}}}, {{tenant_key: auth:a, {LIMITS}"), 2, "an entry already"),
        (tenant(f"tenant_key: 'ip:::1', {LIMITS}}}, {{tenant_key: 'ip:0::1', {LIMITS}"), 2, "an entry already"),
        (rules(f"  - {RULE}\n  - {RULE}\n"), 6, "'a' is used already"),
        (rules(f"  - {RULE}\n  - {RULE_B}\n"), 6, "the same models"),
        (rules(f"  - {RULE.replace('rule_id: a', 'rule_id: a b')}\n"), 5, "no rule id"),
        (rules(f"  - {RULE.replace('rule_id: a', 'rule_id: 1')}\n"), 5, "quotes"),
        (rules(f"  - {RULE.replace('rule_id: a', 'rule_id: é')}\n"), 5, "no rule id"),
        (rules(f"  - {RULE.replace('rule_id: a, ', '')}\n"), 5, "rule_id is missing"),
        (rules(f"  - {RULE.replace('exact', 'regex')}\n"), 5, "exact or prefix"),
        (rules(f"  - {RULE_EMPTY}\n"), 5, "empty"),
        (rules(f"  - {RULE.replace('value: m', 'value: m, z: 1')}\n"), 5, "'z' is no key"),
        (rules(f"  - {RULE.replace('{type: exact, value: m}', 'm')}\n"), 5, "keys and values"),
        (rules("    a: 1\n"), 5, "a mapping of keys"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused(tmp_path: Path, text: str, line: int, words: str) -> None:
    """One line names the flag, the file, the line in it, and what is wrong with it."""
    with pytest.raises(ConfigurationError) as caught:
        read(tmp_path, text)
    message = caught.value.message
    assert message.startswith(f"--tenant-rate-limit-config: {tmp_path / 'limits.yaml'}, line {line}: ")
    assert words in message
    assert "\n" not in message
    assert len(message) < 600


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"a: 1\nb: \xff\n", "line 2: this is not UTF-8"), (b"a: \x00", "no YAML"),
        (b"[" * 100_000, "nested too deeply"),
        (b" " * (4 * 1024 * 1024 + 1), "larger than"), (b"a: &a [*a]", "no key here"), (b"a: *b", "no YAML"),
        (b"default_policy: &a {<<: *a}", "not a key"), (b"!!python/object:os.system {}", "with the tag"),
    ],
)  # fmt: skip
def test_hostile_files(tmp_path: Path, data: bytes, words: str) -> None:
    """Whatever the file holds, there is one message and no crash."""
    with pytest.raises(ConfigurationError) as caught:
        read(tmp_path, data)
    assert words in caught.value.message
    assert "\n" not in caught.value.message


def test_the_flags_belong_together(tmp_path: Path) -> None:
    """The switch needs a file; a file without the switch is judged and holds nobody to anything."""
    path = tmp_path / "limits.yaml"
    path.write_text(DEFAULT)
    config = ["--tenant-rate-limit-config", str(path)]
    assert flags.parse([*config, "--tenant-rate-limit-enabled"]).tenant_rate_limits is not None
    assert flags.parse(config).tenant_rate_limits is None
    with pytest.raises(ConfigurationError, match="add --tenant-rate-limit-config"):
        flags.parse(["--tenant-rate-limit-enabled"])
    for missing in (tmp_path / "none.yaml", tmp_path):
        with pytest.raises(ConfigurationError, match="cannot be read"):
            flags.parse(["--tenant-rate-limit-config", str(missing)])

"""The real gateway's policy file for tenant rate limits (`--tenant-rate-limit-config`), judged line by line.

```yaml
default_policy:
  tokens_per_minute: 100000
  requests_per_minute: 600
  model_rules:
    - rule_id: large
      matcher: {type: prefix, value: meta-llama/}
      tokens_per_minute: 20000
      requests_per_minute: 60
tenants:
  - tenant_key: auth:team-red
    tokens_per_minute: 500000
    requests_per_minute: 3000
```
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING

from reference_server import located_yaml
from reference_server.identity import tenants
from reference_server.tenants.policy import Limits, ModelRule, RateLimitPolicy, TenantPolicy

if TYPE_CHECKING:
    from collections.abc import Callable

    from reference_server.errors import ConfigurationError
    from reference_server.located_yaml import Node

FLAG = "--tenant-rate-limit-config"
HIGHEST_LIMIT = 2**32 - 1  # the real gateway counts in 32 bits
_RULE_ID = re.compile(r"[A-Za-z0-9._-]+")
_LIMITS = ("tokens_per_minute", "requests_per_minute")


def read(path: str, *, header_trusted: bool) -> RateLimitPolicy:
    """The policy of a file. `header_trusted`: `--trust-tenant-header` is given.

    Raises:
        ConfigurationError: anything in it that cannot be meant; says file, line and remedy.
    """
    root = located_yaml.read(path, FLAG)
    members = root.mapping(required=("default_policy",), optional=("tenants",))
    default = _policy(members["default_policy"])
    found: dict[str, TenantPolicy] = {}
    for entry in members["tenants"].sequence() if "tenants" in members else ():
        key_node = entry.mapping(("tenant_key", *_LIMITS), ("model_rules",))["tenant_key"]
        key = tenant_key(key_node.text(), key_node.problem, header_trusted=header_trusted)
        if key in found:
            raise key_node.problem(f"{key!r} has an entry already; keep one")
        found[key] = _policy(entry, also=("tenant_key",))
    return RateLimitPolicy(default, MappingProxyType(found))


def _policy(node: Node, also: tuple[str, ...] = ()) -> TenantPolicy:
    members = node.mapping((*also, *_LIMITS), ("model_rules",))
    rules: list[ModelRule] = []
    for item in members["model_rules"].sequence() if "model_rules" in members else ():
        rules.append(_rule(item, rules))
    return TenantPolicy(_limits(members), tuple(rules))


def _limits(members: dict[str, Node]) -> Limits:
    tokens, requests = (members[name].whole(1, HIGHEST_LIMIT) for name in _LIMITS)
    return Limits(tokens, requests)


def _rule(node: Node, before: list[ModelRule]) -> ModelRule:
    members = node.mapping(("rule_id", "matcher", *_LIMITS))
    rule_id = members["rule_id"].text()
    if not _RULE_ID.fullmatch(rule_id):
        raise members["rule_id"].problem(
            f"{rule_id!r} is no rule id; use letters, digits, dots, dashes and underscores"
        )
    if any(rule.rule_id == rule_id for rule in before):
        raise members["rule_id"].problem(f"the rule id {rule_id!r} is used already; give each rule its own")
    matcher = members["matcher"].mapping(("type", "value"))
    kind, value = matcher["type"].text(), matcher["value"].text()
    if kind not in {"exact", "prefix"}:
        raise matcher["type"].problem(f"{kind!r} is no type of matcher; write exact or prefix")
    if not value:
        raise matcher["value"].problem("the value is empty and would match nothing or everything; write a model's name")
    exact = kind == "exact"
    for rule in before:
        if (rule.exact, rule.value) == (exact, value):
            raise members["matcher"].problem(f"the rule {rule.rule_id!r} matches the same models; keep one of the two")
    return ModelRule(rule_id, value, exact, _limits(members))


def tenant_key(key: str, problem: Callable[[str], ConfigurationError], *, header_trusted: bool) -> str:
    """A tenant key as requests get it; anything else would be an entry that no request ever meets.

    Raises:
        ConfigurationError: made by `problem` of what is wrong with it.
    """
    if key != key.strip():
        raise problem(f"{key!r} begins or ends with a blank; leave it out")
    if not key.isprintable():
        raise problem(f"{key!r} holds control characters; leave them out")
    if key == tenants.ANONYMOUS:
        return key
    prefix, colon, name = key.partition(":")
    if prefix + colon not in {tenants.AUTH, tenants.HEADER, tenants.ADDRESS} or not name:
        raise problem(f"{key!r} is no tenant key; write auth:<id>, header:<value>, ip:<address> or anonymous")
    if prefix + colon == tenants.HEADER and not header_trusted:
        raise problem(f"no request is ever {key!r} without --trust-tenant-header; add the flag or drop the entry")
    if prefix + colon == tenants.ADDRESS:
        try:
            return tenants.of_address(name)
        except ValueError:
            raise problem(f"{name!r} is no address; write for example ip:192.0.2.7 or ip:2001:db8::7") from None
    return key

"""Who may spend how much: limits per tenant, with rules for single models on top. Plain data, judged already.

`reference_server.tenants.policy_file` reads it from the real gateway's YAML.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Limits:
    """What one budget holds when it is full, and gets back within a minute."""

    tokens_per_minute: int
    requests_per_minute: int


@dataclass(frozen=True, slots=True)
class ModelRule:
    """Limits that hold for some models besides those of the tenant. `exact`: one model, else all that begin so."""

    rule_id: str
    value: str
    exact: bool
    limits: Limits


@dataclass(frozen=True, slots=True)
class TenantPolicy:
    """The limits of one tenant."""

    limits: Limits
    model_rules: tuple[ModelRule, ...] = ()

    def rule_for(self, model: str) -> ModelRule | None:
        """The one rule for a model: the exact one, else the one with the longest prefix."""
        exact = next((rule for rule in self.model_rules if rule.exact and rule.value == model), None)
        if exact is not None:
            return exact
        prefixes = [rule for rule in self.model_rules if not rule.exact and model.startswith(rule.value)]
        return max(prefixes, key=lambda rule: len(rule.value), default=None)


@dataclass(frozen=True, slots=True)
class RateLimitPolicy:
    """The whole file. A tenant without an entry gets the default limits, in a budget of its own."""

    default: TenantPolicy
    tenants: Mapping[str, TenantPolicy] = field(default_factory=lambda: MappingProxyType({}))

    def of(self, tenant_key: str) -> TenantPolicy:
        """The policy of a tenant; an entry replaces the default as a whole, rules included."""
        return self.tenants.get(tenant_key, self.default)

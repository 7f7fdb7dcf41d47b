"""What a release is asked for, as a form or a script sends it: checked, and turned into queries. Public inputs only."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from maquette.domain import Domain
from maquette.errors import ParameterError, WorkloadError
from maquette.queries.base import Queries

MAX_PARTS = 64


class DiscoveryRequest(BaseModel):
    """What is known of the columns of a table before its domain is found privately, and what that may cost."""

    model_config = ConfigDict(extra="forbid")

    kind: Literal["discovery"] = "discovery"
    epsilon: float = Field(gt=0, le=100)
    delta: float = Field(default=0.0, ge=0, lt=1)
    columns: dict[str, Literal["number", "text", "date", "drop"]] = Field(
        default_factory=dict,
        description="What a column holds, or that it is dropped; all others are found out.",
    )


class ReleaseRequest(BaseModel):
    """A workload, a budget and how to release it."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(default="", max_length=60, description="What the release is called on pages.")
    marginals: list[int] = Field(default_factory=list, max_length=8, description="All K-way marginals.")
    prefixes: list[str] = Field(default_factory=list, max_length=MAX_PARTS)
    ranges: list[str] = Field(default_factory=list, max_length=MAX_PARTS)
    where: list[str] = Field(default_factory=list, max_length=MAX_PARTS)
    epsilon: float = Field(gt=0, le=100)
    delta: float = Field(default=0.0, ge=0, lt=1)
    beta: float = Field(default=0.05, gt=0, lt=1)
    mechanism: str = Field(default="auto", max_length=40)

    def queries(self, domain: Domain) -> Queries:
        """The union of everything that is asked for."""
        from maquette import queries as q

        parts: list[Queries] = []
        if any(order < 1 for order in self.marginals):
            raise WorkloadError("expected marginals of 1 or more: a marginal has at least one attribute")
        if self.marginals:
            orders = sorted(set(self.marginals))
            parts.append(q.marginals(domain, orders[0] if len(orders) == 1 else orders))
        parts += [q.prefixes(domain, name) for name in self.prefixes]
        parts += [q.ranges(domain, *(n.strip() for n in names.split(","))) for names in self.ranges]
        if self.where:
            parts.append(q.exact_predicates(domain, self.where))
        if not parts:
            raise WorkloadError("there are no queries; choose marginals, prefixes, ranges or conditions")
        return parts[0] if len(parts) == 1 else q.union(*parts)

    def arguments(self) -> dict[str, Any]:
        """What `maquette.release` takes besides table and queries."""
        return {"epsilon": self.epsilon, "delta": self.delta, "beta": self.beta, "mechanism": self.mechanism}


def invalid(error: ValidationError) -> ParameterError:
    """What is wrong with a form, in words."""
    first = error.errors()[0]
    return ParameterError(f"{'.'.join(str(one) for one in first['loc'])}: {first['msg']}")

"""What a release is asked for, as a form or a script sends it: checked, and turned into queries. Public inputs only."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from maquette.domain import Domain
from maquette.errors import ParameterError
from maquette.queries.base import Queries
from maquette.queries.forms import read_words
from maquette.requests import Delta, Epsilon, WorkloadWords, fields_of
from maquette.requests import ReleaseRequest as Release


class DiscoveryRequest(BaseModel):
    """What is known of the columns of a table before its domain is found privately, and what that may cost."""

    model_config = ConfigDict(extra="forbid")

    kind: Literal["discovery"] = "discovery"
    epsilon: Epsilon
    delta: Delta = 0.0
    columns: dict[str, Literal["number", "text", "date", "drop"]] = Field(
        default_factory=dict,
        description="What a column holds, or that it is dropped; all others are found out.",
    )


_FIELDS = {field.name: field for kind in (WorkloadWords, Release) for field in fields_of(kind)}
_OFFERED = ("marginals", "prefixes", "ranges", "where", "epsilon", "delta", "beta", "mechanism")
"""What of a release the service leaves open: its ledger decides the rest."""
_TYPES: dict[str, Any] = {
    name: (_FIELDS[name].type, ... if _FIELDS[name].is_required else _FIELDS[name].default)
    for name in _OFFERED
}
_Offered: Any = create_model("_Offered", __config__=ConfigDict(extra="forbid"), **_TYPES)


class ReleaseRequest(_Offered):
    """A workload, a budget and how to release it."""

    name: str = Field(default="", max_length=60, description="What the release is called on pages.")

    def queries(self, domain: Domain) -> Queries:
        """The union of everything that is asked for."""
        return read_words(domain, WorkloadWords(**self.model_dump(include={*_OFFERED[:4]})))

    def arguments(self) -> dict[str, Any]:
        """What `maquette.release` takes besides table and queries."""
        return self.model_dump(include={*_OFFERED[4:]})


def invalid(error: ValidationError) -> ParameterError:
    """What is wrong with a form, in words."""
    first = error.errors()[0]
    return ParameterError(f"{'.'.join(str(one) for one in first['loc'])}: {first['msg']}")

"""What a release is asked for, as a form or a script sends it: checked, and turned into queries. Public inputs only.

The last part makes conditions from a form: which cells of which columns, put into the words of a condition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from maquette.domain import Attribute, Domain
from maquette.errors import ParameterError, WorkloadError
from maquette.queries.base import Queries
from maquette.queries.names import quote, runs_text

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


MAX_CHECKS = 16
"""Cells of a column that are shown as boxes to tick; longer ones are lists."""
MAX_LIST = 400
"""Cells of a column that a form offers at all."""
MAX_CONDITIONS = 50
"""Conditions on one column that a text box offers."""
MAX_WORDS = 2000


@dataclass(frozen=True, slots=True)
class FormField:
    """One column of the form."""

    number: int
    name: str
    labels: tuple[str, ...]
    form: str
    """boxes, list, or range (two ends out of the cells)."""

    @property
    def boxes(self) -> str:
        return f"c{self.number}"

    @property
    def first(self) -> str:
        return f"f{self.number}"

    @property
    def last(self) -> str:
        return f"t{self.number}"


def fields(domain: Domain, names: Sequence[str] | None = None) -> list[FormField]:
    """The columns that a form offers."""
    return [_field(number, a) for number, a in enumerate(domain) if names is None or a.name in names]


def _field(number: int, attribute: Attribute) -> FormField:
    form = "boxes" if attribute.size <= MAX_CHECKS else "range" if attribute.ordered else "list"
    labels = tuple(attribute.label(code) for code in range(min(attribute.size, MAX_LIST)))
    return FormField(number, attribute.name, labels, form)


def condition(domain: Domain, values: Mapping[str, Sequence[str]]) -> str:
    """The condition that a form describes; an empty text where nothing was chosen."""
    parts: list[str] = []
    for field, attribute in zip(fields(domain), domain, strict=True):
        codes = _codes(field, attribute, values)
        if not codes or len(codes) == attribute.size:
            continue
        text = runs_text(attribute, _runs(codes))
        if text is None:
            raise ParameterError(
                f"too many cells of '{attribute.name}' to put into words; choose a range of them"
            )
        parts.append(text)
    if len(parts) == 1:
        return parts[0]
    return " AND ".join(f"({part})" if " OR " in part else part for part in parts)


def _codes(field: FormField, attribute: Attribute, values: Mapping[str, Sequence[str]]) -> list[int]:
    """The cells of one column that were chosen."""
    chosen = {_code(text, attribute) for text in values.get(field.boxes, ()) if text}
    first, last = (next(iter(values.get(name, ())), "") for name in (field.first, field.last))
    if first or last:
        low = _code(first, attribute) if first else 0
        high = _code(last, attribute) if last else attribute.cells - 1
        if low > high:
            raise ParameterError(f"the range of '{attribute.name}' ends before it begins")
        chosen |= set(range(low, high + 1))
    return sorted(chosen)


def _code(text: str, attribute: Attribute) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 7 and int(text) < attribute.size):
        raise ParameterError(f"there is no such cell of '{attribute.name}'")
    return int(text)


def _runs(codes: Sequence[int]) -> tuple[tuple[int, int], ...]:
    runs: list[tuple[int, int]] = []
    for code in codes:
        if runs and code == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], code)
        else:
            runs.append((code, code))
    return tuple(runs)


def words(domain: Domain, names: Sequence[str] | None = None) -> list[str]:
    """What a text box offers while somebody types: columns, and conditions on one cell each."""
    texts: list[str] = []
    for attribute in domain:
        if names is not None and attribute.name not in names:
            continue
        conditions = [
            text
            for code in range(min(attribute.size, MAX_CONDITIONS))
            if attribute.size > 1 and (text := runs_text(attribute, ((code, code),))) is not None
        ]
        texts += [quote(attribute.name), *conditions]
    return texts[:MAX_WORDS]

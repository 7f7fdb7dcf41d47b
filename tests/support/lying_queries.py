"""Classes of queries that lie to the gate: about their sensitivity, count, denominator, name, claims and arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

import maquette.queries as q
from maquette.core import forms
from maquette.core.forms import QueryForms
from maquette.domain import Domain, Relation
from maquette.queries import Sensitivity

Lie = Callable[[QueryForms, np.random.Generator], QueryForms]


@dataclass(frozen=True, eq=False)
class Lying(q.Queries):
    """Another class, told otherwise."""

    kind = "lying"
    truth: q.Queries
    lie: Lie
    seed: int

    @property
    def domain(self) -> Domain:
        return self.truth.domain

    @property
    def count(self) -> int:
        return self.truth.count

    @property
    def denominator(self) -> int:
        return self.truth.denominator

    @property
    def attributes(self) -> tuple[str, ...]:
        return self.truth.attributes

    @property
    def classes(self) -> tuple[q.Queries, ...]:
        return (self,)

    def distinct(self) -> int:
        return 1

    def sensitivity(self, relation: Relation) -> Sensitivity:
        """Of one thousandth of a record."""
        least = Fraction(1, 1000)
        return Sensitivity(least, least, least)

    def to_forms(self) -> QueryForms:
        return self.lie(self.truth.to_forms(), np.random.default_rng(self.seed))

    def on_rows(self, columns: Any, weights: Any = None) -> Any:
        raise AssertionError("no code of a class of queries runs over records")

    def columns_of(self, rows: Any) -> Any:
        raise AssertionError("no code of a class of queries runs over records")

    def on_histogram(self, histogram: Any) -> Any:
        return self.truth.on_histogram(histogram)

    def text(self, index: int) -> str:
        return self.truth.text(index)

    def spec(self) -> dict[str, Any]:
        return {"kind": self.kind}


def _parts(change: Callable[[Any, np.random.Generator], Any]) -> Lie:
    return lambda asked, rng: QueryForms(tuple(change(part, rng) for part in asked.parts), asked.name)


def _claims_less(part: Any, rng: np.random.Generator) -> Any:
    return replace(part, claim=int(rng.integers(0, part.claim + 1))) if hasattr(part, "claim") else part


def _listed_twice(part: Any, rng: np.random.Generator) -> Any:
    del rng
    if isinstance(part, forms.Conditions):
        return replace(part, conditions=part.conditions * 3)
    return part


def _smaller_top(part: Any, rng: np.random.Generator) -> Any:
    return replace(part, top=int(rng.integers(1, part.top + 1))) if isinstance(part, forms.Weights) else part


def _other_weights(part: Any, rng: np.random.Generator) -> Any:
    if not isinstance(part, forms.Weights):
        return part
    return replace(part, numerators=rng.integers(-3, part.top + 4, part.numerators.shape).astype(np.int32))


def _more_cells(part: Any, rng: np.random.Generator) -> Any:
    match part:
        case forms.Prefixes(attribute, declared):
            return forms.Prefixes(attribute, declared + int(rng.integers(0, 3)))
        case forms.Tables(margins, None):
            cells = tuple(rng.integers(0, 6, 4).astype(np.int64) for _ in margins)
            return forms.Tables(margins, cells)
        case _:
            return part


LIES: dict[str, Lie] = {
    "nothing but the sensitivity": lambda asked, rng: asked,
    "claims": _parts(_claims_less),
    "conditions that are listed three times": _parts(_listed_twice),
    "a smaller denominator": _parts(_smaller_top),
    "weights outside": _parts(_other_weights),
    "cells": _parts(_more_cells),
    "a name that is always the same": lambda asked, rng: QueryForms(asked.parts, "0" * 64),
    "a name at random": lambda asked, rng: QueryForms(asked.parts, rng.bytes(32).hex()),
    "parts twice": lambda asked, rng: QueryForms(asked.parts * 2, asked.name),
    "no forms": lambda asked, rng: QueryForms((), asked.name),
    "something else": lambda asked, rng: "forms",  # type: ignore[return-value]
}

"""A session's survey on neighbouring tables: what its draws lose, by their laws, beside what the ledger was charged."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest

from maquette.core.budget import UNITS, Accounting, Budget
from maquette.domain import Relation
from maquette.owner import Table
from support import privacy_loss
from support.online_cases import PEOPLE, book, columns
from support.online_tape import check_inputs, taped
from support.privacy_doubles import LooseEngine

TEXTS = ("age = 7 and job = 1", "age <= 2 and sex = 1", "job in (0, 2) and not sex = 0")
EPSILON, DELTA = 0.5, 1e-6
OPTIONS = {"epsilon": EPSILON, "delta": DELTA, "alpha": 0.15, "queries": 20_000}

Codes = dict[str, np.ndarray]


class Weighed(NamedTuple):
    """Everything in the unit of the ledger."""

    lost: Fraction
    charged: Fraction
    surveys: int
    """How many payments for tables there were."""


def weigh(relation: Relation, accounting: Accounting) -> Weighed:
    """One session and its neighbours: the largest loss of all its draws together, and the charge."""
    codes = columns(2000, seed=4)
    with pytest.MonkeyPatch.context() as patch:
        calls, charges, surveys = _run(patch, codes, None, relation, accounting)
        losses = []
        for other in _neighbours(codes, relation):
            played, again, _ = _run(patch, other, calls, relation, accounting)
            check_inputs(calls, played)
            assert again == charges
            one_by_one = privacy_loss.rho if accounting == "zcdp" else privacy_loss.half_square
            losses.append(sum((one_by_one(a, b) for a, b in zip(calls, played, strict=True)), Fraction(0)))
    return Weighed(max(losses), Fraction(sum(charges), UNITS), surveys)


def _run(patch, codes: Codes, tape, relation: Relation, accounting: Accounting):
    ledger = book(
        Budget(2 * EPSILON, DELTA, accounting), relation=relation
    )  # wider, since sessions plan in rho
    table = Table(LooseEngine(PEOPLE, codes), name="people", source="test")
    session, noise = taped(patch, tape, table, ledger, relation=relation, **OPTIONS)
    for text in TEXTS:
        session.ask(text)
    paid = list(ledger.children(session.key))
    surveys = sum(entry.body["ask"] == "tables" for entry in paid)
    return tuple(noise.calls), [entry.units for entry in paid], surveys


def _neighbours(codes: Codes, relation: Relation) -> Iterator[Codes]:
    """A record more and one less, or one that moves in every attribute."""
    if relation is Relation.REPLACE_ONE:
        yield {
            name: np.append(values[:-1], values.dtype.type(values[-1] == 0)) for name, values in codes.items()
        }
        return
    yield {name: np.append(values, np.uint8(1)) for name, values in codes.items()}
    yield {name: values[:-1] for name, values in codes.items()}

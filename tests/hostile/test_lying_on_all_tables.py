"""Classes that lie, on tables of at most two records over twelve cells: the exact loss is never above the charge.

Records and persons of up to two records are protected; add/remove and replace-one.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from maquette.core.answers import Answers, ChoiceQuestion
from maquette.core.budget import Budget
from maquette.core.forms import Conditions, Weights
from maquette.core.laws import NoiseRequest
from maquette.domain import Persons, Relation
from maquette.errors import MaquetteError
from maquette.queries import boxes, marginals, prefixes, weights
from support.lying_queries import LIES, Lying
from support.privacy_cases import CONCENTRATED, PURE
from support.privacy_conformance import TINY, Case, check_exactly
from support.privacy_doubles import CAUGHT, histograms

pytestmark = pytest.mark.privacy
SHARE = Fraction(1, 1000)
FEW = histograms(TINY.size, most=2)
TRUTHS = [
    marginals(TINY, attributes=[["a", "b"], ["c"]]),
    prefixes(TINY, "a"),
    boxes(TINY, [{"a": (0, last)} for last in range(3)]),
    weights(TINY, np.random.default_rng(4).random((3, 6)), attributes=["a", "b"]),
]


def _asked(lie: str, ask: Callable[[Any, Lying, Answers], object]) -> Callable[[Any], Any]:
    """One question of every class that tells this lie; what is refused is refused on all tables."""

    def run(curator: Any) -> list[str]:
        told: list[str] = []
        for seed, truth in enumerate(TRUTHS):
            queries = Lying(truth, LIES[lie], seed)
            try:
                ask(curator, queries, Answers(np.full(truth.count, 1), 2))
                told.append("answered")
            except MaquetteError as error:
                told.append(str(error))
        return told

    return run


QUESTIONS: dict[str, tuple[Budget, Callable[[Any, Lying, Answers], object]]] = {
    "measure, pure": (PURE, lambda c, q, given: c.measure(q, noise=NoiseRequest("laplace", SHARE))),
    "measure, rho": (CONCENTRATED, lambda c, q, given: c.measure(q, noise=NoiseRequest("gaussian", SHARE))),
    "select": (PURE, lambda c, q, given: c.select(q, given, price=SHARE)),
    "choose": (CONCENTRATED, lambda c, q, given: c.choose(ChoiceQuestion("count", q), price=SHARE)),
    "nearest": (PURE, lambda c, q, given: c.choose(ChoiceQuestion("nearest", q, (given,)), price=SHARE)),
    "largest error": (CONCENTRATED, lambda c, q, given: c.largest_error(q, given, price=SHARE)),
}
PROTECTED: dict[str, tuple[Relation, Persons | None]] = {
    "a record comes or goes": (Relation.ADD_REMOVE, None),
    "a record is another": (Relation.REPLACE_ONE, None),
    "a person comes or goes": (Relation.ADD_REMOVE, Persons("who", 2)),
}


@pytest.mark.parametrize("protected", PROTECTED)
@pytest.mark.parametrize("question", QUESTIONS)
def test_no_lie_loses_more_than_was_charged(question, protected):
    budget, ask = QUESTIONS[question]
    relation, persons = PROTECTED[protected]
    for lie in LIES:
        check_exactly(Case(lie, budget, _asked(lie, ask)), relation, FEW[:40], persons=persons)


@pytest.mark.parametrize("protected", PROTECTED)
def test_a_gate_that_believed_sums_of_weights_would_be_noticed(protected, monkeypatch):
    monkeypatch.setattr(Conditions, "added", lambda self, sizes: Weights.added(_LIGHT, sizes))
    monkeypatch.setattr(Conditions, "replaced", lambda self, sizes: Weights.added(_LIGHT, sizes))
    budget, ask = QUESTIONS["measure, pure"]
    relation, persons = PROTECTED[protected]
    case = Case("believed", budget, _asked("nothing but the sensitivity", ask))
    with pytest.raises(CAUGHT, match="charged"):
        check_exactly(case, relation, FEW, persons=persons)


_LIGHT = Weights(("a",), np.array([[1, 0, 0]], dtype=np.int32), 1)

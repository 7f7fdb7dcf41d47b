"""An audit of quantiles in sessions from outside: what a whole search shows of two neighbouring tables.

A search asks one border after the other, and which comes next follows from the answers so far. So both the noisy
answers and the borders that were asked are what an attacker sees: each bounds epsilon from below, by searches with the
system's own noise. Replays, the exact test of every border question and its planted bugs are in `test_quantiles.py`.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from maquette.core.budget import UNITS, Budget
from maquette.core.curator import Curator
from maquette.core.laws import NoiseRequest
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.queries.weights import GRID
from maquette.sessions.grouped import read_select
from maquette.sessions.question import Question, QuestionReader
from maquette.sessions.sums import Search
from support.privacy_doubles import table_of
from support.privacy_statistics import bound_from_below, least_epsilon
from support.privacy_tally import TallyLedger

pytestmark = [pytest.mark.privacy, pytest.mark.slow]

SMALL = Domain(
    (
        Attribute("x", Kind.NUMERIC, edges=(0.0, 10.0, 25.0, 50.0, 100.0)),
        Attribute("y", Kind.CATEGORICAL, codes=2),
    )
)
BASE = (1, 0, 1, 1, 2, 1, 1, 0)
"""Records by x and y. Of those with y = 0 two are below the border in the middle and three above it."""
MORE = (2, *BASE[1:])
"""One more with the least x: it is below every border, and now as many are below as above."""
DRAWS = 400
PRICE = Fraction(1, 4)
SEARCH = read_select(QuestionReader(SMALL), "select median(x) from t where y = 0").every_search[0]
QUESTION = cache(SEARCH.question)


@cache
def expected(question: Question) -> float:
    """The exact answer on BASE, which an attacker who has to tell two tables apart knows."""
    return (
        float(table_of(SMALL, BASE)._engine.answer(question.queries.to_forms())[0])
        / question.queries.denominator
    )


def searched(histogram: tuple[int, ...]) -> tuple[np.ndarray, list[tuple[int, ...]], float]:
    """Many searches of one table: how far all answers are above those of BASE, the borders in their order, and the most
    that one search was charged."""
    table, noise, most = table_of(SMALL, histogram), NoiseRequest("laplace", PRICE), 0
    sums: list[float] = []
    paths: list[tuple[int, ...]] = []
    for _ in range(DRAWS):
        budget = Budget(float(PRICE) * SEARCH.most_questions)
        ledger = TallyLedger(budget=budget, relation=Relation.ADD_REMOVE)
        curator = Curator(table, ledger, key="audit", budget=budget)
        own, total = Search(SEARCH.attribute, SEARCH.level, QUESTION), 0.0
        while (question := own.pending) is not None:
            count = float(curator.measure(question.queries, noise=noise).counts[0])
            own.take(count / sum(BASE), 0.0)
            total += count - expected(question)
        sums.append(total)
        paths.append(tuple(own.gaps))
        most = max(most, sum(units for _, units, _ in ledger.charges))
    return np.array(sums), paths, most / UNITS


def bound_by_paths(here: list[tuple[int, ...]], there: list[tuple[int, ...]]) -> float:
    """The paths that are commoner in the first halves, all together as one event in the second halves."""
    half = len(here) // 2
    ours, theirs = Counter(here[:half]), Counter(there[:half])
    event = {path for path, times in ours.items() if times > theirs[path]}
    hits, misses = (sum(path in event for path in paths[half:]) for paths in (here, there))
    return least_epsilon(hits, misses, len(here) - half)


def bounds() -> tuple[float, float, float]:
    """What epsilon is at least, by the answers and by the borders; and what was charged."""
    (sums, paths, charged), (other_sums, other_paths, other_charged) = (searched(t) for t in (MORE, BASE))
    by_answers = max(bound_from_below(sums, other_sums), bound_from_below(-other_sums, -sums))
    by_borders = max(bound_by_paths(paths, other_paths), bound_by_paths(other_paths, paths))
    return by_answers, by_borders, max(charged, other_charged)


def test_a_search_tells_neighbours_apart_no_better_than_was_charged():
    by_answers, by_borders, charged = bounds()
    assert float(PRICE) < charged <= 3 * float(PRICE)  # of the three borders, more than one was asked
    assert max(by_answers, by_borders) <= charged


def test_the_audit_sees_answers_with_too_little_noise(monkeypatch):
    """A planted bug: a sixteenth of the sensitivity, and so of the noise."""
    real = NoiseRequest.sensitivity_of

    def small(self, query_forms, domain, relation):
        one = real(self, query_forms, domain, relation)
        return type(one)(one.l1 / 16, one.l2_squared / 256, one.linf / 16)

    monkeypatch.setattr(NoiseRequest, "sensitivity_of", small)
    by_answers, _, charged = bounds()
    assert by_answers > charged


def test_the_audit_sees_a_search_that_is_led_by_the_exact_answers(monkeypatch):
    """A planted bug: noise on what is shown, while the next border follows from the table itself."""
    real, opened = Search.take, table_of

    def watched(domain, histogram):
        engine = opened(domain, histogram)._engine

        def exact(self, value, error):
            real(
                self, float(engine.answer(self.pending.queries.to_forms())[0]) / GRID / sum(histogram), error
            )

        monkeypatch.setattr(Search, "take", exact)
        return opened(domain, histogram)

    monkeypatch.setitem(globals(), "table_of", watched)
    _, by_borders, charged = bounds()
    assert by_borders > charged

"""Sparse vector: transcripts summed over the secret threshold on all neighbours, and black-box bounds with power."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from maquette.core import sparse
from maquette.core.budget import Unit
from maquette.core.measurement import EpochTerms
from maquette.core.prices import EpochPlan
from maquette.domain import Relation
from maquette.queries import weights, where
from support.online_variants import EPSILON, law, pairs, probability, transcripts, variants
from support.priced import priced
from support.privacy_conformance import TINY
from support.privacy_doubles import histograms, neighbours, table_of

pytestmark = pytest.mark.privacy

SAMPLES = 200_000
CONFIDENCE = 1 - 1e-4
CAP = 3


def outcomes(length: int, cap: int) -> list[tuple[int, ...]]:
    """Every way an epoch can go: far at most `cap` times, ending with the last far one or open."""
    found = [o for o in itertools.product((0, 1), repeat=length) if sum(o) <= cap]
    return [o for o in found if sum(o) < cap or o[-1] == 1]


def worst_loss(plan, cap: int, length: int, threshold: int, *, moves=(-1, 0, 1)) -> float:
    """The largest log-ratio over all +-1 moves of scores near the threshold, all outcomes."""
    worst = 0.0
    bases = [(threshold,) * length, ((threshold - 3, threshold + 2, threshold, threshold - 1) * 2)[:length]]
    for scores, move in itertools.product(bases, itertools.product(moves, repeat=length)):
        other = tuple(s + m for s, m in zip(scores, move, strict=True))
        for outcome in outcomes(length, cap):
            here = probability(scores, outcome, threshold=threshold, plan=plan)
            there = probability(other, outcome, threshold=threshold, plan=plan)
            worst = max(worst, abs(math.log(here / there)))
    return worst


@pytest.mark.parametrize(
    ("cap", "first", "second"),
    [
        (1, Fraction(1, 2), Fraction(1, 2)),
        (1, Fraction(1, 5), Fraction(4, 5)),
        (2, Fraction(1, 3), Fraction(2, 3)),
        (3, Fraction(1, 4), Fraction(7, 4)),
    ],
)
def test_no_transcript_of_an_epoch_loses_more_than_was_charged(cap, first, second):
    plan = priced(Unit.EPSILON).epoch(EpochTerms(5, cap, first, second, None))
    charged = plan.event.cost(Unit.EPSILON).units / 10**12
    assert charged <= float(first + second) + 1e-9
    loss = worst_loss(plan, cap, 4, 5)
    assert loss <= charged + 1e-9
    assert loss >= 0.5 * charged  # the search looks where the loss is


def test_the_sum_over_thresholds_sees_too_little_noise():
    plan = priced(Unit.EPSILON).epoch(EpochTerms(5, 2, Fraction(1, 3), Fraction(2, 3), None))
    unscaled = EpochPlan(plan.threshold_scale, plan.test_scale / 2, None, plan.event)
    assert worst_loss(unscaled, 2, 4, 5) > plan.event.cost(Unit.EPSILON).units / 10**12
    plan = priced(Unit.EPSILON).epoch(EpochTerms(5, 1, Fraction(1, 2), Fraction(1, 2), None))
    bare = EpochPlan(Fraction(1, 100), plan.test_scale, None, plan.event)
    assert worst_loss(bare, 1, 7, 5, moves=(1,)) > plan.event.cost(Unit.EPSILON).units / 10**12


def test_probabilities_of_the_specification():
    continuous = priced(Unit.EPSILON).epoch(EpochTerms(1, 1, Fraction(1, 2), Fraction(1, 2), None))
    assert (continuous.threshold_scale, continuous.test_scale) == (2, 4)
    # stretched to a fine grid the discrete law is the continuous one
    fine = 200
    stretched = EpochPlan(
        continuous.threshold_scale * fine, continuous.test_scale * fine, None, continuous.event
    )
    found = [
        probability(tuple(fine * s for s in scores), (0, 0, 1), threshold=fine, plan=stretched, reach=20_000)
        for scores in ((0, 0, 1), (1, 1, 0))
    ]
    assert found[0] == pytest.approx(0.1448506870, abs=2e-3)
    assert found[1] == pytest.approx(0.0828372538, abs=2e-3)


@pytest.mark.parametrize("relation", list(Relation))
def test_scores_of_all_neighbouring_tables_differ_by_at_most_one_record(relation):
    """Through the production engine and score: 455 tables of up to 3 records over 12 cells, guesses right and wrong."""
    queries = [*(where(TINY, text) for text in ("a = 1", "b = 0 and c = 1", "a < 2 or c = 0")), _fractional()]
    tables = histograms(TINY.size, most=3)
    exact = {
        table: [int(table_of(TINY, table)._engine.answer(query.to_forms())[0]) for query in queries]
        for table in tables
    }
    pairs_seen, widest = 0, 0.0
    for one, other in neighbours(tables, relation):
        pairs_seen += 1
        for place, query in enumerate(queries):
            step = query.denominator
            for guess in (0, step, 2 * step + step // 3, 7 * step):
                moved = sparse.score(exact[one][place], guess) - sparse.score(exact[other][place], guess)
                widest = max(widest, abs(moved) / step)
    assert pairs_seen > 2000
    assert widest == 1.0


def _fractional():
    return weights(TINY, np.linspace(0, 1, TINY.size)[None, :])


def test_the_table_of_the_law_is_a_law():
    assert law(Fraction(3), 400).sum() == pytest.approx(1.0, abs=1e-12)


def lower_bound(here: np.ndarray, there: np.ndarray) -> float:
    """A lower bound on epsilon from transcripts of two neighbours; the event is chosen on the first halves."""
    half = len(here) // 2
    codes = np.union1d(here[:half], there[:half])
    seen = [np.bincount(np.searchsorted(codes, part[:half]), minlength=len(codes)) for part in (here, there)]
    event = max(range(len(codes)), key=lambda i: _ratio(int(seen[0][i]), int(seen[1][i]), half))
    hits = [int((part[half:] == codes[event]).sum()) for part in (here, there)]
    return _ratio(hits[0], hits[1], len(here) - half)


def _ratio(hits: int, misses: int, of: int) -> float:
    low = float(stats.beta.ppf(1 - CONFIDENCE, hits, of - hits + 1)) if hits else 0.0
    high = float(stats.beta.ppf(CONFIDENCE, misses + 1, of - misses)) if misses < of else 1.0
    return math.log(low / high) if low > 0 else -math.inf


def worst_bound(variant) -> float:
    found = []
    for here, there in pairs(CAP):
        one, other = transcripts(variant, here, SAMPLES), transcripts(variant, there, SAMPLES)
        found += [lower_bound(one, other), lower_bound(other, one)]
    return max(found)


@pytest.mark.parametrize("number", range(6))
def test_a_black_box_refutes_the_four_broken_forms_and_not_the_two_that_are_shipped(number):
    variant = variants(CAP)[number]
    found = worst_bound(variant)
    assert (found <= float(EPSILON)) == variant.private, f"{variant.name}: epsilon >= {found:.2f}"

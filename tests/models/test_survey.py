"""What follows from noisy tables: ends that hold for every product of sets at once, and how they can fail."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from maquette.core.binned import Binned, count_binned
from maquette.core.measurement import NoisyTable, Receipt
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.errors import ParameterError
from maquette.mechanisms.strategies import COARSEST, pair_tables, plan_survey
from maquette.models import survey as module
from maquette.models.survey import Survey, description_length, round_to_bins
from maquette.queries import boxes, weights, where
from support.query_cases import full

DOMAIN = Domain(
    (
        Attribute("a", Kind.ORDINAL, codes=30),
        Attribute("b", Kind.CATEGORICAL, codes=5),
        Attribute("c", Kind.CATEGORICAL, codes=3),
        Attribute("d", Kind.ORDINAL, codes=6),
    )
)
NAMES = DOMAIN.names
N = 4000
RECEIPT = Receipt(1, "")


def columns(seed):
    rng = np.random.default_rng(seed)
    a = np.minimum(rng.poisson(6, N), 29)
    b = (a + rng.integers(0, 3, N)) % 5
    return {"a": a, "b": b, "c": (b + (rng.random(N) < 0.3)) % 3, "d": np.minimum(a // 4, 5)}


def survey(rows, rng, *, sigma=5.0, said=None, failure=0.05, pairs=True, total=N, spread=0.0, reach=0.0):
    """Tables with continuous noise of one deviation, which says of itself to be of another."""
    variance = Fraction((said or max(sigma, 1e-6)) ** 2)
    asked = [full(DOMAIN, (name,)) for name in NAMES] + [Binned(("a",), (tuple(range(0, 30, 5)),))]
    facts = {"total": total, "total_variance": spread, "reach": reach, "failure": failure}

    def tables(binned):
        counts = count_binned(DOMAIN, rows, binned)
        noisy = [np.rint(c + rng.normal(0, sigma, c.shape)).astype(np.int64) for c in counts]
        return [NoisyTable(t, v, variance, RECEIPT) for t, v in zip(binned, noisy, strict=True)]

    ones = tables(asked)
    found = Survey(DOMAIN, tuple(ones), **facts)
    if not pairs:
        return found
    return Survey(DOMAIN, tuple(ones + tables(pair_tables(DOMAIN, found, asked))), **facts)


def product(rng):
    """A predicate over one to four attributes, with ranges and sets."""
    parts = []
    for name in rng.choice(NAMES, size=rng.integers(1, 5), replace=False):
        size = DOMAIN[str(name)].size
        if rng.random() < 0.5 and name in "ad":
            low, high = sorted(rng.integers(0, size, 2).tolist())
            parts.append(f"{name} between {low} and {high}")
        else:
            chosen = rng.choice(size, size=rng.integers(1, min(size, 4)), replace=False)
            parts.append(f"{name} in ({', '.join(map(str, sorted(chosen.tolist())))})")
    text = " and ".join(parts)
    return where(DOMAIN, f"not ({text})" if rng.random() < 0.2 else text)


def outside(found, rows, rng, questions=300):
    """How many answers lie outside of their ends, and how wide these are."""
    missed, wide = 0, []
    for _ in range(questions):
        query = product(rng)
        if next(iter(query.query_keys())) is None:
            continue
        truth = int(query.on_rows(rows)[0]) / N
        low, high = found.share(query)
        missed += not low - 1e-9 <= truth <= high + 1e-9
        wide.append(high - low)
    return missed, float(np.median(wide))


@pytest.mark.slow
@pytest.mark.parametrize("pairs", [True, False])
def test_no_answer_lies_outside_of_its_ends(pairs):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        rows = columns(seed)
        missed, width = outside(survey(rows, rng, pairs=pairs), rows, rng)
        assert missed == 0
        assert width < (0.12 if pairs else 0.3)


@pytest.mark.slow
def test_a_noise_that_says_to_be_smaller_is_found_out():
    rng = np.random.default_rng(1)
    rows = columns(1)
    assert outside(survey(rows, rng, sigma=40.0, said=4.0), rows, rng)[0] > 0


@pytest.mark.slow
@pytest.mark.parametrize("end", ["_lower", "_upper"])
def test_an_end_that_promises_too_much_is_found_out(monkeypatch, end):
    rng = np.random.default_rng(8)
    rows = columns(8)
    right = getattr(module, end)

    def wrong(ones, twos, most):
        return right(ones, twos, most * (0.8 if len(ones) > 2 else 1.0)) * (1.1 if end == "_lower" else 0.9)

    monkeypatch.setattr(module, end, wrong)
    assert outside(survey(rows, rng, sigma=1.0), rows, rng)[0] > 0


def test_without_noise_single_sets_are_exact_and_pairs_of_whole_bins():
    rows = columns(2)
    found = survey(rows, np.random.default_rng(2), sigma=0.0)
    for text in ("a between 3 and 11", "b in (1, 4)", "b = 2 and c = 1", "not (b = 2 and c = 1)"):
        query = where(DOMAIN, text)
        low, high = found.share(query)
        assert low == pytest.approx(int(query.on_rows(rows)[0]) / N, abs=1e-6)
        assert high == pytest.approx(low, abs=1e-6)


@pytest.mark.accuracy
def test_the_estimate_of_one_attribute_has_the_variance_it_states():
    rows, rng = columns(3), np.random.default_rng(3)
    atoms = np.zeros(30, dtype=bool)
    atoms[2:19] = True
    truth = int(np.isin(rows["a"], np.arange(2, 19)).sum())
    drawn = [survey(rows, rng, sigma=20.0, pairs=False).one("a").sum(atoms) for _ in range(400)]
    errors = np.array([value - truth for value, _ in drawn])
    stated = drawn[0][1]
    assert 0.75 < errors.var() / stated < 1.3
    assert stated < 17 * 20**2  # the coarse table and the total help
    assert abs(errors.mean()) < 5 * math.sqrt(stated / 400)


@pytest.mark.slow
def test_a_noisy_total_widens_every_end():
    rows, rng = columns(4), np.random.default_rng(4)
    query = where(DOMAIN, "a between 2 and 20 and b = 1")
    sure = survey(rows, np.random.default_rng(5)).share(query)
    unsure = survey(rows, np.random.default_rng(5), total=N + 30, spread=900.0, reach=150.0)
    low, high = unsure.share(query)
    assert high - low > sure.high - sure.low
    assert outside(unsure, rows, rng)[0] == 0


def test_what_a_survey_does_not_know_it_does_not_say():
    found = survey(columns(5), np.random.default_rng(6))
    assert found.share(where(DOMAIN, "a < 3 and b = 1 or c = 2 and d = 4")) is None
    assert found.share(boxes(DOMAIN, [{"a": (0, 3)}, {"a": (1, 4)}])) is None
    assert found.share(weights(DOMAIN, np.full((1, 5), 0.5), attributes=["b"])) is None
    lost = Survey(DOMAIN, found.tables, total=5, total_variance=0.0, reach=10.0, failure=0.05)
    assert lost.share(where(DOMAIN, "a < 3")) is None


@pytest.mark.parametrize("size", range(1, 10))
def test_descriptions_are_a_code(size):
    sets = [np.array(s) for s in itertools.product((False, True), repeat=size) if any(s)]
    assert sum(math.exp(-description_length(s)) for s in sets) <= 1 + 1e-9
    assert description_length(np.eye(size, dtype=bool)[0]) < math.log(3) + math.log(2 * size) + 1e-9


def test_rounding_inwards_and_outwards():
    inner, outer = round_to_bins(((3, 9),), (0, 4, 8, 12), 15)
    assert inner.tolist() == [False, True, False, False]
    assert outer.tolist() == [True, True, True, False]


def test_a_survey_is_checked():
    rows = columns(6)
    held = survey(rows, np.random.default_rng(7), pairs=False)
    for failure in (0.0, 1.0):
        with pytest.raises(ParameterError, match="failure"):
            Survey(DOMAIN, held.tables, total=N, total_variance=0.0, reach=0.0, failure=failure)
    three = full(DOMAIN, ("b", "c", "d"))
    table = NoisyTable(three, np.zeros(three.cells, dtype=np.int64), Fraction(4), RECEIPT)
    with pytest.raises(ParameterError, match="one or two attributes"):
        Survey(DOMAIN, (table, table), total=N, total_variance=0.0, reach=0.0, failure=0.05)


@pytest.mark.parametrize("relation", list(Relation))
def test_a_plan_stays_inside_its_price(relation):
    price = Fraction(1, 50)
    plan = plan_survey(DOMAIN, NAMES, price=price, reach=1000.0, relation=relation, failure=0.01)
    moved = 1 if relation is Relation.ADD_REMOVE else 2
    ones = moved * len(plan.ones) / (2 * plan.one_variance)
    twos = moved * math.comb(4, 2) / (2 * plan.two_variance)
    assert ones + twos <= plan.price < price / 2
    assert len(plan.ones) == 5  # every attribute, and the long range once more in bins


def test_tables_that_tell_too_little_are_not_planned():
    facts = {"price": Fraction(1, 50), "relation": Relation.ADD_REMOVE, "failure": 0.01}
    plan = plan_survey(DOMAIN, NAMES, reach=1000.0, **facts)
    between = (math.sqrt(plan.one_variance) + math.sqrt(plan.two_variance)) / 2 / COARSEST
    smaller = plan_survey(DOMAIN, NAMES, reach=between, **facts)
    assert (plan.two_variance < plan.one_variance) == (smaller is None)
    assert plan_survey(DOMAIN, NAMES, reach=1.0, **facts) is None
    assert plan_survey(DOMAIN, (), reach=1000.0, **facts) is None

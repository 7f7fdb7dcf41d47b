"""Counts, sums, means and quantiles lie between their ends for every table that the certificates allow."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import maquette as mq
from maquette.core.measurement import Size
from maquette.domain import Domain
from maquette.mechanisms import sizing
from maquette.models.answers import Answers, SmallDatabase
from maquette.results import means
from maquette.results.figures import Grouping
from maquette.results.statements import ClassCertificate, Guarantee
from support.made_release import toy_release

DOMAIN = Domain.from_dict(
    {
        "attributes": [
            {"name": "age", "kind": "numeric", "bounds": [0, 60], "bins": 6, "nullable": True},
            {"name": "pay", "kind": "numeric", "edges": [-10, 0, 5, 30], "overflow": True},
            {"name": "rooms", "kind": "numeric", "bounds": [1, 5], "bins": 4, "integer": True},
            {"name": "sex", "kind": "boolean", "categories": ["f", "m"]},
        ]
    }
)
NAMES = DOMAIN.names
RECORDS = 400


def coded(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Records with dependent columns."""
    age = rng.integers(0, 7, RECORDS)
    return {
        "age": age,
        "pay": np.minimum(rng.integers(0, 5, RECORDS), 3) * (age > 1),
        "rooms": np.minimum(rng.integers(0, 2, RECORDS) + age // 3, 3),
        "sex": rng.integers(0, 2, RECORDS),
    }


def share(columns: dict[str, np.ndarray], **sets: set[int]) -> float:
    inside = np.ones(len(columns["age"]), dtype=bool)
    for name, codes in sets.items():
        inside &= np.isin(columns[name], list(codes))
    return float(inside.mean())


def largest_error(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> float:
    """Over conjunctions of one-sided comparisons and equalities on two attributes, with and without other values."""
    worst = 0.0
    for a in range(len(NAMES)):
        for b in range(a + 1, len(NAMES)):
            for first in families(NAMES[a]):
                for second in families(NAMES[b]):
                    sets = {NAMES[a]: first, NAMES[b]: second}
                    worst = max(worst, abs(share(one, **sets) - share(other, **sets)))
    return worst


def families(name: str) -> list[set[int]]:
    attribute = DOMAIN[name]
    cells, extras = set(range(attribute.cells)), set(range(attribute.cells, attribute.size))
    sides = [set(range(t, attribute.cells)) for t in range(attribute.cells + 1)]
    plain = [*sides, *(cells - s for s in sides), *({c} for c in cells), *(cells - {c} for c in cells)]
    return [s | e for s in plain for e in (set(), extras)]


def release_of(columns: dict[str, np.ndarray], error: float, *, k: int = 2) -> mq.Release:
    workload = mq.marginals(DOMAIN, k=k)
    database = SmallDatabase({name: codes.astype(np.uint8) for name, codes in columns.items()})
    certificate = ClassCertificate("two attributes", error, 0.05, error * RECORDS, "answers")
    return toy_release(
        workload,
        answers=Answers.from_fractions(database.answer(workload).fractions),
        database=database,
        deviations=None,
        certificate=None,
        guarantee=Guarantee(1.0, 0.05, "nothing"),
        certificates=(certificate,),
        size=Size(RECORDS, None, None),
    )


def values_inside(columns: dict[str, np.ndarray], name: str, rng: np.random.Generator) -> np.ndarray:
    """True values anywhere inside the cells; NaN where none is declared."""
    attribute = DOMAIN[name]
    low, high = attribute.ends()
    codes = np.minimum(columns[name], attribute.cells - 1)
    at = rng.choice([0.0, 0.5, 1.0], RECORDS)
    values = low[codes] + at * (high - low)[codes]
    if attribute.integer:
        values = np.round(values)
    return np.where(columns[name] < attribute.cells, values, np.nan)


@pytest.mark.law
@pytest.mark.parametrize("seed", range(12))
def test_the_truth_lies_between_the_ends(seed):
    rng = np.random.default_rng(seed)
    truth, shown = coded(rng), coded(rng)
    release = release_of(shown, largest_error(truth, shown) + 1e-12)
    checked = 0
    for by in ((), ("sex",), ("rooms",), ("age",)):
        grouping = Grouping.of(release, by, None)
        for name in ("age", "pay", "rooms"):
            if name in by:
                continue
            values = values_inside(truth, name, rng)
            figures = {
                "count": grouping.count(),
                "share": grouping.share(),
                "sum": grouping.sum(name),
                "mean": grouping.mean(name),
                "median": grouping.quantile(name, Fraction(1, 2)),
                "top": grouping.quantile(name, Fraction(9, 10)),
            }
            for i, group in enumerate(grouping.codes.tolist()):
                inside = np.ones(RECORDS, dtype=bool)
                for attribute, code in zip(by, group, strict=True):
                    inside &= truth[attribute] == code
                own = np.sort(values[inside][~np.isnan(values[inside])])
                true = {"count": inside.sum(), "share": inside.mean(), "sum": own.sum()}
                if len(own):
                    true |= {"mean": own.mean(), "median": own[int(np.ceil(0.5 * len(own))) - 1]}
                    true |= {"top": own[int(np.ceil(0.9 * len(own))) - 1]}
                for word, value in true.items():
                    lower, upper = figures[word].lower[i], figures[word].upper[i]
                    if not np.isnan(lower):
                        checked += 1
                        assert lower - 1e-9 <= value <= upper + 1e-9, (by, name, word, group)
    assert checked > 100


@pytest.mark.slow
def test_half_of_the_error_would_be_noticed():
    """The argument is sharp: with half the bound the truth is missed somewhere."""
    assert any(half_is_missed(np.random.default_rng(seed)) for seed in range(12))


def half_is_missed(rng: np.random.Generator) -> bool:
    truth, shown = coded(rng), coded(rng)
    release = release_of(shown, largest_error(truth, shown) / 2)
    missed = False
    for by in (("sex",), ("rooms",), ("age",)):
        grouping = Grouping.of(release, by, None)
        for name in sorted({"pay", "rooms", "age"} - set(by)):
            values = values_inside(truth, name, rng)
            count, total = grouping.count(), grouping.sum(name)
            for i, (code,) in enumerate(grouping.codes.tolist()):
                inside = truth[by[0]] == code
                missed |= not count.lower[i] <= inside.sum() <= count.upper[i]
                missed |= not total.lower[i] <= np.nansum(values[inside]) <= total.upper[i]
    return missed


def test_without_error_and_with_narrow_cells_figures_are_those_of_the_rows():
    shown = coded(np.random.default_rng(3))
    release = release_of(shown, 0.0)
    rooms = 1 + shown["rooms"]  # the last cell holds 4 and 5
    grouping = Grouping.of(release, ["sex"], "rooms < 4")
    for i in (0, 1):
        own = rooms[(shown["sex"] == i) & (rooms < 4)]
        mean, total = grouping.mean("rooms"), grouping.sum("rooms")
        assert grouping.count().value[i] == pytest.approx(len(own))
        assert (mean.value[i], mean.lower[i], mean.upper[i]) == pytest.approx((own.mean(),) * 3)
        assert (total.lower[i], total.upper[i]) == pytest.approx((own.sum(), own.sum()))


def test_conditions_and_groups_of_one_attribute_go_together():
    shown = coded(np.random.default_rng(4))
    grouping = Grouping.of(release_of(shown, 0.01), ["age", "sex"], "age >= 30 and age < 50")
    assert {tuple(row) for row in grouping.codes.tolist()} == {(3, 0), (3, 1), (4, 0), (4, 1)}
    assert grouping.share().value[0] == pytest.approx(share(shown, age={3}, sex={0}))
    assert grouping.share().upper[0] - grouping.share().value[0] == pytest.approx(0.01)


def test_conditions_that_are_no_conjunction_are_asked_one_by_one():
    shown = coded(np.random.default_rng(5))
    grouping = Grouping.of(release_of(shown, 0.01), ["sex"], "age < 10 or age >= 50")
    assert grouping.share().value[0] == pytest.approx(share(shown, age={0, 5}, sex={0}))
    assert 0 < grouping.share().error[0] <= 0.04


def test_a_range_costs_two_one_sided_comparisons():
    shown = coded(np.random.default_rng(6))
    release = release_of(shown, 0.01)
    assert Grouping.of(release, [], "age >= 10 and age < 40").share().error[0] == pytest.approx(0.02)
    mean = Grouping.of(release, ["sex"], "age >= 10 and age < 40").mean("age")
    assert np.isfinite(mean.error).all()


@pytest.mark.parametrize(
    ("by", "text", "words"),
    [
        (["sex", "sex"], None, "twice"),
        (["nobody"], None, "unknown attribute"),
        (["sex"], "age <= 15", "borders of cells"),
    ],
)
def test_what_cannot_be_a_table_is_refused(by, text, words):
    with pytest.raises(mq.MaquetteError, match=words):
        Grouping.of(release_of(coded(np.random.default_rng(0)), 0.01), by, text)


def test_a_noisy_number_of_records_widens_counts_and_sums():
    from dataclasses import replace

    from maquette.core.laws import Gaussian

    shown = coded(np.random.default_rng(7))
    public = release_of(shown, 0.01)
    noisy = replace(public, size=Size(RECORDS, Gaussian(Fraction(1), Fraction(25)), public.receipts[0]))
    low, _, high = Grouping.of(noisy, [], None)._size
    # the certificate reckons with half of beta: one class, and one part for a single interval
    assert (high - low) / 2 == pytest.approx(sizing.size_error(noisy.size, noisy.beta / 2))
    for word in ("count", "sum"):
        arguments = () if word == "count" else ("rooms",)
        sure = getattr(Grouping.of(public, ["sex"], None), word)(*arguments)
        other = getattr(Grouping.of(noisy, ["sex"], None), word)(*arguments)
        assert (other.error > sure.error).all()
        assert other.value == pytest.approx(sure.value)


def test_a_sum_is_not_beyond_what_its_records_can_sum_up_to():
    """With a useless certificate the ends are those of the smallest and of the largest value."""
    grouping = Grouping.of(release_of(coded(np.random.default_rng(3)), 0.5), ["sex"], None)
    low, high = DOMAIN["age"].ends()
    total, count = grouping.sum("age"), grouping.count("age")
    assert (count.lower == 0).all()
    assert (total.lower >= min(low[0], 0.0) * count.upper).all()
    assert (total.upper <= high[DOMAIN["age"].cells - 1] * count.upper + 1e-9).all()
    assert (total.lower >= 0).all()


def test_a_long_tail_of_few_records_counts_for_what_it_holds():
    """The error of a mean is not the certified error all along the values that hardly anybody has."""
    values, errors = np.array([[0.6, 0.3, 0.08, 0.02, 0.0, 0.0]]), np.array([0.1])
    cells = means.Cells(np.arange(6.0) * 10, np.zeros(6))
    lower, upper = means.mean_by_tails(values, errors, cells)
    assert lower[0] == pytest.approx(
        10 * 0.3
    )  # 0.4 - 0.1 are above the first, nobody for sure above the second
    assert upper[0] == pytest.approx(10 * (0.5 + 0.2 + 0.12 + 0.1 + 0.1) / 0.9)
    none = means.mean_by_tails(values, np.array([1.0]), cells)
    assert np.isnan(none).all()


def test_a_sum_is_that_of_so_many_records_with_their_mean():
    grouping = Grouping.of(release_of(coded(np.random.default_rng(4)), 0.05), ["sex"], None)
    total, count, mean = (getattr(grouping, word)("rooms") for word in ("sum", "count", "mean"))
    assert (mean.lower > 0).all()
    assert (total.lower >= mean.lower * count.lower - 1e-9).all()
    assert (total.upper <= mean.upper * count.upper + 1e-9).all()

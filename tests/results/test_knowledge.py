"""One set of records has one value and one error, however it is asked for, and the smallest error that is stated."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pytest

from maquette.core.laws import Laplace
from maquette.core.measurement import Size
from maquette.domain import Domain
from maquette.models.answers import Answers, SmallDatabase
from maquette.models.histogram import HistogramModel
from maquette.queries import marginals, where
from maquette.queries.base import Queries
from maquette.results import Certificate, Guarantee, Spending, knowledge
from maquette.results.covering import as_set
from maquette.results.knowledge import estimate
from maquette.results.statements import Estimate
from maquette.theory import quantiles
from results.test_figures import RECORDS, coded, release_of, share
from support.made_release import toy_columns, toy_domain, toy_release
from support.two_ways import pairs, random_release, random_sets

DOMAIN = toy_domain()
TRUTH = SmallDatabase(toy_columns(DOMAIN))


def test_a_question_written_in_several_ways_has_one_answer(tmp_path):
    """Answer, JSON, weights, table, WHERE, FILTER, SHARE and GROUP BY over releases of six mechanisms."""
    asked = list(islice(pairs(1, tmp_path, questions=2), 200))
    assert len(asked) > 60
    assert [pair for pair in asked if not pair[0].agrees(pair[1])] == []


@pytest.mark.slow
def test_a_thousand_pairs_agree(tmp_path):
    asked = [pair for seed in range(2, 5) for pair in pairs(seed, tmp_path, questions=9)]
    assert len(asked) >= 1000
    assert [pair for pair in asked if not pair[0].agrees(pair[1])] == []


@pytest.mark.parametrize("mechanism", ["sculpt", "gaussian"])
def test_a_part_has_no_more_records_than_the_whole_nor_fewer_than_the_rest_leaves(mechanism, tmp_path):
    """For sets that are known together: ends of a conjunction beside those of its parts."""
    rng = np.random.default_rng(5)
    release = random_release(rng, mechanism, tmp_path)
    known_of: Any = partial(estimate, release)
    compared = 0
    for _ in range(40):
        sets = random_sets(rng, release.domain)
        texts = [
            knowledge.of_condition(release.domain, knowledge.Leaf(name, runs)) for name, runs in sets.items()
        ]
        leaves = tuple(query.conditions[0] for query in texts)
        both = known_of(knowledge.of_condition(release.domain, knowledge.Every(leaves)))
        parts = [known_of(query) for query in texts]
        if both.lower is None or both.alone or any(part.lower is None or part.alone for part in parts):
            continue
        compared += 1
        assert both.upper <= min(part.upper for part in parts) + 1e-12
        assert both.lower >= 1 - sum(1 - part.lower for part in parts) - 1e-12
    assert compared > 3


def certified(workload: Queries, alpha: float = 0.01, **changes: Any) -> Any:
    exact = TRUTH.answer(workload)
    return toy_release(workload, answers=exact, certificate=Certificate(alpha, 0.05, 500 * alpha), **changes)


def test_a_count_of_values_lies_between_all_records_and_those_less_the_missing_ones():
    """Ten cells would add up to ten errors; the whole less the missing ones has two."""
    release = certified(marginals(DOMAIN, k=[1, 2]))
    (row,) = release.sql("select count(*) as n, count(age) as x from t where sex = 'Male'").to_pylist()
    (none,) = release.sql("select count(*) as n from t where sex = 'Male' and age is null").to_pylist()
    assert row["x upper"] <= row["n upper"]
    assert row["x lower"] >= row["n lower"] - none["n upper"] - 1e-9
    answer = release.answer("sex = 'Male' and age is not null")
    assert answer.error == pytest.approx(0.02)
    assert "its parts on fewer attributes" in answer.statement


@pytest.mark.parametrize("mechanism", ["sculpt", "residual", "histogram-laplace"])
def test_no_count_of_values_is_above_that_of_all_records(mechanism, tmp_path):
    release = random_release(np.random.default_rng(8), mechanism, tmp_path)
    group, other, *_ = release.domain.names
    rows = release.sql(
        f"select {group}, count(*) as n, count({other}) as x from t group by {group}"
    ).to_pylist()
    assert all(row["x"] <= row["n"] + 1e-9 for row in rows)


def test_one_cell_has_one_error_in_answer_table_and_select():
    """Classes, cells of the workload and the noise of the tables: the smallest of all, everywhere."""
    release = release_of(coded(np.random.default_rng(1)), 0.04)
    better = replace(release, certificate=Certificate(0.01, 0.05, 4.0))
    (row,) = [
        r for r in better.table("sex", "rooms", values="share()") if (r["sex"], r["rooms"]) == ("m", "2")
    ]
    (cell,) = [
        r
        for r in better.sql("select rooms, share() as s from t where sex = 'm' group by rooms").to_pylist()
        if r["rooms"] == "2"
    ]
    answer = better.answer("sex = 'm' and rooms = 2")
    assert answer.error == pytest.approx(0.01)
    assert (row["value"], row["error"]) == pytest.approx((answer.value, answer.error))
    assert (cell["s"], cell["s error"]) == pytest.approx((answer.value, answer.error))
    assert answer.value == pytest.approx(share(coded(np.random.default_rng(1)), sex={1}, rooms={1}))


# --- the chance to fail is shared --------------------------------------------------------------------------------


def paid(certificate: float = 0.02, spread: float = 200.0) -> Any:
    """A noisy histogram with a certificate that was paid for."""
    cells = np.full((10, 2, 4), 500 / 80)
    size = Size(500, None, None)
    model = HistogramModel(DOMAIN, DOMAIN.names, cells, Laplace(Fraction(1), Fraction(spread)), size)
    return toy_release(
        marginals(DOMAIN, k=[1, 2]),
        model=model,
        size=size,
        certificate=Certificate(certificate, 0.05, 500 * certificate),
        guarantee=Guarantee(0.9, 0.05, "noise in every cell"),
        spending=(Spending("laplace", 0.5, "epsilon", 5, "largest error"),),
    )


def test_a_histogram_uses_the_certificate_that_was_paid_for():
    release = paid()
    model = release.model.estimate(where(DOMAIN, "sex = 'Male'"), beta=0.05, among=release.workload.count)
    answer = release.answer("sex = 'Male'")
    assert answer.source == "workload"
    assert "certified" in answer.statement
    assert answer.error < 0.03 < model[1]
    assert answer.confidence == pytest.approx(0.95)


def test_the_certificate_and_the_noise_share_the_chance():
    """A quarter of the chance costs ln 4 of the scale of the certificate's noise, 2 whole records of 500 here."""
    release = paid()
    assert release.knowledge.part_of_beta == 0.75
    assert release.answer("sex = 'Male'").error == pytest.approx(0.02 + 2 * np.log(4) / 500, abs=1 / 500)
    quiet = paid(certificate=0.4, spread=0.1)
    answer = quiet.answer("sex = 'Male'")
    expected = quiet.model.estimate(where(DOMAIN, "sex = 'Male'"), beta=0.0375, among=quiet.workload.count)
    assert answer.source == "model"
    assert answer.error == pytest.approx(expected[1])
    assert answer.confidence == pytest.approx(0.95)


def test_without_the_price_of_a_certificate_one_source_speaks():
    release = replace(paid(), spending=())
    assert release.knowledge.part_of_beta == 1
    assert release.answer("sex = 'Male'").error == pytest.approx(0.02)  # in the workload: the certificate
    assert release.answer("sex = 'Male' or age is null").source == "model"


@pytest.mark.accuracy
def test_the_smaller_of_two_shared_statements_fails_no_more_often_than_it_says():
    """A certificate and an interval, both tight: the smaller one is wrong for at most beta of the releases."""
    rng, beta, runs, n = np.random.default_rng(3), 0.3, 400, 1000
    domain = Domain.from_dict({"attributes": [{"name": "a", "kind": "ordinal", "size": 3}]})
    workload, truth = marginals(domain, k=1), np.array([500, 300, 200])
    queries = [where(domain, workload.text(i)) for i in range(3)]
    failed = 0
    for _ in range(runs):
        noise = rng.geometric(1 - np.exp(-0.1), 3) - rng.geometric(1 - np.exp(-0.1), 3)
        cells = truth + noise
        size = Size(n, None, None)
        law = Laplace(Fraction(1, 10), Fraction(10))
        measured = np.abs(noise).max() + rng.geometric(1 - np.exp(-0.1)) - rng.geometric(1 - np.exp(-0.1))
        alpha = max(0.0, measured + quantiles.lower_quantile(law, beta=beta)) / n
        release = toy_release(
            workload,
            rows=False,
            answers=Answers(cells, n),
            deviations=None,
            beta=beta,
            model=HistogramModel(domain, ("a",), cells.astype(float), law, size),
            size=size,
            certificate=Certificate(alpha, beta, alpha * n),
            spending=(Spending("laplace", 0.1, "epsilon", 5, "largest error"),),
        )
        found: list[Any] = [estimate(release, query) for query in queries]
        failed += any(
            not one.lower - 1e-12 <= share <= one.upper + 1e-12
            for one, share in zip(found, truth / n, strict=True)
            if one.lower is not None
        )
    assert failed <= beta * runs + 3 * np.sqrt(beta * (1 - beta) * runs)


# --- one form for a set ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("sex = 'Male' and age < 30", "not (sex <> 'Male' or not (age < 30) or age is null)"),
        ("sex = 'Male' or age < 30", "not (sex = 'Female' and (age >= 30 or age is null))"),
        ("age < 10 or age is not null and age < 20", "age < 20"),
        ("sex = 'Male' or sex = 'Female'", "1 = 1"),
        ("sex = 'Male' and sex = 'Female'", "1 > 2"),
    ],
)
def test_words_do_not_matter(one, other):
    assert as_set(where(DOMAIN, one)) == as_set(where(DOMAIN, other))
    assert estimate(toy_release(), where(DOMAIN, one)) == estimate(toy_release(), where(DOMAIN, other))


def test_an_interval_of_everything_is_none():
    assert Estimate.around(0.5, 0.6, 0.05, "rows").error is None
    assert Estimate.around(0.2, 0.6, 0.05, "rows").error == pytest.approx(0.6)


def test_a_release_of_a_higher_order_is_named_where_it_would_help():
    release = toy_release(marginals(DOMAIN, k=2))
    note = "a release of a higher order, with the marginal of age, sex and region"
    assert note in release.answer("age < 60 and sex = 'Male' and region in ('west', 'south')").notes[-1]
    assert not any(note in text for text in release.answer("age < 30 and sex = 'Male'").notes)


def test_a_table_of_many_groups_says_that_single_ones_may_be_known_better(monkeypatch):
    from maquette.results import figures, tables

    for module in (figures, tables):
        monkeypatch.setattr(module, "MAX_EACH", 5)
    table = release_of(coded(np.random.default_rng(1)), 0.01).table("sex", "rooms")
    assert any("a single one may be known better" in note for note in table.notes)
    assert table["error"].to_pylist()[0] == pytest.approx(0.01 * RECORDS)

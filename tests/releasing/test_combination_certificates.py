# type: ignore  (annotations of tests are not checked)
"""Certificates of every combination of values: what is bought, what is stated, and that it holds for the worst cell."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest

import maquette as mq
from maquette.core.any_order import Family, Statistic, largest_errors
from maquette.core.budget import UNITS
from maquette.core.combinations import axes_of
from maquette.owner import engine_of
from maquette.queries.combinations import COMBINATIONS
from maquette.releasing import certify
from maquette.releasing.certify import share_of_beta
from releasing.test_class_certificates import DOMAIN, PAIRS, USUAL, columns, ledger, made

BY_ORDER = [name for name, one in COMBINATIONS.items() if one.order in (None, 1)]


@pytest.fixture(scope="module")
def release():
    return made(6_000)


@pytest.fixture(scope="module")
def records():
    return coded(6_000)


def coded(n):
    table = mq.open(columns(n), domain=DOMAIN)
    return engine_of(table).distinct_records(DOMAIN.names)


def true_errors(release, records, certificates):
    """The largest error over every family as a share of the records, with the table at hand."""
    codes, times = records
    released = release.distribution.rows()
    families = [COMBINATIONS[one.name] for one in certificates]
    asked = [
        Statistic(family.family, one.columns or len(released.names))
        for family, one in zip(families, certificates, strict=True)
    ]
    axes = axes_of(DOMAIN, released.names)
    errors = largest_errors(axes, codes, released.codes, asked, times=times)
    return [error / times.sum() for error in errors]


# --- what is bought -------------------------------------------------------------------------------------------------


def test_they_are_bought_where_nobody_names_any(release):
    assert tuple(one.name for one in release.certificates) == USUAL
    assert {one.of for one in release.certificates[:3]} == {"rows"}
    assert {one.columns for one in release.certificates} == {None}
    spent = {one.asked: one.amount for one in release.spending}
    total = mq.Budget(1.0, 1e-6, "gaussian").total_units / UNITS
    assert spent["combination errors"] == pytest.approx(3 / 5 * 0.05 * total, rel=0.01)
    assert spent["typical errors"] == pytest.approx(1 / 5 * 0.05 * total, rel=0.01)
    assert spent["class errors"] == pytest.approx(1 / 5 * 0.05 * total, rel=0.01)


def test_what_all_of_a_family_is_within_its_parts_are_too(release):
    cell, span, every, _ = (one.alpha for one in release.certificates)
    assert 0 < cell <= span <= every < 0.1


def test_few_columns_have_bounds_of_their_own_by_name(records):
    named = made(6_000, certificate=["workload", *BY_ORDER])
    bounds = {one.name: one for one in named.certificates}
    assert list(bounds) == BY_ORDER
    assert bounds["any combination and a list on one column"].columns == 1
    assert bounds["any combination on one column"].alpha <= bounds["any combination and a list"].alpha
    single = named.coverage.cover(mq.where(DOMAIN, "region in (0, 2)"))
    assert single.error == bounds["any combination and a list on one column"].alpha
    assert single.statement == "certified for any condition on one column"


def test_the_same_request_is_free_and_says_the_same():
    book = ledger()
    first = made(3_000, book=book)
    spent = book.balance().charged_units
    again = made(3_000, book=book)
    assert again.certificates == first.certificates
    assert book.balance().charged_units == spent


def test_a_table_elsewhere_is_refused_by_name_and_gets_other_classes():
    table = replace(mq.open(columns(3_000), domain=DOMAIN, name="people"), lists_records=False)
    given = {"epsilon": 1.0, "delta": 1e-6, "mechanism": "sculpt"}
    book = ledger()
    with pytest.raises(mq.ParameterError, match="stay where they are"):
        mq.release(table, PAIRS, ledger=book, certificate="any combination", **given)
    assert book.balance().charged_units == 0
    by_tables = mq.release(table, PAIRS, ledger=book, **given)
    assert [one.name for one in by_tables.certificates] == ["one attribute", "two attributes", "two ranges"]


def test_too_little_memory_leaves_families_out_and_says_so(monkeypatch):
    monkeypatch.setattr(certify, "MEMORY", 0.01)
    by_name = made(3_000, certificate=["workload", "any combination", "two ranges"])
    assert [one.name for one in by_name.certificates] == ["any combination", "two ranges"]
    real = certify.affordable_order
    monkeypatch.setattr(
        certify, "affordable_order", lambda *args, **given: real(*args, **given | {"memory": 0})
    )
    without = made(3_000, certificate=["workload", "any combination", "two ranges"])
    assert [one.name for one in without.certificates] == ["two ranges"]
    assert any("not certified: any combination" in note for note in without.notes)


def test_where_many_columns_cannot_be_searched_the_sentence_says_how_many(monkeypatch):
    real = certify.affordable_order
    few = lambda *args, **given: min(2, real(*args, **given))  # noqa: E731
    monkeypatch.setattr(certify, "affordable_order", few)
    two = made(3_000, certificate=["workload", "any combination"])
    (one,) = two.certificates
    assert one.columns == 2
    assert "on up to 2 columns together" in str(one)
    assert two.coverage.cover(mq.where(DOMAIN, "age = 3 and member = 1")).error == one.alpha
    assert two.coverage.cover(mq.where(DOMAIN, "age = 3 and member = 1 and region = 2")) is None
    assert "of 173 combinations of values, on up to 2 columns together" in two.headline


# --- what is stated -------------------------------------------------------------------------------------------------


def counted(release, text):
    """The share of the rows that meet a condition."""
    query = mq.where(DOMAIN, text)
    return float(query.on_rows(release.database.columns)[0]) / release.database.m


@pytest.mark.parametrize(
    ("text", "name", "parts"),
    [
        ("age = 3 and member = 1 and region = 2 and score = 1", "any combination", 1),
        ("age = 3 and member = 1 and region = 2 and score is null", "any combination", 1),
        ("age >= 4 and member = 1 and region = 2", "any combination and a range", 1),
        ("age between 2 and 5 and member = 1 and region = 2 and score = 0", "any combination and a range", 1),
        ("age in (1, 3, 8) and member = 1 and region = 2", "any combination and a list", 1),
        ("region in (0, 2) and age between 2 and 5 and member = 0", "any combination and a range", 2),
        ("age <> 3 and member = 1 and region = 2", "any combination and a list", 1),
        ("not (age = 3 and member = 1 and region = 2)", "any combination", 1),
        (
            "age = 3 and member = 1 and region = 2 or age = 5 and member = 0 and region = 1",
            "any combination",
            2,
        ),
    ],
)
def test_an_answer_has_the_smallest_bound_that_covers_it(release, text, name, parts):
    covered = release.coverage.cover(mq.where(DOMAIN, text))
    bounds = {one.name: one.alpha for one in release.certificates}
    assert covered.error <= bounds[name] * parts * (1 + 1e-9)
    assert covered.value == pytest.approx(counted(release, text))
    assert covered.of == "rows"
    answer = release.answer(text)
    assert answer.error <= covered.error * (1 + 1e-9)
    assert answer.confidence == pytest.approx(0.95)


def test_tables_of_any_number_of_columns_are_covered(release):
    whole = release.table("age", "member", "region", "score")
    assert len(whole) == 9 * 2 * 4 * 6
    errors = np.array(whole["error"].to_pylist(), dtype=float)
    n = whole["count"].to_pylist()[0] / max(whole["value"].to_pylist()[0], 1e-12)
    assert not np.isnan(errors).any()
    assert errors.max() <= release.certificates[0].counts * 1.5
    assert n > 0
    assert all("any combination" in text for text in whole["known_by"].to_pylist() if "certified" in text)
    groups = release.sql(
        "SELECT age, region, score, COUNT(*) FROM records WHERE member = 1 GROUP BY age, region, score"
    )
    assert len(groups) == 9 * 4 * 6


@pytest.mark.parametrize(
    "text", [None, "member = 1 and region = 2", "age >= 3 and member = 1 and region = 2"]
)
def test_errors_of_means_hold_for_every_one_sided_set(release, text):
    """The error of a row of shares is that of its worst one-sided set: as many values as it may have."""
    from maquette.results.figures import Grouping

    grouping = Grouping.of(release, ("region",) if text is None else (), text)
    shares = grouping._of_classes("age")
    for i in range(len(shares.values)):
        for product in grouping._products(i, "age"):
            bound = release.coverage.bound(product)
            assert bound.error <= shares.errors[i] * (1 + 1e-9)
    assert len(grouping._products(0, "age")) >= 6


def test_the_headline_counts_the_combinations(release):
    number = 10 * 5 * 3 * 7 - 1
    assert f"every one of {number:,} combinations of values within" in release.headline
    assert "combination of values with any list of values of one column" in release.headline


def test_folders_keep_them(release, tmp_path):
    place = release.save(tmp_path / "one", report=True)
    again = mq.load(place)
    assert again.certificates == release.certificates
    text = "age >= 4 and member = 1 and region = 2"
    assert again.answer(text) == release.answer(text)
    assert (
        "any combination of values with any list of values of one column"
        in (place / "report.html").read_text()
    )
    stored = json.loads((place / "release.json").read_text())
    assert [one["name"] for one in stored["certificates"]] == list(USUAL)
    assert all("columns" not in one for one in stored["certificates"])
    limited = replace(release, certificates=(replace(release.certificates[0], columns=2),))
    assert mq.load(limited.save(tmp_path / "two", report=False)).certificates == limited.certificates


@pytest.mark.parametrize(
    "edit", [{"of": "answers"}, {"bounds": [0.1]}, {"columns": 0}, {"name": "any combination on 4 columns"}]
)
def test_folders_with_others_are_refused(release, tmp_path, edit):
    place = release.save(tmp_path / "one", report=False)
    stored = json.loads((place / "release.json").read_text())
    stored["certificates"][0] |= edit
    (place / "release.json").write_text(json.dumps(stored))
    with pytest.raises(mq.MaquetteError):
        mq.load(place)


# --- and holds ------------------------------------------------------------------------------------------------------


@pytest.mark.accuracy
def test_the_bound_is_the_largest_error_and_noise(release, records):
    """With as good as no chance to fail; and the worst cell is as near as the noise allows."""
    sure = made(6_000, beta=1e-9)
    for one, true in zip(
        sure.certificates[:3], true_errors(sure, records, sure.certificates[:3]), strict=True
    ):
        assert true <= one.alpha
    for one, true in zip(
        release.certificates[:3], true_errors(release, records, release.certificates[:3]), strict=True
    ):
        assert one.alpha <= max(true, 0.001) * 3 + 0.02


@pytest.mark.slow
@pytest.mark.accuracy
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_no_combination_exceeds_its_bound_more_often_than_stated(relation):
    """Over 400 releases at beta = 0.2, with the worst combination picked with the table at hand."""
    runs, beta, n = 400, 0.2, 1_000
    known, failed = coded(n), 0
    families = USUAL[:3]
    for _ in range(runs):
        one = made(n, beta=beta, relation=relation, certificate=["workload", *families])
        true = true_errors(one, known, one.certificates)
        failed += any(error > bound.alpha for error, bound in zip(true, one.certificates, strict=True))
    each = share_of_beta(beta, 4) * 3  # the chance that one of the three families fails
    assert failed <= runs * each + 3 * np.sqrt(runs * each)


def test_a_bound_that_forgot_the_rows_would_be_exceeded(release, records):
    """Planted: the largest error against the rows of another release is not covered by this one's bound."""
    shifted = replace(
        release,
        database=type(release.database)(
            {name: np.zeros_like(column) for name, column in release.database.columns.items()}
        ),
    )
    three = release.certificates[:3]
    wrong = true_errors(shifted, records, three)
    assert all(error > one.alpha for error, one in zip(wrong, three, strict=True))


def test_unions_of_families_are_all_there():
    assert {one.family for one in COMBINATIONS.values()} == set(Family)
    assert len(list(itertools.product(Family, (None, 1, 2, 3)))) == len(COMBINATIONS)
    assert PAIRS.count == 173 - (9 + 4 + 2 + 6)

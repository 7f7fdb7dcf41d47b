"""Answers: the right source, and an error only where one is proved."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maquette.domain import Attribute, Domain, Kind
from maquette.errors import ReleaseError, WorkloadError
from maquette.models.answers import Answers, SmallDatabase
from maquette.queries import (
    condition,
    exact_predicates,
    marginals,
    predicates,
    prefixes,
    ranges,
    union,
    where,
)
from maquette.queries.names import condition_text
from maquette.results import Certificate, GroupCertificate, Guarantee, answering, covering
from support.made_release import toy_columns, toy_domain, toy_release

DOMAIN = toy_domain()
TRUTH = SmallDatabase(toy_columns(DOMAIN))


def truth(query: str) -> float:
    return float(TRUTH.answer(where(DOMAIN, query)).fractions[0])


def certified(workload: Any, alpha: float = 0.01, **changes: Any) -> Any:
    """A release whose answers are each off by at most alpha, and whose certificate says so."""
    exact = TRUTH.answer(workload).fractions
    shift = np.where(np.arange(len(exact)) % 2, 1, -1) * alpha
    answers = Answers.from_fractions(np.clip(exact + shift, 0, 1))
    return toy_release(
        workload, answers=answers, certificate=Certificate(alpha + 1e-8, 0.05, 500 * alpha), **changes
    )


def test_a_query_of_the_workload_has_the_certified_error():
    release = certified(marginals(DOMAIN, k=[1, 2]), rows=False)
    answer = release.answer("sex = 'Male' and region = 'west'")
    assert answer.source == "workload"
    assert answer.error == pytest.approx(0.01, abs=1e-6)
    assert answer.confidence == pytest.approx(0.95)
    assert abs(answer.value - truth("sex = 'Male' and region = 'west'")) <= answer.error
    assert answer.count == answer.value * 500


def test_without_a_certificate_the_guarantee_speaks():
    release = toy_release(certificate=None, guarantee=Guarantee(0.07, 0.1, "theorem"))
    answer = release.answer("sex = 'Male'")
    assert (answer.error, answer.confidence) == (0.07, 0.9)


def test_errors_of_a_sum_add_up_and_the_shorter_side_is_taken():
    release = certified(marginals(DOMAIN, attributes=[("age",)]), rows=False)
    two = release.answer("age < 20")
    assert two.error == pytest.approx(2 * 0.01, abs=1e-6)
    assert "summed from 2 released answers" in two.notes[-1]
    nine = release.answer("not (age is null)")
    assert nine.error == pytest.approx(0.01, abs=1e-6)
    assert nine.value == pytest.approx(1 - release.answer("age is null").value)


def test_a_margin_that_holds_the_attributes_answers_for_them():
    release = certified(marginals(DOMAIN, attributes=[("sex", "region")]), rows=False)
    answer = release.answer("sex = 'Male'")
    assert answer.error == pytest.approx(4 * 0.01, abs=1e-6)
    assert abs(answer.value - truth("sex = 'Male'")) <= answer.error


@pytest.mark.slow
@settings(deadline=None)
@given(st.sets(st.integers(0, 9), max_size=10), st.sets(st.integers(0, 3), max_size=4), st.booleans())
def test_every_stated_error_holds(ages, regions, both):
    texts = [f"(age >= {10 * a} and age < {10 * a + 10})" if a < 9 else "age is null" for a in sorted(ages)]
    names = ["north", "south", "west"]
    picked = [f"region = '{names[r]}'" for r in sorted(regions) if r < 3]
    query = f"({' or '.join(texts) or 'false'}) {'and' if both else 'or'} ({' or '.join(picked) or 'false'})"
    release = certified(marginals(DOMAIN, k=[1, 2]), alpha=0.004, rows=False)
    answer = release.answer(query)
    assert answer.error is not None
    assert abs(answer.value - truth(query)) <= answer.error + 1e-9


def test_prefixes_answer_intervals_by_two_differences():
    release = certified(prefixes(DOMAIN, "age"), rows=False)
    assert release.answer("age < 40").error == pytest.approx(0.01, abs=1e-6)
    between = release.answer("age >= 20 and age < 40")
    assert between.error == pytest.approx(0.02, abs=1e-6)
    assert abs(between.value - truth("age >= 20 and age < 40")) <= between.error
    apart = release.answer("age < 10 or (age >= 20 and age < 40)")
    assert apart.error == pytest.approx(0.03, abs=1e-6)
    missing = release.answer("age is null")  # what the last prefix leaves
    assert missing.error == pytest.approx(0.01, abs=1e-6)
    assert missing.value == pytest.approx(1 - release.answer("age is not null").value)


@pytest.mark.parametrize("outside", [(), ("nullable",), ("overflow",), ("nullable", "overflow")])
@pytest.mark.parametrize("most", ["cells", "runs", "intervals"])
def test_every_run_of_cells_out_of_prefixes_and_intervals(outside, most, monkeypatch):
    """Cells that are not declared are known all together, as what the declared ones leave, and never one by one."""
    if most == "runs":
        monkeypatch.setattr(covering, "MAX_COMPARED_CELLS", 0)
    if most == "intervals":
        monkeypatch.setattr(covering, "MAX_KEYS", 0)
    flags: Any = dict.fromkeys(outside, True)
    domain = Domain((Attribute("x", Kind.ORDINAL, codes=4, **flags),))
    size = domain["x"].size
    rows = SmallDatabase({"x": np.repeat(np.arange(size), 3 + np.arange(size)).astype(np.uint8)})
    workload = (ranges if most == "intervals" else prefixes)(domain, "x")
    release = toy_release(
        workload, rows=False, answers=rows.answer(workload), certificate=Certificate(0.01, 0.05, 5.0)
    )
    for low, high in itertools.combinations_with_replacement(range(size), 2):
        if (low, high) == (0, size - 1):
            continue  # everything: no attribute is asked about
        text = condition_text(domain, condition.Leaf("x", ((low, high),)))
        assert text is not None
        asked = where(domain, text)
        found = answering.estimate(release, asked)
        if high >= 4 and (low > 4 or high < size - 1):
            assert found is None, (low, high)
            continue
        assert found is not None, (low, high)
        assert found.value == pytest.approx(float(rows.answer(asked).fractions[0])), (low, high)
        terms = 1 if most == "intervals" else (low > 0) + (high < 4)
        assert found.error == pytest.approx(0.01 * terms), (low, high)


def test_queries_of_other_classes_are_found_with_their_complements():
    release = certified(
        union(ranges(DOMAIN, "age"), predicates(DOMAIN, ["sex = 'Male' or age is null"])), rows=False
    )
    for query in (
        "age >= 20 and age < 40",
        "sex = 'Male' or age is null",
        "sex = 'Female' and age is not null",
    ):
        answer = release.answer(query)
        assert answer.error == pytest.approx(0.01, abs=1e-6), query
        assert abs(answer.value - truth(query)) <= answer.error


def test_a_group_certificate_is_used_for_its_group():
    workload = marginals(DOMAIN, k=[1, 2])
    groups = tuple(
        GroupCertificate(g.name, g.stop - g.start, a, 1.0)
        for g, a in zip(workload.groups(), (0.003, 0.02), strict=True)
    )
    release = toy_release(workload, certificate=Certificate(0.02, 0.05, 10.0, groups), rows=False)
    assert release.answer("sex = 'Male'").error == pytest.approx(0.003)
    assert release.answer("sex = 'Male' and region = 'west'").error == pytest.approx(0.02)


def test_anything_else_comes_from_the_rows_between_what_its_parts_allow():
    release: Any = toy_release(marginals(DOMAIN, k=1))
    answer = release.answer("age >= 60 and sex = 'Male'")
    assert answer.source == "rows"
    assert answer.value == truth("age >= 60 and sex = 'Male'")
    assert answer.low == 0
    old = release.answer("age >= 60")
    assert answer.high == pytest.approx(old.value + old.error)
    assert answer.error == pytest.approx(answer.high - answer.value)
    assert "its parts on fewer attributes" in answer.statement
    assert "a release of a higher order, with the marginal of age and sex" in answer.notes[-1]


def test_what_is_no_conjunction_comes_from_the_rows_without_an_error():
    answer = toy_release(marginals(DOMAIN, k=1)).answer("age >= 60 and sex = 'Male' or region = 'west'")
    assert answer.source == "rows"
    assert (answer.error, answer.confidence, answer.low, answer.high) == (None, None, None, None)
    assert "no stated error" in str(answer)


def test_answers_only_names_what_is_covered():
    release = toy_release(marginals(DOMAIN, attributes=[("sex", "region"), ("age",)]), rows=False)
    with pytest.raises(ReleaseError, match=r"over age, sex; .*: sex, region; age"):
        release.answer("age >= 60 and sex = 'Male'")


def test_a_vacuous_bound_is_no_error():
    release = toy_release(certificate=Certificate(1.0, 0.05, 500.0))
    answer = release.answer("sex = 'Male'")
    assert answer.error is None
    assert answer.source == "workload"
    assert "too large to say anything" in answer.notes[-1]


def test_constants_need_nobody():
    release = toy_release(marginals(DOMAIN, attributes=[("sex",)]), rows=False)
    assert release.answer("true").value == pytest.approx(1.0)
    assert release.answer("false").value == pytest.approx(0.0, abs=1e-12)


class Model:
    """Covers queries over age alone."""

    def estimate(self, asked: Any, *, beta: float, among: int = 1) -> tuple[float, float] | None:
        return (-0.2, 0.01 * (1 - beta)) if asked.attributes == ("age",) else None


def test_the_model_answers_first_where_it_can():
    release = toy_release(model=Model(), certificate=None)
    answer = release.answer("age >= 60")
    assert (answer.source, answer.value) == ("model", 0.0)
    assert answer.error == pytest.approx(0.0095)
    assert release.answer("sex = 'Male'").source == "workload"


def test_a_class_of_one_query_can_be_asked_and_larger_ones_not():
    release = toy_release()
    assert release.answer(where(DOMAIN, "sex = 'Male'")) == release.answer("sex = 'Male'")
    with pytest.raises(ReleaseError, match="expected one query, got a class of 9"):
        release.answer(prefixes(DOMAIN, "age"))


def test_a_query_over_another_domain_is_refused():
    other = Domain.from_dict(
        {"attributes": [{"name": "sex", "kind": "boolean", "categories": ["Female", "Male"]}]}
    )
    with pytest.raises(ReleaseError, match="different domains"):
        toy_release().answer(where(other, "sex = 'Male'"))


def test_bad_predicates_are_workload_errors():
    with pytest.raises(WorkloadError, match="agee"):
        toy_release().answer("agee > 3")


def test_notes_tell_of_moved_borders_and_of_watermarks():
    answer = toy_release(watermark="seeded").answer("age >= 61")
    assert answer.notes[0] == "NOT PRIVATE: seeded"
    assert any("61" in note for note in answer.notes)


def test_an_answer_in_words():
    text = str(certified(marginals(DOMAIN, k=1)).answer("sex = 'Male'"))
    assert "points with 95 % confidence, for all answers of the release together" in text
    assert "records" in text


@pytest.mark.parametrize(
    ("query", "surely", "maybe", "parts"),
    [
        ("age <= 30", "age < 30", "age < 40", (3, 4)),
        ("age > 30 and age < 60", "age >= 40 and age < 60", "age >= 30 and age < 60", (2, 3)),
        ("age > 200", "false", "age >= 80", (0, 1)),
        ("age < 0", "false", "age < 10", (0, 1)),
        ("age = 35", "false", "age >= 30 and age < 40", (0, 1)),
        (
            "region <> 'north'",
            "region in ('south', 'west')",
            "not (region = 'north') or region is null",
            (2, 1),
        ),
    ],
)
def test_what_cuts_a_cell_is_answered_from_both_sides(query, surely, maybe, parts):
    release = certified(marginals(DOMAIN, k=1), rows=False)
    answer = release.answer(query)
    low, high = truth(surely), truth(maybe)
    assert answer.error is not None
    assert answer.low is not None
    assert answer.high is not None
    assert answer.low <= low
    assert high <= answer.high
    few, many = (0.01 * n for n in parts)
    assert answer.error <= (high - low) / 2 + 2 * (few + many) + 1e-6  # no wider than the cut and the errors
    assert any("cuts the cell" in note for note in answer.notes)
    assert any("the error covers both" in note for note in answer.notes)
    assert answer.confidence == pytest.approx(0.95)


def test_a_release_that_covers_no_side_of_a_cut_states_no_error():
    release = certified(predicates(DOMAIN, ["age <= 30"]), rows=False)
    answer = release.answer("age <= 30")
    assert (answer.error, answer.confidence) == (None, None)
    assert answer.notes[0] == "age <= 30 cuts the cell [30, 40)"
    both = certified(exact_predicates(DOMAIN, ["age <= 30"]), rows=False)
    assert both.answer("age <= 30").error is not None
    assert both.answer(where(DOMAIN, "age <= 30")) == both.answer("age <= 30")


def test_both_sides_of_a_cut_share_the_chance_of_failing():
    class Model:
        """Knows everything, and how likely it was asked to be wrong."""

        def __init__(self):
            self.betas: list[float] = []

        def estimate(self, asked, *, beta, among=1):
            self.betas.append(beta)
            return float(TRUTH.answer(asked).fractions[0]), 0.01

    model = Model()
    answer = toy_release(model=model, rows=False, certificate=None).answer("age <= 30")
    assert model.betas == [0.025, 0.025]
    assert answer.confidence == pytest.approx(0.95)
    assert answer.source == "model"

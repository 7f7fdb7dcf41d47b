"""What the planner says of classes of questions: from public numbers, fitted to stored tables, and about right."""

import itertools

import numpy as np
import pytest
from benchmarks import class_forecasts, combination_forecasts

import maquette as mq
from maquette.core.answers import Answers
from maquette.queries.classes import CLASSES
from maquette.queries.combinations import COMBINATIONS, narrower
from maquette.releasing import certify
from maquette.releasing.certify import RELATIVE, SMALL_PAIRS, TYPICAL, WITHIN
from maquette.releasing.plan import decided
from maquette.releasing.planning import plan_of
from maquette.releasing.request import Request
from maquette.results import wording
from maquette.results.covering import Coverage
from maquette.results.distribution import distribution_of, marginal_places
from maquette.results.statements import (
    WIDER,
    ClassCertificate,
    GroupCertificate,
    named_in_headline,
    useful,
)

DOMAIN = mq.Domain.from_dict(
    {
        "attributes": [
            {"name": "age", "kind": "ordinal", "size": 60},
            {"name": "region", "kind": "categorical", "size": 12},
            {"name": "member", "kind": "boolean", "size": 2},
            {"name": "score", "kind": "ordinal", "size": 6},
        ]
    }
)
PAIRS = mq.marginals(DOMAIN, k=2)
WIDE = mq.marginals(
    mq.Domain.from_dict(
        {
            "attributes": [
                {"name": f"a{i}", "kind": "ordinal", "size": size}
                for i, size in enumerate((85, 100, 16, 15, 42, 7))
            ]
        }
    ),
    k=3,
)


def people(n):
    rng = np.random.default_rng(n)
    age = rng.binomial(59, 0.2 + 0.5 * rng.random(n))
    return {
        "age": age,
        "region": (age // 5 + rng.integers(0, 3, n)) % 12,
        "member": (rng.random(n) < 0.2 + 0.01 * age).astype(int),
        "score": np.minimum(rng.geometric(0.4, n) - 1, 5),
    }


def forecast(queries=PAIRS, *, n=20_000, epsilon=1.0, **options):
    ranked = mq.plan(queries, n=n, epsilon=epsilon, delta=1e-9, mechanisms=["sculpt"], **options)
    return ranked.forecasts[0]


def elsewhere(queries, n=20_000):
    """What would be bought where records stay where they are."""
    given = {"certificate": None, "groups": False, "rows": None, "post": "auto", "beta": 0.05}
    request = Request(
        queries=queries,
        epsilon=1.0,
        delta=1e-9,
        mechanism="sculpt",
        typical_rows=n,
        lists_records=False,
        **given,
    )
    return decided(plan_of(request), n=n).certificate.classes


def made(n, epsilon):
    table = mq.open(people(n), domain=DOMAIN, name="people")
    book = mq.Ledger.memory(
        budget=mq.Budget(epsilon, 1e-9, "gaussian"),
        relation=mq.Relation.ADD_REMOVE,
        domain_fingerprint=DOMAIN.fingerprint,
        name="test",
    )
    return mq.release(
        table, PAIRS, epsilon=epsilon, delta=1e-9, mechanism="sculpt", ledger=book, typical_rows=n
    )


def test_the_constants_are_those_of_the_stored_tables():
    figures = class_forecasts.stored()
    assert len(figures) >= 150
    found = class_forecasts.fit(figures)
    assert found["TYPICAL"] == TYPICAL
    assert found["WITHIN"] == WITHIN
    assert class_forecasts.fit(figures[:-20])["TYPICAL"] != TYPICAL


def test_the_constants_of_combinations_are_those_of_the_stored_tables():
    figures = combination_forecasts.stored()
    assert len(figures) >= 37
    found = combination_forecasts.fit(figures)
    assert found == certify.COMBINED
    assert combination_forecasts.spread(figures, found) == (0.54, 1.75)
    assert combination_forecasts.fit(figures[:-9]) != found
    assert combination_forecasts.fit_often(figures) == certify.OFTEN


def test_few_columns_have_bounds_of_their_own_on_large_tables():
    few = [name for name, one in COMBINATIONS.items() if one.order in certify.FEW_COLUMNS]
    small, large = ([one.name for one in forecast(WIDE, n=n).classes] for n in (20_000, 2_000_000))
    assert not set(few) & set(small)
    assert set(few) <= set(large)


def test_the_forecast_of_a_family_is_not_above_that_of_a_wider_one():
    expected = {one.name: one.expected for one in forecast(WIDE, n=1_000_000).classes}
    for name, other in itertools.permutations(set(expected) & set(COMBINATIONS), 2):
        if narrower(COMBINATIONS[name], COMBINATIONS[other]):
            assert expected[name] <= expected[other]


def test_errors_grow_with_the_cells_of_one_attribute_and_hardly_with_those_of_two():
    """Why small attributes have a class of their own, and small tables of two attributes have none."""
    figures = class_forecasts.stored()
    one = class_forecasts.growth("one attribute", CLASSES["one small attribute"].max_cells, figures)
    two = class_forecasts.growth("two attributes", 256, figures)
    assert one["quartiles"][1] < certify.PAYS < 0.8 < two["quartiles"][1]


@pytest.mark.parametrize(("n", "epsilon"), [(4_000, 2.0), (20_000, 1.0)])
def test_the_plan_names_what_is_bought_and_about_how_well(n, epsilon):
    """Stated over forecast on a generated table that nothing was fitted to: within the stated spread."""
    expected = {one.name: one.expected for one in forecast(n=n, epsilon=epsilon).classes}
    release = made(n, epsilon)
    certificates = {one.name: one.typical for one in release.certificates}
    assert [*certificates, *(one.name for one in release.quality)] == list(expected)
    low, high = WITHIN
    # the forecast of a relative certificate is a rule of thumb: it was not calibrated as the others were
    ratios = sorted(alpha / expected[name] for name, alpha in certificates.items() if name != RELATIVE)
    assert ratios[-1] <= high
    assert low <= ratios[len(ratios) // 2]  # a single noisy bound may come out much smaller


def test_a_class_that_would_say_nothing_is_not_forecast():
    assert [one.name for one in forecast().classes] == [
        "any combination", "any combination and a range", "any combination and a list", "two ranges", "average pair",
    ]  # fmt: skip
    assert forecast(n=100).classes == ()
    assert forecast(certificate=0.05).classes == ()
    assert forecast(mq.prefixes(DOMAIN, "age")).classes == ()


def test_classes_by_name_are_forecast_where_they_were_calibrated():
    named = forecast(certificate=["workload", "two ranges", "three ranges"]).classes
    assert [one.name for one in named] == ["two ranges", "three ranges"]
    assert 0 < named[0].expected < 1
    assert named[1].expected is None
    (direct,) = mq.plan(
        PAIRS, n=20_000, epsilon=1.0, delta=1e-9, mechanisms=["residual"], certificate=["two ranges"]
    ).forecasts
    assert [one.expected for one in direct.classes] == [None]


def test_tables_have_bounds_of_their_own_where_half_of_them_are_expected_to_be_smaller():
    alike = mq.Domain.from_dict(
        {
            "attributes": [
                {"name": "a", "kind": "ordinal", "size": 17},
                {"name": "b", "kind": "ordinal", "size": 16},
            ]
        }
    )
    assert RELATIVE not in elsewhere(mq.marginals(alike, k=2))
    assert RELATIVE in elsewhere(PAIRS)
    by_name = forecast(certificate=["workload", "two ranges", RELATIVE]).classes
    expected = {one.name: one.expected for one in by_name}
    assert expected[RELATIVE] < certify.PAYS * expected["two ranges"]
    assert by_name[-1].says.endswith("half of these")
    named = {one.name: one.expected for one in forecast(mq.marginals(DOMAIN, k=1)).classes}
    assert named[RELATIVE] < certify.PAYS * named["one attribute"]


@pytest.mark.parametrize(
    ("sizes", "bought"), [((60, 50, 2), True), ((60, 50, 11), False), ((60, 30, 2), False), ((60, 2), False)]
)
def test_pairs_with_a_small_attribute_have_a_bound_of_their_own_beside_large_pairs(sizes, bought):
    attributes = [{"name": f"a{i}", "kind": "ordinal", "size": size} for i, size in enumerate(sizes)]
    pairs = mq.marginals(mq.Domain.from_dict({"attributes": attributes}), k=2)
    assert (SMALL_PAIRS in [one.name for one in forecast(pairs).classes]) == bought


def test_two_large_attributes_do_not_set_the_bound_of_a_comparison_in_two_groups():
    """The question of the README: by the class without the pair that is off most."""
    domain = mq.Domain.from_dict(
        {
            "attributes": [
                {"name": "age", "kind": "ordinal", "size": 80},
                {"name": "hours", "kind": "ordinal", "size": 90},
                {"name": "sex", "kind": "boolean", "categories": ["female", "male"]},
            ]
        }
    )
    pairs = mq.marginals(domain, k=2)
    shares = np.zeros(pairs.count, dtype=np.int64)
    for place in marginal_places(pairs).values():
        shares[place.start] = 10  # ten records, all in the first cell
    distribution = distribution_of(pairs, Answers(shares, 10), None)
    bounds = {"two attributes": 0.012, SMALL_PAIRS: 0.008}
    coverage = Coverage(
        distribution,
        tuple(ClassCertificate(name, alpha, 0.05, 1.0, "answers") for name, alpha in bounds.items()),
    )
    asked = {"age >= 60 and sex = 'female'": 0.008, "age >= 60": 0.008, "age >= 60 and hours >= 60": 0.012}
    for question, error in asked.items():
        assert coverage.cover(mq.where(domain, question)).error == error


def test_a_plan_shows_the_classes():
    ranked = mq.plan(PAIRS, n=20_000, epsilon=1.0, delta=1e-9, mechanisms=["sculpt"])
    (data,) = ranked.to_dict()["forecasts"]
    one = ranked.forecasts[0].classes[0]
    assert data["classes"][0] == {"name": one.name, "says": one.says, "expected": one.expected}
    assert (
        f"sculpt would also certify, with these expected errors: {one.says} within {wording.points(one.expected)}"
        in repr(ranked)
    )
    assert one.says in ranked._repr_html_()


def test_a_class_inside_another_never_has_the_larger_bound():
    drawn = {"one attribute": 0.02, "one small attribute": 0.01, "two attributes": 0.03, SMALL_PAIRS: 0.04}
    bounds = certify.smallest_bounds([GroupCertificate(name, 1, alpha, 1.0) for name, alpha in drawn.items()])
    assert [one.alpha for one in bounds] == [0.02, 0.01, 0.03, 0.03]
    for small, whole in WIDER.items():
        tables = {name: set(CLASSES[name].tables(DOMAIN, [DOMAIN.names])) for name in (small, whole)}
        assert tables[small] < tables[whole]


def test_the_headline_leaves_out_a_class_inside_another_with_the_same_bound():
    whole = ClassCertificate("two attributes", 0.043, 0.05, 43.0, "answers")
    part = ClassCertificate("two attributes with a small one", 0.043, 0.05, 43.0, "answers")
    assert useful([part, whole]) == [whole]
    better = ClassCertificate("two attributes with a small one", 0.021, 0.05, 21.0, "answers")
    assert useful([better, whole]) == [better, whole]
    assert useful([part]) == [part]
    # one sentence has room for classes, not for parts of them; lists below it name both
    assert named_in_headline([better, whole]) == [whole]
    assert named_in_headline([better]) == [better]

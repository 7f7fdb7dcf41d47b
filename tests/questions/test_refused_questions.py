"""Questions that must not reach a table: each is refused by its own structure, whoever made it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import maquette as mq
from maquette.core import bounds, sparse
from maquette.core.answers import ChoiceQuestion
from maquette.core.budget import Unit
from maquette.core.class_errors import ClassQuestion, ReleasedTables
from maquette.core.events import Receipt
from maquette.core.laws import ONE, Cube, Gaussian, Laplace, NoiseRequest, independent, law_of_variance
from maquette.core.measurement import Step, outcome_of
from maquette.core.weighting import MAX_WEIGHTED_CELLS, Weighting, check_weight, weighting
from maquette.domain import Attribute, Kind
from maquette.errors import LedgerError, MechanismError, ParameterError, WorkloadError
from maquette.queries.classes import class_sets
from maquette.samplers import atoms, check
from maquette.samplers import structures as draws
from maquette.theory import quantiles
from maquette.theory.quantiles import law_at, law_near

BITS = mq.Domain([Attribute(name, Kind.BOOLEAN, codes=2) for name in "abc"])
WIDE = mq.Domain([Attribute("x", Kind.ORDINAL, codes=2**66), Attribute("a", Kind.BOOLEAN, codes=2)])


def _draw(structure: draws.Structure, *, weight: Weighting | None = None) -> draws.Draw:
    return draws.Draw(structure, structure.bases[0], 2, weight=weight)


def test_crossing_sets_are_no_nested_family():
    assert not draws.is_nested([(0, 2), (1, 3)])
    with pytest.raises(WorkloadError, match="cross"):
        draws.family([(0, 2), (1, 3)], 5)
    with pytest.raises(ParameterError, match="do not cross"):
        draws.Nested("a", ((0, 2), (1, 3)), 5)
    with pytest.raises(ParameterError, match=r"cells 0 \.\. 4"):
        draws.Nested("a", ((0, 5),), 5)


def test_a_family_counts_its_sets_and_their_parts():
    family = draws.family([(0, 4), (0, 1), (2, 4), (2, 2)], 5)
    assert (family.sets, family.widest) == (4, 2)


@pytest.mark.parametrize("edges", [(("a", "b"), ("b", "c"), ("c", "a")), (("a", "z"),), (("a", "a"),)])
def test_edges_that_close_a_circle_or_leave_the_attributes_are_no_forest(edges):
    with pytest.raises(ParameterError, match="form no cycle"):
        draws.Forest(("a", "b", "c"), edges)


def test_rows_of_a_drawn_forest_and_of_candidates_are_named_by_attribute():
    rng = np.random.default_rng(1)
    forest = draws.Forest(("a", "b"), (("a", "b"),))
    assert set(forest.columns([np.array([0]), np.array([1])], rng)) == {"a", "b"}
    codes = {"a": np.array([[0, 1], [1, 1]]), "b": np.array([[0, 0], [1, 0]])}
    candidates = draws.Candidates(mq.marginals(BITS, attributes=[("a", "b")]), codes)
    assert candidates.m == 2
    assert candidates.columns([np.array([1])], rng)["a"].tolist() == [1, 1]


def test_blocks_share_no_attribute():
    with pytest.raises(ParameterError, match="no attribute in common"):
        draws.Blocks(((draws.Thresholds("a"), "flat"), (draws.Thresholds("a"), "flat")))


def test_a_class_of_too_many_atoms_is_not_read_one_by_one():
    domain = mq.Domain([Attribute("x", Kind.NUMERIC, bounds=(0, 600), bins=600)])
    with pytest.raises(ParameterError, match="too many atoms"):
        draws.Trellis(mq.prefixes(domain, "x"))
    with pytest.raises(MechanismError, match="too many to list"):
        atoms.atoms(mq.prefixes(WIDE, "x"))


def test_what_is_listed_is_limited_by_all_weights_together(monkeypatch):
    domain = mq.Domain((Attribute("a", Kind.ORDINAL, codes=3), Attribute("b", Kind.ORDINAL, codes=2)))
    queries = mq.marginals(domain, 2)
    weights = 6 * queries.count
    monkeypatch.setattr(atoms, "MAX_WEIGHTS_LISTED", weights)
    assert atoms.listable(queries)
    monkeypatch.setattr(atoms, "MAX_WEIGHTS_LISTED", weights - 1)
    assert not atoms.listable(queries)


def test_noise_that_leaves_no_room_for_a_projection():
    with pytest.raises(ParameterError, match="room for the projection"):
        bounds.check_projection((2**20, 2**20), (0, 1), 1.0)


def test_released_tables_of_another_shape():
    sets = class_sets(BITS, ["one attribute"], [("a",)])
    with pytest.raises(ParameterError, match="flat whole numbers"):
        ClassQuestion.of(BITS, sets, ReleasedTables({("a",): np.ones(3, dtype=np.int64)}, 10))


def test_an_epoch_without_prices_and_a_step_without_outcome():
    with pytest.raises(ParameterError, match="prices of an epoch"):
        sparse.terms_from_dict({"threshold": 1, "cap": 1, "prices": [None, "1", None]})
    step = Step(3, "test", {}, None, 0, "", Receipt(1, "00"), False)
    with pytest.raises(LedgerError, match="step 3 holds no outcome"):
        outcome_of(step)


BLOCK = draws.Blocks(((draws.Thresholds("a"), "flat"),))


@pytest.mark.parametrize(
    ("structure", "message"),
    [
        (draws.Blocks(((BLOCK, "product"),)), "known structure"),
        (draws.Nested("a", ((0, True),), 2), "runs of whole numbers"),
        (draws.Nested("a", ((0, 0),), 1), "sets of the 2 cells of 'a'"),
        (draws.Nested("a", ((0, 1),), 3), "sets of the 2 cells of 'a'"),
    ],
    ids=["blocks inside blocks", "a truth value for a cell", "too few cells", "too many cells"],
)
def test_draws_of_malformed_structures(structure, message):
    with pytest.raises(ParameterError, match=message):
        check.check_draw(BITS, _draw(structure))


def test_codes_beyond_64_bits_are_not_drawn():
    with pytest.raises(WorkloadError, match="64 bits"):
        check.check_draw(WIDE, _draw(draws.Thresholds("x")))


def test_weights_outside_of_their_grid():
    forged = Weighting("a", (0, 1), 4, 1.0)
    object.__setattr__(forged, "numerators", (0, 5))
    with pytest.raises(ParameterError, match="from 0 to 1"):
        check_weight(BITS, forged, [])
    question = _draw(draws.Thresholds("b"), weight=Weighting("a", (0, 1), bounds.FACTORS, 1.0))
    with pytest.raises(ParameterError, match="coarser grid"):
        check.check_draw(BITS, question)


def test_l_infinity_noise_is_not_drawn_for_each_number_alone():
    cube = quantiles.law_of(NoiseRequest("cube", Fraction(1)), ONE)
    assert isinstance(cube, Cube)
    with pytest.raises(MechanismError, match="each number alone"):
        independent(cube)


def test_sums_of_no_draws_have_no_error():
    law = law_at(Fraction(1), unit=Unit.EPSILON)
    assert quantiles.sum_quantile(law, [(0, 3.0), (2, 0.0)], beta=0.1) == 0.0


@pytest.mark.parametrize("unit", list(Unit))
def test_a_request_foresees_the_deviation_and_reach_of_its_law(unit):
    """Up to smoothing, which a law adds."""
    request = NoiseRequest.at(Fraction(1, 500), unit)
    law = quantiles.law_of(request, ONE, unit=unit)
    assert not isinstance(law, Cube)
    assert request.deviation == pytest.approx(law.deviation, rel=0.03)
    assert quantiles.reach(request, 0.05) == pytest.approx(quantiles.reach(law, 0.05), rel=0.03)
    assert law_near(0.002, unit=unit).deviation == pytest.approx(law.deviation, rel=1e-6)
    twice = law.sharper(2)
    assert twice.price == 2 * law.price
    assert twice.deviation < law.deviation


def test_a_law_of_a_variance_has_it():
    laplace, gaussian = law_of_variance(8.0, pure=True), law_of_variance(8.0, pure=False)
    assert isinstance(laplace, Laplace)
    assert isinstance(gaussian, Gaussian)
    assert laplace.deviation**2 == pytest.approx(8.0)
    assert gaussian.variance == 8.0
    assert law_of_variance(8.0, pure=True, up=True).scale > laplace.scale


@pytest.mark.parametrize("unit", list(Unit))
def test_price_and_variance_are_inverses(unit):
    price = 0.03
    assert unit.price(unit.variance(price, shift=2), shift=2) == pytest.approx(price)


def test_a_choice_by_another_goal_is_refused():
    domain = mq.Domain((Attribute("a", Kind.ORDINAL, codes=2),))
    with pytest.raises(ParameterError, match="count, nearest or database"):
        ChoiceQuestion("mode", mq.marginals(domain, k=1)).check(domain)  # pyright: ignore[reportArgumentType]


def test_a_class_without_a_table_is_refused():
    domain = mq.Domain((Attribute("a", Kind.ORDINAL, codes=1000),))
    with pytest.raises(ParameterError, match="has no table here"):
        class_sets(domain, ["one small attribute"], [("a",)])


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        (Attribute("a", Kind.ORDINAL, codes=MAX_WEIGHTED_CELLS + 1), "declare at most"),
        (Attribute("a", Kind.NUMERIC, bounds=(-2, 2), bins=4), "not negative"),
        (Attribute("a", Kind.ORDINAL, categories=(0,), nullable=True), "not all 0"),
        (Attribute("a", Kind.ORDINAL, categories=("x", "y")), "are texts"),
    ],
)
def test_what_records_cannot_be_weighed_by(attribute, message):
    with pytest.raises(ParameterError, match=message):
        weighting(mq.Domain((attribute,)), "a")


def test_a_weight_is_a_part_of_its_grid():
    with pytest.raises(ParameterError, match="whole numbers from 0 to 4"):
        Weighting("a", (0, 5), 4, 1.0)

"""The norm of a polytope in whole numbers: what a record moves in it, against all pairs of records."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from maquette.core import prices
from maquette.core.bodies import LARGEST, MAX_DIMENSION, Body, levels_for
from maquette.core.budget import Unit
from maquette.core.laws import NoiseRequest, Norm, independent
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.errors import MechanismError, ParameterError
from maquette.queries import prefixes, weights
from maquette.theory import quantiles

LINE = Domain((Attribute("a", Kind.ORDINAL, codes=5),))


def _random(seed):
    rng = np.random.default_rng(seed)
    queries = weights(LINE, rng.random((3, 5)))
    body = Body(
        tuple(int(v) for v in rng.integers(1, 2**20, 3)),
        tuple(tuple(int(v) for v in rng.integers(-50, 50, 3)) for _ in range(4)),
        tuple(int(v) for v in rng.integers(1, 2**24, 4)),
    )
    return queries, body


@pytest.mark.parametrize("seed", range(20))
def test_what_a_record_moves_is_the_largest_norm_of_a_column_or_of_a_difference(seed):
    queries, body = _random(seed)
    columns = queries.numerators.T.astype(np.int64)
    alone = max(body.norm(column) for column in columns)
    apart = max(body.norm(one - other) for one, other in combinations(columns, 2))
    assert body.shift(queries.to_forms(), Relation.ADD_REMOVE) == alone
    assert body.shift(queries.to_forms(), Relation.REPLACE_ONE) == apart


@pytest.mark.parametrize("seed", range(10))
def test_the_norm_is_one(seed):
    _, body = _random(seed)
    rng = np.random.default_rng(seed)
    for x, y in rng.integers(-(2**20), 2**20, (20, 2, 3)):
        assert body.norm(x + y) <= body.norm(x) + body.norm(y)
        assert body.norm(-3 * x) == 3 * body.norm(x)
        assert body.norm(x) > 0
        cube = x + rng.uniform(-0.5, 0.5, 3)
        inside = np.abs(body.rows @ cube) / body.limits
        assert abs(float(inside.max()) - float(body.norm(x))) <= body.cell * (1 + 1e-12)


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("price", [Fraction(1, 5), Fraction(1), Fraction(77, 10)])
def test_a_level_per_record_costs_at_most_the_price(relation, price):
    queries, body = _random(3)
    request = NoiseRequest("norm", price, body)
    priced = prices.Prices(Unit.EPSILON, Unit.EPSILON, relation)
    plan = priced.noise(
        request, request.sensitivity_of(queries.to_forms(), queries.domain, relation), coordinates=3
    )
    law = plan.law
    assert isinstance(law, Norm)
    moved = body.shift(queries.to_forms(), relation)
    levels = -(-law.resolution * moved.numerator // moved.denominator)
    assert float(law.decay) ** float(levels) >= np.exp(-float(price)) * (1 - 1e-12)
    assert plan.event.epsilon == price
    assert body.digest in plan.event.what


def test_two_bodies_are_two_requests():
    _, one = _random(1)
    assert one.digest != Body(one.box, one.normals[:-1], one.offsets[:-1]).digest
    assert one.digest != Body(one.box, one.normals, (*one.offsets[:-1], one.offsets[-1] + 1)).digest


@pytest.mark.parametrize(
    "make",
    [
        lambda: Body(()),
        lambda: Body((1,) * (MAX_DIMENSION + 1)),
        lambda: Body((0, 1)),
        lambda: Body((1.0, 1)),
        lambda: Body((True, 1)),
        lambda: Body((np.int64(1), 1)),
        lambda: Body((1, 1), ((1,),), (1,)),
        lambda: Body((1, 1), ((1, 1),), ()),
        lambda: Body((1, 1), ((1, 1),), (0,)),
        lambda: Body((1, 1), ((LARGEST + 1, 1),), (1,)),
        lambda: Body((1, 1), ((1, 1),), (3 * LARGEST**2,)),
        lambda: Body((1,), ((1,),) * 9000, (1,) * 9000),
    ],
)
def test_a_body_is_checked(make):
    with pytest.raises(ParameterError):
        make()


def test_noise_in_a_norm_is_refused_where_it_means_nothing():
    _, body = _random(2)
    with pytest.raises(MechanismError, match="given by their weights"):
        body.shift(prefixes(LINE, "a").to_forms(), Relation.ADD_REMOVE)
    with pytest.raises(ParameterError, match="3 queries"):
        body.shift(weights(LINE, np.eye(5)).to_forms(), Relation.ADD_REMOVE)
    with pytest.raises(ParameterError, match="with its body"):
        levels_for(None, Fraction(1), Fraction(1))
    with pytest.raises(ParameterError, match="the same on all"):
        levels_for(body, Fraction(0), Fraction(1))
    with pytest.raises(MechanismError, match="list its levels"):
        levels_for(body, Fraction(1), Fraction(1, 10**5))
    asked = _random(2)[0].to_forms()
    with pytest.raises(ParameterError, match="its body"):
        quantiles.law_of(
            NoiseRequest("norm", Fraction(1)),
            NoiseRequest("norm", Fraction(1), body).sensitivity_of(asked, LINE, Relation.ADD_REMOVE),
        )
    with pytest.raises(MechanismError, match="each number alone"):
        independent(Norm(Fraction(1), body, 1, Fraction(1, 2)))

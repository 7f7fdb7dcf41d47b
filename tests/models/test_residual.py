"""The residual basis and the models that answer further queries: exact algebra, exact variances, storage."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction

import numpy as np
import pytest

from maquette.core.laws import Cube, Gaussian, Laplace
from maquette.core.measurement import Receipt, Residual, Size
from maquette.domain import Attribute, Domain, Kind
from maquette.errors import ReleaseError, WorkloadError
from maquette.models.answers import law_of
from maquette.models.histogram import HistogramModel
from maquette.models.residual import (
    ResidualModel,
    below,
    box_variance,
    cell_variance,
    centre,
    query_variance,
    reconstruct,
)
from maquette.queries import marginals, points, prefixes
from maquette.queries.rows import sum_margin
from maquette.results.loading import model_from_arrays
from maquette.theory import quantiles

PAID = Receipt(1, "test")


def domain_of(*sizes: int) -> Domain:
    names = "abcdefgh"
    return Domain(tuple(Attribute(names[i], Kind.ORDINAL, codes=size) for i, size in enumerate(sizes)))


def residuals_of(domain: Domain, histogram: np.ndarray, margins) -> dict:
    return {
        part: centre(sum_margin(domain, histogram, part).astype(float), range(len(part)))
        for part in below(domain, margins)
    }


@pytest.mark.parametrize("sizes", [(3, 4, 2), (2, 1, 5), (1, 1), (2, 3, 2, 4)])
def test_every_margin_is_the_sum_of_its_residuals(sizes):
    domain = domain_of(*sizes)
    histogram = np.random.default_rng(0).integers(0, 50, domain.shape)
    parts = residuals_of(domain, histogram, [domain.names])
    for order in range(len(sizes) + 1):
        for margin in itertools.combinations(domain.names, order):
            assert reconstruct(domain, parts, margin) == pytest.approx(
                sum_margin(domain, histogram, margin)
            ), margin


def test_a_residual_out_of_place_is_noticed():
    domain = domain_of(3, 4)
    histogram = np.random.default_rng(0).integers(0, 50, domain.shape)
    parts = residuals_of(domain, histogram, [domain.names])
    parts[("a",)] = parts[("a",)] + np.array([1.0, -1.0, 0.0])
    assert reconstruct(domain, parts, ("a", "b")) != pytest.approx(histogram)


def test_sets_below_a_workload():
    domain = domain_of(3, 1, 2, 4)
    found = below(domain, [("a", "b"), ("c", "d")])
    assert found == ((), ("a",), ("c",), ("d",), ("c", "d"))


def covariance(domain, variances, margin) -> np.ndarray:
    """Of all cells of a margin, from the linear map of every residual's noise: no formula shared with the code."""
    size = domain.cells(margin)
    total = np.zeros((size, size))
    for part in below(domain, [margin]):
        cells = domain.cells(part)
        columns = []
        for i in range(cells):
            unit = np.zeros(cells)
            unit[i] = 1.0
            noise = {p: np.zeros([domain[n].size for n in p]) for p in below(domain, [margin])}
            noise[part] = centre(unit.reshape([domain[n].size for n in part]), range(len(part)))
            columns.append(reconstruct(domain, noise, margin).ravel())
        matrix = np.array(columns).T
        total += variances[part] * matrix @ matrix.T
    return total


def test_variances_are_exact():
    domain = domain_of(3, 2, 4)
    rng = np.random.default_rng(1)
    variances = {part: float(rng.uniform(1, 9)) for part in below(domain, [domain.names])}
    for margin in (("a", "c"), ("a", "b", "c"), ("b",), ()):
        exact = covariance(domain, variances, margin)
        assert np.diag(exact) == pytest.approx(cell_variance(domain, variances, margin))
        weights = rng.uniform(0, 1, domain.cells(margin))
        assert query_variance(domain, variances, margin, weights) == pytest.approx(weights @ exact @ weights)
    factors = {"a": np.array([1.0, 0, 1]), "c": np.array([0, 1.0, 1, 0])}
    product = np.multiply.outer(factors["a"], factors["c"])
    assert box_variance(domain, variances, factors) == pytest.approx(
        query_variance(domain, variances, ("a", "c"), product)
    )
    assert box_variance(domain, variances, factors) != pytest.approx(product.sum() * variances[("a", "c")])


def measured(domain, histogram, margins, *, variance=0, seed=0, private=True) -> tuple[list[Residual], Size]:
    rng = np.random.default_rng(seed)
    found = []
    for part in below(domain, margins):
        if not part and not private:
            continue
        table = sum_margin(domain, histogram, part)
        noisy = np.asarray(table + np.rint(rng.normal(0, math.sqrt(variance), table.shape)), dtype=np.int64)
        axes = tuple(range(len(part)))[:1]  # one axis by the gate, the others on use
        for axis in axes:
            noisy = noisy * noisy.shape[axis] - noisy.sum(axis=axis, keepdims=True)
        denominator = math.prod(table.shape[axis] for axis in axes)
        found.append(Residual(part, axes, noisy, denominator, Fraction(variance or 1), PAID))
    n = int(histogram.sum())
    if not private:
        return found, Size(n, None, None)
    value = int(found[0].values)
    return found, Size(value, Gaussian(Fraction(1, 2), Fraction(variance or 1)), PAID)


@pytest.fixture
def world():
    domain = domain_of(4, 3, 2)
    histogram = np.random.default_rng(5).integers(0, 40, domain.shape)
    return domain, histogram


def test_model_answers_boxes_and_masks(world):
    domain, histogram = world
    parts, size = measured(domain, histogram, [("a", "b"), ("b", "c")])
    model = ResidualModel.from_tables(domain, parts, size)
    assert model.table(("a", "b")) == pytest.approx(sum_margin(domain, histogram, ("a", "b")))
    box = model.answer({"a": [0, 2], "b": [1]})
    assert box.value == pytest.approx(histogram[[0, 2]][:, 1].sum())
    mask = np.zeros((4, 3))
    mask[[0, 2], 1] = 1
    assert model.answer(mask, margin=("a", "b")) == pytest.approx(box)
    assert model.answer({}).value == pytest.approx(histogram.sum())
    assert model.covers(("a", "b"))
    assert not model.covers(("a", "c"))
    with pytest.raises(WorkloadError, match="margin"):
        model.answer(mask)
    with pytest.raises(WorkloadError, match="no measured margin holds a, c"):
        model.answer({"a": [0], "c": [0]})
    with pytest.raises(WorkloadError, match="no measured margin holds a, c"):
        model.answer(np.ones((4, 2)), margin=("a", "c"))


def test_deviation_of_the_model_is_the_spread_of_its_answers(world):
    domain, histogram = world
    values = []
    for seed in range(600):
        parts, size = measured(domain, histogram, [("a", "b")], variance=25, seed=seed)
        model = ResidualModel.from_tables(domain, parts, size)
        values.append(model.answer({"a": [0, 1, 3], "b": [2]}))
    spread = np.std([v.value for v in values])
    assert spread == pytest.approx(values[0].deviation, rel=0.12)
    assert np.mean([v.value for v in values]) == pytest.approx(
        histogram[[0, 1, 3]][:, 2].sum(), abs=5 * spread / math.sqrt(600)
    )


def test_a_public_size_has_no_noise(world):
    domain, histogram = world
    parts, size = measured(domain, histogram, [("a",)], private=False)
    model = ResidualModel.from_tables(domain, parts, size)
    assert model.answer({}) == (histogram.sum(), 0.0)


def test_estimate_is_a_fraction_with_an_error_that_holds(world):
    domain, histogram = world
    asked = points(domain, ["a"])
    one = single(prefixes(domain, "a"))
    truth = histogram[0].sum() / histogram.sum()
    inside = 0
    for seed in range(300):
        parts, size = measured(domain, histogram, [("a", "b")], variance=25, seed=seed)
        model = ResidualModel.from_tables(domain, parts, size)
        value, error = model.estimate(one, beta=0.1)
        inside += abs(value - truth) <= error
        assert model.estimate(asked, beta=0.1) is None  # a class of several queries
    assert inside >= 270
    assert model.estimate(single(prefixes(domain, "c")), beta=0.1) is None


def single(queries):
    """The first query of a class, as a class of one."""
    from maquette.queries import where

    return where(queries.domain, queries.text(0))


@pytest.mark.parametrize("noise", [Laplace(Fraction(1), Fraction(3)), Gaussian(Fraction(1), Fraction(20))])
@pytest.mark.parametrize("private", [True, False])
def test_histogram_model(world, noise, private):
    domain, histogram = world
    rng = np.random.default_rng(7)
    n = int(histogram.sum())
    one = single(prefixes(domain, "a"))
    truth = histogram[0].sum()
    answers, inside = [], 0
    for _ in range(400):
        drawn = _draw(rng, noise, domain.size)
        size = Size(n + int(_draw(rng, noise, 1)[0]), noise, PAID) if private else Size(n, None, None)
        model = HistogramModel.from_noisy(domain, domain.names, histogram.ravel() + drawn, noise, size)
        assert model.cells.sum() == pytest.approx(size.value)
        answers.append(model.answer({"a": [0]}))
        value, error = model.estimate(one, beta=0.1)
        inside += abs(value - truth / n) <= error
    assert np.std([a.value for a in answers]) == pytest.approx(answers[0].deviation, rel=0.15)
    assert inside >= 360
    assert model.answer(np.ones((4, 3)), margin=("a", "b")).value == pytest.approx(size.value)
    with pytest.raises(WorkloadError, match="attributes among a"):
        HistogramModel.from_noisy(domain, ("a",), histogram.sum((1, 2)), noise, size).answer({"b": [0]})


def _draw(rng, noise, count):
    if isinstance(noise, Gaussian):
        return np.rint(rng.normal(0, math.sqrt(noise.sigma_squared), count)).astype(int)
    p = 1 - math.exp(-1 / float(noise.scale))
    return rng.geometric(p, count) - rng.geometric(p, count)


def test_histogram_over_some_attributes(world):
    domain, histogram = world
    noise = Gaussian(Fraction(1), Fraction(4))
    table = histogram.sum(axis=1)
    model = HistogramModel.from_noisy(domain, ("a", "c"), table, noise, Size(int(table.sum()), None, None))
    assert model.answer({"c": [1]}).value == pytest.approx(table[:, 1].sum())
    assert model.estimate(single(prefixes(domain, "b")), beta=0.1) is None


def test_models_are_stored_and_read(world):
    domain, histogram = world
    parts, size = measured(domain, histogram, [("a", "b")], variance=9)
    noise = Laplace(Fraction(1, 3), Fraction(7, 2))
    models = [
        ResidualModel.from_tables(domain, parts, size),
        HistogramModel.from_noisy(domain, domain.names, histogram, noise, Size(100, noise, PAID)),
    ]
    for model in models:
        spec, arrays = model.to_arrays()
        again = model_from_arrays(domain, json.loads(json.dumps(spec)), arrays)
        assert type(again) is type(model)
        assert again.answer({"a": [1, 2]}) == pytest.approx(model.answer({"a": [1, 2]}))
        one = single(prefixes(domain, "a"))
        assert again.estimate(one, beta=0.05) == pytest.approx(model.estimate(one, beta=0.05))
    with pytest.raises(ReleaseError, match="unknown kind"):
        model_from_arrays(domain, {"kind": "crystal ball"}, {})


def test_laws_are_stored_and_read():
    for law in (Laplace(Fraction(1, 3), Fraction(2)), Gaussian(Fraction(1, 7), Fraction(5, 2))):
        assert law_of(json.loads(json.dumps(law.to_dict()))) == law
    with pytest.raises(ReleaseError, match="of width 0"):
        law_of({"law": "gaussian", "rho": "1/7", "sigma_squared": None})
    with pytest.raises(ReleaseError, match="unknown law"):
        law_of(Cube(Fraction(1), Fraction(1, 3)).to_dict())


def test_a_size_that_nothing_was_paid_for_is_not_public():
    size = Size.unknown()
    assert size.unpaid
    assert not size.public
    assert size.divisor == 1
    assert Size(5, None, None).public


def test_tails_of_sums():
    laplace, gaussian = Laplace(Fraction(1), Fraction(2)), Gaussian(Fraction(1), Fraction(9))
    assert quantiles.sum_quantile(gaussian, [(4, 1.0)], beta=0.05) == pytest.approx(
        6 * math.sqrt(2 * math.log(40))
    )
    for law in (laplace, gaussian):
        assert quantiles.sum_quantile(law, [(0, 1.0), (5, 0.0)], beta=0.05) == 0
    assert quantiles.sum_quantile(laplace, [(1, 1.0)], beta=0.05) >= 2 * math.log(20)
    assert laplace.variance == pytest.approx(2 * math.exp(-0.5) / (1 - math.exp(-0.5)) ** 2)


def test_many_margins_in_one_go():
    """A workload of the shape of the census tables, at a smaller size: nothing grows with |X|."""
    domain = domain_of(20, 9, 25, 16, 7, 15, 6, 5)
    queries = marginals(domain, k=3)
    rng = np.random.default_rng(0)
    parts = {
        part: centre(rng.normal(size=[domain[n].size for n in part]), range(len(part)))
        for part in below(domain, queries.margins)
    }
    for margin in queries.margins:
        table = reconstruct(domain, parts, margin)
        assert table.sum() == pytest.approx(float(parts[()]))
        assert table.sum(axis=(1, 2)) == pytest.approx(reconstruct(domain, parts, margin[:1]))

"""Intervals of shares by a histogram and by residuals, with a noisy number of records: covered, and not too wide."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from maquette.core.laws import Gaussian, Laplace
from maquette.core.measurement import Receipt, Size
from maquette.domain import Attribute, Domain, Kind
from maquette.models.histogram import HistogramModel
from maquette.models.residual import ResidualModel, below, centre
from maquette.queries import where
from maquette.theory import quantiles

DOMAIN = Domain(tuple(Attribute(name, Kind.ORDINAL, codes=n) for name, n in (("a", 4), ("b", 3))))
COUNTS = np.array([[300, 20, 0], [100, 40, 5], [10, 25, 0], [0, 0, 100]])
N = int(COUNTS.sum())
RECEIPT = Receipt(1, "0" * 64)
SPREAD, SIZE_SPREAD = 6.0, 40.0
QUESTIONS = ("a = 0", "b <= 1", "a >= 2 and b = 2", "a = 3 and b = 0", "not (a = 3 and b = 0)")
RUNS = 400


def law(pure, spread):
    return (
        Laplace(Fraction(1), Fraction(spread / 2**0.5))
        if pure
        else Gaussian(Fraction(1), Fraction(spread**2))
    )


def noise(rng, pure, spread, shape=()):
    return np.rint(rng.laplace(0, spread / 2**0.5, shape) if pure else rng.normal(0, spread, shape))


def histogram(rng, *, pure):
    size = Size(int(N + noise(rng, pure, SIZE_SPREAD)), law(pure, SIZE_SPREAD), RECEIPT)
    noisy = COUNTS + noise(rng, pure, SPREAD, COUNTS.shape)
    return HistogramModel.from_noisy(DOMAIN, ("a", "b"), noisy, law(pure, SPREAD), size)


def residual(rng, *, pure=False):
    del pure
    size = Size(int(N + noise(rng, False, SIZE_SPREAD)), law(False, SIZE_SPREAD), RECEIPT)
    residuals, variances = {(): np.asarray(float(size.value))}, {(): SIZE_SPREAD**2}
    for part in below(DOMAIN, [("a", "b")])[1:]:
        table = COUNTS.sum(axis=tuple(i for i, name in enumerate(DOMAIN.names) if name not in part))
        residuals[part] = centre(table + noise(rng, False, SPREAD, table.shape), range(len(part)))
        variances[part] = SPREAD**2
    return ResidualModel(DOMAIN, residuals, variances, size)


def true(text):
    query = where(DOMAIN, text)
    cells = dict(zip(DOMAIN.names, np.indices(COUNTS.shape).reshape(2, -1), strict=True))
    return float(COUNTS.ravel()[query.columns_of(cells)[0].astype(bool)].sum()) / N


MODELS = {
    "histogram": (histogram, False),
    "histogram, pure": (histogram, True),
    "residual": (residual, False),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_shares_are_covered_as_often_as_stated(name):
    make, pure = MODELS[name]
    rng, beta = np.random.default_rng(3), 0.4
    failed = dict.fromkeys(QUESTIONS, 0)
    for _ in range(RUNS):
        model = make(rng, pure=pure)
        for text in QUESTIONS:
            value, error = model.estimate(where(DOMAIN, text), beta=beta)
            failed[text] += abs(value - true(text)) > error + 1e-12
    assert max(failed.values()) <= beta * RUNS


@pytest.mark.parametrize("name", MODELS)
def test_the_error_of_the_number_of_records_counts_only_where_it_matters(name):
    """Before, every share had all of it: about 100 of 600 records."""
    make, pure = MODELS[name]
    model = make(np.random.default_rng(4), pure=pure)
    whole = quantiles.sum_quantile(model.size.noise, [(1, 1.0)], beta=0.005) / N
    alone = replace(model, size=Size(N, None, None))
    if isinstance(alone, ResidualModel):
        alone = replace(alone, variances={**alone.variances, (): 0.0})
    for text in ("a = 3 and b = 0", "a = 0"):
        _, error = model.estimate(where(DOMAIN, text), beta=0.05)
        _, least = alone.estimate(where(DOMAIN, text), beta=0.05)
        assert error < least + 0.75 * whole

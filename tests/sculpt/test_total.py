"""The number of records by the one-way tables: far closer than the question about it, and within what is stated."""

from fractions import Fraction

import numpy as np
import pytest

from maquette.core.binned import Binned
from maquette.core.laws import Gaussian, Laplace
from maquette.core.measurement import NoisyTable, Receipt, Size
from maquette.domain import Attribute, Domain, Kind
from maquette.queries import where
from maquette.sculpt.measurements import total_of
from maquette.sculpt.model import MeasuredTable, SculptModel

DOMAIN = Domain(
    tuple(Attribute(name, Kind.CATEGORICAL, codes=n) for name, n in (("a", 3), ("b", 4), ("c", 2)))
)
N = 1500
COUNTS = {"a": [700, 500, 300], "b": [100, 900, 300, 200], "c": [400, 1100]}
RECEIPT = Receipt(1, "0" * 64)


def model(rng, *, pure, spread=15.0, size_spread=150.0):
    def noise(shape):
        if not pure:
            return np.rint(rng.normal(0, spread, shape))
        return np.rint(rng.laplace(0, spread / np.sqrt(2), shape))

    law = (
        Laplace(Fraction(1), Fraction(size_spread / 2**0.5))
        if pure
        else Gaussian(Fraction(1), Fraction(size_spread**2))
    )
    size = Size(int(N + rng.normal(0, size_spread)), law, RECEIPT)
    tables = tuple(
        MeasuredTable(
            Binned((name,), (tuple(range(len(counts))),)),
            np.array(counts) + noise(len(counts)),
            np.array(counts) / N,
            spread**2,
        )
        for name, counts in COUNTS.items()
    )
    return SculptModel(DOMAIN, tables, size, pure, 1)


@pytest.mark.parametrize("pure", [False, True])
def test_the_total_is_within_its_error_and_far_closer_than_the_size(pure):
    rng = np.random.default_rng(4)
    totals = [model(rng, pure=pure).total(beta=0.5) for _ in range(600)]
    off = np.array([abs(total - N) for total, _ in totals])
    stated = np.array([error for _, error in totals])
    assert np.mean(off > stated) <= 0.05 + 3 * np.sqrt(0.05 / 600)
    assert stated.max() < 3 * 150 / 4  # the size alone would be stated more than four times as wide


def test_shares_are_covered_and_much_narrower():
    rng = np.random.default_rng(5)
    asked, true, failed = where(DOMAIN, "c = 0"), COUNTS["c"][0] / N, 0
    for _ in range(600):
        one = model(rng, pure=False)
        value, error = one.estimate(asked, beta=0.2)
        failed += abs(value - true) > error
        assert error < 0.06  # by the size: 150 records times the quantile, above 0.3
    assert failed <= 600 * 0.2


def test_a_public_size_has_no_error():
    rng = np.random.default_rng(6)
    public = SculptModel(DOMAIN, model(rng, pure=False).tables, Size(N, None, None), False, 1)
    assert public.total(beta=0.05) == (N, 0.0)


def test_all_tables_and_the_size_count_by_their_precision():
    sums, spreads = {"a": 1530, "b": 1470}, {"a": 10.0, "b": 20.0}
    tables = [
        NoisyTable(
            Binned((name,), (tuple(range(len(COUNTS[name]))),)),
            np.array([total] + [0] * (len(COUNTS[name]) - 1)),
            Fraction(spreads[name] ** 2),
            RECEIPT,
        )
        for name, total in sums.items()
    ]
    weights = [1 / (3 * 100), 1 / (4 * 400), 1 / 900]
    size = Size(1600, Gaussian(Fraction(1), Fraction(900)), RECEIPT)
    assert total_of(size, tables) == pytest.approx(np.average([1530, 1470, 1600], weights=weights))
    assert total_of(Size.unknown(), tables) == pytest.approx(np.average([1530, 1470], weights=weights[:2]))
    assert total_of(Size(N, None, None), tables) == N

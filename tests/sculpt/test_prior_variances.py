"""How far noisy tables are believed: little where all cells look alike, wholly where one stands out."""

import numpy as np
import pytest

from maquette.models.answers import generator
from maquette.sculpt.measurements import prior_variances, shrink, table_prior_variance

EXPECTED = np.full(200, 900.0)
VARIANCE = 34.0**2


def noisy(**far):
    values = EXPECTED + generator("noise").normal(0, 34, 200)
    for place, value in far.items():
        values[int(place[1:])] = value
    return values


def test_one_cell_that_stands_out_is_not_pulled_back():
    table = noisy(_7=40.0)
    common = table_prior_variance(table, EXPECTED, variance=VARIANCE)
    freedoms = prior_variances(table, EXPECTED, variance=VARIANCE)
    assert freedoms[7] > 10 * common
    assert np.delete(freedoms, 7) == pytest.approx(np.full(199, common))
    smooth = shrink(table, EXPECTED, freedoms, variance=VARIANCE)
    assert smooth[7] < 60
    # what the rest of the table alone would have made of it
    real = common * (EXPECTED[7] + 1) ** 2
    assert EXPECTED[7] + real / (real + VARIANCE) * (40 - EXPECTED[7]) > 100


def test_chance_frees_no_cell():
    table = noisy()
    common = table_prior_variance(table, EXPECTED, variance=VARIANCE)
    assert prior_variances(table, EXPECTED, variance=VARIANCE) == pytest.approx(np.full(200, common))

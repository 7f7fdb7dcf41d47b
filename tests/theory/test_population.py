"""The statement about the population holds as often as it says, by simulation, and is not idle."""

from __future__ import annotations

import math

import numpy as np
import pytest

from maquette.errors import ParameterError
from maquette.theory import population


def test_coverage_by_simulation():
    """A population over 16 cells, 40 queries, tables of 500 records, answers off by up to alpha."""
    rng = np.random.default_rng(8)
    shares, queries = rng.dirichlet(np.ones(16)), rng.integers(0, 2, (40, 16))
    n, alpha, beta = 500, 0.01, 0.1
    bound = population.population_error(alpha=alpha, n=n, log_queries=math.log(40), beta=beta)
    tables = rng.multinomial(n, shares, size=4000) / n
    answers = tables @ queries.T + rng.uniform(-alpha, alpha, (4000, 40))
    largest = np.abs(answers - queries @ shares).max(axis=1)
    assert (largest <= bound).mean() >= 1 - beta
    assert (largest <= 0.6 * bound).mean() < 1 - beta  # a much smaller bound would not hold


def test_in_numbers():
    assert population.sampling_share(n=10_000, log_queries=math.log(1000), beta=0.05) == pytest.approx(
        0.0230197, rel=1e-4
    )
    with pytest.raises(ParameterError):
        population.population_error(alpha=0, n=10, log_queries=0, beta=0.05)


def test_two_steps_of_one_record_are_a_replaced_one():
    epsilon, delta = population.replace_one(epsilon=0.3, delta=1e-6)
    assert epsilon == pytest.approx(0.6)
    assert delta == pytest.approx((1 + math.exp(0.3)) * 1e-6)
    assert population.replace_one(epsilon=0.3, delta=0.0)[1] == 0

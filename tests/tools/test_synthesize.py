"""Answers to a database: the statement of the linear program holds, and rows answer like the weights."""

from __future__ import annotations

import numpy as np
import pytest

import maquette as mq
from maquette.domain import Domain
from maquette.errors import ParameterError, WorkloadError
from maquette.queries import marginals, prefixes, weights

DOMAIN = Domain.from_dict(
    {
        "attributes": [
            {"name": "a", "kind": "ordinal", "size": 12, "nullable": False},
            {"name": "b", "kind": "ordinal", "size": 5, "nullable": False},
        ]
    }
)


def test_the_vector_of_the_specification():
    line = Domain.from_dict({"attributes": [{"name": "v", "kind": "ordinal", "size": 3, "nullable": False}]})
    made = mq.synthesize(line, prefixes(line, "v"), [3.4, 3.1, 4.0], n=4, rows_count=400)
    assert made.method == "linear program"
    assert made.weights_distance == pytest.approx(0.15)
    assert made.weights == pytest.approx([3.25, 0, 0.75])
    assert made.distance == pytest.approx(0.15, abs=0.02)


@pytest.mark.parametrize("method", ["linear program", "fit"])
def test_no_count_is_off_by_more_than_stated(method):
    rng = np.random.default_rng(2)
    workload = mq.union(marginals(DOMAIN, k=2), prefixes(DOMAIN, "a"))
    for _ in range(5):
        truth = rng.integers(0, 40, 60)
        exact = np.concatenate([truth, np.cumsum(truth.reshape(12, 5).sum(axis=1))]).astype(float)
        noisy = exact + rng.laplace(scale=5, size=len(exact))
        noise = float(np.abs(noisy - exact).max())
        made = mq.synthesize(DOMAIN, workload, noisy, n=float(truth.sum()), method=method)
        assert np.abs(made.counts - exact).max() <= made.error(noise) + 1e-9
        if method == "linear program":
            assert made.weights_distance <= noise + 1e-6  # the true table is a candidate
            assert np.abs(made.counts - exact).max() <= 2 * noise + 1.5
    assert made.weights.sum() == pytest.approx(truth.sum())


def test_large_universes_are_fitted():
    wide = Domain.from_dict(
        {"attributes": [{"name": f"x{i}", "kind": "ordinal", "size": 8, "nullable": False} for i in range(6)]}
    )
    workload = marginals(wide, k=2)
    made = mq.synthesize(wide, workload, np.full(workload.count, 1000 / 64), n=1000)
    assert made.method == "fit"
    assert made.weights_distance < 0.1
    assert made.database.m == 1000


def test_what_is_refused():
    with pytest.raises(ParameterError, match="17 finite answers"):
        mq.synthesize(DOMAIN, marginals(DOMAIN, k=1), [1.0], n=5)
    with pytest.raises(ParameterError, match="n"):
        mq.synthesize(DOMAIN, marginals(DOMAIN, k=1), np.ones(17), n=0)
    other = Domain.from_dict({"attributes": [{"name": "a", "kind": "ordinal", "size": 2, "nullable": False}]})
    with pytest.raises(WorkloadError, match="another domain"):
        mq.synthesize(DOMAIN, weights(other, [[0, 1]]), [1.0], n=5)

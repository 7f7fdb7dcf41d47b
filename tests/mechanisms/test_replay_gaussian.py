"""Whole releases from neighbouring tables on one tape, on ledgers that count Gaussian differential privacy."""

import numpy as np
import pytest

from maquette.domain import Relation
from maquette.mechanisms.base import MECHANISMS
from maquette.queries import marginals
from support.privacy_replay import SOURCES, SUITED, SURVEY, check_replay, neighbours_of, release, table

pytestmark = pytest.mark.privacy

PAIRS = 6
QUERIES = SUITED | {"linf": marginals(SURVEY, k=1)}
MORE = {"sculpt": {"rows": 40}, "roth": {"weight": "score"}}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_neighbours_differ_in_the_private_inputs_only(mechanism, tmp_path):
    generator = np.random.default_rng(len(mechanism))
    queries = QUERIES.get(mechanism, marginals(SURVEY, k=2))
    options = {"mechanism": mechanism, "post": "none", "epsilon": 1.0, "delta": 1e-6} | MORE.get(
        mechanism, {}
    )
    for relation in Relation:
        rows = table(generator, 40)
        make = SOURCES["pandas"]
        first = release(make(rows, tmp_path / "first"), queries, relation, None, "gaussian", **options)
        for number, other in enumerate(neighbours_of(rows, generator, relation, PAIRS // 2)):
            source = make(other, tmp_path / f"{relation}{number}")
            again = release(source, queries, relation, first.run.calls, "gaussian", **options)
            check_replay(first, again, "mu^2/2")

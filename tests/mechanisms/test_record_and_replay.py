"""Whole releases from neighbouring tables, every mechanism and every kind of source, on one tape."""

import itertools

import numpy as np
import pytest

from maquette.domain import Relation
from maquette.mechanisms.base import MECHANISMS
from maquette.queries import marginals, prefixes, union
from support.privacy_replay import ODD, SOURCES, SUITED, SURVEY, check_replay, neighbours_of, release, table

pytestmark = pytest.mark.privacy

PAIRS_PER_MECHANISM = 200
ROWS = 60
OPTIONS = {
    "sculpt": {"epsilon": 1.0, "delta": 1e-6, "rows": 40},
    "laplace": {"epsilon": 1.0},
    "linf": {"epsilon": 1.0},
    "gaussian": {"epsilon": 1.0, "delta": 1e-6},
    "histogram-laplace": {"epsilon": 1.0},
    "histogram-gaussian": {"epsilon": 1.0, "delta": 1e-6},
    "residual": {"epsilon": 1.0, "delta": 1e-6},
    "residual-cells": {"epsilon": 2.0, "delta": 1e-6, "groups": True},
    "smalldb": {"epsilon": 1.0},
    "roth": {"epsilon": 1.0, "weight": "score"},
    "tree": {"epsilon": 1.0},
    "square-root": {"epsilon": 1.0, "delta": 1e-6},
    "factorisation": {"epsilon": 1.0},
    "knorm": {"epsilon": 1.0},
    "product": {"epsilon": 1.0, "delta": 1e-6},
    "mw": {"epsilon": 1.0, "delta": 1e-6},
    "mwem": {"epsilon": 1.0, "delta": 1e-6},
}
QUERIES = SUITED | {
    "laplace": union(marginals(SURVEY, k=2), prefixes(SURVEY, "age")),
    "linf": union(marginals(SURVEY, k=1), prefixes(SURVEY, "age")),
}


def test_every_registered_mechanism_is_replayed():
    assert set(OPTIONS) == set(MECHANISMS)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("mechanism", OPTIONS)
def test_neighbours_differ_in_the_private_inputs_only(mechanism, relation, tmp_path):
    generator = np.random.default_rng([len(mechanism), len(str(relation))])
    queries = QUERIES.get(mechanism, marginals(SURVEY, k=2))
    # post-processing sees released values only; it has a test of its own below
    options = {"mechanism": mechanism, "post": "none"} | OPTIONS[mechanism]
    unit = "rho" if options.get("delta") else "epsilon"
    share = PAIRS_PER_MECHANISM // len(Relation) // len(SOURCES)
    assert share > len(ODD)
    pairs = 0
    for name, make in SOURCES.items():
        rows = table(generator, ROWS)
        first = release(make(rows, tmp_path / name), queries, relation, None, **options)
        for number, other in enumerate(neighbours_of(rows, generator, relation, share)):
            source = make(other, tmp_path / f"{name}{number}")
            check_replay(first, release(source, queries, relation, first.run.calls, **options), unit)
            pairs += 1
    assert pairs >= PAIRS_PER_MECHANISM // len(Relation)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("post", ["auto", "none", "consistent", "lp", "l2"])
def test_every_post_processing_is_replayed(post, relation, tmp_path):
    generator = np.random.default_rng(9)
    rows = table(generator, ROWS)
    queries = marginals(SURVEY, k=1)
    options = {"mechanism": "gaussian", "epsilon": 1.0, "delta": 1e-6, "post": post}
    first = release(SOURCES["csv"](rows, tmp_path / "first"), queries, relation, None, **options)
    for number, other in enumerate(neighbours_of(rows, generator, relation, 5)):
        source = SOURCES["csv"](other, tmp_path / str(number))
        check_replay(first, release(source, queries, relation, first.run.calls, **options), "rho")


@pytest.mark.parametrize("mechanism", OPTIONS)
def test_the_empty_table_and_one_record_look_the_same(mechanism, tmp_path):
    queries = QUERIES.get(mechanism, marginals(SURVEY, k=2))
    options = {"mechanism": mechanism} | OPTIONS[mechanism]
    unit = "rho" if options.get("delta") else "epsilon"
    empty = SOURCES["csv"]([], tmp_path / "empty")
    first = release(empty, queries, Relation.ADD_REMOVE, None, **options)
    for number, record in enumerate(itertools.islice(ODD, 4)):
        source = SOURCES["csv"]([record], tmp_path / str(number))
        other = release(source, queries, Relation.ADD_REMOVE, first.run.calls, **options)
        check_replay(first, other, unit)

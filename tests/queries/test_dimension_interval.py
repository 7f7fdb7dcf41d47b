"""A dimension between two numbers: both ends hold, whatever the effort."""

from __future__ import annotations

import numpy as np
import pytest

from maquette.domain import Domain
from maquette.errors import ParameterError, WorkloadError
from maquette.queries import conjunctions, marginals, prefixes, weights
from maquette.queries.dimension import fat_shattering_dimension, vc_dimension
from maquette.queries.dimension_interval import at_most, dimension_interval, vc_at_most


def bits(count: int) -> Domain:
    one = {"kind": "ordinal", "size": 2, "nullable": False}
    return Domain.from_dict({"attributes": [one | {"name": f"b{i}"} for i in range(count)]})


@pytest.mark.parametrize("effort", [0, 20, 200, 10**7])
def test_both_ends_hold_for_random_classes(effort):
    rng = np.random.default_rng(5)
    broken_off = 0
    for _ in range(40):
        matrix = rng.integers(0, 2, size=(rng.integers(1, 40), rng.integers(1, 9)))
        exact = vc_dimension(matrix).value
        between = dimension_interval(matrix, effort=effort)
        assert between.low.value <= exact <= between.high
        assert not between.low.is_complete or between.is_exact
        broken_off += not between.is_exact
    assert (broken_off == 0) == (effort == 10**7)


def test_both_ends_hold_for_real_weights():
    rng = np.random.default_rng(6)
    for _ in range(20):
        matrix = rng.integers(0, 5, size=(12, 4)) / 4
        exact = fat_shattering_dimension(matrix, "1/4").value
        between = dimension_interval(matrix, "1/4", effort=30)
        assert between.low.value <= exact <= between.high


def test_closed_forms_are_exact_at_no_effort():
    domain = Domain.from_dict(
        {"attributes": [{"name": "a", "kind": "ordinal", "size": 2**40, "nullable": False}]}
    )
    between = dimension_interval(prefixes(domain, "a"), effort=0)
    assert between.is_exact
    assert between.reason == "closed form"


def test_a_class_too_large_to_search_is_bounded_by_its_parts():
    wide = dimension_interval(conjunctions(bits(60), 3))
    assert (wide.low.value, wide.high) == (3, 15)
    assert wide.low.witnesses == ()
    tables = dimension_interval(marginals(bits(100), 2))
    assert tables.low.value >= 1
    # 4,950 tables of VC dimension 1 have no more than 4,950 (1 + s) behaviours on s cells; 19,800 cells in all
    assert max(s for s in range(40) if 2**s <= 4950 * (1 + s)) == 16
    assert tables.high == 14


def test_complements_count_for_the_lemma_of_finite_classes():
    both = weights(bits(1), [[0, 1], [1, 0]])
    assert dimension_interval(both).low.value == 1
    assert at_most(both)[0] == 1
    assert vc_at_most(both) is None


def test_what_has_no_dimension_is_refused():
    with pytest.raises(WorkloadError, match="counting queries"):
        dimension_interval([[0, 0.5]])
    with pytest.raises(ParameterError, match="gamma"):
        dimension_interval([[0, 1]], 0.7)

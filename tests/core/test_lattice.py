"""Counts of conjunctions by passes along the attributes are those of the plain definition."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maquette.core import forms
from maquette.core.forms import QueryForms
from maquette.core.lattice import conjunction_counts
from maquette.domain import Attribute, Domain, Kind
from maquette.errors import WorkloadError
from maquette.queries import conjunctions

pytestmark = pytest.mark.law


def plain(table: np.ndarray, values: tuple[int, ...], width: int) -> list[int]:
    axes = range(table.ndim)
    found = []
    for chosen in (c for j in range(1, width + 1) for c in combinations(axes, j)):
        for named in product(values, repeat=len(chosen)):
            place = [slice(None)] * table.ndim
            for axis, value in zip(chosen, named, strict=True):
                place[axis] = value
            found.append(int(table[tuple(place)].sum()))
    return found


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_counts_of_conjunctions_are_sums_over_their_cells(data):
    shape = data.draw(st.lists(st.integers(2, 4), min_size=1, max_size=4))
    values = data.draw(st.sampled_from([(1,), (0, 1), (1, 0), (0,)]))
    width = data.draw(st.integers(1, len(shape)))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    table = rng.integers(-50, 50, shape)
    assert conjunction_counts(table, values, width).tolist() == plain(table, values, width)


def bits(d: int, **options) -> Domain:
    return Domain(tuple(Attribute(f"b{i}", Kind.BOOLEAN, categories=("0", "1"), **options) for i in range(d)))


@pytest.mark.parametrize("nullable", [False, True])
@pytest.mark.parametrize("literals", [False, True])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_one_table_gives_the_same_counts_as_the_widest_tables(d, literals, nullable):
    domain = bits(d, nullable=nullable)
    rng = np.random.default_rng(d)
    rows = {name: rng.integers(0, domain[name].size, 40).astype(np.uint8) for name in domain.names}
    for width in range(1, d + 1):
        asked = conjunctions(domain, width, literals=literals)
        table = np.zeros(domain.shape, dtype=np.int64)
        np.add.at(table, tuple(rows.values()), 1)
        values = (0, 1) if literals else (1,)
        expected = plain(table, values, width)
        assert asked.on_rows(rows).tolist() == expected
        assert asked.on_histogram(table).tolist() == expected
        # the form that is not taken has the same sums and the same norms
        one = forms.Conjunctions(asked.over, values, width)
        one.check(domain.sizes)
        assert one.from_tables({asked.over: table}).tolist() == expected
        assert one.count(domain.sizes) == asked.count
        assert one.added(domain.sizes).l1 == asked.form().added(domain.sizes).l1
        assert one.replaced(domain.sizes).l1 == asked.form().replaced(domain.sizes).l1


def test_a_million_conjunctions_need_one_table():
    asked = conjunctions(bits(20), 20)
    assert asked.count == 2**20 - 1
    assert asked.margins == (asked.over,)
    rng = np.random.default_rng(3)
    rows = {name: rng.integers(0, 2, 300).astype(np.uint8) for name in asked.over}
    counts = asked.on_rows(rows)
    ones = np.stack(list(rows.values()), axis=1) == 1
    assert counts[0] == ones[:, 0].sum()
    assert counts[20] == (ones[:, 0] & ones[:, 1]).sum()
    assert counts[-1] == ones.all(axis=1).sum()
    one_of_width_19 = asked.count - 2
    assert asked.text(one_of_width_19) == " AND ".join(f"b{i} = '1'" for i in range(1, 20))
    assert counts[one_of_width_19] == ones[:, 1:].all(axis=1).sum()


def test_narrow_conjunctions_of_many_bits_still_need_narrow_tables():
    assert len(conjunctions(bits(30), 2).margins) == 435
    assert isinstance(conjunctions(bits(30), 2).form(), forms.Tables)


BAD = {
    "a value that an attribute does not have": forms.Conjunctions(("a", "b"), (2,), 1),
    "a value twice": forms.Conjunctions(("a", "b"), (1, 1), 1),
    "no value": forms.Conjunctions(("a", "b"), (), 1),
    "more attributes than there are": forms.Conjunctions(("a", "b"), (1,), 3),
    "no attribute": forms.Conjunctions((), (1,), 1),
    "an attribute twice": forms.Conjunctions(("a", "a"), (1,), 1),
    "values that are no tuple": forms.Conjunctions(("a", "b"), [1], 1),  # type: ignore[arg-type]
    "a value that is true": forms.Conjunctions(("a", "b"), (True,), 1),
}


@pytest.mark.parametrize("case", BAD)
def test_conjunctions_that_are_not_well_formed_are_refused(case):
    with pytest.raises(WorkloadError):
        QueryForms((BAD[case],), "0" * 64).check({"a": 3, "b": 2})


def test_conjunctions_of_too_many_attributes_are_refused_before_they_are_counted():
    sizes = {f"b{i}": 2 for i in range(25)}
    with pytest.raises(WorkloadError, match="at most"):
        QueryForms((forms.Conjunctions(tuple(sizes), (1,), 25),), "0" * 64).check(sizes)

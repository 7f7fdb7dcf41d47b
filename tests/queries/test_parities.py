"""Parities without a list: counts, norms, dimension and forms against the plain definition."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

import maquette as mq
from maquette.core import forms
from maquette.core.forms import QueryForms
from maquette.core.parities import most_odd, parity_counts, transform
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.errors import WorkloadError
from maquette.queries import Parities, Weights, from_json, parities, parse_workload, to_json
from maquette.queries.dimension import shatters, vc_dimension
from maquette.queries.merging import merge

pytestmark = pytest.mark.law


def bits(d: int, **options) -> Domain:
    return Domain(tuple(Attribute(f"b{i}", Kind.BOOLEAN, codes=2, **options) for i in range(d)))


def sets(d: int, width: int) -> list[tuple[int, ...]]:
    return [one for size in range(width + 1) for one in combinations(range(d), size)]


def plain(d: int, width: int) -> np.ndarray:
    """Sets down, records across."""
    records = list(product((0, 1), repeat=d))
    return np.array([[sum(z[i] for i in chosen) % 2 for z in records] for chosen in sets(d, width)])


CASES = [(d, width) for d in (1, 2, 3, 5) for width in range(1, d + 1)]


@pytest.mark.parametrize(("d", "width"), CASES)
def test_counts_and_columns_are_those_of_the_definition(d, width):
    queries, matrix = Parities(bits(d), width, tuple(f"b{i}" for i in range(d))), plain(d, width)
    assert queries.count == len(matrix)
    table = np.random.default_rng(d).integers(-20, 20, (2,) * d)
    expected = (matrix @ table.reshape(-1)).tolist()
    assert parity_counts(table, width).tolist() == expected
    assert parity_counts(table.astype(float), width) == pytest.approx(expected)
    assert queries.on_histogram(table).tolist() == expected
    records = {
        f"b{i}": column.astype(np.uint8)
        for i, column in enumerate(np.array(list(product((0, 1), repeat=d))).T)
    }
    assert queries.columns_of(records).tolist() == matrix.tolist()
    assert queries.on_rows(records).tolist() == matrix.sum(axis=1).tolist()
    assert queries.norms(records).l1.tolist() == matrix.sum(axis=0).tolist()
    apart = np.abs(matrix[:, :, None] - matrix[:, None, :]).sum(axis=0)
    assert queries.distances(records, records).l1.tolist() == apart.tolist()
    assert len({tuple(row) for row in matrix}) - 1 == queries.distinct()


@pytest.mark.parametrize(("d", "width"), CASES)
def test_norms_are_the_largest_that_a_record_moves(d, width):
    queries, matrix = Parities(bits(d), width, tuple(f"b{i}" for i in range(d))), plain(d, width)
    form = queries.form()
    form.check(queries.domain.sizes)
    apart = np.abs(matrix[:, :, None] - matrix[:, None, :]).sum(axis=0).max()
    for relation, most in [(Relation.ADD_REMOVE, matrix.sum(axis=0).max()), (Relation.REPLACE_ONE, apart)]:
        charged = (
            form.added(queries.domain.sizes)
            if relation is Relation.ADD_REMOVE
            else form.replaced(queries.domain.sizes)
        )
        assert queries.sensitivity(relation).l1 == charged.l1 == most
        assert queries.sensitivity(relation).l2_squared == charged.l2_squared == most
    assert form.count(queries.domain.sizes) == queries.count


def test_the_transform_twice_is_the_table_times_its_cells():
    table = np.random.default_rng(1).integers(-9, 9, (2,) * 6)
    assert (transform(transform(table)) == 64 * table).all()


@pytest.mark.parametrize("d", [1, 2, 4, 6])
def test_the_dimension_is_the_number_of_bits(d):
    queries = Parities(bits(d), d, tuple(f"b{i}" for i in range(d)))
    found = vc_dimension(queries)
    assert (found.value, found.method) == (d, "closed form")
    assert shatters(queries, found.points)


def test_many_bits_are_a_class_of_their_own():
    domain = bits(12)
    queries = parities(domain, domain.names)
    assert isinstance(queries, Parities)
    assert isinstance(parities(domain, domain.names[:10]), Weights)
    assert queries.count == 2**12
    assert queries.text(0) == "never"
    assert queries.text(13) == "odd number of ones in b0, b1"
    assert queries.text(2**12 - 1).endswith("b10, b11")
    assert from_json(domain, to_json(queries)) == queries
    assert parse_workload(domain, ["parities:" + ",".join(domain.names)]) == queries
    merged = merge(queries)
    assert merged.queries.count == queries.count
    rows = {name: np.random.default_rng(2).integers(0, 2, 50).astype(np.uint8) for name in domain.names}
    both = rows["b0"].astype(int) ^ rows["b1"]
    assert queries.on_rows(rows)[13] == both.sum()


def test_twenty_bits_are_planned_and_certified_without_a_list_of_weights():
    domain = bits(20)
    queries = parities(domain, domain.names)
    assert most_odd(20, 20) == 2**19
    plan = mq.plan(queries, n=50_000, epsilon=1.0, delta=1e-9)
    able = {one.mechanism for one in plan.forecasts if one.refusal is None}
    assert "histogram-gaussian" in able


@pytest.mark.parametrize(
    "form",
    [
        forms.Parities(("b0", "b0"), 1),
        forms.Parities(("b0", "wide"), 1),
        forms.Parities(("b0", "b1"), 3),
        forms.Parities(("b0", "b1"), 0),
        forms.Parities((), 1),
        forms.Parities(tuple(f"b{i}" for i in range(25)), 1),
    ],
)
def test_forms_that_are_not_well_formed_are_refused(form):
    sizes = {f"b{i}": 2 for i in range(25)} | {"wide": 3}
    with pytest.raises(WorkloadError):
        QueryForms((form,), "0" * 64).check(sizes)


def test_what_is_no_class_of_parities():
    with pytest.raises(WorkloadError, match="1 to 24 attributes"):
        parities(bits(25), [f"b{i}" for i in range(25)])
    with pytest.raises(WorkloadError, match="two cells"):
        Parities(bits(3, nullable=True), 1, ("b0",))
    with pytest.raises(WorkloadError, match="width"):
        Parities(bits(3), 4, ("b0", "b1", "b2"))

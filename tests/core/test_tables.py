"""Tables counted from coded rows, against the plainest way of counting."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maquette.core import tables as counting
from maquette.core.binned import Binned
from maquette.core.tables import count_margins
from maquette.domain import Attribute, Domain, Kind
from maquette.errors import WorkloadError


def universe(*sizes: int) -> Domain:
    return Domain(tuple(Attribute(f"a{i}", Kind.CATEGORICAL, codes=s) for i, s in enumerate(sizes)))


def rows(domain: Domain, n: int, seed: int = 0, dtype: type | None = None) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        a.name: rng.integers(0, a.size, n).astype(dtype or np.min_scalar_type(a.size - 1)) for a in domain
    }


def plainly(domain: Domain, columns: dict, margin: tuple[str, ...], weights=None) -> np.ndarray:
    table = np.zeros(tuple(domain[name].size for name in margin), dtype=object)
    n = len(next(iter(columns.values())))
    for i in range(n):
        table[tuple(int(columns[name][i]) for name in margin)] += 1 if weights is None else weights[i]
    return table


@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    n=st.integers(0, 30),
    seed=st.integers(0, 10**6),
    block=st.integers(1, 40),
)
@settings(deadline=None)
def test_every_margin_of_every_order_equals_the_plain_count(sizes, n, seed, block):
    domain = universe(*sizes)
    columns = rows(domain, n, seed)
    margins = [m for k in range(len(sizes) + 1) for m in itertools.combinations(domain.names, k)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "BLOCK", block)
        tables = count_margins(domain.sizes, columns, margins)
    assert list(tables) == margins
    for margin in margins:
        assert tables[margin].dtype == np.int64
        assert (tables[margin] == plainly(domain, columns, margin)).all()


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.int64, np.int8, np.uint64])
def test_columns_of_every_type_are_counted_alike(dtype):
    domain = universe(5, 7, 3)
    columns = rows(domain, 200, dtype=dtype)
    table = count_margins(domain.sizes, columns, [domain.names])[domain.names]
    assert (table == plainly(domain, columns, domain.names)).all()


@pytest.mark.slow
def test_columns_of_mixed_types_and_large_sizes():
    domain = universe(3, 300, 70_000)
    columns = rows(domain, 1000)
    assert [c.dtype for c in columns.values()] == [np.uint8, np.uint16, np.uint32]
    flat = np.ravel_multi_index([c.astype(np.int64) for c in columns.values()], domain.shape)
    found = count_margins(domain.sizes, columns, [domain.names])[domain.names].ravel()
    cells, counts = np.unique(flat, return_counts=True)
    assert (found[cells] == counts).all()
    assert found.sum() == 1000


def test_attributes_keep_the_order_of_the_margin():
    domain = universe(2, 3)
    columns = rows(domain, 50)
    tables = count_margins(domain.sizes, columns, [("a0", "a1"), ("a1", "a0")])
    assert (tables["a0", "a1"] == tables["a1", "a0"].T).all()


def test_a_margin_asked_twice_is_counted_once():
    domain = universe(2, 3)
    columns = rows(domain, 50)
    tables = count_margins(domain.sizes, columns, [("a0",), ("a0",), ()])
    assert tables["a0",].sum() == 50
    assert tables[()] == 50


@pytest.mark.parametrize(
    ("kind", "expected"), [(np.int64, np.int64), (np.float32, np.float64), (bool, np.int64)]
)
def test_weights_keep_whole_numbers_whole(kind, expected):
    domain = universe(2, 3)
    columns = rows(domain, 60)
    weights = (np.arange(60) % 5).astype(kind)
    tables = count_margins(domain.sizes, columns, [("a0", "a1"), ()], weights)
    assert tables["a0", "a1"].dtype == expected
    assert (tables["a0", "a1"] == plainly(domain, columns, ("a0", "a1"), weights.astype(expected))).all()
    assert tables[()] == weights.astype(expected).sum()


def test_weights_beyond_32_bits_are_exact():
    domain = universe(2)
    table = count_margins(domain.sizes, {"a0": np.zeros(3, np.uint8)}, [("a0",)], np.full(3, 2**61))["a0",]
    assert table.tolist() == [3 * 2**61, 0]


def test_counting_goes_on_in_tables_that_exist():
    domain = universe(4, 5)
    columns = rows(domain, 300)
    margins = [("a0", "a1"), ("a1",), ()]
    whole = count_margins(domain.sizes, columns, margins)
    parts = count_margins(domain.sizes, {k: v[:100] for k, v in columns.items()}, margins)
    again = count_margins(domain.sizes, {k: v[100:] for k, v in columns.items()}, margins, into=parts)
    assert all((again[m] == whole[m]).all() for m in margins)
    assert all((parts[m] == whole[m]).all() for m in margins)


def test_read_only_and_strided_columns_are_counted():
    domain = universe(3)
    column = np.arange(20, dtype=np.uint8)[::2] % 3
    column.flags.writeable = False
    assert count_margins(domain.sizes, {"a0": column[::-1]}, [("a0",)])["a0",].sum() == 10


@pytest.mark.parametrize("bad", [3, 200, -1])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int64])
def test_a_code_outside_its_attribute_is_refused(bad, dtype):
    if bad < 0 and np.dtype(dtype).kind == "u":
        pytest.skip("an unsigned column holds no negative code")
    with pytest.raises(WorkloadError, match="'a0' holds codes outside"):
        count_margins(universe(3).sizes, {"a0": np.array([0, bad]).astype(dtype)}, [("a0",)])


def test_a_code_beyond_32_bits_is_refused_before_it_is_narrowed():
    with pytest.raises(WorkloadError, match="holds codes outside"):
        count_margins(universe(3).sizes, {"a0": np.array([2**32])}, [("a0",)])


def test_a_table_that_cannot_be_held_is_refused_by_name():
    domain = universe(50_000, 50_000)
    columns = rows(domain, 3)
    with pytest.raises(WorkloadError, match=r"\(a0, a1\) has 2,500,000,000 cells"):
        count_margins(domain.sizes, columns, [("a0",), ("a0", "a1")])


BAD = {
    "unknown attribute": ({"a0": np.zeros(2, np.uint8)}, ("b",), None, "unknown attribute 'b'"),
    "attribute twice": ({"a0": np.zeros(2, np.uint8)}, ("a0", "a0"), None, "names each attribute once"),
    "no column": ({"a1": np.zeros(2, np.uint8)}, ("a0",), None, "no column for attribute 'a0'"),
    "fractions": ({"a0": np.zeros(2)}, ("a0",), None, "must hold whole numbers"),
    "a matrix": ({"a0": np.zeros((2, 2), np.uint8)}, ("a0",), None, "must hold whole numbers"),
    "lengths": ({"a0": np.zeros(2, np.uint8), "a1": np.zeros(3, np.uint8)}, ("a0",), None, "one length"),
    "weights of another length": ({"a0": np.zeros(2, np.uint8)}, ("a0",), np.ones(3), "one length"),
    "weights of text": ({"a0": np.zeros(2, np.uint8)}, ("a0",), np.array(["1", "2"]), "must be numbers"),
}


@pytest.mark.parametrize("case", BAD, ids=str)
def test_bad_arguments_are_refused(case):
    columns, margin, weights, words = BAD[case]
    with pytest.raises(WorkloadError, match=words):
        count_margins(universe(3, 3).sizes, columns, [margin], weights)


@pytest.mark.parametrize(
    "cuts", [(), (1,), (1, 3), (-1, 2), (0, 0), (0, 3, 2), (0, 5)], ids=lambda cuts: f"cuts at {cuts}"
)
def test_bins_that_are_no_partition_of_an_attribute_are_refused(cuts):
    with pytest.raises(WorkloadError, match="the cuts of 'a0' must rise from 0 and stay below its 5 cells"):
        Binned(("a0",), (cuts,)).check(universe(5))


@pytest.mark.parametrize("cuts", [(0,), (0, 4), (0, 1, 2, 3, 4)])
def test_bins_from_the_first_cell_on_are_a_partition(cuts):
    table = Binned(("a0",), (cuts,))
    table.check(universe(5))
    assert table.cells == len(cuts)

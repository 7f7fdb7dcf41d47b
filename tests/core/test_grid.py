"""Fine cells: the code of a number by that number alone, whatever it is and however it was written."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maquette.core.attribute import Attribute, Kind
from maquette.core.errors import DomainError
from maquette.core.grid import MAX_STEPS, Grid, column_of
from maquette.core.rows.coding import coders
from maquette.core.rows.loading import load
from maquette.core.universe import Universe
from maquette.domain import Domain
from maquette.vault.readers import open_engine, open_source

AGE = Attribute("age", Kind.NUMERIC, bounds=(0, 120), integer=True, nullable=True)
PRICE = Attribute("price", Kind.NUMERIC, bounds=(-10, 250.5), unit=0.01)
SHARE = Attribute("share", Kind.NUMERIC, bounds=(0, 1), overflow=True)


def codes(attribute: Attribute, values: list, kind: pa.DataType | None = None, na=()) -> list[int]:
    domain = Universe((attribute,), na)
    return coders(domain)[column_of(attribute.name)].code(pa.array(values, kind)).tolist()


def test_bounds_alone_declare_whole_numbers_by_one_and_others_by_a_power_of_two():
    assert (AGE.unit, AGE.grid) == (1.0, Grid(Fraction(1), 0, 120, has_undeclared=True))
    assert SHARE.unit == 2.0**-20
    assert Attribute("w", Kind.NUMERIC, bounds=(0, 60_000)).unit == 1 / 16
    assert PRICE.grid == Grid(Fraction(1, 100), -1000, 25050, has_undeclared=False)


def test_cells_for_tables_follow_from_the_unit_with_a_cell_for_zero():
    assert AGE.borders is not None
    assert (AGE.cells, AGE.borders[:4], AGE.borders[-1]) == (32, (-0.5, 0.5, 3.5, 7.5), 120.5)
    days = Attribute("day", Kind.NUMERIC, bounds=(1, 7), integer=True)
    assert (days.cells, [days.label(i) for i in range(7)]) == (7, ["1", "2", "3", "4", "5", "6", "7"])
    gain = Attribute("gain", Kind.NUMERIC, bounds=(0, 99_999), integer=True)
    assert gain.bin_index(np.array([0.0, 1.0, 3124.0, 3125.0, 99_999.0])).tolist() == [0, 1, 1, 2, 32]


def test_cells_that_are_declared_stay_beside_the_unit():
    binned = Attribute("age", Kind.NUMERIC, bounds=(0.5, 99.5), bins=9, integer=True, unit=1)
    assert (binned.cells, binned.grid) == (9, Grid(Fraction(1), 1, 99, has_undeclared=False))
    edged = Attribute("gain", Kind.NUMERIC, edges=(0, 1, 500, 99_999.5), unit=1)
    assert (edged.cells, edged.grid) == (3, Grid(Fraction(1), 0, 99_999, has_undeclared=False))


def test_a_declaration_without_a_unit_is_what_it_was():
    old = Attribute("age", Kind.NUMERIC, bounds=(0, 120), bins=24, integer=True)
    assert (old.grid, old.unit) == (None, None)
    assert "unit" not in old.entry()
    domain = Universe((old,))
    assert domain.columns == {"age": 24}
    assert domain.fingerprint == "0ec08224f617d7a90f8ac0afb60219bf75ac0175a6af394dd5efcd894c2ef2c7"


def test_a_unit_is_written_and_read_back():
    domain = Domain((AGE, PRICE, SHARE))
    assert domain.to_dict()["attributes"][0] == {
        "name": "age",
        "kind": "numeric",
        "bounds": [0, 120],
        "unit": 1.0,
        "nullable": True,
        "integer": True,
    }
    assert Domain.from_dict(domain.to_dict()) == domain
    assert Domain.from_dict(domain.to_dict()).fingerprint == domain.fingerprint
    assert domain.columns[column_of("age")] == 122


HOSTILE = [0.0, -0.0, 39.4, 39.5, 40.5, 1e25, -1e25, math.inf, -math.inf, 5e-324, math.nan, None]


def test_hostile_numbers_have_a_code_each():
    assert codes(AGE, HOSTILE) == [0, 0, 39, 40, 40, 120, 0, 120, 0, 0, 121, 121]
    assert codes(SHARE, [0.0, 1.0, 0.5, 1.5, -1e300, math.inf, None]) == [
        0,
        2**20,
        2**19,
        *[2**20 + 1] * 4,
    ]
    assert codes(PRICE, HOSTILE)[-2:] == [0, 0], (
        "what is missing counts as the first value, as in the first cell"
    )


def test_money_is_counted_as_it_is_written():
    cents = [0, 1, 29, 57, 1999, 25050, -1000, 1207]
    texts = [f"{Decimal(c) / 100}" for c in cents]
    expected = [c + 1000 for c in cents]
    assert codes(PRICE, texts) == expected
    assert codes(PRICE, [Decimal(t) for t in texts], pa.decimal128(12, 2)) == expected
    assert codes(PRICE, [float(t) for t in texts]) == expected
    assert codes(PRICE, [np.float32(t) for t in texts], pa.float32()) == expected
    assert codes(PRICE, texts, pa.dictionary(pa.int8(), pa.string())) == expected


def test_texts_that_are_no_numbers_are_missing():
    assert codes(AGE, ["?", "forty", "", "40", " 41 ", "4e1", "-999"], na=("?", "-999")) == [
        121,
        121,
        121,
        40,
        41,
        40,
        121,
    ]


NUMBERS = st.lists(
    st.one_of(st.floats(), st.integers(-200, 200).map(float), st.none()), min_size=1, max_size=30
)


@given(NUMBERS, st.sampled_from([AGE, PRICE, SHARE]))
def test_the_code_of_a_value_is_that_of_the_value_alone(values, attribute):
    together = codes(attribute, values, pa.float64())
    alone = [codes(attribute, [value], pa.float64())[0] for value in values]
    assert together == alone == codes(attribute, values[::-1], pa.float64())[::-1]
    assert attribute.grid is not None
    assert 0 <= min(together) <= max(together) < attribute.grid.size


@given(st.integers(-1000, 25050))
def test_a_code_stands_for_its_value(cents):
    assert PRICE.grid is not None
    value = float(Fraction(cents, 100))
    assert PRICE.grid.values(np.array(PRICE.grid.codes(np.array([value])))).tolist() == [value]


def test_memory_and_passes_over_the_source_code_alike(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("price,age\n1.29,40\n250.5,\n-3,130\nx,7\n")
    domain = Domain((AGE, PRICE))
    kept = open_engine(path, domain)
    source = open_source(path, names=domain.names)
    read = load(source, domain, memory_limit=0, progress=None)
    assert type(kept) is not type(read)
    for name in domain.columns:
        one, other = kept.distinct(name), read.distinct(name)
        assert np.array_equal(one[0], other[0])
        assert np.array_equal(one[1], other[1])
    assert kept.commitment(b"salt") == read.commitment(b"salt")


def test_records_that_differ_in_fine_cells_alone_are_other_records():
    domain = Domain((Attribute("age", Kind.NUMERIC, bounds=(0, 120), bins=2, unit=1),))
    one, other = (open_engine({"age": [age]}, domain) for age in (30, 31))
    assert one.commitment(b"salt") != other.commitment(b"salt")


REFUSED = {
    "of a categorical": ({"kind": Kind.CATEGORICAL, "categories": ("a",), "unit": 1}, "for numeric"),
    "zero": ({"bounds": (0, 1), "unit": 0}, "above zero"),
    "not a number": ({"bounds": (0, 1), "unit": math.nan}, "above zero"),
    "a truth value": ({"bounds": (0, 1), "unit": True}, "above zero"),
    "larger than the range": ({"bounds": (0, 1), "unit": 2}, "declare another unit"),
    "far too fine": ({"bounds": (0, MAX_STEPS + 1), "unit": 1}, "declare another unit"),
    "finer than floats": ({"bounds": (1e15, 1e15 + 1), "unit": 0.1}, "too far from zero"),
    "fractions of whole numbers": ({"bounds": (0, 9), "unit": 0.5, "integer": True}, "its unit is one too"),
}


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_a_wrong_unit_is_refused(case):
    change, words = REFUSED[case]
    with pytest.raises(DomainError, match=words):
        Attribute(**({"name": "x", "kind": Kind.NUMERIC} | change))

"""The domain files of the page on numeric columns: sound, and cells that decode to what the columns really hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from maquette.domain import Domain
from maquette.domain.remarks import check
from maquette.models import constraints

FOLDER = Path(__file__).parents[2] / "docs" / "domains"
NAMES = ("adult_raw", "diamonds", "flights", "nist_acs")


def domain(name: str) -> Domain:
    return Domain.load(FOLDER / f"{name}.domain.json")


def test_every_file_is_tested():
    assert sorted(p.name.removesuffix(".domain.json") for p in FOLDER.iterdir()) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_files_are_sound(name):
    declared = domain(name)
    assert not [f for f in check(declared) if f.severity == "error"]
    assert Domain.from_dict(declared.to_dict()) == declared
    constraints.compile(declared)


@pytest.mark.parametrize("name", NAMES)
def test_every_cell_decodes_into_itself(name):
    for attribute in domain(name):
        if attribute.bounds is not None or attribute.edges is not None:
            codes = np.arange(attribute.cells)
            values, missing = attribute.decode(codes)
            assert not missing.any()
            assert (attribute.bin_index(values.astype(float)) == codes).all()


@pytest.mark.parametrize(
    ("name", "column", "value"),
    [
        ("adult_raw", "capital-gain", 0),
        ("adult_raw", "capital-gain", 99_999),
        ("adult_raw", "capital-loss", 0),
        ("adult_raw", "hours-per-week", 40),
        ("adult_raw", "hours-per-week", 99),
        ("adult_raw", "age", 17),
        ("nist_acs", "PINCP", 0),
        ("nist_acs", "POVPIP", 501),
        ("nist_acs", "AGEP", 0),
        ("flights", "dep_delay", -3),
        ("diamonds", "table", 57),
    ],
)
def test_values_that_many_records_share_come_back_as_they_are(name, column, value):
    attribute = domain(name)[column]
    back, missing = attribute.decode(attribute.bin_index(np.array([float(value)])))
    assert back.tolist() == [value]
    assert not missing[0]


@pytest.mark.parametrize("column", ["sched_dep_time", "dep_time", "arr_time"])
def test_times_that_do_not_exist_are_ruled_out(column):
    flights = domain("flights")
    attribute = flights[column]
    allowed = constraints.compile(flights).on_cells((column,))
    codes = np.flatnonzero(allowed[: attribute.cells])
    for how in ("midpoint", "uniform"):
        values, _ = attribute.decode(codes, how=how, rng=np.random.default_rng(1))
        assert (values % 100 < 60).all()
    assert (attribute.decode(np.arange(attribute.cells))[0] % 100 >= 60).sum() == 24


def test_missing_values_have_a_cell_of_their_own():
    flights = domain("flights")
    compiled = constraints.compile(flights)
    cancelled = flights["dep_time"].null_cell
    allowed = compiled.on_cells(("dep_time", "arr_delay"))
    assert cancelled is not None
    assert np.flatnonzero(allowed[cancelled]).tolist() == [flights["arr_delay"].null_cell]
    children = constraints.compile(domain("nist_acs")).on_cells(("AGEP", "MSP"))
    assert np.flatnonzero(children[14]).tolist() == [domain("nist_acs")["MSP"].null_cell]
    assert not children[15, domain("nist_acs")["MSP"].null_cell or 0]

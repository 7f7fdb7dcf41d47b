"""Days and moments in calendar cells: names, truncation, the domain file, and the coding of every kind of column."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import maquette as mq
from maquette.core.values import UNITS, cell_of, cells
from maquette.domain import Attribute, Domain, Kind
from maquette.errors import DomainError
from maquette.vault.readers import open_engine

MONTHS = {"name": "when", "kind": "ordinal", "calendar": "month", "from": "2013-01", "to": "2013-12"}


@given(st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1)), st.sampled_from(UNITS))
def test_a_moment_is_in_the_cell_that_a_list_of_cells_names(moment, unit):
    name = cell_of(moment.isoformat(" "), unit)
    assert name is not None
    assert cells(unit, name, name) == (name,)
    if unit not in ("year", "week"):
        assert moment.isoformat(" ").startswith(name)
    if unit == "week":
        monday = dt.date.fromisoformat(name)
        assert monday.weekday() == 0
        assert 0 <= (moment.date() - monday).days < 7


def test_cells_follow_each_other():
    assert cells("month", "2012-11", "2013-02") == ("2012-11", "2012-12", "2013-01", "2013-02")
    assert cells("day", "2012-02-28", "2012-03-01") == ("2012-02-28", "2012-02-29", "2012-03-01")
    assert cells("hour", "2012-12-31 23", "2013-01-01 00") == ("2012-12-31 23", "2013-01-01 00")
    assert cells("week", "2012-12-31", "2013-01-07") == ("2012-12-31", "2013-01-07")
    assert len(cells("year", "1999", "2013")) == 15


@pytest.mark.parametrize(
    ("text", "unit", "name"),
    [
        ("2013-05-07", "month", "2013-05"),
        ("2013-05-07T08:15", "hour", "2013-05-07 08"),
        ("2013-05-07", "hour", "2013-05-07 00"),
        ("2013-05-07 01:30+02:00", "day", "2013-05-06"),
        ("2013-13-07", "month", None),
        ("2013-02-30", "day", None),
        ("0001-01-01", "week", "0001-01-01"),
        ("May 2013", "month", None),
        ("", "month", None),
        ("20130507", "day", None),
    ],
)
def test_texts_that_are_moments_and_texts_that_are_none(text, unit, name):
    assert cell_of(text, unit) == name


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"calendar": "decade"}, "calendar is one of"),
        ({"from": "2013-1"}, "such as 2013-05"),
        ({"from": "2014-01"}, "goes from"),
        ({"to": None}, "go together"),
        ({"categories": ["2013-01"]}, "leave them out"),
        ({"kind": "categorical"}, "it is ordinal"),
        ({"calendar": "hour", "from": "1000-01-01 00", "to": "2013-01-01 00"}, "too many cells"),
        ({"calendar": "week", "from": "2013-05-07", "to": "2013-05-07"}, "a Monday"),
    ],
)
def test_what_is_no_calendar_is_refused(change, says):
    entry = {key: value for key, value in (MONTHS | change).items() if value is not None}
    with pytest.raises(DomainError, match=says):
        Domain.from_dict({"attributes": [entry]})
    with pytest.raises(DomainError):
        Attribute("when", Kind.ORDINAL, categories=("2013-01", "2013-03"), calendar="month")


def test_a_domain_file_keeps_its_calendar(tmp_path):
    domain = Domain.from_dict({"attributes": [MONTHS]})
    domain.save(tmp_path / "d.json")
    assert '"calendar": "month", "from": "2013-01", "to": "2013-12"' in (tmp_path / "d.json").read_text()
    assert Domain.load(tmp_path / "d.json") == domain
    listed = Domain((Attribute("when", Kind.ORDINAL, categories=domain["when"].categories),))
    assert listed.fingerprint != domain.fingerprint


def test_every_kind_of_column_falls_into_the_same_months():
    days = [dt.date(2013, 1, 1), dt.date(2013, 5, 7), dt.date(2013, 12, 31), dt.date(2014, 1, 1), None]
    entry = MONTHS | {"nullable": True, "overflow": True}
    domain = Domain.from_dict({"attributes": [entry]})
    moments = [None if d is None else dt.datetime(d.year, d.month, d.day, 23, 59) for d in days]
    columns = [
        pa.array(days, pa.date32()),
        pa.array(days, pa.date64()),
        pa.array(moments, pa.timestamp("ns")),
        pa.array(moments, pa.timestamp("s", "UTC")),
        pa.array([None if d is None else d.isoformat() for d in days], pa.string()),
        pa.array([None if m is None else m.isoformat() for m in moments], pa.large_string()),
    ]
    for column in columns:
        counts = open_engine(pa.table({"when": column}), domain).margins([("when",)])[("when",)]
        assert counts.tolist() == [1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1]


def test_ranges_of_months_are_asked_and_answered(tmp_path):
    rng = np.random.default_rng(1)
    days = np.datetime64("2013-01-01") + rng.integers(0, 365, 5000).astype("timedelta64[D]")
    domain = Domain.from_dict({"attributes": [MONTHS]})
    table = mq.open({"when": [str(day) for day in days]}, domain=domain)
    made = mq.release(table, mq.prefixes(domain, "when"), epsilon=2.0, ledger=tmp_path / "l")
    answer = made.answer("\"when\" <= '2013-06'")
    assert abs(answer.value - float(np.mean(days < np.datetime64("2013-07-01")))) <= answer.error

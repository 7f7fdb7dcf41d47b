"""The forecast of a private discovery says what the discovery then does, and looks at nothing."""

from __future__ import annotations

import csv
import re

import pytest

import maquette as mq
from maquette.accounting.ledger import Ledger
from maquette.owner import raw_columns
from maquette.releasing.discovery_plan import forecast_discovery

TOTAL = {"total_epsilon": 4.0, "total_delta": 1e-6}


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "trips.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["zone", "fare", "note"])
        rows.writerows([["centre" if i % 3 else "harbour", i % 40, f"n{i}"] for i in range(6000)])
    return path


def test_the_forecast_is_what_the_discovery_states(table, tmp_path):
    wish = {"columns": {"zone": "text", "note": "drop"}, "epsilon": 1.0, "delta": 1e-7}
    header = raw_columns(table, table=None, query=None, delimiter=",", encoding="utf-8")
    forecast = forecast_discovery(header, **wish, **TOTAL)
    zone, fare, note = forecast.columns
    assert (zone.how, fare.how, note.how) == ("discovered", "discovered", "dropped")
    assert note.deviation is None
    place = tmp_path / "trips.ledger"
    discovery = mq.discover(table, ledger=place, **wish, **TOTAL)
    assert f"about {zone.threshold:,} records" in discovery.findings[0].text
    with Ledger.open(place) as ledger:
        balance = ledger.balance()
        envelope = next(one for one in ledger.entries(kind="reserve") if one.envelope)
    assert forecast.share == pytest.approx(envelope.units / balance.total_units)


def test_a_pure_discovery_says_what_a_delta_would_save_before_it_is_paid(table, tmp_path):
    wish = {"columns": {"zone": "drop", "note": "drop", "fare": "number"}, "epsilon": 0.5}
    header = raw_columns(table, table=None, query=None, delimiter=",", encoding="utf-8")
    forecast = forecast_discovery(header, **wish, delta=0.0, **TOTAL)
    words = r"a pure epsilon=0\.5 takes up to (\S+) % of a total of .* with delta=1e-06 .* takes up to \S+ %"
    assert forecast.note is not None
    said = re.fullmatch(words, forecast.note)
    assert said is not None
    assert forecast.share == pytest.approx(float(said[1]) / 100, rel=0.01)
    place = tmp_path / "trips.ledger"
    with pytest.warns(mq.PureCostWarning, match=words):
        mq.discover(table, ledger=place, **wish, **TOTAL)
    mq.discover(table, ledger=place, **wish, **TOTAL)  # a repeat costs nothing and says nothing
    with Ledger.open(place) as ledger:
        envelope = next(one for one in ledger.entries(kind="reserve") if one.envelope)
        assert forecast.share == pytest.approx(envelope.units / ledger.total_units)
    assert forecast_discovery(header, **wish, delta=1e-7, **TOTAL).note is None
    assert forecast_discovery(header, **wish, delta=0.0, total_epsilon=4.0, total_delta=0.0).note is None


def test_what_cannot_be_found_is_refused_before_anything_is_paid():
    header = {"zone": True, "fare": True}
    with pytest.raises(mq.ParameterError, match="nothing to find"):
        forecast_discovery(header, columns=dict.fromkeys(header, "drop"), epsilon=1, delta=0, **TOTAL)
    with pytest.raises(mq.MechanismError, match="needs a delta"):
        forecast_discovery(header, columns={"zone": "text"}, epsilon=1, delta=0, **TOTAL)
    with pytest.raises(mq.ParameterError, match="no delta"):
        forecast_discovery(header, columns={}, epsilon=1, delta=1e-9, total_epsilon=2, total_delta=0)


def test_more_columns_leave_less_for_each():
    header = {"a": True, "b": True, "c": True}
    wide = forecast_discovery(header, columns={}, epsilon=1, delta=1e-7, **TOTAL)
    narrow = forecast_discovery(header, columns={"b": "drop", "c": "drop"}, epsilon=1, delta=1e-7, **TOTAL)
    assert narrow.columns[0].threshold < wide.columns[0].threshold
    assert narrow.columns[0].deviation < wide.columns[0].deviation

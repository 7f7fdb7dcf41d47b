"""Numbers of every size, coordinates, days of the year: what a discovery makes of them, and that none is in its way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import maquette as mq
from maquette.discovery.curator import DiscoveryCurator
from maquette.domain.remarks import check
from maquette.releasing import discovery
from support.privacy_doubles import RecordingNoise, ReplayingNoise

N = 3000
RNG = np.random.default_rng(8)
BUDGET: Any = {"epsilon": 12.0, "delta": 1e-6, "total_epsilon": 15.0, "total_delta": 1e-5}


def sizes() -> dict[str, list[str]]:
    """Columns of numbers of every size, whole and not, of one sign and of both, and what only looks like a number."""
    columns = {"good": [str(i % 40) for i in range(N)]}
    for power in (-320, -300, -30, -12, -9, 0, 9, 15, 18, 19, 25, 100, 300, 308, 400):
        columns[f"near 1e{power}"] = [f"{1 + i / N:.6f}e{power}" for i in range(N)]
        columns[f"near -1e{power}"] = [f"-{1 + i / N:.6f}e{power}" for i in range(N)]
        columns[f"both 1e{power}"] = [f"{'-' if i % 2 else ''}1e{power}" for i in range(N)]
    for digits in (15, 16, 18, 19, 20, 25, 30, 308, 400):
        columns[f"{digits} digits"] = [str(10 ** (digits - 1) + i) for i in range(N)]
    columns["all sizes"] = [f"1e{i % 600 - 300}" for i in range(N)]
    columns["one number"] = ["7.25"] * N
    columns["infinite"] = ["inf"] * N
    columns["no numbers"] = ["nan"] * N
    return columns


@pytest.mark.slow
@pytest.mark.parametrize("kind", [None, "number", "text", "date"])
def test_one_bad_column_never_takes_the_others_with_it(kind, tmp_path):
    """Numbers near 10^25 ended in an IndexError, with 42 % of the budget spent or reserved, and again each time."""
    table, place = sizes(), tmp_path / "l"
    wish: Any = {name: kind for name in table if kind is not None and name != "good"}
    found = mq.discover(table, ledger=place, columns=wish, **BUDGET)
    assert [one.name for one in found.findings] == list(table)
    bounds = found.domain["good"].bounds
    assert bounds is not None
    assert bounds[0] == -0.5
    assert 38.5 <= bounds[1] <= 41.5
    assert all(one.receipts for one in found.findings)
    with mq.Ledger.open(place) as book:
        balance = book.balance()
    assert not balance.reserved_units
    again = mq.discover(table, ledger=place, columns=wish, **BUDGET)
    assert (str(again), again.domain) == (str(found), found.domain)
    with mq.Ledger.open(place) as book:
        assert book.balance().spent_units == balance.spent_units
    mq.open(table, domain=found.domain)
    beyond = next(one for one in found.findings if one.name == "near 1e25")
    if kind == "number":
        assert "too few numbers within -5e+18 and 5e+18" in beyond.text


@pytest.mark.parametrize("failure", [IndexError, ZeroDivisionError, ValueError, mq.DomainError])
def test_cells_that_cannot_be_made_cost_their_own_column_alone(failure, tmp_path, monkeypatch):
    made = discovery.number_attribute

    def broken(name, *args, **options):
        if name == "b":
            raise failure("no cells")
        return made(name, *args, **options)

    monkeypatch.setattr(discovery, "number_attribute", broken)
    table = {name: [str(i % 40) for i in range(N)] for name in ("a", "b", "c")}
    found = mq.discover(table, ledger=tmp_path / "l", **BUDGET)
    assert [one.how for one in found.findings] == ["discovered", "dropped", "discovered"]
    assert len(found.findings[1].receipts) >= 2
    assert "declare the column" in found.findings[1].text


def test_what_was_paid_continues(tmp_path, monkeypatch):
    """A discovery that was interrupted pays, with its repetition, what one without a break pays."""
    table = {name: [str(i % 40) for i in range(N)] for name in ("a", "b", "c")}
    wish: Any = {"columns": dict.fromkeys(table, "number"), **BUDGET}
    mq.discover(table, ledger=tmp_path / "whole", **wish)
    look, calls = DiscoveryCurator.numbers, []

    def interrupted(self, column, **options):
        calls.append(column)
        if len(calls) == 4:
            raise OSError("the network is gone")
        return look(self, column, **options)

    monkeypatch.setattr(DiscoveryCurator, "numbers", interrupted)
    with pytest.raises(OSError, match="gone"):
        mq.discover(table, ledger=tmp_path / "broken", **wish)
    found = mq.discover(table, ledger=tmp_path / "broken", **wish)
    assert len(found.domain) == 3
    spent = []
    for name in ("whole", "broken"):
        with mq.Ledger.open(tmp_path / name) as book:
            spent.append((book.balance().spent_units, book.balance().reserved_units))
    assert spent[0] == spent[1]


MANY = 8000
PLACES = {
    "latitude": (np.clip(RNG.normal(40.75, 0.05, MANY), 40.5, 40.95).round(5), 40, 42, 40),
    "longitude": (np.clip(RNG.normal(-73.97, 0.05, MANY), -74.25, -73.7).round(5), -75, -72, 40),
    "yday": (RNG.integers(1, 367, MANY), 0, 380, 40),
    "year": (RNG.integers(2007, 2010, MANY), 2005, 2011, 3),
    "born": (RNG.integers(1930, 2006, MANY), 1900, 2030, 40),
    "kelvin": (RNG.normal(288, 8, MANY).round(2), 240, 330, 40),
}
"""Values, bounds that are near enough, and cells that they should be told apart by."""


def test_coordinates_and_days_get_cells_where_they_are(tmp_path):
    """A city had two cells out of thousands of its values, and days of the year bounds beyond 400."""
    table = {name: [str(value) for value in values] for name, (values, *_) in PLACES.items()}
    found = mq.discover(table, ledger=tmp_path / "l", **(BUDGET | {"epsilon": 6.0}))
    for name, (values, low, high, cells) in PLACES.items():
        attribute = found.domain[name]
        first, last = attribute.ends()
        assert low <= first[0] < last[-1] <= high, name
        codes = attribute.bin_index(np.asarray(values, dtype=float))
        assert len(np.unique(codes)) >= cells, name
        assert ((values >= first[0]) & (values <= last[-1])).mean() > 0.9, name
    scolded = [finding for finding in check(found.domain) if finding.severity != "note"]
    assert scolded == []  # what was found and paid for is not read off the data


@pytest.mark.privacy
def test_the_look_at_crowded_steps_shows_nothing_of_a_record_beyond_the_draws(tmp_path, monkeypatch):
    """Record and replay: with the same noisy counts, one record more or less changes no border, price or word."""
    base = [str(value) for value in np.random.default_rng(4).normal(40.75, 0.05, 2000).round(5)]
    tape, shown = None, None
    for number, values in enumerate(
        [base, base[1:], [*base, "1e25"], [*base, "-89"], [*base, "x"], [*base, ""]]
    ):
        noise = RecordingNoise() if tape is None else ReplayingNoise(tape)
        monkeypatch.setattr(DiscoveryCurator, "_source", lambda self, noise=noise: noise)
        found = mq.discover({"latitude": values}, ledger=tmp_path / f"{number}", **BUDGET)
        assert len(found.findings[0].receipts) == 4  # kinds, ladder, its ends, close borders
        with mq.Ledger.open(tmp_path / f"{number}") as book:
            charges = [(e.tag, e.units, e.slack, e.body.get("ask")) for e in book.entries(kind="reserve")]
        seen = str(found), list(found.domain), charges
        if tape is None:
            tape, shown = noise.calls, seen
        assert seen == shown

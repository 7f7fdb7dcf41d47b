"""The benchmark of the field: the same scores for everybody, and it runs with no peer installed."""

import sys

import numpy as np
import pytest
from benchmarks import field, tables
from benchmarks.families.double import engine_of
from benchmarks.families.ranges import range_errors
from benchmarks.peers import again

from maquette.models.answers import SmallDatabase, generator

SIZES = {"day": 12, "flag": 3, "place": 4}


@pytest.fixture(scope="module")
def made():
    rng = generator("field")
    columns = {name: rng.integers(0, size, 400).astype(np.uint8) for name, size in SIZES.items()}
    columns["flag"][columns["day"] < 6] = 0
    return tables.coded(columns, SIZES)


def shuffled(made):
    """Every column by itself."""
    rng = generator("shuffled")
    return {name: rng.permutation(codes) for name, codes in again.columns_of(made.open()).items()}


def test_the_records_themselves_have_no_error(made):
    scores = field.score(made, again.columns_of(made.open()), 2)
    assert scores == dict.fromkeys(scores, 0.0)


def test_rows_of_independent_columns_are_scored_worse(made):
    scores = field.score(made, shuffled(made), 2)
    assert min(scores[name] for name in ("max", "L1", "range", "conditions", "correlations")) > 0.005


def test_the_worst_range_is_that_of_all_of_them(made):
    columns, rows = again.columns_of(made.open()), shuffled(made)
    errors = [
        abs(
            np.mean(_inside(columns, *pair, low, high, value))
            - np.mean(_inside(rows, *pair, low, high, value))
        )
        for pair in [(a, b) for a in SIZES for b in SIZES if a != b]
        for low in range(SIZES[pair[0]])
        for high in range(low, SIZES[pair[0]])
        for value in range(SIZES[pair[1]])
    ]
    found = range_errors(engine_of(made.open()), SmallDatabase(rows))
    assert found["rows range"] == pytest.approx(max(errors))


def _inside(columns, ranged, other, low, high, value):
    return (columns[ranged] >= low) & (columns[ranged] <= high) & (columns[other] == value)


def test_a_peer_runs_where_what_it_needs_is(made):
    assert field.installed([]) == {}
    here = field.Peer("here", ("json", "math"), "none.py", "mst")
    nowhere = field.Peer("nowhere", ("json", "no_such_module_here"), "none.py", "mst")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(field, "OTHERS", (here, nowhere))
        assert field.installed([sys.executable]) == {here: sys.executable}


def test_what_is_not_installed_is_said_and_ours_runs_all_the_same(monkeypatch, capsys):
    monkeypatch.delenv("MAQUETTE_PEER_PYTHON", raising=False)
    monkeypatch.setattr(field, "measure_one", lambda *_: {"max": 0.1, "L1": 0.2})
    figures = list(field.measure(field.Case("tree-0", 2), None, seeds=2))
    assert [figure["system"] for figure in figures] == ["sculpt", "sculpt"]
    said = capsys.readouterr().err
    assert all(f"{peer.name}: not installed" in said for peer in field.OTHERS)


def test_the_table_has_means_with_their_spread_and_failures_by_name():
    figures = [
        {"system": "sculpt", "max": 0.1, "L1": 0.3},
        {"system": "sculpt", "max": 0.3, "L1": 0.3},
        {"system": "MST", "failed": ["no memory"]},
    ]
    _, _, ours, other = field.lines(figures)
    assert ours.startswith("| sculpt | 2 | 0.2 ± 0.1 | 0.3 ± ")
    assert "no memory" in other

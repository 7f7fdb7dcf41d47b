"""Errors of thresholds on finer and finer grids: grids are nested, gaps and bounds are what they say."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

from maquette.audit import claim as subject
from maquette.cli.app import app
from maquette.domain import Relation
from maquette.errors import ParameterError
from maquette.theory import lower


def test_keys_of_finer_grids_lie_in_the_cells_of_coarser_ones():
    numbers = np.array([-1.0, 0.0, 1.0, 2.5, 7.999, 8.0, 9.0])
    keys = subject.keys_of(numbers, 0.0, 8.0)
    assert (keys >> np.uint64(61)).tolist() == [0, 0, 1, 2, 7, 7, 7]
    assert (keys >> np.uint64(60)).tolist() == [0, 0, 2, 5, 15, 15, 15]


@pytest.mark.parametrize("seed", range(20))
def test_the_largest_gap_is_over_all_thresholds(seed):
    rng = np.random.default_rng(seed)
    keys, rows = rng.integers(0, 9, rng.integers(1, 30)), rng.integers(0, 9, rng.integers(1, 6))
    gaps = [abs((keys <= t).mean() - (rows <= t).mean()) for t in range(9)]
    assert subject.largest_gap(keys, rows) == pytest.approx(max(gaps))


def test_no_mechanism_is_below_the_least_error():
    """Of r moved records the proof needs: pairwise distances r / n, r steps, and r below the stated number."""
    n, cells = 40, 64
    options = {"log_universe": math.log(cells), "epsilon": 0.5, "beta": 0.05}
    least = subject.least_error(n=n, **options)
    moved = round(least * 2 * n)
    assert 0 < moved < lower.packing_records(relation=Relation.REPLACE_ONE, **options) <= moved + 1
    tables = [np.array([n - moved] + [0] * (cells - 1)) for _ in range(cells)]
    for j, table in enumerate(tables):
        table[j] += moved
    for one, other in itertools.combinations(tables, 2):
        assert np.abs(np.cumsum(one - other)).max() == moved
        assert np.abs(one - other).sum() == 2 * moved
    # the probabilities of the proof would add up to more than 1
    assert 0.95 + (cells - 1) * 0.95 * math.exp(-moved * 0.5) > 1
    assert subject.least_error(n=3, **options) <= 0.5


def test_small_grids_of_few_numbers():
    rng = np.random.default_rng(2)
    numbers = rng.normal(50, 10, 400)
    points = subject.claim(numbers, low=0, high=100, epsilon=1.0, bits=(3, 6, 20))
    assert [point.bits for point in points] == [3, 6, 20]
    for point in points:
        assert 0 < point.lower < point.laplace
        assert 0 <= point.true <= 1
        assert 1 <= point.rows <= 25
    assert points[0].laplace < 1 < points[2].laplace
    assert points[2].true <= points[2].bound
    drawn = subject.specification(points, records=400, epsilon=1.0, delta=1e-9, what="numbers")
    lines = {value["line"] for value in drawn["data"]["values"]}
    assert "SmallDB, true" in lines
    assert all(value["error"] <= 1 for value in drawn["data"]["values"])


@pytest.mark.parametrize(
    ("numbers", "options"),
    [
        ([], {"low": 0, "high": 1}),
        ([math.nan], {"low": 0, "high": 1}),
        ([1.0], {"low": 1, "high": 1}),
        ([1.0], {"low": 0, "high": math.inf}),
        ([1.0], {"low": 0, "high": 2, "bits": (65,)}),
        ([1.0], {"low": 0, "high": 2, "bits": ()}),
    ],
)
def test_what_is_refused(numbers, options):
    with pytest.raises(ParameterError):
        subject.claim(numbers, **options)


def test_the_command_writes_figures_and_a_picture(tmp_path, monkeypatch):
    monkeypatch.setattr(subject, "BITS", (3, 5))
    monkeypatch.setattr(subject.claim, "__kwdefaults__", subject.claim.__kwdefaults__ | {"bits": (3, 5)})
    table = tmp_path / "t.csv"
    numbers = np.random.default_rng(1).integers(0, 100, 300)
    table.write_text("a,weight\n" + "".join(f"x,{one}\n" for one in numbers) + "y,\n")
    words = ["claim", str(table), "--column", "weight", "--low", "0", "--high", "100", "-q"]
    said = CliRunner().invoke(app, [*words, "--json", "--plot", str(tmp_path / "p.json")])
    assert said.exit_code == 0, said.output
    document = json.loads(said.stdout)
    assert document["records"] == 300
    assert [point["bits"] for point in document["points"]] == [3, 5]
    assert json.loads((tmp_path / "p.json").read_text())["layer"]
    plain = CliRunner().invoke(app, words)
    assert "NOT PRIVATE" in plain.output
    assert "2^5" in plain.output
    wrong = CliRunner().invoke(app, [*words[:3], "b", *words[4:]])
    assert wrong.exit_code == 2

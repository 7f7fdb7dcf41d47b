"""The tables and the arithmetic of the accuracy benchmark."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from benchmarks import _accuracy, peers, scaling, sculpt, summary, tables
from benchmarks.peers import again, quoted

from maquette.models.answers import SmallDatabase


def test_the_generated_table_has_structure_in_triples_and_not_in_pairs():
    made = tables.xor(20_000)
    columns = {name: made.source.column(name).to_numpy().astype(float) for name in ("x0", "x1", "x2")}
    for a, b in itertools.combinations(columns, 2):
        assert abs(np.corrcoef(columns[a], columns[b])[0, 1]) < 0.05
    parity = np.mod(sum(columns.values()), 2)
    assert (parity == 0).mean() > 0.9


def test_generated_tables_are_the_same_every_time_and_fit_their_domain():
    for make in (lambda: tables.xor(500), lambda: tables.chain(500, 6)):
        one, two = make(), make()
        assert one.source.equals(two.source)
        for attribute in one.domain:
            assert one.source.column(attribute.name).to_numpy().max() < attribute.size
        one.open()


def test_a_workload_that_is_too_large_is_narrowed_and_says_so(monkeypatch):
    domain = tables.chain(10, 4).domain
    assert tables.workload(domain, 2)[1] == "all 2-way marginals"
    assert tables.first_pairs(domain, 3).count == 300
    monkeypatch.setattr(tables, "MAX_QUERIES", 100)
    monkeypatch.setattr(tables, "WIDEST", 100)
    narrow, words = tables.workload(domain, 2)
    assert narrow.count == 600
    assert words == "all 2-way marginals of at most 100 cells"


def test_a_table_without_its_folder_is_refused():
    with pytest.raises(SystemExit, match="--data"):
        tables.load("adult", None)


def test_a_case_measures_true_errors_of_answers_and_rows(monkeypatch):
    monkeypatch.setattr(tables, "load", lambda _name, _data: tables.chain(300, 3, levels=3))
    case = _accuracy.Case("chain", 2, 10.0, "residual", runs=2)
    found = _accuracy.figures(case, None)
    assert found["queries"] == 27
    assert 0 < found["answers max"] < 0.2
    assert 0 < found["rows L1"] < 1
    assert found["answers abs"] <= found["answers max"] <= found["certified"]
    assert found["processor seconds"] > 0
    assert found["peak MB"] > 0


@pytest.mark.slow
def test_a_case_that_fails_is_told_and_does_not_end_the_run():
    found = _accuracy.measure(_accuracy.Case("absent", 2, 1.0, "residual"), None)
    assert "absent" in found["what"]
    assert found["failed"]


def test_only_mechanisms_that_exist_are_run(monkeypatch):
    seen = []
    monkeypatch.setattr(_accuracy, "measure", lambda case, _data: seen.append(case) or {"what": case.table})
    figures = list(sculpt.cases(None, epsilons=(1.0,), orders=(2,), mechanisms=("residual", "absent")))
    assert [case.mechanism for case in seen] == ["residual"]
    assert [(figure["what"], figure["quoted"]) for figure in figures] == [("xor", {})]


def test_quoted_figures_carry_their_source():
    found = quoted.beside("adult", 3, 1.0)
    assert found["source"] == quoted.SOURCE
    assert found[quoted.MST] == {"max": 0.02843, "L1": 0.2247}
    assert quoted.beside("xor", 2, 1.0) == {}


def test_the_rows_of_a_peer_are_scored_by_the_same_metrics(tmp_path):
    made = tables.chain(200, 3, levels=3)
    table = made.open()
    again.store(tmp_path / "t.npz", made.domain, again.columns_of(table))
    held = np.load(tmp_path / "t.npz")
    assert held["names"].tolist() == list(made.domain.names)
    columns = {name: held[f"column-{i}"] for i, name in enumerate(made.domain.names)}
    queries, _ = tables.workload(made.domain, 2)
    assert again.score(table, SmallDatabase(columns), queries) == {"max": 0.0, "L1": 0.0, "abs": 0.0}
    moved = columns | {"x0": np.zeros(200, dtype=np.int64)}
    found = again.score(table, SmallDatabase(moved), queries)
    truth = table._engine.answer(queries.to_forms()) / 200
    off = np.abs(SmallDatabase(moved).answer(queries).fractions - truth)
    assert found["max"] == pytest.approx(off.max(), rel=1e-3)
    assert found["L1"] == pytest.approx(off.sum() / 3, rel=1e-3)


def test_peers_are_not_run_without_an_environment_of_their_own(monkeypatch, tmp_path):
    monkeypatch.delenv("MAQUETTE_PEER_PYTHON", raising=False)
    assert peers.run(tmp_path) == []


def test_the_newest_scaling_figures_are_drawn():
    lines = [
        json.dumps({"figures": {"axis": "rows", "x": x, "processor seconds": s, "L1": 0.1, "peak MB": 9}})
        for x, s in ((10, 1.0), (100, 2.0), (10, 3.0))
    ]
    lines.append(json.dumps({"figures": {"axis": "rows", "x": 5, "failed": ["no"]}}))
    found = scaling.newest(lines)
    assert {x: f["processor seconds"] for x, f in found["rows"].items()} == {10: 3.0, 100: 2.0}
    drawn = scaling.draw("rows", found["rows"])
    assert drawn.startswith("<svg")
    assert "mean L1 distance" in drawn


def test_every_axis_moves_one_size():
    for axis, points in scaling.AXES.items():
        places = [point.x for point in points]
        assert places == sorted(set(places)), axis


def test_the_summary_shows_the_newest_figures_and_says_what_is_quoted():
    def ours(mechanism: str, largest: float) -> dict[str, object]:
        facts = {"table": "adult", "epsilon": 1.0, "k": 2, "mechanism": mechanism, "processor seconds": 2.0}
        return facts | {"peak MB": 1300, "answers max": largest, "answers L1": 0.2, "answers abs": 1e-4}

    failed = {"table": "adult", "epsilon": 1.0, "k": 2, "mechanism": "sculpt", "failed": ["x"]}
    peer = {"table": "adult", "epsilon": 1.0, "mechanism": "aim", "size": 1.0, "spent": 0.5, "mbi": "2.0.0"}
    peer |= {
        "processor seconds": 9,
        "peak MB": 8,
        "all 2-way marginals": {"max": 0.03, "L1": 0.3, "abs": 3e-4},
    }
    found = summary.newest([ours("sculpt", 0.5), ours("sculpt", 0.125), failed])
    lines = list(summary.lines(found, [peer], 2))
    assert lines[0] == "| adult | 1 | **sculpt**, answers | 0.125 | 0.2 | 0.0001 | 2 | 1,300 |"
    assert "AIM 1 MB on mbi 2.0.0, 1 seed, stopped at 50% of its budget | 0.03 | 0.3" in lines[1]
    assert all("quoted" in line for line in lines[2:])
    assert len(lines) == 2 + len(quoted.FIGURES["adult", 2, 1.0])
    assert list(summary.lines(found, [peer], 3)) == []
    both = ours("residual", 0.5) | {"rows max": 0.5, "rows L1": 0.2, "rows abs": 1e-4}
    assert "| **residual**, rows and answers | 0.5 |" in next(summary.lines(summary.newest([both]), [], 2))
    once = summary.newest([both | {"runs": 1}])
    assert "rows and answers, 1 run |" in next(summary.lines(once, [], 2))
    old = summary.newest([both | {"runs": 2, "date": "2026-11-16T04:00:00+00:00"}])
    assert "rows and answers, 2 runs, earlier version |" in next(summary.lines(old, [], 2))
    apart = list(summary.lines(summary.newest([both | {"rows max": 0.75}]), [], 2))
    assert "**residual**, rows | 0.75" in apart[0]
    assert "**residual**, answers | 0.5" in apart[1]

"""The harness against overfitting: fixed halves, a double of the gate with the gate's own prices and laws, a score."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest
from benchmarks import __main__ as command
from benchmarks import families, tables
from benchmarks.families import cells, double, generators, score
from benchmarks.families.cells import Workload

import maquette as mq
from maquette.core.binned import Binned
from maquette.core.budget import UNITS, Budget
from maquette.core.noise import SystemNoise
from maquette.core.rows.engine import distances
from maquette.domain import Relation
from maquette.errors import BudgetExceeded
from maquette.releasing import planning
from maquette.releasing.request import Request

SMALL = [
    (kind, v) for kind in generators.KINDS for v in range(6) if generators.records(kind, v) in (500, 8_000)
]


def test_the_halves_are_fixed_and_share_no_table():
    tuning, judging = (cells.names(half, real=True) for half in cells.HALVES)
    assert not set(tuning) & set(judging)
    made = [name for name in tuning + judging if name.partition("-")[0] in generators.KINDS]
    assert len(made) == 78
    assert len(tuning) == len(judging) == 45
    assert set(cells.REAL_TUNING + cells.REAL_JUDGING) == {*tables.FILES, *tables.OTHER_FILES}
    for half in (tuning, judging):
        sizes = {generators.records(*_parts(name)) for name in half if name in made}
        assert sizes == set(generators.RECORDS)


@pytest.mark.parametrize(("kind", "variant"), SMALL)
def test_generated_tables_are_the_same_every_time_and_fit_their_domain(kind, variant):
    one, two = generators.make(kind, variant), generators.make(kind, variant)
    assert one.source.equals(two.source)
    assert len(one.source) == generators.records(kind, variant)
    assert len(one.domain) >= 6
    for attribute in one.domain:
        codes = one.source.column(attribute.name).to_numpy()
        assert codes.max() < attribute.size
        assert len(np.unique(codes)) > 1


def _parts(name):
    kind, _, variant = name.partition("-")
    return kind, int(variant)


def _pmf_gaussian(sigma, places):
    wide = np.arange(-400, 401)
    return np.exp(-(places**2) / (2 * sigma**2)) / np.exp(-(wide**2) / (2 * sigma**2)).sum()


def _pmf_laplace(scale, places):
    return np.tanh(1 / (2 * scale)) * np.exp(-np.abs(places) / scale)


def _fits(sample, pmf):
    """Is the law within reach of the sample, by its distribution function? False by chance once in 10^9."""
    reach = int(np.abs(sample).max()) + 1
    places = np.arange(-reach, reach + 1)
    share = np.bincount(sample + reach, minlength=len(places)) / len(sample)
    gap = np.abs(np.cumsum(share) - np.cumsum(pmf(places))).max()
    return bool(gap < np.sqrt(np.log(2e9) / (2 * len(sample))))


@pytest.mark.parametrize("sigma", [0.7, 4.0, 11.9, 12.1, 40.0])
def test_the_double_draws_the_gates_gaussian_law_and_no_other(sigma):
    zeros = np.zeros(200_000, dtype=np.int64)
    sample = double.FastNoise([1]).gaussian(zeros, sigma=sigma)
    assert _fits(sample, lambda places: _pmf_gaussian(sigma, places))
    assert not _fits(sample, lambda places: _pmf_gaussian(1.06 * sigma, places))
    real = SystemNoise().gaussian(zeros, sigma=sigma)
    assert _fits(real, lambda places: _pmf_gaussian(sigma, places))


@pytest.mark.parametrize("scale", [0.4, 3.0, 25.0])
def test_the_double_draws_the_gates_laplace_law_and_no_other(scale):
    zeros = np.zeros(200_000, dtype=np.int64)
    sample = double.FastNoise([2]).laplace(zeros, scale=Fraction(scale))
    assert _fits(sample, lambda places: _pmf_laplace(scale, places))
    assert not _fits(sample, lambda places: _pmf_laplace(1.08 * scale, places))
    assert _fits(
        SystemNoise().laplace(zeros, scale=Fraction(scale)), lambda places: _pmf_laplace(scale, places)
    )


@pytest.mark.parametrize("method", ["exponential", "permute-and-flip"])
def test_the_double_chooses_as_the_gate_does(method):
    scores, scale, runs = np.array([0, 1, 3], dtype=np.int64), 2.0, 4_000
    noise, real = double.FastNoise([3]), SystemNoise()
    shares = [
        np.bincount([source.select(scores, scale=scale, method=method) for _ in range(runs)], minlength=3)
        / runs
        for source in (noise, real)
    ]
    assert np.abs(shares[0] - shares[1]).max() < 0.05
    if method == "exponential":
        weights = np.exp(scores / scale)
        assert np.abs(shares[0] - weights / weights.sum()).max() < 0.035


@pytest.fixture(scope="module")
def small():
    made = generators.make("clique", 5)
    return made, cells.Loaded("clique-5", double.engine_of(made.open()))


@pytest.mark.parametrize("mechanism", ["residual", "sculpt", "histogram-laplace"])
def test_the_double_pays_what_a_real_release_pays(small, mechanism):
    made, loaded = small
    pure = mechanism == "histogram-laplace"
    workload = Workload(1 if pure else 2, 1.0, pure)
    queries, _, _ = loaded.workload(workload.k)
    if pure:  # few cells, so that a histogram can be made
        queries = mq.marginals(made.domain, attributes=[made.domain.names[:2]])
        loaded = cells.Loaded("part", loaded.counts)
        object.__setattr__(
            loaded, "workload", lambda k: (queries, "part", loaded.counts.answer(queries.to_forms()))
        )
    outcome, curator = cells.release(loaded, workload, mechanism, seed=0)
    request = Request(
        queries=queries, epsilon=1.0, delta=0.0 if pure else cells.DELTA, mechanism=mechanism, beta=0.05,
        groups=False, rows=None, post="auto", typical_rows=100_000,
    )  # fmt: skip
    plan = planning.plan_of(request)
    ledger = mq.Ledger.memory(
        budget=plan.budget,
        relation=Relation.ADD_REMOVE,
        domain_fingerprint=made.domain.fingerprint,
        name="double",
    )
    done = mq.release(
        made.open(), queries, epsilon=1.0, delta=request.budget.delta, mechanism=mechanism, ledger=ledger
    )
    certificates = ("largest error", "class errors", "combination errors")
    real = [s for s in done.spending if s.asked not in certificates]
    ours = [event.cost(plan.budget.unit).units / UNITS for event in curator.events]
    assert [s.tag for s in real][:2] == [event.tag for event in curator.events][:2]
    stages = 1 if mechanism == "sculpt" else len(real)  # later ones follow the noisy number of records
    assert ours[:stages] == [s.amount for s in real][:stages]
    assert sum(ours) == pytest.approx(sum(s.amount for s in real), rel=1e-3)
    assert len(outcome.answers.numerators) == queries.count


def test_the_double_refuses_what_its_budget_does_not_cover(small):
    curator = double.FastCurator(
        small[1].counts, budget=Budget(1.0, 1e-9), relation=Relation.ADD_REMOVE, seed=[0]
    )
    curator.size(price=curator.left / 2)
    with pytest.raises(BudgetExceeded):
        curator.size(price=curator.left * 2)


def test_stored_counts_are_the_engines(small):
    made, loaded = small
    engine, (a, b, c) = made.open()._engine, made.domain.names[:3]
    cut = tuple(range(0, made.domain[b].size, 2))
    every = tuple(range(made.domain[a].size))
    asked = [Binned((a, b), (every, cut)), Binned((c,), ((0,),))]
    for _ in range(2):
        for ours, exact in zip(loaded.counts.binned(asked), engine.binned(asked), strict=True):
            assert (ours == exact).all()
    assert (distances(loaded.counts, asked, [np.zeros(t.cells, np.int64) for t in asked]) == 500).all()


def test_counts_of_large_tables_are_not_folded(small, monkeypatch):
    made, loaded = small
    monkeypatch.setattr(double, "MAX_FOLDED_CELLS", 10)
    a, b = made.domain.names[:2]
    asked = [Binned((a,), ((0, 1),)), Binned((a, b), ((0, 1), (0,)))]
    for ours, exact in zip(loaded.counts.binned(asked), made.open()._engine.binned(asked), strict=True):
        assert (ours == exact).all()


def _figure(table, cell, **mechanisms):
    return {"table": table, "cell": cell, "mechanisms": mechanisms}


def _errors(largest, l1, code="old"):
    return {"code": code} | _measured(largest, l1)


def _measured(largest, l1):
    both = {f"{of} max": largest for of in ("rows", "answers")} | {
        f"{of} L1": l1 for of in ("rows", "answers")
    }
    return {"seeds": 4, "of seeds": 4} | both


@pytest.fixture
def stored():
    found = score.Stored({}, {})
    found.add(_figure("tree-0", "2@1", sculpt=_errors(0.2, 0.1), residual=_errors(0.1, 0.4)))
    found.add(_figure("tree-0", "2@1", sculpt=_errors(0.05, 0.05, "new")))
    found.add(_figure("tree-1", "2@1", sculpt=_errors(0.1, 0.1), residual={"code": "old", "refused": "no"}))
    return found


def test_the_score_is_a_geometric_mean_of_ratios_to_the_best(stored):
    others = {("tree-0", "2@1"): {"MST": {"rows max": 0.5, "rows L1": 0.2}}}
    ratios = score.ratios(stored, others)
    assert {(r.number, r.value) for r in ratios} == {
        ("rows max", 0.5), ("answers max", 0.5), ("rows L1", 0.25), ("answers L1", 0.25),
    }  # fmt: skip
    assert score.score(ratios) == pytest.approx(0.125**0.5)
    assert {r.value for r in score.ratios(stored, {}, code="old")} == {2.0, 0.25}
    assert {r.value for r in score.ratios(stored, {}, against="first")} == {0.25, 0.5}
    assert score.ratios(stored, {}, half="judging") == []
    printed = "\n".join(score.lines(ratios))
    assert "| all | rows max | 1 | 0.500 | 100% | 100% | 0.50 |" in printed
    assert next(score.lines([])) == "nothing to compare yet"


def test_what_is_stored_is_not_measured_again(stored):
    key = ("tree-0", "2@1")
    assert stored.has(key, "sculpt", "new", seeds=4)
    assert not stored.has(key, "sculpt", "newer", seeds=4)
    assert not stored.has(key, "sculpt", "new", seeds=5)
    assert stored.has(key, "residual", "newer", seeds=4)
    assert stored.has(("tree-1", "2@1"), "residual", "newer", seeds=4)
    assert not stored.has(("tree-2", "2@1"), "residual", "old", seeds=4)


def test_peers_are_read_where_the_workload_is_the_same():
    found = score.peers(command.RESULTS / "peers.jsonl")
    assert found["msnbc", "2@1"]["mst"]["rows max"] == pytest.approx(0.02689)
    assert "AIM (mbi 2.0.0, 1 MB model, trained for 2-way marginals)" in found["adult", "3@10"]
    assert ("nist_acs", "3@1") not in found  # only narrow marginals were compared there


def test_a_run_goes_on_where_it_was_broken_off(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(command, "RESULTS", tmp_path)
    words = ["--only", "clique-5", "--cells", "2@1", "--mechanisms", "sculpt", "residual", "--seeds", "2"]
    monkeypatch.setattr(cells, "measure", lambda *_args, **_options: _measured(0.1, 0.2))
    command.main(["families", *words])
    (line,) = (tmp_path / "families.jsonl").read_text().splitlines()
    figures = json.loads(line)["figures"]
    assert json.loads(line)["command"] == "python -m benchmarks families --only clique-5 --cells 2@1"
    assert set(figures["mechanisms"]) == {"sculpt", "residual"}
    assert (figures["half"], figures["n"]) == ("judging", 500)
    assert "| all | rows max | 1 | 1.000 |" in capsys.readouterr().out
    families.main([*words, "--results", str(tmp_path / "more.jsonl")])
    assert not (tmp_path / "more.jsonl").exists()
    monkeypatch.setattr(cells, "code", lambda: "changed")
    families.main([*words, "--results", str(tmp_path / "more.jsonl")])
    assert set(json.loads((tmp_path / "more.jsonl").read_text())["figures"]["mechanisms"]) == {"sculpt"}


@pytest.mark.slow
def test_a_cell_is_measured_by_seeds_and_in_bounded_time(small):
    loaded = small[1]
    found = cells.measure(loaded, Workload.parse("2@1"), "sculpt", seeds=range(2), seconds=100)
    assert (found["seeds"], found["of seeds"]) == (2, 2)
    assert 0 < found["rows L1"] < 1
    assert found["rows max"] <= found["rows L1"]
    again = cells.measure(loaded, Workload.parse("2@1"), "sculpt", seeds=range(2), seconds=100)
    assert {k: v for k, v in found.items() if "seconds" not in k} == {
        k: v for k, v in again.items() if "seconds" not in k
    }
    assert "refused" in cells.measure(loaded, Workload.parse("2@1-pure"), "residual", seconds=100)
    stopped = cells.measure(loaded, Workload.parse("2@1"), "sculpt", seconds=1e-4)
    assert stopped == {"stopped after processor seconds": 1e-4}


def test_words_that_no_benchmark_knows_are_refused(capsys):
    for words in (["families", "--cells", "two"], ["imports", "--quick"], ["all", "--quick"]):
        with pytest.raises(SystemExit) as ended:
            command.main(words)
        assert ended.value.code == 2
    capsys.readouterr()

"""SmallDB as a mechanism: recognised classes, refusals before any data, rows, both relations, both units."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import scipy
from typer.testing import CliRunner

import maquette as mq
from maquette.cli.app import app
from maquette.core.budget import Unit
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.errors import MechanismError
from maquette.mechanisms.base import Task
from maquette.mechanisms.smalldb import SMALLDB, SmallDb
from maquette.mechanisms.smalldb_routes import Route, find_route
from maquette.queries import boxes, marginals, prefixes, ranges, where
from maquette.samplers.brackets import Scale
from maquette.samplers.lists import Listed as ListedCounter
from maquette.samplers.structures import Blocks, Forest, Intervals, Listed, Nested, Thresholds, Trellis
from maquette.samplers.trellis import Trellis as TrellisCounter
from maquette.theory import smalldb as theory
from maquette.theory.existence import Facts, log_tree
from support.draw_cases import listed, tree_weight
from support.priced import priced

DOMAIN = Domain(
    (
        Attribute("age", Kind.ORDINAL, codes=64, nullable=True),
        Attribute("pay", Kind.ORDINAL, codes=32),
        Attribute("sex", Kind.BOOLEAN, codes=2),
        Attribute("vet", Kind.BOOLEAN, codes=2),
        Attribute("job", Kind.CATEGORICAL, codes=5),
    )
)
CLASSES = {
    "thresholds": (lambda d: prefixes(d, "age"), Thresholds),
    "intervals": (lambda d: ranges(d, "pay"), Intervals),
    "histogram": (lambda d: marginals(d, attributes=[("job",)]), Nested),
    "dyadic": (lambda d: boxes(d, [{"pay": (0, 15)}, {"pay": (16, 31)}, {"pay": (0, 7)}]), Nested),
    "one-way": (lambda d: marginals(d, k=1), Blocks),
    "forest": (lambda d: marginals(d, attributes=[("sex", "vet"), ("sex",)]), Forest),
    "mixed": (
        lambda d: prefixes(d, "age") + ranges(d, "pay") + marginals(d, attributes=[("sex", "vet")]),
        Blocks,
    ),
    "windows": (lambda d: boxes(d, [{"pay": (i, i + 1)} for i in range(31)]), Trellis),
    "enumeration": (lambda d: where(d, "sex = 1 or vet = 1"), Listed),
}


def test_the_states_of_a_trellis_stay_below_the_public_bound_whatever_the_table():
    route = find_route(CLASSES["windows"][0](DOMAIN))
    assert isinstance(route.structure, Trellis)
    layout, m = route.structure.layout, 6
    rng = np.random.default_rng(4)
    seen = 0
    for n in (0, 1, 7, 60):
        records = rng.multinomial(n, rng.dirichlet(np.full(route.structure.atoms.count, 0.3)))
        counter = TrellisCounter(route.structure.atoms, layout, records, Scale(m, 1), sequences=False)
        for level in {0, counter.start, counter.top}:
            ways = counter._ways(level)
            for layer, states in zip(layout.layers, ways, strict=True):
                assert len(states) <= layer.states(m, counting=True)
            seen = max(seen, sum(map(len, ways)))
    assert seen > layout.states(m) / 10  # the bound is no fantasy


def test_odd_families_beyond_the_cap_are_refused_with_their_cost():
    domain = Domain((Attribute("x", Kind.ORDINAL, codes=64),))
    wide = boxes(domain, [{"x": (i, i + 20)} for i in range(43)])
    refusal = SMALLDB.prepare(task(wide, rows=30), n=1000).forecast.refusal
    assert refusal is not None
    route = find_route(boxes(domain, [{"x": (i, i + 1)} for i in range(63)]))
    assert isinstance(route.structure, Trellis)
    assert route.refusal(route.most_rows()) is None
    assert "states" in route.refusal(route.most_rows() + 1)


def columns_of(n: int) -> dict[str, list[int]]:
    rng = np.random.default_rng(1)
    return {a.name: np.minimum(rng.poisson(a.cells / 4, n), a.cells - 1).tolist() for a in DOMAIN}


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("name", CLASSES)
def test_every_class_is_recognised_and_released(name, relation):
    make, structure = CLASSES[name]
    queries = make(DOMAIN)
    route = find_route(queries)
    assert route is not None
    assert isinstance(route.structure, structure)
    table = mq.open(columns_of(200), domain=DOMAIN)
    release = mq.release(
        table, queries, epsilon=1.0, relation=relation, mechanism="smalldb", rows=6, ledger="memory"
    )
    assert release.database is not None
    assert release.database.m == 6
    assert set(release.database.columns) == set(queries.attributes)
    again = release.database.answer(queries)
    assert release.answers.fractions.tolist() == again.fractions.tolist()
    assert release.exactness == "exact"
    assert release.parameters["sampler"] == route.structure.kind
    assert release.parameters["m"] == 6
    spent = {s.tag for s in release.spending}
    assert "pure" in spent


def test_a_budget_with_delta_buys_more_by_bounded_range():
    table = mq.open(columns_of(200), domain=DOMAIN)
    release = mq.release(
        table,
        prefixes(DOMAIN, "age"),
        epsilon=1.0,
        delta=1e-6,
        mechanism="smalldb",
        rows=6,
        certificate=0.05,
        ledger="memory",
        accounting="zcdp",  # or the delta is left aside where pure noise states less
    )
    rho = float(release.budget.total_units) / 1e12
    assert float(Fraction(release.parameters["epsilon of the draw"])) == pytest.approx(
        math.sqrt(8 * rho * 0.95 * 0.95), rel=1e-3
    )


class Untouchable:
    domain = DOMAIN

    def __getattr__(self, name: str):
        raise AssertionError(f"looked at the table: {name}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("queries", "rows", "said"),
    [
        (marginals(DOMAIN, k=3), None, "one-way marginals"),
        (marginals(DOMAIN, k=3), None, "use mechanism"),
        (marginals(DOMAIN, attributes=[("age", "pay")]), None, "no exact sampler"),
        (where(DOMAIN, "sex = 1") + where(DOMAIN, "vet = 1 or sex = 1"), 2000, "databases"),
        (prefixes(DOMAIN, "age"), 10**6, "fewer rows"),
    ],
)
def test_no_exact_path_is_refused_before_any_data_is_touched(queries, rows, said):
    table = mq.Table(Untouchable(), name="x", source="x")  # type: ignore[arg-type]
    with pytest.raises(MechanismError, match=said):
        mq.release(table, queries, epsilon=1.0, mechanism="smalldb", rows=rows, ledger="memory")


def test_refusals_name_the_class_its_cost_the_nearest_class_and_another_mechanism():
    refusal = SMALLDB.prepare(task(marginals(DOMAIN, k=3)), n=1000).forecast.refusal
    assert refusal is not None
    for said in ("3-way marginals", "10^", "one-way marginals", "'histogram-laplace'", "candidates"):
        assert said in refusal


def task(queries, *, rows=None, epsilon=1, relation=Relation.REPLACE_ONE) -> Task:
    return Task(queries, relation, Unit.EPSILON, Fraction(epsilon), 0.05, "auto", rows)


def test_forecasts_improve_with_records_and_privacy_and_name_the_sampler():
    errors = [
        (SMALLDB.prepare(task(prefixes(DOMAIN, "age")), n=n).forecast.expected or 1)
        for n in (100, 1000, 10_000, 100_000)
    ]
    bounds = [
        (SMALLDB.prepare(task(prefixes(DOMAIN, "age"), rows=20), n=n).forecast.guaranteed or 1)
        for n in (10_000, 100_000, 1_000_000)
    ]
    assert errors == sorted(errors, reverse=True)
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] < 0.05
    assert "thresholds, tree base" in SMALLDB.prepare(task(prefixes(DOMAIN, "age")), n=1000).forecast.notes[0]


def test_a_target_error_sets_the_rows():
    """The fewest rows whose best database is within alpha / 2 by any of the forms a to h."""
    general = Facts(universe=64, log_queries=math.log(100))
    assert theory.rows_for(replace(general, shape="thresholds"), alpha=0.05) == (10, "f")
    assert theory.rows_for(replace(general, shape="intervals"), alpha=0.05) == (20, "f")
    assert theory.rows_for(general, alpha=0.05) == (320, "b")  # 64 / (4 m), and 1,060 rows by sampling
    assert theory.rows_for(replace(general, universe=10**6), alpha=0.05) == (
        math.ceil(math.log(200) * 200),
        "a",
    )
    asked, _ = SmallDb(alpha=0.1).prepare(task(prefixes(DOMAIN, "age"))).draw_for(n=1000, epsilon=1.0)
    assert asked.m == 10


def test_options_are_given_with_the_mechanism_and_make_another_request():
    table = mq.open(columns_of(60), domain=DOMAIN)
    queries = prefixes(DOMAIN, "pay")
    asked = {"epsilon": 1.0, "total_epsilon": 5.0}
    aimed = mq.release(table, queries, mechanism=mq.SmallDb(alpha=0.25), ledger="memory", **asked)
    assert aimed.parameters["m"] == 4
    flat = mq.release(table, queries, mechanism=mq.SmallDb(alpha=0.25, base="flat"), ledger="memory", **asked)
    assert flat.parameters["base"] == "flat"
    assert flat.account.spent > aimed.account.spent
    again = mq.release(table, queries, mechanism=mq.SmallDb(alpha=0.25), ledger="memory", **asked)
    assert again.account.spent == flat.account.spent
    assert again.answers.numerators.tolist() == aimed.answers.numerators.tolist()
    rows = {a.name: np.random.default_rng(0).integers(0, a.size, (20, 7)) for a in DOMAIN}
    listed = mq.release(
        table, marginals(DOMAIN, k=3), mechanism=mq.SmallDb(candidates=rows), ledger="memory", **asked
    )
    assert listed.parameters["sampler"] == "candidates"
    assert listed.database.m == 7
    others = {name: codes[::-1] for name, codes in rows.items()}
    assert SmallDb(candidates=rows).to_dict() != SmallDb(candidates=others).to_dict()


@pytest.mark.slow
def test_a_target_error_on_the_command_line(tmp_path):
    DOMAIN.save(tmp_path / "d.json")
    columns = columns_of(20)
    lines = [
        ",".join(DOMAIN.names),
        *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True)),
    ]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    words = ["release", str(tmp_path / "t.csv"), "--domain", str(tmp_path / "d.json"), "--prefixes", "pay"]
    words += ["--epsilon", "1", "--alpha", "0.5", "-o", str(tmp_path / "out.maquette")]
    refused = CliRunner().invoke(app, words)
    assert refused.exit_code == 2
    assert "smalldb only" in refused.output
    done = CliRunner().invoke(app, [*words, "--mechanism", "smalldb"])
    assert done.exit_code == 0, done.output
    assert mq.load(tmp_path / "out.maquette").database.m == 2


def test_public_candidates_serve_any_class():
    rng = np.random.default_rng(0)
    rows = {a.name: rng.integers(0, a.size, (30, 20)) for a in DOMAIN}
    chosen = SmallDb(candidates=rows)
    queries = marginals(DOMAIN, k=2)
    assert chosen.prepare(task(queries), n=1000).forecast.refusal is None
    assert chosen.prepare(task(queries)).draw_for(n=1000, epsilon=1.0)[0].m == 20


@pytest.mark.parametrize(("universe", "m"), [(4, 3), (8, 3), (16, 2)])
def test_the_least_mass_of_the_tree_is_exact_for_powers_of_two(universe, m):
    from itertools import combinations_with_replacement

    least = min(tree_weight(s, 0, universe) for s in combinations_with_replacement(range(universe), m))
    assert log_tree(universe=universe, rows=m) == pytest.approx(-math.log(least))


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("flat", [0.2804718893, 0.2804718893, 0.1701148000, 0.1031798419, 0.1031798419, 0.0625817376]),
        ("sequence", [0.1805109607, 0.3610219214, 0.2189708642, 0.0664062714, 0.1328125427, 0.0402774396]),
    ],
)
def test_the_law_of_the_specification(base, expected):
    """X = {0, 1, 2}, two thresholds, x = (3, 1, 0), m = 2, epsilon = 1: the score without rounding (resolution m)."""
    case = listed(base, ((1, 0, 0), (1, 1, 0)), m=2, resolution=2)
    counter: ListedCounter = case.counter((3, 1, 0))
    weight = priced(Unit.EPSILON).draw(Fraction(1), resolution=2, what="test").decay
    masses = [
        w * weight ** counter.level(case.given(s)) for s, w in zip(case.smalls, case.weights, strict=True)
    ]
    assert [float(w / sum(masses)) for w in masses] == pytest.approx(expected, abs=1e-9)


RUNS = 200


@pytest.mark.slow
@pytest.mark.parametrize(
    ("relation", "options"),
    [("replace-one", {}), ("add-remove", {}), ("replace-one", {"mechanism": "roth", "weight": "weight"})],
    ids=["replace-one", "add-remove", "roth"],
)
def test_the_guarantee_holds_in_many_runs(relation, options):
    """Violations of B(m) at beta = 0.3 in 200 runs are rarer than a binomial tail of 1e-6 allows."""
    domain = Domain(
        (Attribute("pay", Kind.ORDINAL, codes=8), Attribute("weight", Kind.ORDINAL, categories=(1, 2)))
    )
    queries = prefixes(domain, "pay")
    rng = np.random.default_rng(6)
    columns = {"pay": rng.integers(0, 8, 300), "weight": rng.integers(1, 3, 300)}
    weights = columns["weight"] if options else np.ones(300, dtype=np.int64)
    exact = np.array([weights[columns["pay"] <= j].sum() for j in range(8)]) / weights.sum()
    table = mq.open({k: v.tolist() for k, v in columns.items()}, domain=domain)
    asked = {"mechanism": "smalldb", "epsilon": 0.5, "rows": 3, "beta": 0.3, "certificate": 0.0} | options
    worse = near = 0
    for i in range(RUNS):
        made = mq.release(
            table, queries, relation=relation, key=f"k{i}", total_epsilon=RUNS, ledger="memory", **asked
        )
        gap = np.abs(made.answers.fractions - exact).max()
        worse += gap > made.guarantee.alpha
        near += gap > made.guarantee.alpha / 8
    assert worse <= scipy.stats.binom.isf(1e-6, RUNS, 0.3)
    assert near > 0  # the count would have seen something


def test_rows_that_would_take_hours_are_refused_with_the_time():
    names = [f"b{i}" for i in range(200)]
    domain = Domain(tuple(Attribute(name, Kind.BOOLEAN, codes=2) for name in names))
    chain = marginals(domain, attributes=[list(pair) for pair in pairwise(names)])
    route = find_route(chain)
    assert isinstance(route.structure, Forest)
    assert route.seconds(route.most_rows()) <= 3600
    assert route.refusal(route.most_rows()) is None
    table = mq.Table(Untouchable(), name="x", source="x")  # type: ignore[arg-type]
    with pytest.raises(MechanismError, match="hours"):
        mq.release(table, chain, epsilon=1.0, mechanism="smalldb", rows=2000, ledger="memory")


def test_an_enumeration_that_no_memory_holds_is_refused_before_the_gate_is_asked():
    """Two atoms make m + 1 databases of m rows: few databases, and a trillion rows."""
    queries = where(DOMAIN, "age = 1")
    route = Route(Listed(queries), "flat", Facts(universe=2, log_queries=0.0), (2,))
    assert route.refusal(1000) is None
    assert "of all together" in (route.refusal(10**6) or "")

"""What nobody measured is not in a release: no column, no chart, no answer, whatever mechanism made it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import maquette as mq
from maquette.domain import Attribute, Domain, Kind
from maquette.domain.constraint import Determines, Never
from maquette.errors import MechanismError, ReleaseError
from maquette.mechanisms.base import MECHANISMS
from maquette.models import constraints
from maquette.models.answers import SmallDatabase, generator
from maquette.queries import marginals, predicates, prefixes, union, weights
from maquette.results import loading
from support.edited_folder import edit_json

DOMAIN = Domain(
    (
        Attribute("age", Kind.ORDINAL, codes=8),
        Attribute("sex", Kind.ORDINAL, codes=2),
        Attribute("race", Kind.ORDINAL, codes=4),
        Attribute("weight", Kind.NUMERIC, bounds=(0.0, 4.0), bins=4),
    )
)
N = 400


def table(domain: Domain = DOMAIN) -> mq.Table:
    rng = np.random.default_rng(3)
    columns: dict[str, Any] = {a.name: rng.integers(0, a.cells, N) for a in domain}
    if "weight" in columns:
        columns["weight"] = columns["weight"] + 0.5
    return mq.open({name: column.tolist() for name, column in columns.items()}, domain=domain)


def made(name: str, queries: Any, **changes: Any) -> Any:
    options: dict[str, Any] = {
        "epsilon": 2.0,
        "delta": 1e-6,
        "mechanism": name,
        "certificate": 0.0,
        "ledger": "memory",
    }
    if name == "roth":
        options["weight"] = "weight"
    if name == "knorm":
        options["relation"] = "replace-one"  # what a record moves fills too little of its box under the other
    return mq.release(table(queries.domain), queries, **(options | changes))


ORDERED = [name for name in MECHANISMS if not name.startswith("residual")]
CASES = [
    *((name, prefixes(DOMAIN, "age"), {"age"}) for name in ORDERED),
    *(
        (name, marginals(DOMAIN, attributes=[("age", "sex")]), {"age", "sex"})
        for name in ("residual", "residual-cells", "sculpt")
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "queries", "looked_at"), CASES, ids=lambda case: getattr(case, "kind", None)
)
def test_every_mechanism_holds_and_answers_what_it_measured(name, queries, looked_at, tmp_path):
    release = made(name, queries)
    # sculpt measures the one-way tables of the whole domain where cells do not stand clear of the noise
    measured = set(release.measured)
    everything = name == "sculpt" and "parts_measured_directly" in release.parameters
    assert measured == (set(DOMAIN.names) if everything else looked_at)
    assert release.unmeasured == tuple(n for n in DOMAIN.names if n not in measured)
    assert release.database is not None
    assert set(release.database.columns) == measured
    assert set(release.rows.column_names) == measured
    again = loading.load(release.save(tmp_path / "made", report=False))
    assert set(pq.read_table(tmp_path / "made" / "rows.parquet").column_names) == measured
    document = json.loads((tmp_path / "made" / "release.json").read_text())
    assert set(document["attributes"]["measured"]) == measured
    for one in (release, again):
        assert one.answer("age >= 4").value == pytest.approx(0.5, abs=0.45)
        if "race" not in measured:
            for question in ("race = 1", "age >= 4 and race = 1", "race = 1 or sex = 0"):
                with pytest.raises(ReleaseError, match=r"race.* not measured by this release.* or a session"):
                    one.answer(question)


def test_all_mechanisms_are_tried():
    assert {name for name, _, _ in CASES} == set(MECHANISMS)


def test_the_report_draws_no_invented_chart_and_names_what_is_missing():
    page = made("smalldb", prefixes(DOMAIN, "age")).report()
    assert re.findall(r"<figcaption>(\w+)</figcaption>", page) == ["age"]
    assert re.search(r"Not in this release:</strong> sex, race, weight\.", page)
    assert "sex, race, weight" in made("smalldb", prefixes(DOMAIN, "age")).facts()["not measured"]
    whole = made("laplace", marginals(DOMAIN, k=1)).report()
    assert "Not in this release" not in whole


def test_an_older_folder_stops_showing_what_it_made_up(tmp_path):
    release = made("smalldb", prefixes(DOMAIN, "age"))
    folder = release.save(tmp_path / "old", report=False)
    m = release.database.m
    invented = {n: release.database.columns.get(n, np.zeros(m, np.uint8)) for n in DOMAIN.names}
    pq.write_table(pa.table(invented), folder / "codes.parquet")
    edit_json(folder, "release.json", lambda manifest: manifest.pop("attributes"))
    old: Any = loading.load(folder)
    assert tuple(old.database.columns) == old.measured == ("age",)
    with pytest.raises(ReleaseError, match="race was not measured"):
        old.answer("race = 1")


def test_rows_without_a_measured_attribute_are_refused():
    release = made("laplace", marginals(DOMAIN, k=1))
    rest = {name: codes for name, codes in release.database.columns.items() if name != "race"}
    with pytest.raises(ReleaseError, match="lack the measured attribute 'race'"):
        replace(release, database=SmallDatabase(rest))


def test_what_was_measured_one_by_one_is_said_to_be_combined_by_assumption():
    release = made("laplace", marginals(DOMAIN, attributes=[("age", "sex"), ("race",)]))
    alone = release.answer("age >= 4 and sex = 1")
    assert alone.source == "workload"
    mixed = release.answer("age >= 4 and race = 1")
    assert mixed.high <= release.answer("race = 1").high  # no more than of its parts
    assert any("age and race together" in note and "assumption" in note for note in mixed.notes)


def test_a_constant_query_says_nothing_about_the_attributes_that_it_names():
    constant = weights(DOMAIN, np.ones((1, 4)), attributes=["race"])
    release = made("laplace", union(prefixes(DOMAIN, "age"), constant))
    assert release.measured == ("age",)
    assert set(release.database.columns) == {"age"}
    assert mq.evaluate(release, table()).groups
    with pytest.raises(ReleaseError, match="race was not measured"):
        release.answer("race = 1")


def test_attributes_of_one_cell_are_known_without_a_measurement():
    domain = Domain((*DOMAIN.attributes[:2], Attribute("country", Kind.ORDINAL, codes=1)))
    release = made("laplace", prefixes(domain, "age"))
    assert "country" in release.measured
    assert release.answer(weights(domain, [[1]], attributes=["country"])).value == 1.0


def test_predicates_measure_the_attributes_they_name():
    release = made("laplace", predicates(DOMAIN, ["age >= 4 and sex = 1", "race = 2"]))
    assert release.measured == ("age", "sex", "race")
    assert frozenset({("age", "sex"), ("race",)}) == release.measured_together


CONSTRAINED = Domain(
    (
        Attribute("zip", Kind.ORDINAL, codes=6),
        Attribute("town", Kind.ORDINAL, codes=3),
        Attribute("state", Kind.ORDINAL, codes=2),
        Attribute("kind", Kind.ORDINAL, codes=2),
    ),
    constraints=(
        Determines("town", by="zip", map={str(i): i // 2 for i in range(6)}),
        Determines("state", by="town", map={"0": 0, "1": 0, "2": 1}),
        Never({"state": [1], "kind": [1]}),
    ),
)


def possible(names: tuple[str, ...]) -> set[tuple[int, ...]]:
    """Brute force: the combinations of some attributes that some whole record has."""
    cells = np.stack([axis.ravel() for axis in np.indices(CONSTRAINED.shape)])
    columns = dict(zip(CONSTRAINED.names, cells, strict=True))
    good = constraints.compile(CONSTRAINED).allowed(columns)
    return set(zip(*(columns[name][good].tolist() for name in names), strict=True))


@pytest.mark.parametrize("names", [("zip", "kind"), ("zip", "state"), ("town", "kind"), ("kind",), ("zip",)])
def test_rows_of_some_attributes_meet_what_the_constraints_say_of_them(names):
    compiled = constraints.compile(CONSTRAINED, names)
    cells = np.stack([axis.ravel() for axis in np.indices([CONSTRAINED[n].size for n in names])])
    rows = dict(zip(names, cells, strict=True))
    good = possible(names)
    expected = [row in good for row in zip(*(rows[n].tolist() for n in names), strict=True)]
    assert compiled.allowed(rows).tolist() == expected
    mended = compiled.mend(SmallDatabase(rows), rng=generator("a")).columns
    assert set(zip(*(mended[n].tolist() for n in names), strict=True)) <= good
    kept = np.array(expected)
    assert all((mended[n][kept] == rows[n][kept]).all() for n in names)


@pytest.mark.parametrize("name", ["laplace", "histogram-gaussian", "mwem", "sculpt"])
def test_released_rows_of_some_attributes_meet_the_constraints(name):
    queries = marginals(CONSTRAINED, attributes=[("zip", "kind")])
    release = made(name, queries, epsilon=0.3)
    names = tuple(release.database.columns)
    assert {"zip", "kind"} <= set(names)
    assert set(zip(*(release.database.columns[n].tolist() for n in names), strict=True)) <= possible(names)


@pytest.mark.parametrize("mechanism", ["pmw", "direct", "median"])
def test_rows_of_a_session_hold_what_was_asked_about(mechanism):
    more: Any = {"attributes": ["sex", "race"]} if mechanism == "median" else {"alpha": 0.3}
    session = mq.session(table(), epsilon=40.0, mechanism=mechanism, queries=5, ledger="memory", **more)
    with pytest.raises(MechanismError, match="nothing is known to make rows from"):
        session.synthetic(10)
    session.ask("sex = 1", allow_useless=True)
    assert session.synthetic(10).column_names == ["sex"]
    session.ask("race = 2 and sex = 1", allow_useless=True)
    assert session.synthetic(10).column_names == ["sex", "race"]

"""Declared constraints: their file, what is refused, and rows that meet them."""

from __future__ import annotations

import itertools
import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import maquette as mq
from maquette.domain import Attribute, Determines, Domain, Kind, Never
from maquette.domain.constraint import complete
from maquette.domain.remarks import check
from maquette.errors import DomainError, MechanismError
from maquette.mechanisms import postprocess
from maquette.models import constraints as ready
from maquette.models.answers import SmallDatabase, generator
from support.cli_files import call, refused

AGE = Attribute("age", Kind.NUMERIC, bounds=(0, 90), bins=5, integer=True, nullable=True)
MARITAL = Attribute("marital", Kind.CATEGORICAL, categories=("Single", "Married", "Widowed"), overflow=True)
SCHOOL = Attribute("school", Kind.ORDINAL, categories=("none", "school", "college"), nullable=True)
YEARS = Attribute("years", Kind.ORDINAL, codes=4, nullable=True)

CHILDREN = {"never": {"age": {"to": 18}, "marital": {"not": ["Single"]}}}
MAPPED = {
    "determines": "years",
    "by": ["school"],
    "map": {"none": 0, "school": [1, 2], "college": 3, "(missing)": None},
}


def people(*constraints, **options) -> Domain:
    data = {"attributes": Domain((AGE, MARITAL, SCHOOL, YEARS)).to_dict()["attributes"], **options}
    return Domain.from_dict(data | ({"constraints": list(constraints)} if constraints else {}))


def columns_of(domain: Domain) -> dict[str, np.ndarray]:
    """Every record of the universe."""
    cells = np.array(list(itertools.product(*(range(s) for s in domain.shape))))
    return {name: cells[:, i] for i, name in enumerate(domain.names)}


def meets(record: dict[str, int]) -> bool:
    """The two constraints above, said again in plain words."""
    child = record["age"] == 0
    if child and record["marital"] in (1, 2):
        return False
    years = {0: (0,), 1: (1, 2), 2: (3,), 3: (4,)}[record["school"]]
    return record["years"] in years


def test_the_compiled_rules_say_what_was_declared():
    domain = people(CHILDREN, MAPPED)
    columns = columns_of(domain)
    expected = [
        meets(dict(zip(domain.names, r, strict=True))) for r in zip(*map(list, columns.values()), strict=True)
    ]
    compiled = ready.compile(domain)
    assert compiled.allowed(columns).tolist() == expected
    assert compiled.on_cells(domain.names).ravel().tolist() == expected
    assert 0 < sum(expected) < len(expected)
    assert compiled.on_cells(("years",)).all()


@pytest.mark.slow
def test_the_mask_is_what_may_stand_beside_the_rest():
    domain = people(CHILDREN, MAPPED)
    compiled = ready.compile(domain)
    columns = columns_of(domain)
    rows = np.stack(list(columns.values()), axis=1)
    for i in range(0, len(rows), 7):
        for a, size in enumerate(domain.shape):
            out = np.zeros(size, dtype=bool)
            found = ready.mask(a, rows[i], out, compiled.flat)
            tried = np.repeat(rows[i : i + 1], size, axis=0)
            tried[:, a] = np.arange(size)
            expected = np.ones(size, dtype=bool)
            for rule in compiled.rules:
                if domain.names[a] in rule.names:
                    expected &= rule.allowed[tuple(tried[:, domain.index(name)] for name in rule.names)]
            assert out.tolist() == expected.tolist()
            assert found == expected.sum()


@pytest.mark.slow
def test_rows_are_mended_and_good_ones_left_alone():
    domain = people(CHILDREN, MAPPED)
    compiled = ready.compile(domain)
    rows = SmallDatabase({n: c.astype(np.uint8) for n, c in columns_of(domain).items()})
    good = compiled.allowed(rows.columns)
    mended = compiled.mend(rows, rng=generator("a"))
    assert compiled.allowed(mended.columns).all()
    for name in domain.names:
        assert mended.columns[name].dtype == np.uint8
        assert (mended.columns[name][good] == rows.columns[name][good]).all()
    # what follows from others is set; what it follows from stays
    assert (mended.columns["school"] == rows.columns["school"]).all()
    again = compiled.mend(rows, rng=generator("a"))
    assert all((again.columns[n] == mended.columns[n]).all() for n in domain.names)
    assert compiled.mend(mended, rng=generator("b")) is mended


def test_rows_that_need_several_changes_at_once_are_found_by_search():
    bits = tuple(Attribute(n, Kind.BOOLEAN, codes=2) for n in "abc")
    # only 000 and 111 are left, so that no single change leads from 001 to a good row through good rows
    apart = [Never({x: [i], y: [1 - i]}) for x, y in ("ab", "bc", "ac") for i in (0, 1)]
    compiled = ready.compile(Domain(bits, constraints=tuple(apart)))
    rows = columns_of(compiled.domain)
    mended = compiled.mend(SmallDatabase(rows), rng=generator("c"))
    assert compiled.allowed(mended.columns).all()


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_mending_always_ends_in_allowed_rows(data):
    sizes = data.draw(st.lists(st.integers(2, 4), min_size=2, max_size=4))
    attributes = tuple(Attribute(f"x{i}", Kind.ORDINAL, codes=s) for i, s in enumerate(sizes))
    rules = []
    for _ in range(data.draw(st.integers(1, 4))):
        chosen = data.draw(st.lists(st.sampled_from(attributes), min_size=1, max_size=3, unique=True))
        rules.append(
            Never({a.name: data.draw(st.lists(st.integers(0, a.size - 1), min_size=1)) for a in chosen})
        )
    try:
        domain = Domain(attributes, constraints=tuple(rules))
    except DomainError:
        return
    every = columns_of(domain)
    free = Domain(attributes)
    good = np.ones(free.size, dtype=bool)
    for rule in domain.rules:
        good &= rule.allowed[tuple(every[name] for name in rule.names)]
    if not good.any():  # found out by the search, not by looking at one attribute at a time
        assert complete(domain.attributes, domain.rules, {}) is None
        with pytest.raises(DomainError, match="contradict"):
            ready.compile(domain)
        return
    compiled = ready.compile(domain)
    assert compiled.allowed(compiled.mend(SmallDatabase(every), rng=generator("d")).columns).all()


def test_a_file_keeps_its_constraints(tmp_path):
    domain = people(CHILDREN, MAPPED)
    domain.save(tmp_path / "d.json")
    again = Domain.load(tmp_path / "d.json")
    assert again == domain
    assert again.fingerprint == domain.fingerprint
    assert json.loads((tmp_path / "d.json").read_text())["constraints"][0] == CHILDREN
    assert hash(again) == hash(domain)


def test_python_and_file_say_the_same():
    never = Never({"age": {"to": 18}, "marital": ["Married", "Widowed"]})
    mapped = Determines("years", by="school", map={"none": 0, "school": (1, 2), "college": 3, None: None})
    domain = Domain((AGE, MARITAL, SCHOOL, YEARS), constraints=(mapped, never))
    assert domain.fingerprint == people(CHILDREN, MAPPED).fingerprint


def test_the_fingerprint_is_as_before_without_constraints_and_another_with():
    plain = people()
    assert "constraints" not in plain.to_dict()
    # fixed when constraints came: ledgers and releases of earlier versions hold such fingerprints
    assert plain.fingerprint == "4f3c60e06345ad55d1d04542b0c75fb73e04ca8e8eafd41f2e7d7aa9628597cf"
    assert len({plain.fingerprint, people(CHILDREN).fingerprint, people(CHILDREN, MAPPED).fingerprint}) == 3


def test_a_determination_by_two_attributes():
    tree = {"Single": {"none": 0}, "Married": {"none": [0, 1], "school": 2}}
    rule = Determines("years", by=("marital", "school"), map=tree)
    domain = Domain((AGE, MARITAL, SCHOOL, YEARS), constraints=(rule,))
    allowed = ready.compile(domain).on_cells(("marital", "school", "years"))
    assert allowed[0, 0].tolist() == [True, False, False, False, False]
    assert allowed[1, 0].tolist() == [True, True, False, False, False]
    assert allowed[1, 1].tolist() == [False, False, True, False, False]
    assert allowed[0, 1].all()
    assert Domain.from_dict(domain.to_dict()) == domain


def test_a_projection_keeps_the_constraints_on_its_attributes():
    domain = people(CHILDREN, MAPPED)
    assert [str(c) for c in domain.project(("school", "years")).constraints] == ["years determined by school"]
    assert domain.project(("age", "years")).constraints == ()


BAD = {
    "no object": (["x"], "constraint 1: expected"),
    "unknown word": ([{"nver": {}}], "constraint 1: expected"),
    "nothing named": ([{"never": {}}], 'constraint 1: "never" needs an object'),
    "unknown attribute": ([{"never": {"agee": [1]}}], "constraint 1 .never agee.: unknown attribute 'agee'; the"),
    "unknown cell": ([CHILDREN, {"never": {"marital": ["Wed"]}}], "constraint 2 .*'marital' has no cell 'Wed'"),
    "a number in a numeric list": ([{"never": {"age": [17]}}], "no cell 17 .numeric cells go by their label"),
    "no border": ([{"never": {"age": {"to": 17}}}], "17 is not a border"),
    "from in a category": ([{"never": {"marital": {"to": 17}}}], "for numeric attributes"),
    "text for a list": ([{"never": {"marital": "Single"}}], "expected a list of cells"),
    "odd words": ([{"never": {"age": {"upto": 17}}}], "expected .* got .'upto': 17"),
    "empty list": ([{"never": {"marital": []}}], "the list names no cell of 'marital'"),
    "not nullable": ([{"never": {"marital": [None]}}], "'marital' is not nullable"),
    "everything": ([{"never": {"marital": ["Single", "Married", "Widowed", "(other)"]}}], "forbids every record"),
    "contradiction": (
        [{"never": {"marital": ["Single", "Married"]}}, {"never": {"marital": ["Widowed", "(other)"]}}],
        "contradict each other: no value of 'marital' is left by: never marital; never marital"),
    "no map": ([{"determines": "years", "by": "school", "map": {}}], "at least one entry"),
    "by itself": ([{"determines": "years", "by": ["years"], "map": {"1": 1}}], "other attributes"),
    "flat map": ([{"determines": "years", "by": ["age", "school"], "map": {"none": 1}}], "one level of keys per"),
    "deep map": ([{"determines": "years", "by": "school", "map": {"none": {"x": 1}}}], "more levels"),
    "unknown key": ([{"determines": "years", "by": "school", "map": {"none": 0, "none ": 1}}], "no cell 'none '"),
    "unknown target cell": ([{"determines": "years", "by": "school", "map": {"none": 9}}], "'years' has no cell 9"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD, ids=str)
def test_a_bad_constraint_is_refused_by_number_and_name(case):
    constraints, words = BAD[case]
    with pytest.raises(DomainError, match=words):
        people(*constraints)


def test_one_cell_twice_in_a_map_is_refused():
    with pytest.raises(DomainError, match=r"the map of 'years' lists \(missing\) twice"):
        Domain(
            (SCHOOL, YEARS), constraints=(Determines("years", by="school", map={None: 1, "(missing)": 0}),)
        )


def test_a_constraint_on_too_many_cells_is_refused():
    wide = tuple(Attribute(n, Kind.ORDINAL, codes=10**4) for n in "ab")
    with pytest.raises(DomainError, match="100,000,000 cells"):
        Domain(wide, constraints=(Never({"a": [0], "b": [1]}),))


def test_the_review_tells_what_the_constraints_leave():
    def told(*constraints) -> list[str]:
        return [str(f) for f in check(people(*constraints))]

    assert not any("constraint" in line for line in told())
    lines = told(CHILDREN, MAPPED, {"never": {"marital": ["(other)"]}})
    assert any(line.startswith("note: domain: 3 constraints that every released row meets") for line in lines)
    assert any("'marital': by the constraints no record can be (other)" in line for line in lines)
    partial = told({"determines": "years", "by": "school", "map": {"none": 0}})
    assert any("3 of 4 cells of school have no entry" in line for line in partial)
    loose = told({"determines": "years", "by": "school", "map": {"none": [0, 1, 2, 3, None]}})
    assert any("rules nothing out" in line for line in loose)
    bits = tuple(Attribute(n, Kind.BOOLEAN, codes=2) for n in "abc")
    odd = [Never({x: [i], y: [i]}) for x, y in ("ab", "bc", "ac") for i in (0, 1)]
    found = [str(f) for f in check(Domain(bits, constraints=tuple(odd)))]
    assert any(line.startswith("error: domain: the constraints contradict") for line in found)


@pytest.mark.parametrize("mechanism", ["histogram-gaussian", "histogram-laplace", "residual", "gaussian"])
def test_released_rows_meet_the_constraints_whatever_the_records_are(mechanism):
    domain = people(CHILDREN, MAPPED)
    rng = np.random.default_rng(3)
    # records that break every constraint: counted like any other, and no error
    records = {
        name: rng.integers(0, size, 400) for name, size in zip(domain.names, domain.shape, strict=True)
    }
    made = mq.release(
        table_of(domain, records),
        mq.marginals(domain, k=2),
        epsilon=1.0,
        delta=1e-9,
        mechanism=mechanism,
        ledger="memory",
    )
    assert made.database is not None
    assert ready.compile(domain).allowed(made.database.columns).all()
    free = people()
    other = mq.release(
        table_of(free, records),
        mq.marginals(free, k=2),
        epsilon=1.0,
        delta=1e-9,
        mechanism=mechanism,
        ledger="memory",
    )
    assert other.database is not None
    assert not ready.compile(domain).allowed(other.database.columns).all()


def test_rows_are_mended_if_a_mechanism_does_not_know_of_constraints(monkeypatch):
    domain = people(CHILDREN, MAPPED)
    rng = np.random.default_rng(3)
    records = {
        name: rng.integers(0, size, 400) for name, size in zip(domain.names, domain.shape, strict=True)
    }
    monkeypatch.setattr(postprocess, "allowed_only", lambda _task, weights: weights)
    made = mq.release(
        table_of(domain, records),
        mq.marginals(domain, k=2),
        epsilon=1.0,
        delta=1e-9,
        mechanism="residual",
        ledger="memory",
    )
    assert made.database is not None
    assert ready.compile(domain).allowed(made.database.columns).all()
    assert any("changed to meet the constraints" in note for note in made.notes)


def test_constraints_that_no_record_meets_are_refused_before_anything_is_paid():
    bits = tuple(Attribute(n, Kind.BOOLEAN, codes=2) for n in "abc")
    odd = tuple(Never({x: [i], y: [i]}) for x, y in ("ab", "bc", "ac") for i in (0, 1))
    domain = Domain(bits, constraints=odd)
    table = table_of(domain, {n: np.zeros(4, int) for n in "abc"})
    ledger = mq.Ledger.memory(
        budget=mq.Budget(1.0, 1e-9),
        relation=mq.Relation.ADD_REMOVE,
        domain_fingerprint=domain.fingerprint,
        name="t",
    )
    with pytest.raises(DomainError, match="contradict"):
        mq.release(table, mq.marginals(domain, k=1), epsilon=1.0, delta=1e-9, ledger=ledger)
    assert ledger.balance().spent_units == 0
    assert not list(ledger.entries(kind="reserve"))


def table_of(domain: Domain, codes: dict[str, np.ndarray]) -> mq.Table:
    import pyarrow

    values = {}
    for attribute in domain:
        decoded, missing = attribute.decode(codes[attribute.name])
        values[attribute.name] = [
            None if gone else v for v, gone in zip(decoded.tolist(), missing, strict=True)
        ]
    return mq.open(pyarrow.table(values), domain=domain)


def test_smalldb_refuses_a_domain_with_constraints():
    domain = Domain((Attribute("a", Kind.ORDINAL, codes=8),), constraints=(Never({"a": [0]}),))
    table = table_of(domain, {"a": np.arange(8)})
    with pytest.raises(MechanismError, match="constraints"):
        mq.release(table, mq.prefixes(domain, "a"), epsilon=1.0, mechanism="smalldb", ledger="memory")


@pytest.mark.slow
def test_the_command_explains_mistakes(tmp_path):
    def checked(*constraints):
        data = people().to_dict() | {"constraints": list(constraints)}
        (tmp_path / "d.json").write_text(json.dumps(data))
        return call("domain", "check", tmp_path / "d.json")

    good = checked(CHILDREN, MAPPED)
    assert good.code == 0
    assert "2 constraints that every released row meets" in good.out
    for constraints, words in BAD.values():
        ended = checked(*constraints)
        assert ended.code == 2
        assert re.search(words, ended.err), ended.err
        assert str(tmp_path / "d.json") in ended.err
    (tmp_path / "d.json").write_text(json.dumps(people().to_dict() | {"constraints": {"never": {}}}))
    refused(call("domain", "check", tmp_path / "d.json"), "constraints", "list")


def test_cells_one_wide_are_named_by_their_left_border_too():
    """Files from before whole numbers had to be declared do so; their fingerprint stays."""
    age = Attribute("age", Kind.NUMERIC, bounds=(0, 5), bins=5)
    sex = Attribute("sex", Kind.CATEGORICAL, categories=("a", "b"))
    by_label, by_border = (
        Domain((age, sex), constraints=(Never({"age": [name], "sex": ["a"]}),)) for name in ("[3, 4)", 3)
    )
    assert by_label.fingerprint == by_border.fingerprint

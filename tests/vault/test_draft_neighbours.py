"""Two tables that differ in one record draft the same file, but for columns whose notes say what the rows decided."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maquette.domain import Domain
from maquette.errors import DomainError
from maquette.vault.draft import draft_domain

pytestmark = pytest.mark.law

TEXTS = (
    "",
    "?",
    "NA",
    "0",
    "1",
    "2",
    "7",
    "40",
    "150",
    "0.5",
    "-3.25",
    "yes",
    "no",
    "low",
    "high",
    "medium",
    "x",
)
NAMES = ("age", "year", "latitude", "sex", "hour", "x")
DECLARED = {"whole": pa.int32(), "fraction": pa.float64(), "truth": pa.bool_(), "text": pa.string()}
ONE = {
    "whole": st.one_of(st.none(), st.integers(-5, 400)),
    "fraction": st.one_of(st.none(), st.sampled_from([0.0, 1.0, 0.5, 40.25, 1e9])),
    "truth": st.one_of(st.none(), st.booleans()),
    "text": st.sampled_from(TEXTS),
}


@st.composite
def neighbours(draw: st.DrawFn) -> tuple[pa.Table, pa.Table]:
    """A table, and the same with one record more, less or changed."""
    kinds = draw(st.lists(st.sampled_from(sorted(DECLARED)), min_size=2, max_size=4))
    names = draw(st.permutations(NAMES))[: len(kinds)]
    schema = pa.schema([(name, DECLARED[kind]) for name, kind in zip(names, kinds, strict=True)])
    record = st.tuples(*(ONE[kind] for kind in kinds))
    records = draw(st.lists(record, min_size=1, max_size=6)) * draw(st.sampled_from([1, 40]))
    one, how = draw(record), draw(st.sampled_from(["more", "less", "changed"]))
    others = [*(records if how == "more" else records[1:]), *([] if how == "less" else [one])]

    def table(rows: list[tuple[object, ...]]) -> pa.Table:
        columns = list(zip(*rows, strict=True)) if rows else [() for _ in kinds]
        return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)

    return table(records), table(others)


def differing(one: Domain, other: Domain) -> set[str]:
    """The columns of which the two files say different things, and what else differs."""
    first, second = one.to_dict(), other.to_dict()
    entries = [{entry["name"]: entry for entry in data.pop("attributes")} for data in (first, second)]
    columns = {name for name in {*entries[0], *entries[1]} if entries[0].get(name) != entries[1].get(name)}
    for key in ("columns", "left_out"):
        notes = [data.pop(key, {}) for data in (first, second)]
        columns |= {name for name in {*notes[0], *notes[1]} if notes[0].get(name) != notes[1].get(name)}
    return columns | {key for key in {*first, *second} if first.get(key) != second.get(key)}


def risky(domain: Domain) -> set[str]:
    notes = domain.notes["columns"] | domain.notes.get("left_out", {})
    return {name for name, note in notes.items() if "risk" in note}


@given(neighbours())
def test_what_one_record_changes_has_a_risk(tables):
    try:
        one, other = (draft_domain(table) for table in tables)
    except DomainError:  # no column of one of them can be drafted, which the owner alone is told
        return
    assert differing(one, other) <= risky(one) & risky(other)
    assert all(a.nullable for a in (*one, *other))
    for a in (a for a in one if a.name in other and a.bounds == other[a.name].bounds):
        assert a.integer == other[a.name].integer


@given(neighbours())
def test_the_same_from_a_file_of_texts(tables):
    try:
        one, other = (draft_domain(table.to_pandas().astype(str)) for table in tables)
    except DomainError:
        return
    assert differing(one, other) <= risky(one) & risky(other)


def test_the_comparison_sees_a_field_that_one_record_changes():
    one, other = (draft_domain(pd.DataFrame({"age": ages})) for ages in ([1, 2, 3] * 9, [1, 2, 300] * 9))
    assert differing(one, other) == {"age"}
    assert differing(one, Domain(one.attributes, ("?",), reviewed=False, notes=one.notes)) == {"na_values"}

"""Which sets and tables a class of questions has."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maquette.core.class_errors import Kind
from maquette.domain import Attribute, Domain
from maquette.domain import Kind as AttributeKind
from maquette.queries import classes
from maquette.queries.classes import CLASSES, ClassTable, Family
from maquette.queries.condition import runs_of
from support.class_cases import FAMILY, MIXED, cell_sets

SIZES = [(cells, extras) for cells in range(1, 6) for extras in range(3)]
KINDS = [Kind.ONE, Kind.SIDE, Kind.RANGE, Kind.ANY]


def family_of(kind, cells, extras):
    return Family(kind, cells + extras, 0) if kind is Kind.ANY else Family(kind, cells, extras)


def members(kind, cells, extras):
    """From the words of the class, by another route than the walk."""
    ordered = kind in (Kind.SIDE, Kind.RANGE)
    word = {Kind.ONE: "comparisons", Kind.SIDE: "comparisons", Kind.RANGE: "ranges", Kind.ANY: "any"}[kind]
    attribute = Attribute(
        "x",
        AttributeKind.ORDINAL if ordered else AttributeKind.CATEGORICAL,
        codes=cells,
        overflow=extras > 0,
        nullable=extras > 1,
    )
    return set(cell_sets(word, attribute))


def stops(family):
    found, inside = {frozenset()}, set()
    for step in family.walk().tolist():
        inside ^= {step if step >= 0 else ~step}
        if step >= 0:
            found.add(frozenset(inside))
    return found, inside


@pytest.mark.parametrize(("cells", "extras"), SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_walk_stops_at_every_set_of_its_family_and_at_no_other(kind, cells, extras):
    if cells + extras <= 2 and kind is not Kind.ANY:
        return  # such families are all sets, by `QuestionClass.family`
    found, _ = stops(family_of(kind, cells, extras))
    assert found == members(kind, cells, extras)


def test_a_walk_over_all_cells_stops_once():
    found, inside = stops(Family(Kind.WHOLE, 3, 2))
    assert found == {frozenset(), frozenset(range(5))}
    assert inside == set(range(5))


@pytest.mark.parametrize(("cells", "extras"), SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_family_holds_its_sets_and_no_others(kind, cells, extras):
    family = family_of(kind, cells, extras)
    found, _ = stops(family)
    for length in range(family.size + 1):
        for some in itertools.combinations(range(family.size), length):
            assert family.holds(runs_of(some)) == (frozenset(some) in found), some


@pytest.mark.law
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_parts_are_enough_to_add_up_to_a_set(data):
    """By search: some sum of so many members with signs is the set itself."""
    kind, (cells, extras) = data.draw(st.sampled_from(KINDS)), data.draw(st.sampled_from(SIZES))
    family = family_of(kind, min(cells, 4), min(extras, 1))
    some = data.draw(st.sets(st.integers(0, family.size - 1)))
    parts = family.parts(runs_of(some))
    target = tuple(int(i in some) for i in range(family.size))
    vectors = [tuple(int(i in m) for i in range(family.size)) for m in stops(family)[0]]
    reached = {tuple([0] * family.size), tuple([1] * family.size)}
    for _ in range(parts):
        reached |= {
            tuple(a + s * b for a, b in zip(r, v, strict=True))
            for r in reached
            for v in vectors
            for s in (1, -1)
        }
    assert target in reached


def test_tables_of_a_class_are_the_largest_inside_the_sets():
    two = CLASSES["two attributes"].tables(MIXED, [("a", "b", "c"), ("d",)])
    assert [table.margin for table in two] == [("a", "b"), ("a", "c"), ("b", "c"), ("d",)]
    three = CLASSES["three attributes"].tables(MIXED, [("a", "b", "c"), ("a", "d"), ("a", "b")])
    assert [table.margin for table in three] == [("a", "b", "c"), ("a", "d")]
    one = CLASSES["one attribute"].tables(MIXED, [("a", "b")])
    assert one == (ClassTable(("a",)), ClassTable(("b",)))


def test_a_table_of_large_attributes_alone_is_in_no_class_with_a_small_one():
    wide = [
        Attribute(name, AttributeKind.ORDINAL, codes=codes)
        for name, codes in [("a", 10), ("b", 11), ("c", 12)]
    ]
    domain = Domain(tuple(wide))
    tables = CLASSES["two attributes with a small one"].tables(domain, [domain.names])
    assert [table.margin for table in tables] == [("a", "b"), ("a", "c")]
    assert CLASSES["two attributes with a small one"].tables(domain, [("b", "c")]) == ()


def test_families_follow_the_kind_of_the_attribute():
    kinds = {name: [CLASSES[name].family(attribute).kind for attribute in MIXED] for name in FAMILY}
    assert kinds["two attributes"] == [Kind.SIDE, Kind.ANY, Kind.ANY, Kind.ANY]  # up to three cells: all sets
    assert kinds["two ranges"] == [Kind.RANGE, Kind.ANY, Kind.ANY, Kind.ANY]


def test_tables_that_take_too_long_have_smaller_families_or_none(monkeypatch):
    wide = Domain(
        (
            Attribute("x", AttributeKind.ORDINAL, codes=50),
            Attribute("y", AttributeKind.ORDINAL, codes=60),
            Attribute("z", AttributeKind.CATEGORICAL, codes=30),
            Attribute("w", AttributeKind.CATEGORICAL, codes=31),
        )
    )
    two = CLASSES["two ranges"]

    def kinds():
        return {t.margin: [f.kind for f in t.families] for t in two.each_table(wide, [wide.names])}

    assert kinds()["x", "y"] == [Kind.RANGE, Kind.RANGE]
    assert kinds()["z", "w"] == [Kind.ONE, Kind.ANY]  # 2^30 sets are too many
    monkeypatch.setattr(classes, "MAX_STEPS", 120_000)
    assert kinds()["x", "y"] == [Kind.SIDE, Kind.RANGE]
    monkeypatch.setattr(classes, "MAX_STEPS", 100)
    assert len(kinds()) == 6
    monkeypatch.setattr(classes, "MAX_TABLE_STEPS", 100)
    assert kinds() == {}


def test_sets_of_very_many_attributes_have_no_tables():
    long = Domain(tuple(Attribute(f"a{i}", AttributeKind.BOOLEAN, codes=2) for i in range(200)))
    assert CLASSES["three attributes"].tables(long, [long.names]) == ()
    assert len(CLASSES["two attributes"].tables(long, [long.names])) == 199 * 100

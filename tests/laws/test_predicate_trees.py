"""Random predicates against a plain evaluator of three-valued logic, record by record."""

from __future__ import annotations

import itertools
import operator
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import maquette.queries as mq
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.queries import canonical
from maquette.queries.sql import spell
from support.query_cases import domains

quick = settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
SIGNS = {
    "=": operator.eq,
    "<>": operator.ne,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
MIRROR = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


class Said:
    """A predicate in SQL and its truth (True, False or None) on a record of codes."""

    def __init__(self, text, truth):
        self.text, self.truth = text, truth


def spelled(draw, name: str) -> str:
    quoted = '"' + name.replace('"', '""') + '"'
    loose = re.sub(r"\W", "_", name)
    return draw(st.sampled_from([quoted, loose, loose.upper()]))


@st.composite
def comparisons(draw, domain):
    attribute = domain[draw(st.sampled_from(domain.names))]
    name = spelled(draw, attribute.name)
    form = draw(st.sampled_from(["null", "not null", "sign", "sign", "in", "between"]))
    if form == "null":
        return Said(f"{name} IS NULL", lambda r: r[attribute.name] == attribute.null_cell)
    if form == "not null":
        return Said(f"{name} IS NOT NULL", lambda r: r[attribute.name] != attribute.null_cell)
    if attribute.kind is Kind.NUMERIC and not attribute.whole:
        return _border(draw, attribute, name, form)
    return _valued(draw, attribute, name, form)


def _border(draw, attribute: Attribute, name: str, form: str) -> Said:
    """Comparisons of a binned attribute with its own borders, which need no rounding."""
    index = draw(st.integers(0, attribute.cells - 1))
    edge = spell(attribute.edge(index))
    sign = draw(st.sampled_from(["<", ">=", "<=", ">"]))
    negated = draw(st.sampled_from(["", "NOT "])) if form == "between" else ""

    def truth(record):
        code = record[attribute.name]
        if code >= attribute.cells:
            return None
        if form == "between":
            last = draw_high + 1 if draw_high + 1 < attribute.cells else attribute.cells
            return (index <= code < last) != bool(negated)
        return (code >= index) == (sign in (">", ">="))

    draw_high = draw(st.integers(index, attribute.cells - 1)) if form == "between" else index
    if form == "between":
        high = spell(attribute.edge(draw_high + 1))
        return Said(f"{name} {negated}BETWEEN {edge} AND {high}", truth)
    if draw(st.booleans()):
        return Said(f"{edge} {MIRROR[sign]} {name}", truth)
    return Said(f"{name} {sign} {edge}", truth)


def _valued(draw, attribute: Attribute, name: str, form: str) -> Said:
    """Comparisons of an attribute whose cells are values (or bins of whole numbers) in declared order."""
    values = _cell_values(attribute)
    flat = [value for cell in values for value in cell]
    ordered = attribute.ordered

    def compared(code, sign, value):
        if code == attribute.null_cell:
            return None
        if code == attribute.overflow_cell:
            if attribute.kind is Kind.NUMERIC or sign not in ("=", "<>", "!="):
                return None
            return sign != "="
        return SIGNS[sign](code, next(i for i, cell in enumerate(values) if value in cell))

    literal = st.sampled_from(flat if attribute.kind is not Kind.NUMERIC else [cell[0] for cell in values])
    signs = ["=", "<>", "!="] if attribute.kind is not Kind.NUMERIC or attribute.cells == len(flat) else []
    signs += ["<", "<=", ">", ">="] if ordered else []
    if form == "in" and "=" in signs:
        listed = draw(st.lists(literal, min_size=1, max_size=3))
        negated = draw(st.sampled_from(["", "NOT "]))
        inside = [lambda r, v=v: compared(r[attribute.name], "=", v) for v in listed]
        truth = _some(inside) if not negated else _not(_some(inside))
        return Said(f"{name} {negated}IN ({', '.join(map(spell, listed))})", truth)
    if form == "between" and ordered and attribute.cells == len(flat):
        low, high = draw(literal), draw(literal)
        ends = [
            lambda r: compared(r[attribute.name], ">=", low),
            lambda r: compared(r[attribute.name], "<=", high),
        ]
        return Said(f"{name} BETWEEN {spell(low)} AND {spell(high)}", _every(ends))
    sign, value = draw(st.sampled_from(signs)), draw(literal)
    if attribute.kind is Kind.NUMERIC and sign in ("<=", ">") and attribute.cells != len(flat):
        cell = next(cell for cell in values if value in cell)
        return Said(f"{name} {sign} {spell(cell[-1])}", lambda r: compared(r[attribute.name], sign, value))
    return Said(f"{name} {sign} {spell(value)}", lambda r: compared(r[attribute.name], sign, value))


def _cell_values(attribute: Attribute) -> list[list]:
    if attribute.categories is not None:
        return [[category] for category in attribute.categories]
    if attribute.codes is not None:
        return [[code] for code in range(attribute.codes)]
    if not attribute.integer:
        return [[int(attribute.edge(i))] for i in range(attribute.cells)]
    cells = [list(range(int(attribute.edge(i)), int(attribute.edge(i + 1)))) for i in range(attribute.cells)]
    cells[-1].append(int(attribute.edge(attribute.cells)))
    return cells


def _not(truth):
    def opposite(record):
        seen = truth(record)
        return None if seen is None else not seen

    return opposite


def _every(truths):
    def truth(record):
        seen = [t(record) for t in truths]
        return False if False in seen else None if None in seen else True

    return truth


def _some(truths):
    return _not(_every([_not(t) for t in truths]))


@st.composite
def predicates(draw, domain, depth: int = 3):
    if depth == 0 or draw(st.integers(0, 2)) == 0:
        if draw(st.integers(0, 9)) == 0:
            return draw(st.sampled_from([Said("TRUE", lambda r: True), Said("false", lambda r: False)]))
        return draw(comparisons(domain))
    if draw(st.integers(0, 3)) == 0:
        inner = draw(predicates(domain, depth=depth - 1))
        return Said(f"not ({inner.text})", _not(inner.truth))
    parts = draw(st.lists(predicates(domain, depth=depth - 1), min_size=2, max_size=3))
    word, join = draw(st.sampled_from([(" AND ", _every), (" or ", _some)]))
    return Said(word.join(f"({part.text})" for part in parts), join([part.truth for part in parts]))


def records_of(domain):
    return [dict(zip(domain.names, r, strict=True)) for r in itertools.product(*map(range, domain.shape))]


def truths(said: Said, domain) -> np.ndarray:
    return np.array([said.truth(record) is True for record in records_of(domain)])


@quick
@given(data=st.data())
def test_a_predicate_counts_the_records_where_it_is_true(data):
    domain = data.draw(domains())
    said = data.draw(predicates(domain))
    asked = mq.where(domain, said.text)
    true = truths(said, domain)
    assert asked.notes == ()
    table = np.arange(1, domain.size + 1).reshape(domain.shape)
    assert asked.on_histogram(table).tolist() == [int(table.ravel()[true].sum())]
    rows = {name: np.array([r[name] for r in records_of(domain)], dtype=np.uint16) for name in domain.names}
    assert asked.on_rows(rows).tolist() == [int(true.sum())]
    assert asked.on_rows(rows, np.arange(1, domain.size + 1)).tolist() == [int(table.ravel()[true].sum())]
    for relation, moved in (
        (Relation.ADD_REMOVE, true.any()),
        (Relation.REPLACE_ONE, len(set(true.tolist())) > 1),
    ):
        stated = asked.sensitivity(relation)
        assert (stated.l1, stated.l2_squared, stated.linf) == (int(moved),) * 3
    assert asked.exact_sensitivity
    assert asked.distinct() == (len(set(true.tolist())) > 1)


def test_a_null_is_in_neither_a_comparison_nor_its_negation():
    domain = Domain((Attribute("a", Kind.ORDINAL, codes=2, nullable=True),))
    table = np.array([1, 10, 100])
    assert mq.where(domain, "a = 1").on_histogram(table).tolist() == [10]
    assert mq.where(domain, "NOT (a = 1)").on_histogram(table).tolist() == [1]  # not 101


@quick
@given(data=st.data())
def test_equal_meaning_gives_equal_hash_and_unequal_meaning_another(data):
    domain = data.draw(domains())
    one, other = data.draw(predicates(domain)), data.draw(predicates(domain))
    equal = (truths(one, domain) == truths(other, domain)).all()
    hashes = [mq.canonical_hash(mq.where(domain, said.text)) for said in (one, other)]
    assert (hashes[0] == hashes[1]) == equal


@quick
@given(data=st.data())
def test_the_box_is_the_product_form(data):
    domain = data.draw(domains())
    said = data.draw(predicates(domain))
    box = mq.where(domain, said.text).box()
    true = truths(said, domain).reshape(domain.shape)
    factors = [
        set(np.flatnonzero(true.any(axis=tuple(i for i in range(true.ndim) if i != axis))))
        for axis in range(true.ndim)
    ]
    is_product = np.prod([len(f) for f in factors]) == true.sum()
    assert (box is not None) == is_product
    if box is not None:
        allowed = [box.get(name, range(domain[name].size)) for name in domain.names]
        counted = {tuple(r) for r in itertools.product(*allowed)}
        assert counted == {tuple(int(i) for i in r) for r in np.argwhere(true)}


@quick
@given(data=st.data())
def test_conjunctions_hash_alike_without_looking_at_cells(data):
    """Products of sets have one normal form, however large the universe is."""
    domain = data.draw(domains())
    parts = data.draw(st.lists(comparisons(domain), min_size=1, max_size=4))
    shuffled = data.draw(st.permutations(parts + parts[:1]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(canonical, "MOST_CELLS", 0)
        hashes = {
            mq.canonical_hash(mq.where(domain, " AND ".join(f"({p.text})" for p in order)))
            for order in (parts, shuffled)
        }
    assert len(hashes) == 1


@quick
@given(data=st.data())
def test_lists_of_predicates_are_as_good_as_one_by_one(data):
    domain = data.draw(domains())
    said = data.draw(st.lists(predicates(domain, depth=2), min_size=1, max_size=4))
    asked = mq.predicates(domain, [one.text for one in said])
    matrix = np.array([truths(one, domain) for one in said]).astype(int)
    gaps = np.abs(matrix[:, :, None] - matrix[:, None, :]).sum(axis=0)
    assert asked.sensitivity(Relation.ADD_REMOVE).l1 == matrix.sum(axis=0).max()
    assert asked.sensitivity(Relation.REPLACE_ONE).l2_squared == gaps.max()
    together = mq.union(*(mq.where(domain, one.text) for one in said), mq.points(domain))
    with_points = gaps + 2 * (1 - np.eye(domain.size, dtype=int))
    assert together.exact_sensitivity
    assert together.sensitivity(Relation.REPLACE_ONE).l1 == with_points.max()
    assert mq.from_json(domain, mq.to_json(asked)) == asked
    kinds = {min(tuple(r), tuple(1 - r)) for r in matrix if len(set(r.tolist())) > 1}
    assert asked.distinct() == len(kinds)

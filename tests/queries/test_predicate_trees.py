"""Random predicates against a plain evaluator of three-valued logic, record by record."""

from __future__ import annotations

import itertools
import operator
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import maquette.queries as mq
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.queries import condition
from maquette.queries.names import quote, run_text, spell
from support.query_cases import domains

pytestmark = pytest.mark.law

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
    if form in ("null", "not null") and (attribute.nullable or not attribute.overflow):
        wanted = form == "null"
        said = f"{name} IS {'' if wanted else 'NOT '}NULL"
        return Said(said, lambda r: (r[attribute.name] == attribute.null_cell) == wanted)
    return (_interval if attribute.kind is Kind.NUMERIC else _valued)(draw, attribute, name, form)


def _interval(draw, attribute: Attribute, name: str, form: str) -> Said:
    """A binned attribute between two of its borders, in words that cut no cell."""
    low = draw(st.integers(0, attribute.cells - 1))
    high = draw(st.integers(low, attribute.cells - 1))
    negated = draw(st.sampled_from(["", "NOT "]))
    text = run_text(attribute, low, high).replace(quote(attribute.name), name)

    def truth(record):
        code = record[attribute.name]
        if code == attribute.null_cell and "NULL" not in text:
            return None
        return (low <= code <= high) != bool(negated)

    return Said(f"{negated}({text})", truth)


def _valued(draw, attribute: Attribute, name: str, form: str) -> Said:
    """Comparisons of an attribute whose cells are values in declared order."""
    values = attribute.categories or list(range(attribute.cells))
    ordered = attribute.ordered and not attribute.overflow  # an undeclared value may be anywhere

    def compared(code, sign, value):
        if code == attribute.null_cell:
            return None
        if code == attribute.overflow_cell:
            return sign != "="
        return SIGNS[sign](code, list(values).index(value))

    literal = st.sampled_from(values)
    signs = ["=", "<>", "!="] + (["<", "<=", ">", ">="] if ordered else [])
    if form == "in":
        listed = draw(st.lists(literal, min_size=1, max_size=3))
        negated = draw(st.sampled_from(["", "NOT "]))
        inside = [lambda r, v=v: compared(r[attribute.name], "=", v) for v in listed]
        truth = _some(inside) if not negated else _not(_some(inside))
        return Said(f"{name} {negated}IN ({', '.join(map(spell, listed))})", truth)
    if form == "between" and ordered:
        low, high = draw(literal), draw(literal)
        ends = [
            lambda r: compared(r[attribute.name], ">=", low),
            lambda r: compared(r[attribute.name], "<=", high),
        ]
        return Said(f"{name} BETWEEN {spell(low)} AND {spell(high)}", _every(ends))
    sign, value = draw(st.sampled_from(signs)), draw(literal)
    if draw(st.booleans()):
        return Said(
            f"{spell(value)} {MIRROR.get(sign, sign)} {name}",
            lambda r: compared(r[attribute.name], sign, value),
        )
    return Said(f"{name} {sign} {spell(value)}", lambda r: compared(r[attribute.name], sign, value))


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


def exact(domain, said: Said) -> mq.Predicate:
    """The predicate, where no cell is cut (one that holds both nulls and undeclared values may be)."""
    asked = mq.where(domain, said.text)
    assume(asked.exact)
    return asked


def truths(said: Said, domain) -> np.ndarray:
    return np.array([said.truth(record) is True for record in records_of(domain)])


@quick
@given(data=st.data())
def test_a_predicate_counts_the_records_where_it_is_true(data):
    domain = data.draw(domains())
    said = data.draw(predicates(domain))
    asked = exact(domain, said)
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
    hashes = [mq.canonical_hash(exact(domain, said)) for said in (one, other)]
    assert (hashes[0] == hashes[1]) == equal


@quick
@given(data=st.data())
def test_the_box_is_the_product_form(data):
    domain = data.draw(domains())
    said = data.draw(predicates(domain))
    box = exact(domain, said).box()
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
        patch.setattr(condition, "MAX_COMPARED_CELLS", 0)
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
    asked = mq.predicates(domain, [exact(domain, one).sql for one in said])
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

"""The universe X and its file."""

from __future__ import annotations

import json
import math
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maquette.domain import Attribute, Domain, Kind
from maquette.errors import DomainError


def small(**options) -> Domain:
    return Domain(
        (
            Attribute("age", Kind.NUMERIC, bounds=(0, 100), bins=10, integer=True),
            Attribute("sex", Kind.BOOLEAN, categories=("Female", "Male")),
            Attribute("region", Kind.CATEGORICAL, categories=("n", "s"), nullable=True, overflow=True),
        ),
        **options,
    )


def test_size_is_the_exact_product_and_its_logarithm():
    assert small().shape == (10, 2, 4)
    assert small().size == 80
    assert small().log_size == pytest.approx(math.log(80))
    huge = Domain(tuple(Attribute(f"x{i}", Kind.CATEGORICAL, codes=10**6) for i in range(60)))
    assert huge.size == 10**360
    assert huge.log_size == pytest.approx(360 * math.log(10))
    assert "10^360" in repr(huge)


def test_attributes_are_found_by_name():
    domain = small()
    assert domain["sex"].kind is Kind.BOOLEAN
    assert domain.index("region") == 2
    assert "age" in domain
    assert "agee" not in domain
    assert [a.name for a in domain] == list(domain.names)
    assert len(domain) == 3
    assert domain.cells(("age", "sex")) == 20
    assert domain.project(("region", "age")).names == ("region", "age")


@pytest.mark.parametrize(
    "look", [lambda d: d["agee"], lambda d: d.index("agee"), lambda d: d.project(["agee"])]
)
def test_an_unknown_name_is_refused_with_those_that_exist(look):
    with pytest.raises(DomainError, match="unknown attribute 'agee'; the domain has age, sex, region"):
        look(small())


def test_a_domain_needs_attributes_with_distinct_names():
    with pytest.raises(DomainError, match="at least one attribute"):
        Domain(())
    with pytest.raises(DomainError, match="distinct, got x more than once"):
        Domain((Attribute("x", Kind.BOOLEAN, codes=2), Attribute("x", Kind.BOOLEAN, codes=2)))


def test_the_file_keeps_everything(tmp_path):
    domain = small(na_values=("?",), reviewed=False, notes={"source": "a survey", "rows": 12})
    domain.save(tmp_path / "d.json")
    again = Domain.load(tmp_path / "d.json")
    assert again == domain
    assert again.notes == domain.notes
    assert not again.reviewed
    assert again.fingerprint == domain.fingerprint


def test_notes_cannot_overwrite_the_declaration():
    domain = small(reviewed=False, notes={"reviewed": True, "attributes": [], "na_values": ["x"]})
    assert Domain.from_dict(domain.to_dict()) == domain


def attributes() -> st.SearchStrategy[Attribute]:
    flags = {"nullable": st.booleans(), "overflow": st.booleans()}
    names = st.text(min_size=1, max_size=5).filter(lambda t: t == t.strip())
    words = st.lists(st.text(max_size=5), min_size=1, max_size=5, unique=True)
    return st.one_of(
        st.builds(
            lambda name, cs, **kw: Attribute(name, Kind.CATEGORICAL, categories=tuple(cs), **kw),
            names,
            words,
            **flags,
        ),
        st.builds(
            lambda name, n, **kw: Attribute(name, Kind.ORDINAL, codes=n, **kw),
            names,
            st.integers(1, 2**64),
            **flags,
        ),
        st.builds(
            lambda name, low, bins, **kw: Attribute(
                name, Kind.NUMERIC, bounds=(low, low + bins), bins=bins, **kw
            ),
            names,
            st.one_of(st.integers(-99, 99), st.floats(-99, 99)),
            st.integers(1, 50),
            **flags,
        ),
        st.builds(
            lambda name, es, **kw: Attribute(name, Kind.NUMERIC, edges=tuple(sorted(es)), **kw),
            names,
            st.sets(st.floats(-1e9, 1e9), min_size=2, max_size=6),
            **flags,
        ),
    )


@pytest.mark.slow
@given(
    st.lists(attributes(), min_size=1, max_size=4, unique_by=lambda a: a.name), st.lists(st.text(max_size=3))
)
def test_every_domain_comes_back_from_its_file(chosen: list[Attribute], tokens: list[str]):
    domain = Domain(tuple(chosen), tuple(tokens))
    again = Domain.from_dict(json.loads(json.dumps(domain.to_dict())))
    assert again == domain
    assert again.fingerprint == domain.fingerprint


def test_the_fingerprint_is_of_the_coding_and_not_of_its_spelling():
    def with_bounds(low: float, high: float) -> Domain:
        return Domain((Attribute("x", Kind.NUMERIC, bounds=(low, high), bins=2),))

    assert with_bounds(0, 1).fingerprint == with_bounds(0.0, 1.0).fingerprint
    assert with_bounds(0, 1).fingerprint != with_bounds(0, 2).fingerprint
    assert small().fingerprint == small(notes={"a": 1}, reviewed=False).fingerprint
    assert small(na_values=("a", "b")).fingerprint == small(na_values=("b", "a", "a")).fingerprint
    assert small(na_values=("a",)).fingerprint != small().fingerprint


GOOD = {"attributes": [{"name": "x", "kind": "categorical", "categories": ["a", "b"]}]}

BAD_FILES = {
    "not JSON": ("{", "is not JSON.* at line 1"),
    "a list": ("[]", "expected an object"),
    "no attributes": ("{}", "attributes: Field required"),
    "attributes is text": ('{"attributes": "x"}', "attributes"),
    "an attribute is text": ('{"attributes": ["x"]}', "attribute number 1"),
    "unknown kind": ('{"attributes": [{"name": "x", "kind": "odd", "size": 2}]}', "attribute 'x': kind"),
    "unknown key": ('{"attributes": [{"name": "x", "kind": "boolean", "sizes": 2}]}', "attribute 'x': sizes"),
    "size as text": ('{"attributes": [{"name": "x", "kind": "ordinal", "size": "2"}]}', "attribute 'x': size"),
    "one bound": ('{"attributes": [{"name": "x", "kind": "numeric", "bounds": [1], "bins": 2}]}', "'x': bounds"),
    "nullable as text": (
        '{"attributes": [{"name": "x", "kind": "boolean", "nullable": "no"}]}', "attribute 'x': nullable"),
    "NaN bound": ('{"attributes": [{"name": "x", "kind": "numeric", "bounds": [0, NaN], "bins": 2}]}', "finite"),
    "wrong declaration": ('{"attributes": [{"name": "x", "kind": "numeric", "size": 2}]}', "'x' is numeric"),
    "reviewed as text": ('{"attributes": [{"name": "x", "kind": "boolean"}], "reviewed": "yes"}', "reviewed"),
    "deep nesting": ("[" * 200_000, "is not"),
    "endless number": ('{"attributes": ' + "9" * 5000 + "}", "is not a domain file"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_FILES, ids=str)
def test_a_bad_file_is_refused_by_name(case: str, tmp_path):
    text, words = BAD_FILES[case]
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(DomainError, match=words) as caught:
        Domain.load(path)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there_says_how_to_make_one(tmp_path):
    with pytest.raises(DomainError, match="maquette domain draft"):
        Domain.load(tmp_path / "none.json")


def test_a_folder_and_bad_bytes_are_refused(tmp_path):
    with pytest.raises(DomainError, match="cannot read"):
        Domain.load(tmp_path)
    (tmp_path / "latin.json").write_bytes(b'{"a": "\xe9"}')
    with pytest.raises(DomainError, match="cannot read"):
        Domain.load(tmp_path / "latin.json")


def test_a_byte_order_mark_is_no_obstacle(tmp_path):
    (tmp_path / "bom.json").write_bytes(b"\xef\xbb\xbf" + json.dumps(GOOD).encode())
    assert Domain.load(tmp_path / "bom.json").names == ("x",)


def test_writing_where_one_cannot_is_said(tmp_path):
    with pytest.raises(DomainError, match="cannot write"):
        small().save(tmp_path / "no" / "such" / "folder.json")


def test_a_boolean_needs_no_size_in_the_file():
    assert Domain.from_dict({"attributes": [{"name": "x", "kind": "boolean"}]})["x"].codes == 2


def test_a_look_up_is_computed_once():
    domain = small()
    assert domain.names is domain.names
    assert domain.shape is domain.shape
    assert hash(domain) == hash(small())


@pytest.mark.parametrize("name", [["age"], 3, None])
def test_what_is_no_name_is_no_attribute(name):
    assert name not in small()
    with pytest.raises(DomainError, match="unknown attribute"):
        small()[name]


def test_a_copy_by_pickle_is_equal_and_holds_the_declaration_alone():
    domain = small(na_values=("?",), notes={"source": "a survey"})
    plain = pickle.dumps(small(na_values=("?",), notes={"source": "a survey"}))
    assert hash(domain)
    assert domain.fingerprint
    assert domain.size
    assert pickle.dumps(domain) == plain, "texts hash differently in another process"
    again = pickle.loads(plain)
    assert (again, hash(again), again.notes) == (domain, hash(domain), domain.notes)

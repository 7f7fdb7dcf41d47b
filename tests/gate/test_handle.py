"""The owner's handle: public facts only, whatever is done with it."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import pytest

from maquette.accounting.ledger import Ledger
from maquette.core.barrier import Barrier
from maquette.core.budget import Budget
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.errors import DomainError, ParameterError, SourceError
from maquette.owner import Table, is_table_of
from maquette.owner import open as open_table

DOMAIN = Domain((Attribute("<age>", Kind.ORDINAL, codes=3), Attribute("sex", Kind.BOOLEAN, codes=2)))


def table(n: int = 5, **options) -> Table:
    return open_table([{"<age>": i % 3, "sex": 1} for i in range(n)], domain=DOMAIN, **options)


def test_two_tables_of_one_domain_look_the_same():
    small, large = table(2), table(7000)
    assert repr(small) == repr(large) == "Table('list', Domain(2 attributes, |X| = 6: <age>, sex))"
    assert str(small) == str(large)
    assert small._repr_html_() == large._repr_html_()
    assert "&lt;age&gt;" in small._repr_html_()
    assert "<age>" not in small._repr_html_()
    assert dir(small) == dir(large)


def test_it_has_a_domain_a_name_and_a_source(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("<age>,sex\n1,1\n")
    opened = open_table(path, domain=DOMAIN)
    assert (opened.domain, opened.name, opened.source) == (DOMAIN, "people.csv", "people.csv")
    assert open_table(str(path), domain=DOMAIN, name="survey").name == "survey"
    assert str(tmp_path) not in repr(opened)


def test_it_has_no_length_no_items_and_does_not_change():
    opened = table()
    with pytest.raises(TypeError):
        len(opened)
    with pytest.raises(TypeError):
        iter(opened)
    with pytest.raises(TypeError):
        opened[0]
    for name in ("name", "_engine"):
        with pytest.raises(AttributeError, match="cannot assign"):
            setattr(opened, name, 1)
        with pytest.raises(AttributeError, match="cannot delete"):
            delattr(opened, name)
    with pytest.raises((AttributeError, TypeError)):  # which one depends on the version of Python
        opened.other = 1
    public = {name for name in dir(opened) if not name.startswith("_")}
    assert public == {
        "domain",
        "for_another_ledger",
        "ledger_identity",
        "ledger_location",
        "lists_records",
        "memory_limit",
        "name",
        "persons",
        "source",
        "universe",
    }
    assert not hasattr(opened, "__dict__")


@pytest.mark.parametrize("way", [pickle.dumps, copy.copy, copy.deepcopy])
def test_it_cannot_be_copied(way):
    with pytest.raises(SourceError, match="cannot be copied or pickled"):
        way(table())


def test_an_unreviewed_domain_is_refused_before_the_source_is_touched():
    draft = Domain(DOMAIN.attributes, reviewed=False)
    with pytest.raises(DomainError, match='public knowledge and set "reviewed": true'):
        open_table("/nowhere/at/all.csv", domain=draft)
    assert open_table([], domain=draft, allow_unreviewed=True).domain == draft


def test_only_a_file_of_its_own_has_a_ledger_beside_it(tmp_path):
    (tmp_path / "t.csv").write_text("<age>,sex\n1,0\n")
    beside = open_table(tmp_path / "t.csv", domain=DOMAIN).ledger_location
    assert beside == tmp_path / "t.csv.ledger"
    assert open_table(str(tmp_path / "*.csv"), domain=DOMAIN).ledger_location is None
    assert open_table([{"<age>": 1, "sex": 0}], domain=DOMAIN).ledger_location is None


def test_a_path_is_no_domain():
    with pytest.raises(ParameterError, match=r"Domain\.load"):
        open_table([], domain="adult.domain.json")


@pytest.mark.slow
def test_the_handle_loads_no_table_library():
    code = (
        "import sys, maquette.owner; "
        "print([m for m in ('pyarrow', 'duckdb', 'numba', 'pandas', 'polars', 'narwhals') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_ledger_knows_its_own_table_and_no_other():
    budget = Budget(1.0)
    own, other = table(5), table(6)
    about = {"relation": Relation.ADD_REMOVE, "domain_fingerprint": DOMAIN.fingerprint, "name": "people"}
    with Ledger.memory(budget=budget, **about) as book:
        assert not is_table_of(own, book)  # it has paid for none yet
        Barrier(own, book, key="r", budget=budget)
        assert is_table_of(own, book)
        assert is_table_of(table(5), book)
        assert not is_table_of(other, book)
        wider = Domain((*DOMAIN, Attribute("more", Kind.BOOLEAN, codes=2)))
        rows = [{"<age>": i % 3, "sex": 1, "more": 0} for i in range(5)]
        assert not is_table_of(open_table(rows, domain=wider), book)

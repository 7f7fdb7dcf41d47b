"""By its commitment a ledger knows its table again: the same records in any order, and no others."""

from __future__ import annotations

import itertools
import json

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import maquette as mq
from maquette.accounting import Budget
from maquette.accounting.ledger import Ledger
from maquette.core.curator import Curator
from maquette.core.rows import commitment, counting
from maquette.core.rows.counting import RecordsTask
from maquette.core.rows.engine import MemoryEngine
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.errors import LedgerError
from maquette.vault.readers import open_engine

DOMAIN = Domain(
    (
        Attribute("a", Kind.ORDINAL, codes=3),
        Attribute("b", Kind.CATEGORICAL, categories=("x", "y"), nullable=True),
        Attribute("c", Kind.NUMERIC, bounds=(0, 4), bins=4),
    )
)
ROWS = {"a": [0, 1, 2], "b": ["x", None, "y"], "c": [0.5, 3.0, 1.0]}
FIRST_SCHEME = "e57b119a52010996b70db8d5bab382c8a1bcecb7e18f051bcef26f1fdb58dc67"
"""What the version before the second scheme said of ROWS under b"salt"."""
HUGE = Domain(
    (
        Attribute("one", Kind.ORDINAL, codes=1),
        Attribute("huge", Kind.ORDINAL, codes=2**64),
        Attribute("many", Kind.ORDINAL, codes=2**40),
        Attribute("few", Kind.ORDINAL, codes=2**24),
    )
)

records = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 3)), max_size=12)


def engine_of(rows: list[tuple[int, int, int]]) -> MemoryEngine:
    columns = np.array(rows, dtype=np.uint8).reshape(-1, 3).T
    return MemoryEngine(DOMAIN, dict(zip(DOMAIN.names, columns, strict=True)))


def turned(rows: dict[str, list]) -> dict[str, list]:
    return {name: values[::-1] for name, values in rows.items()}


@pytest.mark.slow
@given(one=records, other=records)
@settings(deadline=None, max_examples=300)
def test_equal_multisets_and_only_they_have_equal_commitments(one, other):
    same = engine_of(one).commitment(b"s") == engine_of(other).commitment(b"s")
    assert same == (sorted(one) == sorted(other))
    assert engine_of(one).commitment(b"s") == engine_of(sorted(one)).commitment(b"s")


@given(rows=records, cuts=st.lists(st.integers(0, 12)), salt=st.binary(min_size=1, max_size=40))
@settings(deadline=None, max_examples=100)
def test_cuts_between_batches_do_not_matter(rows, cuts, salt):
    columns = dict(zip(DOMAIN.names, np.array(rows, dtype=np.uint8).reshape(-1, 3).T, strict=True))
    places = [0, *sorted(cuts), 12]
    batches = [{n: c[i:j] for n, c in columns.items()} for i, j in itertools.pairwise(places)]
    records = RecordsTask(DOMAIN, commitment.lane_keys(salt))
    sums = records.zeros()
    for batch in batches:
        records.add(sums, batch)
    assert commitment.seal(DOMAIN, salt, sums[0], len(rows)) == engine_of(rows).commitment(salt)


def test_a_record_that_comes_twice_does_not_cancel():
    row = (1, 1, 1)
    assert len({engine_of([row] * times).commitment(b"s") for times in range(6)}) == 6


def test_it_is_bound_to_records_domain_and_salt():
    def seal(rows: dict, salt: bytes = b"s", domain: Domain = DOMAIN) -> str:
        return open_engine(rows, domain).commitment(salt)

    first = seal(ROWS)
    assert first.startswith("v2:")
    assert len(first) == 3 + 64
    assert first == seal(turned(ROWS))
    assert first != seal(ROWS, b"t")
    assert first != seal(ROWS | {"a": [1, 0, 2]})  # two cells exchanged within a column
    assert first != seal(ROWS | {"a": [0, 1, 1]})
    assert first != seal({name: values[1:] for name, values in ROWS.items()})
    wider = Domain((*DOMAIN.attributes[:2], Attribute("c", Kind.NUMERIC, bounds=(0, 400), bins=4)))
    zeros = ROWS | {"c": [0.0] * 3}
    assert seal(zeros) != seal(zeros, domain=wider)
    assert seal({name: [] for name in ROWS}) != seal({name: [] for name in ROWS}, b"t")


def test_the_digest_of_a_record_is_siphash():
    """The authors' vectors: key 00 01 .. 0f, messages 00 01 .. of 8 and of 16 bytes."""
    keys = np.frombuffer(bytes(range(16)), "<u8").reshape(1, 2).astype(np.uint64)
    for message, expected in ((bytes(range(8)), 0x93F5F5799A932462), (bytes(range(16)), 0x3F2ACC7F57C29BDB)):
        sums = np.zeros(1, dtype=np.uint64)
        words = np.frombuffer(message, "<u8").astype(np.uint64).reshape(-1, 1)
        commitment.add_records(words, keys, sums)
        assert int(sums[0]) == expected
        commitment.add_records(words, keys, sums)
        assert int(sums[0]) == 2 * expected % 2**64


def test_four_lanes_have_four_keys(monkeypatch):
    seen = []
    plain = commitment.add_records

    def look(words, keys, sums):
        seen.append(keys.copy())
        plain(words, keys, sums)

    monkeypatch.setattr(counting, "add_records", look)
    engine_of([(0, 1, 2)]).commitment(b"s")
    engine_of([(0, 1, 2)]).commitment(b"t")
    assert seen[0].shape == (4, 2)
    assert len({int(key) for keys in seen for key in keys.ravel()}) == 16


def test_packing_tells_all_records_apart():
    every = np.indices(DOMAIN.shape).reshape(3, -1).astype(np.uint8)
    words = commitment.pack(DOMAIN, dict(zip(DOMAIN.names, every, strict=True)))
    assert words.shape == (1, DOMAIN.size)
    assert len(np.unique(words)) == DOMAIN.size
    ends = {a.name: np.array([0, a.size - 1], dtype=np.uint64) for a in HUGE}
    words = commitment.pack(HUGE, ends)
    assert words.tolist() == [[0, 2**64 - 1], [0, 2**64 - 1]]


def test_the_first_scheme_is_what_it_was():
    engine = open_engine(ROWS, DOMAIN)
    assert engine.commitment(b"salt", like="c" * 64) == FIRST_SCHEME
    assert open_engine(turned(ROWS), DOMAIN).commitment(b"salt", like="c" * 64) != FIRST_SCHEME
    assert engine.commitment(b"salt", like="v2:" + "c" * 64) == engine.commitment(b"salt")


def ledger_for(domain: Domain) -> Ledger:
    return Ledger.memory(
        budget=Budget(1.0), relation=Relation.ADD_REMOVE, domain_fingerprint=domain.fingerprint, name="people"
    )


def use(table: mq.Table, ledger: Ledger) -> None:
    Curator(table, ledger, key="release", budget=Budget(0.5))


def test_a_query_may_return_its_rows_in_any_order():
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE t AS SELECT i % 3 AS a, 'x' AS b, (i % 4)::DOUBLE AS c FROM range(500) r(i)"
    )
    ledger = ledger_for(DOMAIN)
    for order in ("a, c", "c, a DESC", "hash(a, c, 7)"):
        query = f"SELECT * FROM t ORDER BY {order}"
        for limit in (None, 0):
            use(mq.open(connection, query=query, domain=DOMAIN, memory_limit=limit), ledger)
    assert [entry.kind for entry in ledger.entries()].count("bind") == 1
    with pytest.raises(LedgerError, match="another table"):
        use(mq.open(connection, query="SELECT * FROM t LIMIT 499", domain=DOMAIN), ledger)


def test_a_ledger_of_an_earlier_version_keeps_its_scheme_and_says_so():
    ledger = ledger_for(DOMAIN)
    ledger.bind(open_engine(ROWS, DOMAIN).commitment(ledger.salt, like="c" * 64))
    use(mq.open(ROWS, domain=DOMAIN), ledger)
    with pytest.raises(LedgerError, match="bound to the order of its rows"):
        use(mq.open(turned(ROWS), domain=DOMAIN), ledger)
    assert ":" not in (ledger.commitment or "")
    assert [entry.kind for entry in ledger.entries()].count("bind") == 1


def test_the_first_remedy_is_never_a_new_ledger():
    for like in (None, "c" * 64):
        ledger = ledger_for(DOMAIN)
        ledger.bind(open_engine(ROWS, DOMAIN).commitment(ledger.salt, like=like))
        with pytest.raises(LedgerError) as refused:
            use(mq.open(ROWS | {"a": [0, 0, 0]}, domain=DOMAIN), ledger)
        said = str(refused.value)
        assert ("order" in said) == (like is not None)
        assert said.index("Open the table it was first used with") < said.index("A second ledger")
        assert "adds to what they have paid" in said
        assert "make a new" not in said


def test_the_commitment_is_in_no_release(tmp_path):
    (tmp_path / "people.csv").write_text("a,b,c\n" + "1,x,2.5\n0,y,1.5\n" * 40)
    table = mq.open(tmp_path / "people.csv", domain=DOMAIN)
    ledger = Ledger.create(
        tmp_path / "people.ledger",
        budget=Budget(2.0),
        relation=Relation.ADD_REMOVE,
        domain_fingerprint=DOMAIN.fingerprint,
        name="people",
    )
    made = mq.release(table, mq.marginals(DOMAIN, k=1), epsilon=1.0, ledger=ledger)
    made.save(tmp_path / "out")
    digest = (ledger.commitment or "").removeprefix("v2:").encode()
    assert len(digest) == 64
    for file in (tmp_path / "out").rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            assert digest not in content
            assert ledger.salt.hex().encode() not in content
    assert json.loads((tmp_path / "out" / "release.json").read_text())

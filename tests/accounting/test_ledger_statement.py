"""What goes to SQLite as text finds and writes the same as what SQLAlchemy runs."""

from __future__ import annotations

import pytest
from sqlalchemy import bindparam, create_engine, insert, select, update

from maquette.core.ledger import schema
from maquette.core.ledger.entry import Statement
from support.ledger_cases import create, pay

_entry = schema.entry.c


@pytest.fixture
def connection(tmp_path):
    with create(tmp_path / "a.ledger") as ledger:
        for key in ("a", "b", "c"):
            pay(ledger, key)
            ledger.answer(key, key.encode())
    engine = create_engine(f"sqlite:///{tmp_path / 'a.ledger'}")
    with engine.connect() as connection:
        yield connection
    engine.dispose()


@pytest.mark.parametrize(
    ("clause", "many", "values"),
    [
        (select(schema.account), None, {}),
        (select(schema.entry).order_by(_entry.seq.desc()).limit(2), None, {}),
        (select(_entry.head).where(_entry.seq == bindparam("place")), None, {"place": 3}),
        (select(_entry.head).where(_entry.seq == bindparam("place")), None, {"place": 99}),
        (select(schema.entry).where(_entry.kind == "reserve", _entry.seq > bindparam("n")), None, {"n": 2}),
        *(
            (
                select(schema.entry).where(_entry.key.in_(bindparam("keys", expanding=True))),
                "keys",
                {"keys": keys},
            )
            for keys in ([], ["a"], ["a", "c", "nobody"], ["' OR 1=1 --"])
        ),
    ],
)
def test_rows_are_those_that_sqlalchemy_finds(connection, clause, many, values):
    statement = Statement(clause, many=many)
    expected = [dict(row) for row in connection.execute(clause, values).mappings()]
    for _ in range(2):  # made, and used again
        assert statement.rows(connection, **values) == expected
        assert statement.tuples(connection, **values) == [tuple(row.values()) for row in expected]


def test_what_is_written_is_part_of_the_transaction(connection):
    payload = Statement(insert(schema.payload))
    state = Statement(update(schema.account), columns=("seq", "head"))
    with connection.begin() as transaction:
        payload.write(connection, [{"key": "x", "data": b"1"}, {"key": "y", "data": b"2"}])
        state.write(connection, [{"seq": 77, "head": "h"}])
        assert connection.execute(select(schema.account.c.seq)).scalar_one() == 77
        assert len(connection.execute(select(schema.payload)).all()) == 5
        transaction.rollback()
    with connection.begin():
        assert connection.execute(select(schema.account.c.seq)).scalar_one() == 7
        assert len(connection.execute(select(schema.payload)).all()) == 3

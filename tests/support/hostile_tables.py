"""Tables with values that readers disagree about, and all questions that an engine can be asked about them."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from maquette.core.binned import Binned
from maquette.domain import Domain
from maquette.queries.base import union
from maquette.queries.marginals import Marginals
from maquette.queries.predicates import where

TENTHS = [i / 10 for i in range(11)] + [0.7 * i / 7 for i in range(8)]
BORDERS = TENTHS + [math.nextafter(x, -9) for x in TENTHS] + [math.nextafter(x, 9) for x in TENTHS]
UTC = dt.UTC
NEW_YORK = dt.timezone(dt.timedelta(hours=-5))


@dataclass(frozen=True)
class Column:
    """How an attribute is declared, the type that a table stores it in, and values for it."""

    declared: dict[str, Any]
    kind: Any
    values: list[Any]


COLUMNS = {
    "text": Column(
        {"kind": "categorical", "categories": ["a", "b", "é", "TRUE"]},
        pa.string(),
        ["a", " a", "a ", "\ta", "a\n", "A", "b", "e\u0301", "é", "", "  ", "?", " ? ", "true", "True", "TRUE",
         "\u00a0a", "\u2003b", "a\u200b", "\ufeffa", "a'b", 'a"b', "a\\b", "{a}", "NULL"],
    ),
    "fraction": Column(
        {"kind": "numeric", "bounds": [0, 1], "bins": 10},
        pa.float64(),
        [*BORDERS, math.nan, math.inf, -math.inf, -0.0, 1e308, 5e-324, -9.0, 2.0],
    ),
    "sevenths": Column({"kind": "numeric", "bounds": [0, 0.7], "bins": 7}, pa.float64(), [*BORDERS, math.nan, 2.0]),
    "decimal": Column(
        {"kind": "numeric", "bounds": [0, 1], "bins": 10},
        pa.decimal128(38, 18),
        [Decimal(i).scaleb(-18) for i in (0, 10**17, 10**17 - 1, 3 * 10**17, 3 * 10**17 - 1, 10**18, 10**18 + 1, -1)],
    ),
    "small": Column({"kind": "ordinal", "size": 5}, pa.int64(), [0, 1, 4, 5, -1, -9, 2**40, 2**63 - 1, -(2**63)]),
    "huge": Column(
        {"kind": "categorical", "size": 2**54}, pa.int64(), [0, 1, 2**53, 2**53 + 1, 2**54 - 1, 2**54, -1, 2**62]
    ),
    "truth": Column({"kind": "boolean", "categories": [False, True]}, pa.bool_(), [True, False]),
    "moment": Column(
        {"kind": "categorical", "categories": ["2024-01-01", "2024-01-01 12:30:00"]},
        pa.timestamp("us"),
        [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, 12, 30), dt.datetime(1900, 1, 1), dt.datetime(1, 1, 1)],
    ),
    "zoned": Column(
        {"kind": "categorical", "categories": ["2024-01-01 00:00:00Z", "2024-01-01 05:00:00Z"]},
        pa.timestamp("us", "UTC"),
        [dt.datetime(2024, 1, 1, tzinfo=zone) for zone in (UTC, NEW_YORK)] + [dt.datetime(1900, 1, 1, tzinfo=UTC)],
    ),
    "day": Column(
        {"kind": "categorical", "categories": ["2024-01-01", "2024-02-29"]},
        pa.date32(),
        [dt.date(2024, 1, 1), dt.date(2024, 2, 29), dt.date(1, 1, 1), dt.date(9999, 12, 31)],
    ),
    "words of numbers": Column(
        {"kind": "numeric", "bounds": [0, 10], "bins": 5},
        pa.string(),
        ["1", "+1", "1e0", " 2 ", "0x10", "1_0", "٣", "nan", "NaN", "inf", "-inf", "Infinity", "1.", ".", ".5", "5e-1",
         "1e400", "9,9", "", "?", "-9", "-9.0", "true", "10", "1d", "1f"],
    ),
    'odd "name`': Column({"kind": "ordinal", "size": 3}, pa.int32(), [0, 1, 2, 3]),
}  # fmt: skip


def domain_of(names: list[str], *, nullable: bool = True, overflow: bool = True) -> Domain:
    """The declaration of some of the columns."""
    attributes = [
        {"name": name, "nullable": nullable, "overflow": overflow} | COLUMNS[name].declared for name in names
    ]
    return Domain.from_dict({"na_values": ["?", "-9"], "attributes": attributes})


def table_of(rows: list[tuple[Any, ...]], names: list[str]) -> pa.Table:
    """Rows of some of the columns as an Arrow table."""
    return pa.table(
        [pa.array([row[i] for row in rows], COLUMNS[name].kind) for i, name in enumerate(names)], names=names
    )


@st.composite
def tables(draw: Any, *, names: list[str] | None = None) -> tuple[Domain, pa.Table]:
    """A domain, and a table of up to forty records that it declares well or badly."""
    chosen = draw(st.lists(st.sampled_from(sorted(names or COLUMNS)), min_size=1, max_size=4, unique=True))
    domain = domain_of(chosen, nullable=draw(st.booleans()), overflow=draw(st.booleans()))
    row = st.tuples(*(st.one_of(st.none(), st.sampled_from(COLUMNS[name].values)) for name in chosen))
    return domain, table_of(draw(st.lists(row, max_size=40)), chosen)


def every_value(names: list[str] | None = None, rows: int = 60) -> tuple[Domain, pa.Table]:
    """All columns (or some), with all their values and missing ones."""
    chosen = sorted(names or COLUMNS)
    values = [[*COLUMNS[name].values, None] for name in chosen]
    rows = max(rows, *map(len, values))
    return domain_of(chosen), table_of([tuple(v[i % len(v)] for v in values) for i in range(rows)], chosen)


def all_looks(engine: Any) -> dict[str, Any]:
    """Every question that the gate asks of an engine, with its answer."""
    domain = engine.domain
    small = [a.name for a in domain if a.size < 100]
    margins = [m for k in range(3) for m in itertools.combinations(small, k)]
    looks: dict[str, Any] = {"size": engine.size(), "commitment": engine.commitment(b"salt")}
    looks |= {f"margin {m}": table.tolist() for m, table in engine.margins(margins).items()}
    looks |= {f"values {name}": [array.tolist() for array in engine.distinct(name)] for name in domain.names}
    binned = [Binned((name,), ((0, 1),)) for name in small if domain[name].size > 1]
    if binned:
        looks["binned"] = [counts.tolist() for counts in engine.binned(binned)]
    if small and '"' not in small[0]:
        first = domain[small[0]]
        predicate = where(domain, f'"{first.name}" = {_literal(first)}')
        looks["answer"] = engine.answer(
            union(predicate, Marginals(domain, ((small[0],),))).to_forms()
        ).tolist()
    return looks


def _literal(attribute: Any) -> str:
    if attribute.categories is None:
        return "0"
    value = attribute.categories[0]
    return str(value).lower() if isinstance(value, bool) else f"'{value}'"


def cut(table: pa.Table, parts: int, *, turned: bool = False) -> list[pa.Table]:
    """The same records in so many parts, the first of them and perhaps others empty; turned: in another order."""
    if turned:
        table = table.take(
            pa.array(sorted(range(table.num_rows), key=lambda i: (i * 7919) % 101), pa.int64())
        )
    if parts == 1:
        return [table]
    step = math.ceil(table.num_rows / (parts - 1)) if table.num_rows else 0
    return [table.slice(0, 0), *(table.slice(i * step, step) for i in range(parts - 1))]

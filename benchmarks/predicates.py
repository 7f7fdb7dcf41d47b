"""Predicates on cells against a database engine on raw values: on, below and above every border, missing, not a number.

Where a predicate carries no note, its count from cells must be the engine's count from values. Where it carries one,
the engine's count must lie between the counts of its two ends, which in turn must be exact. Generated tables hold
values on every border and beside it, beyond the bounds, undeclared and missing ones; public tables are as they are.

`python -m benchmarks predicates --data DIR`; without a folder generated tables only.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from maquette.core.rows.coding import coders
from maquette.domain import Attribute, Domain, Kind
from maquette.errors import WorkloadError
from maquette.queries import Predicate, where
from maquette.queries.names import quote

TABLES = 250
PREDICATES = 50
"""Per generated table."""
PUBLIC = {
    "titanic": "titanic.csv",
    "penguins": "penguins.csv",
    "adult_raw": "adult_raw.csv",
    "diamonds": "diamonds.csv",
    "pums_1000": "pums_1000.csv",
    "hair_eye": "hair_eye.csv",
    "flights": "flights.parquet",
}
PUBLIC_PREDICATES = 200
"""Per public table."""

Generator = np.random.Generator


@dataclass(slots=True)
class Tally:
    """What came of comparing predicates."""

    compared: int = 0
    exact: int = 0
    noted: int = 0
    differing: int = 0
    """Noted ones whose own reading is another number than the engine's."""
    unsaid: int = 0
    """Noted ones whose ends are too long for a predicate: refused by sessions, without an error in releases."""
    unexplained: list[str] = field(default_factory=list[str])

    def add(self, other: Tally) -> None:
        self.compared += other.compared
        self.exact += other.exact
        self.noted += other.noted
        self.differing += other.differing
        self.unsaid += other.unsaid
        self.unexplained += other.unexplained


@dataclass(frozen=True, slots=True)
class Sample:
    """A table as cells, and as values in an engine."""

    domain: Domain
    columns: dict[str, NDArray[Any]]
    values: duckdb.DuckDBPyConnection

    def count(self, text: str) -> int:
        """The engine's count; what is not a number is missing."""
        found = self.values.execute(f"SELECT count(*) FROM raw WHERE {text}").fetchone()
        assert found is not None
        return int(found[0])

    def of(self, predicate: Predicate) -> int:
        return int(predicate.on_rows(self.columns)[0])


def run(data: Path | None) -> list[dict[str, Any]]:
    """One figure for the generated tables, one for each public table."""
    made = Tally()
    for seed in range(TABLES):
        made.add(compare(generated(seed), PREDICATES, seed=seed))
    figures = [_figure("generated", made, tables=TABLES)]
    for name, file in PUBLIC.items():
        if data is not None and (data / file).exists():
            tally = compare(public(data, name, data / file), PUBLIC_PREDICATES, seed=len(name))
            figures.append(_figure(name, tally, tables=1))
    return figures


def _figure(name: str, tally: Tally, *, tables: int) -> dict[str, Any]:
    return {
        "table": name,
        "tables": tables,
        "predicates": tally.compared,
        "exact": tally.exact,
        "noted": tally.noted,
        "noted_and_read_as_another_number": tally.differing,
        "ends_too_long": tally.unsaid,
        "unexplained": len(tally.unexplained),
        "examples": tally.unexplained[:5],
    }


def compare(sample: Sample, count: int, *, seed: int) -> Tally:
    """Random predicates, on cells and on values."""
    rng = np.random.default_rng(10_000 + seed)
    tally = Tally()
    for _ in range(count):
        text = random_predicate(rng, sample.domain)
        tally.compared += 1
        problem = _difference(sample, where(sample.domain, text), tally)
        if problem is not None:
            tally.unexplained.append(f"{text}: {problem}")
    return tally


def _difference(sample: Sample, predicate: Predicate, tally: Tally) -> str | None:
    """What no note explains, or None."""
    truth, read = sample.count(predicate.sql), sample.of(predicate)
    if predicate.exact:
        tally.exact += 1
        if predicate.notes:
            return "exact and noted"
        return None if read == truth else f"{read} from cells, {truth} from values"
    tally.noted += 1
    tally.differing += read != truth
    if not predicate.notes:
        return "not exact and without a note"
    try:
        low, high = predicate.ends()
    except WorkloadError:
        tally.unsaid += 1
        return None
    for end in (low, high):
        if end.notes or sample.of(end) != sample.count(end.sql):
            return f"its end {end.sql} is not exact"
    if not sample.of(low) <= truth <= sample.of(high) or not sample.of(low) <= read <= sample.of(high):
        return f"{truth} from values, {read} as read, not from {sample.of(low)} to {sample.of(high)}"
    return None


def generated(seed: int) -> Sample:
    """A random declaration of each kind, and a table of everything that it may meet."""
    rng = np.random.default_rng(seed)
    attributes = [_numeric(rng, "n"), _numeric(rng, "m m"), _ordinal(rng), _categorical(rng)]
    domain = Domain(tuple(attributes))
    columns: dict[str, list[Any]] = {}
    length = 120
    for attribute in attributes:
        held = _values(rng, attribute)
        rest = [held[i] for i in rng.integers(0, len(held), max(length - len(held), 0))]
        columns[attribute.name] = [*held, *rest][:length]
        rng.shuffle(columns[attribute.name])
    return _sample(domain, pa.table({name: pa.array(values) for name, values in columns.items()}))


def _sample(domain: Domain, table: pa.Table) -> Sample:
    rules = coders(domain)
    columns = {name: rules[name].code(table[name].combine_chunks()) for name in domain.names}
    values = duckdb.connect(config={"threads": 1})
    values.register("given", table)
    selected = []
    for field_ in table.schema:
        name = '"' + field_.name.replace('"', '""') + '"'
        missing = f"CASE WHEN isnan({name}) THEN NULL ELSE {name} END AS {name}"
        selected.append(missing if pa.types.is_floating(field_.type) else name)
    values.execute(f"CREATE TABLE raw AS SELECT {', '.join(selected)} FROM given")
    return Sample(domain, columns, values)


def _flags(rng: Generator) -> dict[str, bool]:
    return {"nullable": bool(rng.integers(2)), "overflow": bool(rng.integers(2))}


def _numeric(rng: Generator, name: str) -> Attribute:
    flags = _flags(rng)
    if rng.integers(3) == 0:
        steps = rng.choice([0.1, 0.25, 0.5, 1.0, 2.5, 3.0], size=int(rng.integers(2, 6)))
        edges = tuple(round(float(e), 6) for e in np.cumsum(steps) - 2)
        return Attribute(name, Kind.NUMERIC, edges=edges, **flags)
    low = float(rng.choice([0, -3, 17, 0.1, 1.5, 30]))
    bins = int(rng.integers(1, 9))
    width = float(rng.choice([1, 1, 2, 0.5, 0.3, 5]))
    if low.is_integer() and width >= 1 and rng.integers(2):
        return Attribute(
            name, Kind.NUMERIC, bounds=(int(low), int(low + bins * width)), bins=bins, integer=True, **flags
        )
    return Attribute(name, Kind.NUMERIC, bounds=(low, low + bins * width), bins=bins, **flags)


def _ordinal(rng: Generator) -> Attribute:
    flags = _flags(rng)
    match rng.integers(3):
        case 0:
            return Attribute("o", Kind.ORDINAL, codes=int(rng.integers(2, 6)), **flags)
        case 1:
            return Attribute("o", Kind.ORDINAL, categories=(1, 2, 5), **flags)
        case _:
            return Attribute("o", Kind.ORDINAL, categories=("a low", "b mid", "c high"), **flags)


def _categorical(rng: Generator) -> Attribute:
    flags = _flags(rng)
    if rng.integers(2):
        return Attribute("Sex", Kind.BOOLEAN, categories=("Female", "Male"), **flags)
    return Attribute("c", Kind.CATEGORICAL, categories=("north", "south", "it's"), **flags)


def _values(rng: Generator, attribute: Attribute) -> list[Any]:
    """All that a column may hold under its declaration: what has no cell of its own only where a cell takes it."""
    missing: list[Any] = [None] * (2 * (attribute.nullable or attribute.overflow))
    if attribute.kind is not Kind.NUMERIC:
        held = list(range(attribute.cells)) if attribute.categories is None else list(attribute.categories)
        if attribute.overflow:
            held += ["elsewhere", "bb"] if isinstance(held[0], str) else [-1, 3, 9]
        return held + missing
    borders = [float(attribute.edge(i)) for i in range(attribute.cells + 1)]
    if attribute.integer:
        first, last = math.floor(borders[0]) - 3, math.ceil(borders[-1]) + 3
        return list(range(first, last + 1)) + missing
    beside = [float(np.nextafter(b, side)) for b in borders for side in (-math.inf, math.inf)]
    middles = [(a + b) / 2 for a, b in itertools.pairwise(borders)]
    far = [borders[0] - 1, borders[-1] + 1, -1e9, 1e9, math.inf, -math.inf]
    not_numbers = [math.nan] * (attribute.nullable or attribute.overflow)
    return borders + beside + middles + far + not_numbers + missing


def random_predicate(rng: Generator, domain: Domain, depth: int = 2) -> str:
    """Up to a few comparisons joined by AND, OR and NOT."""
    if depth == 0 or rng.random() < 0.35:
        return _comparison(rng, domain.attributes[int(rng.integers(len(domain)))])
    parts = [random_predicate(rng, domain, depth - 1) for _ in range(int(rng.integers(1, 4)))]
    if len(parts) == 1:
        return f"NOT ({parts[0]})"
    return "(" + str(rng.choice([" AND ", " OR "])).join(parts) + ")"


def _comparison(rng: Generator, attribute: Attribute) -> str:
    name = quote(attribute.name)
    negated = "NOT " if rng.integers(3) == 0 else ""
    if rng.random() < 0.08:
        return f"{name} IS {negated}NULL"
    if not attribute.ordered or rng.random() < 0.25:
        some = ", ".join(_literal(rng, attribute) for _ in range(int(rng.integers(1, 4))))
        if rng.integers(2):
            return f"{name} {negated}IN ({some})"
        return f"{name} {rng.choice(['=', '<>', '!='])} {_literal(rng, attribute)}"
    if rng.random() < 0.3:
        return f"{name} {negated}BETWEEN {_literal(rng, attribute)} AND {_literal(rng, attribute)}"
    sign = str(rng.choice(["<", "<=", ">", ">=", "=", "<>"]))
    return f"{negated}{name} {sign} {_literal(rng, attribute)}"


def _literal(rng: Generator, attribute: Attribute) -> str:
    if attribute.kind is not Kind.NUMERIC:
        code = int(rng.integers(attribute.cells))
        value = code if attribute.categories is None else attribute.categories[code]
        return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)
    border = float(attribute.edge(int(rng.integers(attribute.cells + 1))))
    width = (float(attribute.edge(attribute.cells)) - float(attribute.edge(0))) / attribute.cells
    moved: Sequence[float] = [0, 0, 0, 0, 1, -1, width / 2, width / 3, 200 * width, -200 * width]
    value = border + float(rng.choice(np.array(moved)))
    if rng.random() < 0.1:
        value = float(np.nextafter(border, rng.choice([-math.inf, math.inf])))
    return _spelled(value)


def _spelled(value: float) -> str:
    """A number that the engine takes for the same double: a decimal of few digits, else with an exponent."""
    if value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    text = repr(value)
    digits = sum(c.isdigit() for c in text)
    return text if digits <= 15 and "e" not in text else f"{value:.17e}"


def public(data: Path, name: str, file: Path) -> Sample:
    """A public table: numbers as numbers, words trimmed, and what the domain calls missing as missing.

    The engine knows neither the declared order of words nor attributes named like its own words: ordered words get
    their place in front, and names an underscore at the end.
    """
    declared = Domain.load(data / f"{name}.domain.json")
    reader = "read_parquet" if file.suffix == ".parquet" else "read_csv"
    more = "" if file.suffix == ".parquet" else ", all_varchar = true, nullstr = ''"
    gone = ", ".join("'" + word.replace("'", "''") + "'" for word in ("", *declared.na_values))
    selected = []
    for attribute in declared:
        column = '"' + attribute.name.replace('"', '""') + '"'
        text = f"CASE WHEN trim({column}::VARCHAR) IN ({gone}) THEN NULL ELSE trim({column}::VARCHAR) END"
        selected.append(f"{text if _words(attribute) else f'TRY_CAST({text} AS DOUBLE)'} AS {column}")
    table = duckdb.sql(f"SELECT {', '.join(selected)} FROM {reader}('{file}'{more})").to_arrow_table()
    attributes = [_placed(attribute) for attribute in declared]
    columns = [_placed_words(attribute, table[attribute.name]) for attribute in declared]
    domain = Domain(tuple(attributes))
    return _sample(domain, pa.table(dict(zip(domain.names, columns, strict=True))))


def _words(attribute: Attribute) -> bool:
    return attribute.categories is not None and any(isinstance(c, (str, bool)) for c in attribute.categories)


def _placed(attribute: Attribute) -> Attribute:
    named = replace(attribute, name=attribute.name + "_")
    if not (attribute.ordered and _words(attribute)):
        return named
    categories = tuple(f"{place:03d} {word}" for place, word in enumerate(attribute.categories or ()))
    return replace(named, categories=categories)


def _placed_words(attribute: Attribute, column: pa.ChunkedArray) -> Any:
    if not (attribute.ordered and _words(attribute)):
        return column.combine_chunks()
    placed = {str(word): f"{place:03d} {word}" for place, word in enumerate(attribute.categories or ())}
    return pa.array([None if word is None else placed.get(word, word) for word in column.to_pylist()])

"""Rows of several tables that point to each other: which of them count, and under which row of the parent each lies.

A *unit* is a row of the first table with everything that hangs on it. Which of its rows count is decided by these rows
alone, table by table from the first one on:

- Of the rows of the first table with one key, the first in the order of a hash of the key and the row's codes counts.
- A row of another table lies under every row of its parent that counts and has the key to which it points; without
  such a parent it is left out. Of the rows under one parent the first few in the order of a hash count (`at_most`).
- Rows with equal codes and equal keys are interchangeable, so neither the order of the rows nor the cuts between
  batches matter, and nothing random is drawn.

So with one unit more or less the rows of all other units stay as they are, their places under their parents and the
numbers of their children too; and of a unit at most the product of `at_most` on the way from the first table count.
Two rows of a middle table with one key both carry what points to that key: each unit has its own copy, so that no unit
takes rows from another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.core.grid import column_of
from maquette.core.links import Link, View, check_links, fingerprint, persons_of
from maquette.core.neighbours import Persons
from maquette.core.rows.coding import Coder, check_even, code_type, coded, coders
from maquette.core.rows.commitment import Coded, Words, pack
from maquette.core.rows.engine import MemoryEngine, check_records
from maquette.core.rows.persons import Ids, Integers, check_person, ids_of, missing_words, ranks, shuffled
from maquette.core.rows.source import Source
from maquette.core.table import Family, Member


@dataclass(frozen=True, slots=True, eq=False)
class LinkedRows:
    """The rows of one table that count."""

    codes: dict[str, NDArray[Any]]
    parent: str | None
    """The table that they point to."""
    parents: Integers
    """The place of each row's parent among that table's rows; 0 in the first table."""
    keys: Words
    """(2, rows) What the rows are named, as 128 bits each; not used in a table that nothing points to."""
    named: NDArray[np.bool_]
    """Has it a name that others can point to?"""

    def __len__(self) -> int:
        return len(self.parents)


def link(links: Sequence[Link], sources: Mapping[str, Source]) -> dict[str, LinkedRows]:
    """The rows of every table that count."""
    check_links(links)
    linked: dict[str, LinkedRows] = {}
    for one in links:
        read = _read(one, sources[one.name])
        linked[one.name] = _units(read) if one.parent is None else _below(read, one, linked[one.parent])
    return linked


def family(links: Sequence[Link], views: Mapping[str, View], sources: Mapping[str, Source]) -> Family:
    """The views of all tables, for one ledger; each protects units with as many rows as the links let them have."""
    linked, persons = link(links, sources), persons_of(links)
    members = {one.name: Member(view(one.name, views[one.name], linked), persons[one.name]) for one in links}
    most = max(persons.values(), key=lambda one: one.rows)
    return Family(fingerprint(links), most, members)


def degrees(parent: LinkedRows, child: LinkedRows) -> Integers:
    """How many rows of a table count under each row of its parent."""
    return np.bincount(child.parents, minlength=len(parent)).astype(np.int64)


def view(name: str, declared: View, linked: Mapping[str, LinkedRows]) -> MemoryEngine:
    """Its records. What a row holds is what it and the rows above it hold, and how many rows count under these."""
    rows = {name: np.arange(len(linked[name]))}
    above = name
    while (parent := linked[above].parent) is not None:
        rows[parent] = linked[above].parents[rows[above]]
        above = parent
    codes: dict[str, NDArray[Any]] = {}
    for attribute in declared.domain:
        place = declared.places[attribute.name]
        here = linked[place.table]
        values = degrees(here, linked[place.children]) if place.children else here.codes[place.column or ""]
        at = values[rows[place.table]]
        codes[attribute.name] = np.minimum(at, attribute.size - 1).astype(code_type(attribute.size))
        if attribute.grid is not None:
            fine = (
                attribute.fine_code(at.astype(np.float64))
                if place.children
                else here.codes[column_of(place.column or "")][rows[place.table]]
            )
            size = attribute.grid.size
            codes[column_of(attribute.name)] = np.minimum(fine, size - 1).astype(code_type(size))
    return MemoryEngine(declared.domain, codes)


@dataclass(frozen=True, slots=True, eq=False)
class _Read:
    """A whole table in codes, before it is decided which rows count."""

    codes: dict[str, NDArray[Any]]
    own: Ids
    """What the rows are named."""
    up: Ids
    """To what they point; in the first table their own names."""
    records: Words
    """(words, rows) Everything by which rows of one unit are told apart: their codes and their own names."""


def _read(table: Link, source: Source) -> _Read:
    keys = [name for name in (table.key, table.refers) if name is not None]
    for key in keys:
        check_person(source, Persons(key, 1))
    coding = coders(table.domain)
    missing = missing_words(table.domain.na_values)
    batches: list[Coded] = []
    ids: dict[str, list[Ids]] = {key: [] for key in keys}
    rows = 0
    for raw, _ in source.batches([*dict.fromkeys((*table.domain.names, *keys))]):
        batches.append(coded(coding, raw))
        for key in keys:
            ids[key].append(ids_of(raw[key], missing))
            check_even([ids[key][-1].present, batches[-1][table.domain.names[0]]])
        rows += len(ids[keys[0]][-1].present)
        check_records(rows)
    source.close()
    codes = {name: _joined([batch[name] for batch in batches], coder) for name, coder in coding.items()}
    names = {key: _together(parts) for key, parts in ids.items()}
    up = names[table.refers or keys[0]]
    own = names[table.key] if table.key is not None else _nobody(len(up.present))
    records = np.concatenate([pack(table.domain, codes), np.stack([own.first, own.second])])
    return _Read(codes, own, up, records)


def _joined(parts: Sequence[NDArray[Any]], coder: Coder) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=coder.dtype)


def _together(parts: Sequence[Ids]) -> Ids:
    if not parts:
        return _nobody(0)
    return Ids(
        np.concatenate([part.first for part in parts]),
        np.concatenate([part.second for part in parts]),
        np.concatenate([part.seeds for part in parts]),
        np.concatenate([part.present for part in parts]),
    )


def _nobody(rows: int) -> Ids:
    none = np.zeros(rows, dtype=np.uint64)
    return Ids(none, none, none, np.zeros(rows, dtype=bool))


def _units(read: _Read) -> LinkedRows:
    """One row for each key: of several the first in that unit's own order."""
    rows = np.flatnonzero(read.own.present)
    keys = np.stack([read.own.first[rows], read.own.second[rows]])
    _, unit = np.unique(keys, axis=1, return_inverse=True)
    chosen = rows[_first_few(unit.ravel(), read, rows, 1)]
    return _linked(read, None, chosen, np.zeros(len(chosen), dtype=np.int64))


def _below(read: _Read, table: Link, parent: LinkedRows) -> LinkedRows:
    """Under every row of the parent that is pointed to, the first few in that row's own order."""
    rows, place = _pointed_to(read.up, parent)
    counts = _first_few(place, read, rows, table.at_most)
    return _linked(read, table.parent, rows[counts], place[counts])


def _pointed_to(up: Ids, parent: LinkedRows) -> tuple[Integers, Integers]:
    """Pairs of a row and the place of a parent with the key that it points to."""
    there = np.flatnonzero(parent.named)
    order = there[np.argsort(parent.keys[0, there], kind="stable")]
    first = parent.keys[0, order]
    begin, end = np.searchsorted(first, up.first, "left"), np.searchsorted(first, up.first, "right")
    times = np.where(up.present, end - begin, 0)
    rows = np.repeat(np.arange(len(times)), times)
    starts = np.cumsum(times) - times
    place = order[begin[rows] + np.arange(len(rows)) - starts[rows]]
    same = parent.keys[1, place] == up.second[rows]  # rows that share their first 64 bits by coincidence
    return rows[same], place[same]


def _first_few(place: Integers, read: _Read, rows: Integers, most: int) -> NDArray[np.bool_]:
    """Which of the rows are among the first few of those with the same place, in an order of their own."""
    records = read.records[:, rows]
    order = np.lexsort((*records[::-1], shuffled(read.up.seeds[rows], records), place))
    counts = np.zeros(len(rows), dtype=bool)
    counts[order[ranks(place[order]) < most]] = True
    return counts


def _linked(read: _Read, parent: str | None, rows: Integers, parents: Integers) -> LinkedRows:
    return LinkedRows(
        {name: codes[rows] for name, codes in read.codes.items()},
        parent,
        parents,
        np.stack([read.own.first[rows], read.own.second[rows]]),
        read.own.present[rows],
    )

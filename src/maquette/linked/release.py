"""The finished release of several tables: one release for each, rows that belong together, and answers across tables.

All of it is public. Each part is a release as any other, with its own errors; together they keep one promise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from maquette import _html
from maquette.core._arguments import checks_arguments
from maquette.core.budget import Budget
from maquette.linked import asking, files
from maquette.linked.rows import LinkedRows, columns_of, link_rows
from maquette.models.answers import SmallDatabase, decode, generator
from maquette.results import wording
from maquette.results.release import Release
from maquette.results.statements import Answer
from maquette.results.tables import ResultTable
from maquette.schema import Schema

if TYPE_CHECKING:
    import pyarrow

    from maquette.accounting.ledger import Ledger
    from maquette.linked.files import Form


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LinkedRelease:
    """What one paid run made of several tables. Made by `maquette.release()` or read by `LinkedRelease.load()`."""

    schema: Schema
    views: Mapping[str, Release]
    """By table: a release of its rows, each with the columns of its ancestors and the numbers of its children."""
    budget: Budget
    """Of all of them together."""
    key: str
    """Of the run in the ledger."""
    stored: Mapping[str, LinkedRows] | None = None
    """Which row stands under which, where it was read from files."""

    @cached_property
    def linked(self) -> Mapping[str, LinkedRows]:
        """Which synthetic row stands under which: the same for the same key. Costs nothing."""
        return self.stored or link_rows(self.schema, self.views, generator(self.key))

    @cached_property
    def rows(self) -> dict[str, pyarrow.Table]:
        """By table: synthetic rows with real values and new keys; every foreign key is the key of a row."""
        return {name: self._rows_of(name) for name in self.schema.names}

    def _rows_of(self, name: str) -> pyarrow.Table:
        link, linked, view = self.schema[name], self.linked[name], self.views[name]
        released = columns_of(view, name)
        own = {
            column: released[spelled][linked.chosen]
            for column in self.schema.own(name).names
            if (spelled := self.schema.spelling(name, column)) in released
        }
        domain = self.schema.own(name)
        columns: dict[str, Any] = {}
        if link.key is not None:
            columns[link.key] = _numbers(len(linked))
        if link.refers is not None:
            columns[link.refers] = _array(linked.parents + 1)
        values = decode(domain, SmallDatabase(own)) if own else None
        import pyarrow as pa

        if values is not None:
            columns |= {column: values[column] for column in values.column_names}
        return pa.table(columns)

    def of(self, name: str) -> Release:
        """The release of one table."""
        self.schema[name]  # refuses an unknown name
        return self.views[name]

    @checks_arguments
    def answer(self, query: str, *, of: str | None = None) -> Answer:
        """The share of the rows of a table that meet a condition on its columns and those of its ancestors.

        `of` names the table; without it, the first one that has all the columns. Accuracy: as `Release.answer`.
        """
        name = asking.table_of_condition(self.schema, query) if of is None else of
        answer = self.of(name).answer(query)
        return replace(answer, notes=(*answer.notes, self._of_what(name)))

    @checks_arguments
    def table(
        self,
        *names: str,
        by: Sequence[str] | str | None = None,
        values: str | None = None,
        where: str | None = None,
        of: str | None = None,
    ) -> ResultTable:
        """A table of figures by the cells of some columns, each with its error; as `Release.table`.

        `of` names the table whose rows are counted; without it, the first one that has all the columns.
        """
        groups = names or ((by,) if isinstance(by, str) else tuple(by or ()))
        name = asking.table_of_columns(self.schema, groups, where, values) if of is None else of
        table = self.of(name).table(*names, by=by, values=values, where=where)
        return replace(table, notes=(*table.notes, self._of_what(name)))

    @checks_arguments
    def sql(self, statement: str) -> ResultTable:
        """One SELECT over a table, or over tables that are joined along the declared keys; as `Release.sql`.

        The rows that are counted are those of the table farthest from the unit's.
        """
        name, plain = asking.plain_select(self.schema, statement)
        table = self.of(name).sql(plain)
        return replace(table, notes=(*table.notes, self._of_what(name)))

    def _of_what(self, name: str) -> str:
        return f"counts and shares are of the rows of table '{name}'"

    @checks_arguments
    def save(self, path: str | Path, *, report: bool = True, replace: bool = False) -> Path:
        """Write a folder with a release folder for each table and the rows that belong together."""
        return files.save(self, Path(path), report=report, replace=replace)

    @classmethod
    @checks_arguments
    def load(cls, path: str | Path, *, ledger: Ledger | str | Path | None = None) -> LinkedRelease:
        """Read such a folder; each of its releases is held against the ledger that paid for it."""
        return cls(**files.load(Path(path), ledger=ledger))

    def export(self, path: str | Path, *, forms: Sequence[Form] = ("csv",), replace: bool = False) -> Path:
        """Write the rows for other programs: a file for each table ("csv", "parquet"), or one "duckdb" or "sqlite"."""
        return files.export(self, Path(path), forms=forms, replace=replace)

    def facts(self) -> dict[str, str]:
        """What matters about this release, in a few lines of words."""
        persons = self.schema.persons
        lines = {
            "privacy": f"{wording.budget(self.budget.epsilon, self.budget.delta)}, add-remove neighbours, "
            f"units are rows of '{self.schema.unit}'"
        }
        for name, view in self.views.items():
            noise = f", at most {persons[name].rows:,} rows of a unit" if persons[name].rows > 1 else ""
            lines[name] = f"{view.size.value:,} rows (noisy){noise}; {view.headline}"
        return lines

    def __repr__(self) -> str:
        facts = self.facts()
        width = max(len(name) for name in facts)
        return "\n".join(["LinkedRelease", *(f"  {name:<{width}}  {text}" for name, text in facts.items())])

    def _repr_html_(self) -> str:
        return _html.facts("Release of several tables.", self.facts(), head=repr(self.schema).split("\n")[0])


def _numbers(count: int) -> Any:
    import numpy as np

    return _array(np.arange(1, count + 1))


def _array(values: Any) -> Any:
    import pyarrow as pa

    return cast("Any", pa.array(values))

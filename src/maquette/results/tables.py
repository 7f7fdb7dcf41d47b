"""Tables of a release as frames: groups of records with figures, the ends of each, and how they are known.

`release.table(...)` and `release.sql(...)` end here. Values of attributes are spelled out; null cells and values that
are not declared have groups of their own, "(missing)" and "(other)", as the domain has cells for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from maquette.errors import WorkloadError
from maquette.queries.classes import CLASSES
from maquette.queries.combinations import COMBINATIONS
from maquette.results import sums
from maquette.results.columns import label_list, number_column, word_column
from maquette.results.figures import MAX_EACH, Figures, Floats, Grouping
from maquette.results.groups import Groups
from maquette.results.select import Item, Selection, figure, parse_select

if TYPE_CHECKING:
    import pyarrow as pa

    from maquette.results.release import Release

SHOWN = 30
"""Rows of a table that are printed; all of them are in the frame."""
KNOWN_BY = "known_by"


@dataclass(frozen=True, eq=False, repr=False)
class ResultTable:
    """A finished table: an Arrow table with what is to be said about it.

    Arrow, pandas and polars read it as it is (`__arrow_c_stream__`), or by `to_pandas()` and `to_polars()`.
    """

    arrow: pa.Table
    notes: tuple[str, ...] = ()

    def to_pandas(self) -> Any:
        """A pandas data frame."""
        return self.arrow.to_pandas()

    def to_polars(self) -> Any:
        """A polars data frame; polars must be installed."""
        import polars

        return polars.from_arrow(self.arrow)

    def to_pylist(self) -> list[dict[str, Any]]:
        """A list with one dictionary for each row."""
        return self.arrow.to_pylist()

    @property
    def column_names(self) -> list[str]:
        return self.arrow.column_names

    def __len__(self) -> int:
        return self.arrow.num_rows

    def __getitem__(self, name: str) -> Any:
        return self.arrow[name]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.to_pylist())

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.arrow.__arrow_c_stream__(requested_schema)

    def lines(self) -> list[list[str]]:
        """The head and the first rows as texts; statements by a short label, said in full below (`statements`)."""
        rows = self.arrow.slice(0, SHOWN).to_pylist()
        for row in rows:
            if isinstance(row.get(KNOWN_BY), str):
                row[KNOWN_BY] = short_statement(row[KNOWN_BY])
        return [self.column_names, *([_short(row[name]) for name in self.column_names] for row in rows)]

    @property
    def statements(self) -> dict[str, str]:
        """What the labels of the rows that are printed stand for, where they are shorter than what they say."""
        said = self.arrow[KNOWN_BY].slice(0, SHOWN).to_pylist() if KNOWN_BY in self.column_names else []
        return {
            short_statement(text): text
            for text in dict.fromkeys(said)
            if text and short_statement(text) != text
        }

    def __repr__(self) -> str:
        lines = self.lines()
        widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
        right = [_is_number(field) for field in self.arrow.schema]
        texts = [
            "  ".join(
                cell.rjust(width) if to_right else cell.ljust(width)
                for cell, width, to_right in zip(line, widths, right, strict=True)
            ).rstrip()
            for line in lines
        ]
        return "\n".join([*texts, *self._more()])

    def _more(self) -> list[str]:
        more = [f"... {len(self) - SHOWN:,} more rows"] if len(self) > SHOWN else []
        return [*more, *(f"{label}: {text}" for label, text in self.statements.items()), *self.notes]

    def _repr_html_(self) -> str:
        head, *rows = self.lines()
        right = ["right" if _is_number(field) else "left" for field in self.arrow.schema]

        def line(cells: Sequence[str], tag: str) -> str:
            inside = "".join(
                f"<{tag} style='text-align:{side}'>{escape(cell)}</{tag}>"
                for cell, side in zip(cells, right, strict=True)
            )
            return f"<tr>{inside}</tr>"

        body = "".join(line(row, "td") for row in rows)
        notes = "".join(f"<p>{escape(note)}</p>" for note in self._more())
        return f"<table>{line(head, 'th')}{body}</table>{notes}"


def table(
    release: Release,
    names: Sequence[str],
    *,
    by: Sequence[str] | str | None,
    values: str | None,
    where: str | None,
) -> ResultTable:
    """See `Release.table`."""
    import pyarrow as pa

    if names and by is not None:
        raise WorkloadError("name the attributes to group by once: release.table('age') or by=['age']")
    groups = tuple(names) if by is None else (by,) if isinstance(by, str) else tuple(by)
    item = Item("count(*)", figure="count") if values is None else figure(release.domain, values)
    grouping = Grouping.of(release, groups, where)
    (figures, statements), count = grouping.figures(item), grouping.count()
    columns = _keys(grouping) | {
        "value": _numbers(figures.value),
        "count": _numbers(count.value),
        "error": _numbers(figures.error),
        "lower": _numbers(figures.lower),
        "upper": _numbers(figures.upper),
        "below_noise": number_column(~(count.lower > 0)),
        KNOWN_BY: _texts(statements),
    }
    return ResultTable(pa.table(columns), _notes(grouping, (item,)))


def sql(release: Release, text: str) -> ResultTable:
    """See `Release.sql`."""
    selection = parse_select(release.domain, text)
    grouping = Grouping.of(release, selection.by, selection.where)
    both = {item: grouping.figures(item) for item in selection.items if item.figure is not None}
    statements = zip(*(said for _, said in both.values()), strict=True)
    known_by = _texts([_together(of_group) for of_group in statements])
    figures = {item: one for item, (one, _) in both.items()}
    return ResultTable(arrange(grouping, selection, figures, known_by), _notes(grouping, selection.items))


def _together(statements: Sequence[str]) -> str:
    """Several statements as one text, each part of them once."""
    return "; ".join(dict.fromkeys(part for text in statements for part in text.split("; ")))


def arrange(
    groups: Groups, selection: Selection, figures: Mapping[Item, Figures], known_by: pa.Array
) -> pa.Table:
    """The columns of a SELECT: attributes in words, every figure with its error and both ends; in its order."""
    import pyarrow as pa

    keys, columns = _keys(groups), dict[str, pa.Array]()
    names: dict[str, Item] = {KNOWN_BY: selection.items[0]}
    for item in selection.items:
        names[_free(item.name, names)] = item
    del names[KNOWN_BY]
    for name, item in names.items():
        if item.figure is None:
            columns[name] = keys[item.attribute or ""]
            continue
        one = figures[item]
        columns[name] = _numbers(one.value)
        for word, values in (("error", one.error), ("lower", one.lower), ("upper", one.upper)):
            columns[_free(f"{name} {word}", names | columns)] = _numbers(values)
    columns[KNOWN_BY] = known_by
    whole = _ordered(pa.table(columns), groups, selection, figures)
    return whole if selection.limit is None else whole.slice(0, selection.limit)


def _keys(groups: Groups) -> dict[str, pa.Array]:
    """The groups in words."""
    import pyarrow as pa

    domain = groups.domain
    return {
        name: word_column(groups.codes[:, i].astype(np.int32), label_list(domain, name)).cast(pa.string())
        for i, name in enumerate(groups.by)
    }


def _ordered(
    whole: pa.Table, groups: Groups, selection: Selection, figures: Mapping[Item, Figures]
) -> pa.Table:
    """In the order that is asked for; attributes by the order of their cells, figures by their value."""
    if not selection.order:
        return whole
    keys: list[Any] = []
    for place, largest_first in reversed(selection.order):
        item = selection.items[place]
        if item.figure is None:
            column = groups.codes[:, groups.by.index(item.attribute or "")].astype(np.float64)
        else:
            column = figures[item].value
        keys.append(-column if largest_first else column)
    return whole.take(number_column(np.lexsort(keys)))


def _notes(grouping: Grouping, items: Sequence[Item]) -> tuple[str, ...]:
    """What a reader has to know about the figures."""
    release = grouping.release
    notes = [f"NOT PRIVATE: {release.watermark}"] if release.watermark is not None else []
    notes += grouping.remarks
    if len(grouping.codes) > MAX_EACH:
        notes.append(
            f"of more than {MAX_EACH:,} groups only what is stated for all of them at once is shown; a single one "
            "may be known better, and an answer to its condition says so"
        )
    numeric = [item for item in items if item.figure in ("sum", "mean", "quantile")]
    by_cells = {item.attribute for item in numeric if not grouping.has_own_sum(item)}
    for name in dict.fromkeys(item.attribute for item in numeric):
        attribute = release.domain[name or ""]
        low, high = attribute.ends()
        if name in by_cells and (high > low).any():
            notes.append(
                f"{name} is known by cells of up to {float((high - low).max()):g}: where a value lies inside its cell "
                "is not known, and the error includes it"
            )
        if not attribute.overflow:
            notes.append(
                f"values of {name} outside {attribute.edge(0):g} to {attribute.edge(attribute.cells):g} count as the "
                "nearest bound"
            )
        if attribute.size > attribute.cells:
            notes.append(f"records without a declared value of {name} are left out")
    return tuple(notes)


def _free(name: str, columns: dict[str, Any]) -> str:
    """The name, or with a number behind it if it is taken."""
    number = 2
    free = name
    while free in columns:
        free, number = f"{name} {number}", number + 1
    return free


def _numbers(values: Floats) -> pa.Array:
    """With nulls where nothing is stated."""
    return number_column(values, missing=np.isnan(values))


def _texts(texts: Sequence[str]) -> pa.Array:
    places = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    return word_column(np.array([places[text] for text in texts], dtype=np.int32), list(places))


def _is_number(field: pa.Field) -> bool:
    import pyarrow as pa

    return pa.types.is_floating(field.type) or pa.types.is_integer(field.type)


def _short(value: Any) -> str:
    """A cell as text: four significant digits at least, thousands apart."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return str(value)


LABEL = 32
"""Characters of a statement that stands in a table as it is."""


def short_statement(text: str) -> str:
    """A label for the statement behind an error, for tables that people read."""
    if len(text) <= LABEL:
        return text
    if "; " in text:
        return ", ".join(dict.fromkeys(short_statement(part) for part in text.split("; ")))
    for one in (*COMBINATIONS.values(), *CLASSES.values()):
        if text == f"certified for {one.says}":
            return one.name
    if text.endswith("every query of the workload"):
        return "workload"
    if text == sums.STATEMENT:
        return "noise of its own sum"
    if text.startswith("from the noise"):
        return "noise of the measured tables"
    return f"{text[: LABEL - 3].rstrip(' ,;')}..."

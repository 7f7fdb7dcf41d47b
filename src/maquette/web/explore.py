"""Looking into a release: tables, charts, SQL and files. Post-processing of what is public; costs nothing.

Published releases: folders by a short name, each read once and checked against its ledger where one is at hand.
"""

from __future__ import annotations

import io
import math
import os
import re
import tempfile
import threading
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from fastapi.responses import FileResponse
from starlette.background import BackgroundTask

from maquette.core.attribute import Kind
from maquette.errors import ParameterError, ReleaseError, WorkloadError
from maquette.results.export import dictionary, long_form, plain_texts
from maquette.results.folder import MANIFEST
from maquette.results.loading import load
from maquette.results.pairs import CrossTable
from maquette.web import charts, conditions, plain
from maquette.web.once import MadeOnce

if TYPE_CHECKING:
    import pyarrow as pa

    from maquette.domain import Domain
    from maquette.results.release import Release
    from maquette.results.tables import ResultTable

MAX_COLUMNS = 4
"""Attributes of one table."""
MAX_CELLS = 200_000
"""Cells of a table that is made on demand."""
MAX_CHART = 400
"""Cells that a page draws; a larger table is downloaded, or shown without a chart."""
MAX_BARS = 60
"""Cells of a column by which a page offers to break down."""
MAX_SKETCHES = 40
"""Columns of the picture of a release."""
MAX_SKETCH_BARS = 6
"""Bars of one of them; of more cells a strip is drawn."""
MAX_ROWS = 200
"""Rows of a table on a page; all of them are in the download."""
MAX_TEXT = 4096
"""Characters of a condition or a statement."""
MEDIA = {
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "zip": "application/zip",
}


@dataclass(frozen=True, slots=True)
class Look:
    """What is looked at: the part of an address that names a table of a release."""

    by: tuple[str, ...]
    figure: str = "count(*)"
    where: str = ""
    sort: str = ""
    """"size" for the largest first; else the order of the cells."""
    shape: str = ""
    """"small" for small multiples of two columns; else a map."""

    @property
    def query(self) -> str:
        """As a part of an address."""
        others = {"figure": self.figure, "where": self.where, "sort": self.sort, "as": self.shape}
        return urlencode([("by", name) for name in self.by] + [one for one in others.items() if one[1]])

    def with_where(self, where: str) -> Look:
        return replace(self, where=where)

    def with_sort(self, sort: str) -> Look:
        return replace(self, sort=sort)

    def with_shape(self, shape: str) -> Look:
        return replace(self, shape=shape)

    def broken_down(self, column: str) -> Look:
        """By one column more; a third one takes the place of the second."""
        return replace(self, by=(self.by[0], column))


@dataclass(frozen=True, slots=True)
class View:
    """One table of a release as a page shows it."""

    look: Look
    table: ResultTable
    domain: Domain
    bars: list[charts.Mark]
    heat: CrossTable[charts.Mark] | None
    multiples: list[tuple[str, list[charts.Mark]]]
    statement: str
    parts: list[conditions.Part]
    """The condition, column by column."""
    further: tuple[str, ...]
    """Columns by which it may be broken down."""

    @property
    def names(self) -> tuple[str, ...]:
        return self.look.by

    @property
    def columns_and_rows(self) -> tuple[list[str], list[list[str]]]:
        """The first rows in words."""
        return in_words(self.table.column_names, _lines(self.table), self.domain, self.look.figure)

    @property
    def sql(self) -> str:
        """The SELECT that means the same."""
        names = ", ".join(plain.sql_name(name) for name in self.names)
        only = f" WHERE {self.look.where}" if self.look.where else ""
        return f"SELECT {names}, {self.look.figure} FROM release{only} GROUP BY {names}"  # noqa: S608  (a text to copy)

    @property
    def call(self) -> str:
        """The call of `Release.table` that means the same."""
        more = f", values={self.look.figure!r}" if self.look.figure != "count(*)" else ""
        more += f", where={self.look.where!r}" if self.look.where else ""
        return f"table({', '.join(map(repr, self.names))}{more})"


def view(
    release: Release,
    names: Sequence[str],
    *,
    figure: str = "",
    where: str = "",
    sort: str = "",
    shape: str = "",
) -> View:
    """A table over some attributes, with bars for one and a heat map or small multiples for two."""
    chosen = tuple(dict.fromkeys(name for name in names if name))
    if len(chosen) > MAX_COLUMNS:
        raise ParameterError(f"a table has at most {MAX_COLUMNS} attributes; choose fewer")
    check_size(release, chosen)
    check_text(where)
    look = Look(
        chosen,
        figure or "count(*)",
        where,
        "size" if sort == "size" else "",
        "small" if shape == "small" else "",
    )
    table = release.table(*chosen, values=figure or None, where=where or None)
    rows = table.to_pylist() if len(table) <= MAX_CHART else []
    if look.sort:
        rows.sort(key=lambda row: -math.inf if row["value"] is None else -row["value"])
    domain, parts = release.domain, conditions.parts(release.domain, where)
    used = {*chosen, *(part.column for part in parts)}
    further = tuple(n for n in release.measured if n not in used and domain[n].size <= MAX_BARS)
    link = partial(_behind, domain, look, further)
    chart = charts.Chart.of(rows, [domain[name] for name in chosen], look.figure, link)
    is_pair = len(chosen) == 2 and bool(rows)
    return View(
        look=look,
        table=table,
        domain=domain,
        bars=chart.bars(rows, chosen[0]) if len(chosen) == 1 else [],
        heat=chart.heat_map(rows, *chosen) if is_pair and not look.shape else None,
        multiples=chart.multiples(rows, *chosen) if is_pair and look.shape else [],
        statement=str(table["known_by"][0]) if len(table) else "",
        parts=parts,
        further=further,
    )


def _behind(domain: Domain, look: Look, further: Sequence[str], codes: tuple[int, ...]) -> str | None:
    """Where a bar or a cell leads: to its records alone, by the next column that is left."""
    where: str | None = look.where
    for name, code in zip(look.by, codes, strict=True):
        where = conditions.narrowed(domain, where or "", name, code)
        if where is None:
            return None
    by = tuple(further[:1]) or look.by[:1]
    return f"explore?{replace(look, by=by, where=where or '', shape='').query}"


def in_words(
    names: Sequence[str], rows: Sequence[Sequence[Any]], domain: Domain, figure: str = ""
) -> tuple[list[str], list[list[str]]]:
    """A result as people read it: each figure with its error in one cell, cells and statements in words."""
    places = {name: i for i, name in enumerate(names)}
    ends = {name: f"{name} error" for name in names if f"{name} error" in places}
    ends |= {"value": "error"} if "value" in places and "error" in places else {}
    ends |= {"count": ""} if "value" in ends and "count" in places else {}
    shown = [n for n in names if n in ends or n in domain or n in HEADS or not _is_end(n, ends)]
    heads = [plain.figure_name(figure or n) if n == "value" else HEADS.get(n, n) for n in shown]
    cells = {
        n: {domain[n].label(c): plain.cell(domain[n], c) for c in range(domain[n].size)}
        for n in shown
        if n in domain
    }

    def text(name: str, row: Sequence[Any]) -> str:
        value = row[places[name]]
        if name in cells:
            return cells[name].get(str(value), str(value))
        if name in ends:
            error = row[places[ends[name]]] if ends[name] else None
            return str(plain.figure(figure or name, value, error))
        if name == "below_noise":
            return "yes" if value else ""
        if name == "known_by":
            return plain.statement(str(value))
        return plain.in_words(value)

    return heads, [[text(name, row) for name in shown] for row in rows]


HEADS = {"below_noise": "may be zero", "known_by": "how it is known"}
"""What columns of a result are called on a page."""


def _is_end(name: str, figures: Mapping[str, str]) -> bool:
    """Is it the error or an end of a figure, which stands beside that?"""
    base, _, what = name.rpartition(" ")
    return what in ("error", "lower", "upper") and (base in figures or (not base and "value" in figures))


def _lines(table: ResultTable) -> list[list[Any]]:
    return [list(row.values()) for row in table.arrow.slice(0, MAX_ROWS).to_pylist()]


def shown(table: ResultTable, domain: Domain) -> tuple[list[str], list[list[str]]]:
    """The first rows of a SELECT in words."""
    return in_words(table.column_names, _lines(table), domain)


@dataclass(frozen=True, slots=True)
class Sketch:
    """One column in the overview of a release: a few bars, or a strip of many."""

    name: str
    marks: list[charts.Mark]
    most: charts.Mark
    is_strip: bool


def overview(release: Release, read: Callable[[str], View]) -> list[Sketch]:
    """Pictures of the columns, those first that say most; `read` makes the table of shares over one."""
    sketches: list[tuple[int, Sketch]] = []
    for name in release.measured:
        if release.domain[name].size > MAX_CHART or len(sketches) >= MAX_SKETCHES:
            continue
        marks = read(name).bars
        if marks:
            most = max(marks, key=lambda mark: mark.length)
            sketches.append((_weight(marks), Sketch(name, marks, most, len(marks) > MAX_SKETCH_BARS)))
    return [sketch for _, sketch in sorted(sketches, key=lambda one: -one[0])]


def _weight(marks: Sequence[charts.Mark]) -> int:
    """How much a column says, in half bits of its entropy; more than three bits count as three."""
    total = sum(mark.length for mark in marks) or 1.0
    shares = [mark.length / total for mark in marks if mark.length > 0]
    return round(2 * min(-sum(share * math.log2(share) for share in shares), 3.0))


def sql(release: Release, statement: str) -> ResultTable:
    """One SELECT over a release, within the limits of a page."""
    from maquette.results.select import parse_select

    check_text(statement)
    check_size(release, parse_select(release.domain, statement).by)
    return release.sql(statement)


def check_size(release: Release, names: Sequence[str]) -> None:
    """Refuse a table that would take long to make."""
    for name in names:
        release.domain[name]
    cells = release.domain.cells(names)
    if cells > MAX_CELLS:
        raise WorkloadError(
            f"the table over {', '.join(names)} has {cells:,} cells, and this page makes at most {MAX_CELLS:,}; choose "
            "fewer attributes, or download the rows"
        )


def check_text(text: str) -> None:
    if len(text) > MAX_TEXT:
        raise ParameterError(f"a text of at most {MAX_TEXT:,} characters is expected, got {len(text):,}")


def figures(release: Release) -> list[str]:
    """What a table can show: counts, shares, and figures of the numeric attributes."""
    numeric = [name for name in release.measured if release.domain[name].kind is Kind.NUMERIC]
    return ["count(*)", "share()", *(f"{f}({name})" for name in numeric for f in ("mean", "median", "sum"))]


# Files.


def file(table: pa.Table, form: str) -> bytes:
    """A table as the bytes of a CSV or Parquet file."""
    import pyarrow.csv
    import pyarrow.parquet

    buffer = io.BytesIO()
    if form == "csv":
        pyarrow.csv.write_csv(_without_formulas(plain_texts(table)), buffer)
    elif form == "parquet":
        pyarrow.parquet.write_table(table, buffer, compression="zstd")
    else:
        raise ParameterError(f"expected one of the forms csv and parquet, got '{form}'")
    return buffer.getvalue()


FORMULA = "[=+@\\-\t\r\n\uff1d\uff0b\uff0d\uff20].*"
"""A text that a spreadsheet would run, or take apart and run; a number with its sign is none."""
NUMBER = r"[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?"


def plain_cell(value: Any) -> Any:
    """A cell of a CSV file; before a text that a spreadsheet would run stands a quote, which makes it a text."""
    if not isinstance(value, str) or re.fullmatch(NUMBER, value):
        return value
    return f"'{value}" if re.fullmatch(FORMULA, value, re.DOTALL) else value


def _without_formulas(table: pa.Table) -> pa.Table:
    """The same for all cells and names of a table."""
    import pyarrow as pa
    import pyarrow.compute

    pc: Any = pyarrow.compute

    def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            return column
        is_number = pc.match_substring_regex(column, f"^{NUMBER}$")
        runs = pc.and_not(pc.match_substring_regex(column, f"(?s)^{FORMULA}$"), is_number)
        quote, nothing = (pa.scalar(text, column.type) for text in ("'", ""))
        return pc.if_else(runs, pc.binary_join_element_wise(quote, column, nothing), column)

    names = [plain_cell(name) for name in table.column_names]
    return pa.Table.from_arrays([plain(column) for column in table.columns], names=names)


def packed(folder: Path, name: str) -> FileResponse:
    """A release folder as one file; a temporary one, gone when it is sent."""
    handle, place = tempfile.mkstemp(suffix=".zip")
    with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.iterdir()):
            if path.is_file():
                archive.write(path, f"{name}.maquette/{path.name}")
    return FileResponse(
        place, media_type=MEDIA["zip"], filename=f"{name}.zip", background=BackgroundTask(os.unlink, place)
    )


def whole_table(release: Release, what: str) -> pa.Table:
    """The rows, the answers or the dictionary of a release."""
    import pyarrow as pa

    if what == "rows":
        return release.rows
    if what == "dictionary":
        return dictionary(release)
    if what == "answers":
        if not release.listed or release.workload.count > 5_000_000:
            raise WorkloadError("this release has too many answers for one file; take its rows")
        return pa.concat_tables(long_form(release), promote_options="permissive")
    raise ParameterError(f"expected rows, answers or dictionary, got '{what}'")


MAX_VIEWS, MAX_VIEW_ROWS = 256, 5_000
"""Tables of releases that are remembered, and rows of the largest of them."""


class Catalog:
    """Release folders by name. A folder is read when it is first looked at; a damaged one is refused by itself."""

    def __init__(
        self, folders: Mapping[str, Path], *, check: Callable[[Path], str | None] | None = None
    ) -> None:
        """`check` holds a folder against a ledger that this process cannot open, and says what came of it."""
        self._check = check
        self._folders = dict(folders)
        self._releases: MadeOnce[Release] = MadeOnce()
        self._views: OrderedDict[tuple[Any, ...], View] = OrderedDict()
        self._mutex = threading.Lock()

    @classmethod
    def of(cls, paths: Iterable[Path]) -> Catalog:
        """Release folders, or folders that hold some; every one is read, so that what is damaged is said at once."""
        folders: dict[str, Path] = {}
        for path in paths:
            for folder in _folders_in(path):
                folders[free_name(short_name(folder.stem), folders)] = folder
        catalog = cls(folders)
        for name in folders:
            catalog.release(name)
        return catalog

    def names(self) -> list[str]:
        return sorted(self._folders)

    def __contains__(self, name: object) -> bool:
        return name in self._folders

    def add(self, name: str, folder: Path) -> None:
        """One more release, that was just made."""
        with self._mutex:
            self._folders[name] = folder
            self._releases.forget(name)
            self._views.clear()

    def folder(self, name: str) -> Path:
        try:
            return self._folders[name]
        except KeyError:
            raise ReleaseError(f"there is no release called '{name}'") from None

    def release(self, name: str) -> Release:
        """The release of a name, read when it is first asked for; others are read and shown meanwhile."""
        return self._releases.get(name, lambda: self._read(self.folder(name)))

    def readable(self, names: Iterable[str]) -> tuple[list[tuple[str, Release]], list[str]]:
        """The releases of these names that can be read, and the names of the damaged ones, which hide no other."""
        whole: list[tuple[str, Release]] = []
        damaged: list[str] = []
        for name in names:
            try:
                whole.append((name, self.release(name)))
            except ReleaseError:
                damaged.append(name)
        return whole, damaged

    def overview(self, name: str) -> list[Sketch]:
        """The picture of all columns of a release."""
        return overview(self.release(name), lambda column: self.view(name, [column], figure="share()"))

    def _read(self, folder: Path) -> Release:
        release = load(folder)
        checked = None if self._check is None else self._check(folder)
        return release if checked is None else replace(release, checked=checked)

    def view(self, name: str, by: Sequence[str], **look: str) -> View:
        """One table of a release. A release does not change, so that what was made once is shown again."""
        release = self.release(name)
        key = (name, id(release), tuple(by), *sorted(look.items()))
        with self._mutex:
            if key in self._views:
                self._views.move_to_end(key)
                return self._views[key]
        result = view(release, by, **look)
        if len(result.table) <= MAX_VIEW_ROWS:
            with self._mutex:
                self._views[key] = result
                while len(self._views) > MAX_VIEWS:
                    self._views.popitem(last=False)
        return result


def short_name(text: str) -> str:
    """A name that stands in an address as it is."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60] or "release"


def free_name(name: str, names: Iterable[str]) -> str:
    """The name, or with a number behind it where it is in use."""
    others, number, free = set(names), 2, name
    while free in others:
        free, number = f"{name}-{number}", number + 1
    return free


def _folders_in(path: Path) -> list[Path]:
    if (path / MANIFEST).is_file():
        return [path]
    inside = sorted(folder.parent for folder in path.glob(f"*/{MANIFEST}")) if path.is_dir() else []
    if not inside:
        raise ReleaseError(
            f"{path} is no release folder and holds none; make one with maquette release ... -o NAME.maquette"
        )
    return inside

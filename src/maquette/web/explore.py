"""Looking into a release: tables, charts, SQL and files. Post-processing of what is public; costs nothing.

Published releases: folders by a short name, each read once and checked against its ledger where one is at hand.
"""

from __future__ import annotations

import io
import os
import re
import tempfile
import threading
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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
from maquette.web import charts
from maquette.web.once import MadeOnce

if TYPE_CHECKING:
    import pyarrow as pa

    from maquette.results.release import Release
    from maquette.results.tables import ResultTable

MAX_COLUMNS = 4
"""Attributes of one table."""
MAX_CELLS = 200_000
"""Cells of a table that is made on demand."""
MAX_CHART = 400
"""Cells that a page draws; a larger table is downloaded, or shown without a chart."""
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
class View:
    """One table of a release as a page shows it."""

    names: tuple[str, ...]
    figure: str
    where: str
    table: ResultTable
    bars: list[charts.Bar]
    heat: CrossTable[charts.ShadedCell] | None
    specification: dict[str, Any] | None
    """The same chart for Vega-Lite."""
    statement: str

    @property
    def rows(self) -> list[list[str]]:
        return rows_of(self.table)


def view(release: Release, names: Sequence[str], *, figure: str = "", where: str = "") -> View:
    """A table over some attributes, with bars for one and a heat map for two."""
    chosen = tuple(dict.fromkeys(name for name in names if name))
    if len(chosen) > MAX_COLUMNS:
        raise ParameterError(f"a table has at most {MAX_COLUMNS} attributes; choose fewer")
    check_size(release, chosen)
    check_text(where)
    table = release.table(*chosen, values=figure or None, where=where or None)
    rows = table.to_pylist() if len(table) <= MAX_CHART else []
    statement = str(table["known_by"][0]) if len(table) else ""
    return View(
        names=chosen,
        figure=figure or "count(*)",
        where=where,
        table=table,
        bars=charts.bars(rows, chosen[0]) if len(chosen) == 1 else [],
        heat=charts.heat_map(rows, *chosen) if len(chosen) == 2 and rows else None,
        specification=charts.specification(rows, chosen, figure or "count(*)")
        if rows and len(chosen) in (1, 2)
        else None,
        statement=statement,
    )


def query_of(shown: View) -> str:
    """The part of an address that names this table."""
    return urlencode({"by": shown.names, "figure": shown.figure, "where": shown.where}, doseq=True)


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


def rows_of(table: ResultTable) -> list[list[str]]:
    """The first rows in words."""
    return [
        [cell(row[name]) for name in table.column_names] for row in table.arrow.slice(0, MAX_ROWS).to_pylist()
    ]


def cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return charts.figure(value) if isinstance(value, float) or value is None else str(value)


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

    def _read(self, folder: Path) -> Release:
        release = load(folder)
        checked = None if self._check is None else self._check(folder)
        return release if checked is None else replace(release, checked=checked)

    def view(self, name: str, by: Sequence[str], *, figure: str = "", where: str = "") -> View:
        """One table of a release. A release does not change, so that what was made once is shown again."""
        release = self.release(name)
        key = (name, id(release), tuple(by), figure, where)
        with self._mutex:
            if key in self._views:
                self._views.move_to_end(key)
                return self._views[key]
        result = view(release, by, figure=figure, where=where)
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

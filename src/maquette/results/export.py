"""A release as files for other programs: rows, tables with errors, a data dictionary, and metadata.

    datapackage.json     what the files hold, by the Frictionless standard, with the privacy statement
    croissant.json       the same by the Croissant standard, for catalogues of data sets
    dictionary.csv       every column and every value it can have
    rows.csv             the synthetic rows, in real values
    answers.csv          every released answer with what it is about, in its long form
    tables/age_sex.csv   one table as a frame: value, count, error, lower, upper

The same as Parquet, or all in one workbook. The long form is written in pieces, so that tens of millions of answers
take seconds and little memory. The folder is written whole or not at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from maquette.core import _check
from maquette.core._arguments import checks
from maquette.domain import Attribute
from maquette.errors import ParameterError, ReleaseError
from maquette.results import replacing, wording
from maquette.results.answer_file import answer_tables
from maquette.results.catalogue import CROISSANT, PACKAGE, File, croissant, data_package
from maquette.results.columns import number_column
from maquette.results.folder import REPORT
from maquette.results.report import render
from maquette.results.tables import ResultTable

if TYPE_CHECKING:
    import pyarrow as pa

    from maquette.results.release import Release

Form = Literal["csv", "parquet", "xlsx"]
FORMS: tuple[Form, ...] = ("csv", "parquet", "xlsx")
MAX_SHEET = 1_048_575
"""Rows of a sheet below its head; more do not fit any spreadsheet program."""
MAX_DICTIONARY = 100_000
"""Values of one column that the dictionary lists; beyond that it names the first and the last."""
BOOK = "release.xlsx"


@checks("release", "path", "tables", "replace")
def export(
    release: Release,
    path: str | Path,
    *,
    forms: Sequence[Form] = ("csv",),
    tables: Sequence[Sequence[str]] = (),
    replace: bool = False,
) -> Path:
    """Write a folder of plain files; see `Release.export`."""
    target = Path(path)
    if not isinstance(forms, (list, tuple)) or not forms:
        raise ParameterError(
            f"expected a list of some of the forms {', '.join(FORMS)}, got {_check.shown(forms)}"
        )
    for form in forms:
        _check.one_of(FORMS, form=form)
    frames = {_name(names): release.table(*names) for names in tables}
    if len(frames) < len(tables):
        raise ParameterError("a table is named twice")
    _check_target(target, replace=replace)
    try:
        with replacing.draft(target) as draft:
            files = [file for form in dict.fromkeys(forms) for file in _write(release, draft, form, frames)]
            (draft / PACKAGE).write_text(data_package(release, files), encoding="utf-8")
            (draft / CROISSANT).write_text(croissant(release, files, draft), encoding="utf-8")
            beside = [
                *((file.path, file.title) for file in files),
                (PACKAGE, "what the files are, for programs"),
                (CROISSANT, "the same, for catalogues of data sets"),
            ]
            (draft / REPORT).write_text(render(release, beside), encoding="utf-8")
            replacing.move(draft, target)
    except OSError as error:
        raise ReleaseError(f"cannot write {target}: {error.strerror or type(error).__name__}") from None
    return target


def _check_target(path: Path, *, replace: bool) -> None:
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    if not (path.is_dir() and (path / PACKAGE).is_file()):
        raise ReleaseError(f"{path} exists and is no export; nothing was written there, choose another place")
    if not replace:
        raise ReleaseError(
            f"{path} holds an export, which stays; choose another place, or replace it (--replace)"
        )


def _write(release: Release, folder: Path, form: Form, frames: dict[str, ResultTable]) -> Iterator[File]:
    if form == "xlsx":
        yield _workbook(release, folder / BOOK, frames)
        return
    if form == "csv":
        yield _file(
            folder, "dictionary", form, "every column and every value it can have", [dictionary(release)]
        )
    if release.database is not None:
        title = f"{release.database.m:,} synthetic rows; no row is a person"
        yield _file(folder, "rows", form, title, [release.rows])
    if release.listed:
        title = f"{wording.big(release.workload.count)} released answers with their stated errors"
        yield _file(folder, "answers", form, title, long_form(release))
    for name, frame in frames.items():
        (folder / "tables").mkdir(exist_ok=True)
        yield _file(
            folder, f"tables/{name}", form, f"the table over {name.replace('_', ' and ')}", [frame.arrow]
        )


def long_form(release: Release) -> Iterator[pa.Table]:
    """Every listed answer: what it is about, share, count, error and the ends, in pieces."""
    n = release.size.divisor
    for piece in answer_tables(release):
        share, error = piece["share"].to_numpy(), piece["error"].to_numpy()
        ends = {"lower": np.maximum(share - error, 0), "upper": np.minimum(share + error, 1)}
        plain = piece.drop_columns(
            ["numerator", *(["deviation"] if "deviation" in piece.column_names else [])]
        )
        plain = plain.add_column(
            plain.column_names.index("share") + 1, "count", number_column((share * n).astype(np.float32))
        )
        for name, values in ends.items():
            plain = plain.append_column(
                name, number_column(values.astype(np.float32), missing=np.isnan(values))
            )
        yield plain


def dictionary(release: Release) -> pa.Table:
    """One row for every value that a column can have."""
    import pyarrow as pa

    lines = [line for name in release.measured for line in _values(release.domain[name])]
    heads = ("column", "kind", "value", "meaning")
    return pa.table({head: [line[i] for line in lines] for i, head in enumerate(heads)})


def _values(attribute: Attribute) -> Iterator[tuple[str, str, str, str]]:
    kind = str(attribute.kind)
    meanings = {attribute.null_cell: "no value", attribute.overflow_cell: "a value that is not declared"}
    codes: Sequence[int] = range(attribute.size)
    if attribute.size > MAX_DICTIONARY:
        codes = [0, *range(attribute.cells - 1, attribute.size)]
    for code in codes:
        meaning = meanings[code] if code in meanings else _meaning(attribute, code)
        yield attribute.name, kind, attribute.label(code), meaning


def _meaning(attribute: Attribute, code: int) -> str:
    if attribute.bounds is None and attribute.edges is None:
        return ""
    low, high = attribute.edge(code), attribute.edge(code + 1)
    return f"values from {low:.12g} to {high:.12g}"


def _file(folder: Path, name: str, form: Form, title: str, pieces: Any) -> File:
    """One table in one file, written piece by piece."""
    path = folder / f"{name}.{form}"
    writer: Any = None
    schema: pa.Schema | None = None
    try:
        for piece in pieces:
            if writer is None:
                schema = piece.schema
                writer = _writer(path, form, piece)
            writer.write_table(plain_texts(piece) if form == "csv" else piece)
    finally:
        if writer is not None:
            writer.close()
    assert schema is not None
    fields = tuple((field.name, _field_type(field.type)) for field in schema)
    return File(path.relative_to(folder).as_posix(), title, fields)


def _writer(path: Path, form: Form, piece: pa.Table) -> Any:
    import pyarrow.csv
    import pyarrow.parquet

    if form == "csv":
        return pyarrow.csv.CSVWriter(path, plain_texts(piece).schema)
    return pyarrow.parquet.ParquetWriter(path, piece.schema, compression="zstd")


def plain_texts(piece: pa.Table) -> pa.Table:
    """With texts in place of dictionaries, which CSV has none of."""
    import pyarrow as pa

    kinds = [pa.string() if pa.types.is_dictionary(field.type) else field.type for field in piece.schema]
    return piece.cast(pa.schema(zip(piece.column_names, kinds, strict=True)))


def _field_type(kind: pa.DataType) -> str:
    import pyarrow as pa

    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind):
        return "integer"
    return "number" if pa.types.is_floating(kind) else "string"


def _workbook(release: Release, path: Path, frames: dict[str, ResultTable]) -> File:
    """Rows, tables, the dictionary and what is stated, a sheet each."""
    try:
        import xlsxwriter
    except ImportError:
        raise ReleaseError(
            "writing a workbook needs the package XlsxWriter: pip install 'maquette-dp[excel]'; or export as csv"
        ) from None
    sheets: dict[str, pa.Table] = {"dictionary": dictionary(release)}
    if release.database is not None:
        sheets = {"rows": release.rows} | sheets
    sheets |= {name: frame.arrow for name, frame in frames.items()}
    long = [
        f"{name} ({table.num_rows:,} rows)" for name, table in sheets.items() if table.num_rows > MAX_SHEET
    ]
    if long:
        raise ReleaseError(f"too long for a sheet of a workbook: {', '.join(long)}; export as csv or parquet")
    used: dict[str, None] = {}
    with xlsxwriter.Workbook(str(path), {"constant_memory": True, "strings_to_formulas": False}) as book:
        bold = book.add_format({"bold": True})
        about = book.add_worksheet("about")
        about.set_column(0, 0, 20)
        about.set_column(1, 1, 100)
        for i, (name, text) in enumerate({"release": release.headline, **release.facts()}.items()):
            about.write_string(i, 0, name, bold)
            about.write_string(i, 1, text)
        for name, table in sheets.items():
            sheet = book.add_worksheet(_sheet_name(name, used))
            sheet.freeze_panes(1, 0)
            for column, head in enumerate(table.column_names):
                sheet.write_string(0, column, head, bold)
            for row, line in enumerate(
                zip(*(table[c].to_pylist() for c in table.column_names), strict=True), start=1
            ):
                for column, value in enumerate(line):
                    _cell(sheet, row, column, value)
    return File(path.name, "the release as a workbook", ())


def _cell(sheet: Any, row: int, column: int, value: Any) -> None:
    if value is None or (isinstance(value, float) and not np.isfinite(value)):
        return
    if isinstance(value, bool):
        sheet.write_boolean(row, column, value)
    elif isinstance(value, int | float):
        sheet.write_number(row, column, value)
    else:
        sheet.write_string(row, column, str(value))


def _sheet_name(name: str, used: dict[str, None]) -> str:
    """At most 31 characters, without those that a sheet's name cannot have, and not used before."""
    plain = re.sub(r"[\[\]:*?/\\']", " ", name)[:28] or "table"
    free, number = plain, 2
    while free.lower() in used:
        free, number = f"{plain} {number}", number + 1
    used[free.lower()] = None
    return free


def _name(names: Sequence[str]) -> str:
    """The name of a table's file: letters and digits of its attributes."""
    if not names:
        raise ParameterError("a table needs at least one attribute")
    return "_".join(re.sub(r"[^\w-]", "-", name) for name in names)

"""The folder of a release of several tables, and its rows as files for other programs.

tables.json     the declaration, the promise, and the key of the run
NAME/           the release folder of each table
links.npz       which row of a table's release stands under which row of the parent
rows/           the rows that belong together, a Parquet file for each table
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from maquette.core import _check
from maquette.core.budget import Budget
from maquette.errors import MaquetteError, ParameterError, ReleaseError
from maquette.linked.rows import LinkedRows, columns_of
from maquette.results import document, folder, loading, replacing
from maquette.results.export import plain_texts
from maquette.schema import Schema

if TYPE_CHECKING:
    from maquette.accounting.ledger import Ledger
    from maquette.linked.release import LinkedRelease

Form = Literal["csv", "parquet", "duckdb", "sqlite"]
FORMS: tuple[Form, ...] = ("csv", "parquet", "duckdb", "sqlite")
FORMAT = 1
MANIFEST, LINKS, ROWS = "tables.json", "links.npz", "rows"


def check_place(path: Path, *, replace: bool = False, keys: Collection[str] = ()) -> None:
    """Refuse a place that cannot take such a folder, before anything is paid for.

    A release that is there stays, unless it may be replaced or is one that these keys repeat.
    """
    replacing.recover(path)
    _check_target(path, replace=replace or _key_of(path) in keys)
    folder.check_writable(path)


def save(release: LinkedRelease, path: Path, *, report: bool, replace: bool) -> Path:
    """Write the folder beside its place, then move it there in one step; the same release is written again."""
    replacing.recover(path)
    same = all(folder.is_there(view, path / name) for name, view in release.views.items())
    _check_target(path, replace=replace or same)
    try:
        with replacing.draft(path) as draft:
            for name, view in release.views.items():
                folder.save(view, draft / name, report=report)
            if all(view.database is not None for view in release.views.values()):
                np.savez(draft / LINKS, **_arrays(release))  # pyright: ignore[reportArgumentType]
                _write_rows(release, draft / ROWS, "parquet")
            (draft / MANIFEST).write_text(_manifest(release), encoding="utf-8")
            replacing.move(draft, path)
    except OSError as error:
        raise ReleaseError(f"cannot write {path}: {error.strerror or type(error).__name__}") from None
    return path


def is_folder(path: Path) -> bool:
    """Does a folder hold a release of several tables, as far as its names say?"""
    return (path / MANIFEST).is_file()


def load(path: Path, *, ledger: Ledger | str | Path | None) -> dict[str, Any]:
    """The parts of a release of several tables."""
    replacing.recover(path)
    file = path / MANIFEST
    if not is_folder(path):
        raise ReleaseError(f"{path} is not a release of several tables: expected a file {MANIFEST} in it")
    data = document.read_json(file)
    if not _check.is_dict(data) or data.get("format") != FORMAT:
        raise ReleaseError(f"{file} is not of a format that this version reads; install a newer maquette")
    try:
        schema = Schema.from_dict(data["schema"])
        budget, key = Budget(**data["budget"]), document.read(str, data["key"], where="key")
        book = _beside(path) if ledger is None else ledger
        views = {name: loading.load(path / name, ledger=book) for name in schema.names}
        for name, view in views.items():
            if view.domain.fingerprint != schema.domain(name).fingerprint:
                raise ReleaseError(
                    f"the release of table '{name}' has other columns than the schema declares"
                )
        stored = _read_links(path / LINKS, schema, views) if (path / LINKS).is_file() else None
    except MaquetteError:
        raise
    except Exception as error:  # what a stranger wrote may fail anywhere
        raise ReleaseError(f"{path} does not hold a readable release ({type(error).__name__})") from None
    return {"schema": schema, "views": views, "budget": budget, "key": key, "stored": stored}


def export(release: LinkedRelease, path: Path, *, forms: Sequence[Form], replace: bool) -> Path:
    """Write the rows as plain files or as databases, whole or not at all."""
    if not isinstance(forms, (list, tuple)) or not forms:
        raise ParameterError(f"expected a list of some of the forms {', '.join(FORMS)}")
    for form in forms:
        _check.one_of(FORMS, form=form)
    if path.exists() and not replace:
        raise ReleaseError(f"{path} is there and stays; choose another place, or replace it")
    try:
        with replacing.draft(path) as draft:
            for form in dict.fromkeys(forms):
                _write_rows(release, draft, form)
            (draft / MANIFEST).write_text(_manifest(release), encoding="utf-8")
            replacing.move(draft, path)
    except OSError as error:
        raise ReleaseError(f"cannot write {path}: {error.strerror or type(error).__name__}") from None
    return path


def _check_target(path: Path, *, replace: bool) -> None:
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    if not is_folder(path):
        raise ReleaseError(f"{path} exists and is no release of several tables; choose another place")
    if not replace:
        raise ReleaseError(
            f"{path} holds another release, which stays; choose another place, or replace it with "
            "replace=True (--replace on the command line)"
        )


def _key_of(path: Path) -> str | None:
    """The key of the run in a folder, as far as it can be read."""
    try:
        return document.read_json(path / MANIFEST)["key"]
    except (ReleaseError, LookupError, TypeError):
        return None


def _manifest(release: LinkedRelease) -> str:
    budget = release.budget
    data = {
        "format": FORMAT,
        "key": release.key,
        "budget": {name: asdict(budget)[name] for name in ("epsilon", "delta", "accounting")},
        "facts": release.facts(),
        "schema": release.schema.to_dict(),
    }
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def _beside(path: Path) -> Path | None:
    """The one ledger beside the folder, where there is one."""
    ledgers = sorted(path.absolute().parent.glob("*.ledger"))
    return ledgers[0] if len(ledgers) == 1 else None


def _arrays(release: LinkedRelease) -> dict[str, Any]:
    return {
        f"{name}.{part}": values
        for name, linked in release.linked.items()
        for part, values in (("chosen", linked.chosen), ("parents", linked.parents))
    }


def _read_links(path: Path, schema: Schema, views: Any) -> dict[str, LinkedRows]:
    arrays = document.read_arrays(path)
    linked: dict[str, LinkedRows] = {}
    for link in schema.links:
        chosen, parents = (np.asarray(arrays[f"{link.name}.{part}"]) for part in ("chosen", "parents"))
        rows = len(next(iter(columns_of(views[link.name], link.name).values())))
        above = 0 if link.parent is None else len(linked[link.parent])
        inside = [(chosen, rows), (parents, above)]
        if any(part.dtype.kind not in "iu" or (len(part) and not 0 <= part.min() <= part.max() < most)
               for part, most in inside) or (link.parent is not None and len(parents) != len(chosen)):  # fmt: skip
            raise ReleaseError(f"{path} does not fit the releases beside it")
        linked[link.name] = LinkedRows(chosen.astype(np.int64), parents.astype(np.int64))
    return linked


def _write_rows(release: LinkedRelease, place: Path, form: Form) -> None:
    """The rows of every table in one form; keys stay the same in all of them."""
    place.mkdir(exist_ok=True)
    tables = {name: plain_texts(rows) for name, rows in release.rows.items()}
    if form == "duckdb":
        _write_duckdb(tables, place / "tables.duckdb")
    elif form == "sqlite":
        _write_sqlite(tables, place / "tables.sqlite")
    else:
        import pyarrow.csv
        import pyarrow.parquet

        for name, rows in tables.items():
            if form == "csv":
                pyarrow.csv.write_csv(rows, place / f"{name}.csv")
            else:
                pyarrow.parquet.write_table(rows, place / f"{name}.parquet", compression="zstd")


def _write_duckdb(tables: dict[str, Any], path: Path) -> None:
    import duckdb

    with duckdb.connect(str(path)) as connection:
        for name, rows in tables.items():
            connection.register("the_rows", rows)
            connection.execute(f'CREATE TABLE "{name}" AS SELECT * FROM the_rows')  # noqa: S608  (an identifier)
            connection.unregister("the_rows")


def _write_sqlite(tables: dict[str, Any], path: Path) -> None:
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(path)) as connection, connection:
        for name, rows in tables.items():
            columns = ", ".join('"' + column.replace('"', '""') + '"' for column in rows.column_names)
            marks = ", ".join("?" * rows.num_columns)
            connection.execute(f'CREATE TABLE "{name}" ({columns})')
            values = zip(*(rows[column].to_pylist() for column in rows.column_names), strict=True)
            connection.executemany(f'INSERT INTO "{name}" VALUES ({marks})', values)  # noqa: S608  (an identifier)

"""What an installation takes: megabytes of every dependency, without bytecode, as they are installed here.

    python tools/count_install.py            # prints the tables of docs/install.md
    python tools/count_install.py --write    # puts them into the page

A test holds that every dependency has its row, and that the base is within LIMIT.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "install.md"
BEGIN, END = "<!-- sizes: written by tools/count_install.py -->", "<!-- end of sizes -->"
LIMIT = 900
"""Megabytes of the base: libraries that are installed without an extra."""

BASE = {
    "annotated-types": (
        "bounds of the fields of requests",
        "pydantic's own fields, which load it at the start",
    ),
    "jinja2": (
        "pages of reports and of the service",
        "texts put together by hand, which escape what one remembers to",
    ),
    "narwhals": ("data frames of pandas, polars and others by one interface", "a reader for each"),
    "numba": (
        "loops over records and draws",
        "a compiler on the user's machine; wheels of C or Rust for each system",
    ),
    "numpy": ("arrays", "none"),
    "opendp": (
        "reviewed exact samplers of noise and of private choice",
        "own samplers alone, which nobody else has reviewed",
    ),
    "psutil": ("free memory, before a table is read", "files of the system, which differ by system"),
    "pyarrow": (
        "Arrow and Parquet, the form of released rows",
        "DuckDB for Parquet alone; CSV, which loses types",
    ),
    "pydantic": ("domain files and requests, checked with the place of a mistake", "checks by hand"),
    "rich": ("tables and progress in a terminal", "plain text"),
    "scipy": (
        "special functions, linear programs, sparse matrices",
        "own quantiles of laws, which need proofs again",
    ),
    "sqlalchemy": ("the ledger, one code for SQLite and PostgreSQL", "two codes for what must not differ"),
    "sqlglot": ("SQL conditions and SELECTs as trees", "a reader of our own"),
    "typer": ("the command line", "argparse, with help, types and completion written by hand"),
}
"""For each base dependency what it is for, and what was considered in its place."""

EXTRAS = {
    "client": "`mq.connect`: a service from Python",
    "duckdb": "DuckDB files (`.duckdb`, `.db`); connections and relations that you made need nothing",
    "excel": "workbooks, read and written",
    "plots": "pictures: charts as PNG, SVG or HTML, and those of a report, which says its values in words without it",
    "postgres": "tables and ledgers in PostgreSQL",
    "serve": "`maquette serve`",
    "spark": "tables in Spark",
}
"""What each extra is for."""


def normal(name: str) -> str:
    """The name of a package as the index spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def size(name: str) -> float:
    """Megabytes of the files of an installed package, without bytecode."""
    files = distribution(name).files or []
    places = [Path(str(file.locate())) for file in files if file.suffix != ".pyc"]
    return sum(place.stat().st_size for place in places if place.is_file()) / 1e6


def closure(requirements: Iterable[str]) -> set[str]:
    """The installed packages that these requirements bring."""
    found: set[tuple[str, frozenset[str]]] = set()
    rest = [Requirement(one) for one in requirements]
    while rest:
        requirement = rest.pop()
        key = (normal(requirement.name), frozenset(requirement.extras))
        if key in found:
            continue
        try:
            needs = distribution(requirement.name).requires or []
        except PackageNotFoundError:  # of another system
            continue
        found.add(key)
        for need in map(Requirement, needs):
            extras = requirement.extras or {""}
            if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in extras):
                rest.append(need)
    return {name for name, _ in found}


def tables() -> tuple[str, float]:
    """The tables of the page, and the megabytes of the base."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    needs = {normal(Requirement(one).name): one for one in project["dependencies"]}
    base = closure(needs.values())
    sizes = {name: size(name) for name in base}
    lines = [
        "| base dependency | what it is for | MB that go with it | what was considered instead |",
        "|---|---|---|---|",
    ]
    for name in needs:
        alone = base - closure(one for other, one in needs.items() if other != name)
        own = sum(sizes[part] for part in alone | {name})
        also = ", ".join(sorted(alone - {name}))
        lines.append(
            f"| {name}{f' ({also})' if also else ''} | {BASE[name][0]} | {own:.0f} | {BASE[name][1]} |"
        )
    total = sum(sizes.values())
    lines += [
        "",
        f"Together {total:.0f} MB in {len(base)} packages.",
        "",
        "| extra | what it is for | MB more |",
        "|---|---|---|",
    ]
    for extra, wanted in project["optional-dependencies"].items():
        more = sum(size(name) for name in closure(wanted) - base)
        lines.append(f"| `{extra}` | {EXTRAS[extra]} | {more:.0f} |")
    return "\n".join(lines), total


def main() -> int:
    """Print the tables, or write them."""
    text, total = tables()
    if "--write" in sys.argv[1:]:
        page = PAGE.read_text("utf-8")
        before, after = page.split(BEGIN)[0], page.split(END)[1]
        PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")
    else:
        print(text)
    return 0 if total <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())

"""Record and replay: two whole releases from neighbouring tables, the second with the first one's draws.

Whatever then differs outside the private inputs is a leak: another question, another parameter, another public
number, another line of output, a warning, an exception.
"""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import json
import logging
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import maquette as mq
from maquette import api
from maquette.domain import Attribute, Domain, Kind, Persons, Relation
from maquette.queries.base import Queries
from maquette.results import document
from support.privacy_conformance import Run, WatchingCurator, check_pair, check_residuals, describe
from support.privacy_doubles import Call, Divergence, RecordingNoise, ReplayingNoise, ledger_for
from support.privacy_draws import on_tape

Record = tuple[str, ...]

SURVEY = Domain(
    (
        Attribute("age", Kind.NUMERIC, bounds=(0.0, 90.0), bins=6, nullable=True),
        Attribute("region", Kind.CATEGORICAL, categories=("north", "south", "west"), overflow=True),
        Attribute("member", Kind.BOOLEAN, codes=2),
        Attribute("score", Kind.ORDINAL, codes=4, nullable=True),
    ),
    na_values=("?",),
)
_AGES = mq.prefixes(SURVEY, "age")
SUITED: dict[str, Queries] = {
    "sculpt": mq.union(mq.marginals(SURVEY, k=3), _AGES),
    **dict.fromkeys(
        ("smalldb", "roth", "mw", "mwem", "tree", "square-root", "factorisation", "product"), _AGES
    ),
    "knorm": mq.marginals(SURVEY, attributes=[["score"], ["member"]]),
}
"""Workloads of mechanisms that would refuse, or make little of, the pairs of attributes that the others get."""

ODD: tuple[Record, ...] = (
    ("", "", "", ""),
    ("?", "?", "?", "?"),
    ("nan", "NaN", "nan", "nan"),
    ("inf", "east", "maybe", "99"),
    ("-inf", "NORTH", "TRUE", "-1"),
    ("1e400", "north ", " yes", "1.5"),
    ("-1e400", "nörth", "0", "3.0"),
    ("91", "x" * 5000, "2", "1e9"),
    ("-0.0", 'say "north"', "1", "0x1"),
    ("forty", "north,south", "1.0", "١"),
    ("4 0", "line\nbreak", "false", "½"),
    ("90", "south", "False", "3"),
    ("NULL", "None", "null", "NA"),
    ("0e0", "\ufeffnorth", "t", "２"),
)
"""Records that no declaration foresaw; every one of them is somebody."""


def ordinary(generator: np.random.Generator) -> Record:
    return (
        str(round(float(generator.uniform(-5, 95)), 1)),
        str(generator.choice(["north", "south", "west", "east"], p=[0.5, 0.3, 0.15, 0.05])),
        str(generator.integers(0, 2)),
        str(generator.choice(["0", "1", "2", "3", "?"])),
    )


def table(generator: np.random.Generator, size: int) -> list[Record]:
    rows = [ordinary(generator) for _ in range(size)]
    for _ in range(size // 10):
        rows[int(generator.integers(size))] = ODD[int(generator.integers(len(ODD)))]
    return rows


def neighbours_of(
    rows: Sequence[Record], generator: np.random.Generator, relation: Relation, count: int
) -> list[list[Record]]:
    """Tables next to the given one: odd records first, then ordinary ones, at random places."""
    records = itertools.chain(ODD, iter(lambda: ordinary(generator), None))
    found: list[list[Record]] = []
    for turn in range(count):
        place = int(generator.integers(len(rows)))
        if relation is Relation.REPLACE_ONE:
            found.append([*rows[:place], next(records), *rows[place + 1 :]])
        elif turn % 3 == 2:
            found.append([*rows[:place], *rows[place + 1 :]])
        else:
            found.append([*rows[:place], next(records), *rows[place:]])
    return found


def as_csv(rows: Sequence[Record], folder: Path, header: Sequence[str] = SURVEY.names) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "survey.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
    return path


def as_columns(rows: Sequence[Record]) -> dict[str, list[str]]:
    return {name: [row[i] for row in rows] for i, name in enumerate(SURVEY.names)}


def as_pandas(rows: Sequence[Record], folder: Path) -> Any:
    import pandas as pd

    return pd.DataFrame(as_columns(rows))


def as_polars(rows: Sequence[Record], folder: Path) -> Any:
    import polars as pl

    return pl.DataFrame(as_columns(rows), schema=dict.fromkeys(SURVEY.names, pl.String))


def as_arrow(rows: Sequence[Record], folder: Path) -> Any:
    import pyarrow as pa

    return pa.table({name: pa.array(values, pa.string()) for name, values in as_columns(rows).items()})


Source = Callable[[Sequence[Record], Path], Any]
SOURCES: dict[str, Source] = {"csv": as_csv, "pandas": as_pandas, "polars": as_polars, "arrow": as_arrow}


@dataclass(frozen=True, eq=False)
class Seen:
    """Everything that a release shows, apart from its draws."""

    run: Run
    document: str
    text: str
    heard: tuple[Any, ...]


def release(
    source: Any,
    queries: Queries,
    relation: Relation,
    tape: Sequence[Call] | None,
    counted: Any = "zcdp",
    persons: Persons | None = None,
    **options: Any,
) -> Seen:
    """`mq.open` and `mq.release`, with the sampler on a tape and every channel watched."""
    noise = RecordingNoise() if tape is None else ReplayingNoise(tape)
    watching: list[WatchingCurator] = []

    def curator(*args: Any, **given: Any) -> WatchingCurator:
        watching.append(WatchingCurator(*args, **given, noise=noise))
        return watching[-1]

    budget = mq.Budget(options["epsilon"], options.get("delta", 0.0), counted)
    book = ledger_for(SURVEY, budget=budget, relation=relation, persons=persons)
    whose = {} if persons is None else {"person": persons.column, "rows_per_person": persons.rows}
    heard: list[Any] = []
    output = io.StringIO()
    logs = _Logs()
    before, api.Curator = api.Curator, curator
    try:
        with (
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(output),
            warnings.catch_warnings(record=True) as warned,
            logs,
            on_tape(noise, queries),
        ):
            warnings.simplefilter("always")
            opened = mq.open(
                source, domain=SURVEY, progress=lambda share: heard.append(("open", share)), **whose
            )
            made = mq.release(
                opened,
                queries,
                relation=relation,
                ledger=book,
                progress=lambda what, share: heard.append((what, share)),
                **options,
            )
    finally:
        api.Curator = before
    if isinstance(noise, ReplayingNoise):
        noise.check_finished()
    charges = tuple((e.tag, e.units, e.slack) for e in book.entries(kind="reserve") if e.parent)
    shown = [repr(opened), opened._repr_html_(), repr(made), output.getvalue(), *logs.lines]
    return Seen(
        Run(tuple(noise.calls), watching[0].residuals, charges, describe(_arrays(made))),
        public_document(made),
        "\n".join(shown + [str(w.message) for w in warned]),
        tuple(heard),
    )


class _Logs(logging.Handler):
    """Everything that is logged while it is open.

    All but the compiler of loops, whose lines say what was compiled before, in this process or an earlier one.
    """

    def __init__(self) -> None:
        super().__init__(level=logging.DEBUG)
        self.lines: list[str] = []
        logging.getLogger("numba").setLevel(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.name} {record.levelname} {record.getMessage()}")

    def __enter__(self) -> None:
        root = logging.getLogger()
        self._level = root.level
        root.addHandler(self)
        root.setLevel(logging.DEBUG)

    def __exit__(self, *_: Any) -> None:
        root = logging.getLogger()
        root.removeHandler(self)
        root.setLevel(self._level)


def _arrays(made: Any) -> dict[str, Any]:
    rows = None if made.database is None else dict(made.database.columns)
    return {"answers": made.answers, "deviations": made.deviations, "rows": rows}


def public_document(made: Any) -> str:
    """release.json without what marks the time and the place in the ledger."""
    data = document.plain(document.dump(made))
    for name in ("created", "receipts"):
        data.pop(name)
    data["size"].pop("receipt")
    if data["account"] is not None:
        data["account"].pop("opened")  # of public words and a random salt, as in receipts
    return json.dumps(data, sort_keys=True)


FOR_THE_HOLDER = "levels counted"
"""Progress of a draw depends on the table and is documented to be for the holder of the data (`docs/privacy.md`)."""


def _public(heard: tuple[Any, ...]) -> list[Any]:
    return [(what, share) for what, share in heard if FOR_THE_HOLDER not in what]


def check_replay(one: Seen, other: Seen, unit: str) -> None:
    """The two releases differ in nothing but the private inputs of their draws, and these only as far as was paid."""
    check_residuals(other.run)
    check_pair(one.run, other.run, unit)
    if one.document != other.document:
        raise Divergence("release.json depends on the table beyond the draws")
    if one.text != other.text:
        raise Divergence("something was printed, logged or shown that depends on the table")
    if _public(one.heard) != _public(other.heard):
        raise Divergence("the progress depends on the table")


def replay_neighbours(
    queries: Any,
    relation: Relation,
    folder: Path,
    *,
    seed: int,
    before: Callable[[Any], None] = lambda rows: None,
    **options: Any,
) -> None:
    """One release on tape, then the same from neighbouring tables; `before` hears of every table."""
    generator = np.random.default_rng(seed)
    rows = table(generator, 60)
    before(rows)
    first = release(SOURCES["csv"](rows, folder / "first"), queries, relation, None, **options)
    for number, other in enumerate(neighbours_of(rows, generator, relation, 12)):
        before(other)
        source = SOURCES["csv"](other, folder / str(number))
        check_replay(first, release(source, queries, relation, first.run.calls, **options), "rho")

"""`maquette release`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from maquette.cli import console, options
from maquette.cli.console import INTERRUPTED, complain
from maquette.cli.ledger import paid_so_far
from maquette.cli.options import file_name
from maquette.errors import ParameterError
from maquette.progress import Progress, Stage
from maquette.requests import Payer, ReleaseRequest, WorkloadWords

if TYPE_CHECKING:
    from maquette.domain import Domain
    from maquette.linked import LinkedRelease
    from maquette.mechanisms.smalldb import SmallDb
    from maquette.results import Release
    from maquette.schema import Schema


def register(app: typer.Typer) -> None:
    app.command("release")(options.grouped(release))


@dataclass(frozen=True, kw_only=True)
class TargetedRelease(ReleaseRequest):
    """A release, with the error that a configured mechanism aims at."""

    alpha: Annotated[
        float | None, typer.Option(help="Target error, which decides the number of rows (mechanism smalldb).")
    ] = None


@dataclass(frozen=True, kw_only=True)
class Written(options.Shown):
    """Where a release is written, and what is printed of it."""

    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The release folder. Default: TABLE.maquette.")
    ] = None
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace another release in the output folder.")
    ] = False


def release(
    *,
    files: options.TableFiles,
    wish: TargetedRelease,
    workload: WorkloadWords,
    payer: Payer,
    reading: options.TableReading,
    written: Written,
) -> None:
    """Answer a whole workload on a private table, or on several that belong together, and write the release folder.

    The budget is paid before a table is looked at. The same command again costs nothing.

    \b
    Example:
      maquette release people.csv --domain people.domain.json --marginals 3 --epsilon 1 --delta 1e-9 \\
        --ledger people.ledger --total-epsilon 3 -o people.maquette
      maquette release household=household.csv person=person.csv --schema census.schema.json --marginals 2 \\
        --epsilon 3 --delta 1e-9 --ledger census.ledger -o census.maquette
    """
    from maquette.domain import Domain

    declared = files.declared()
    # a table may take minutes to read: what can be refused before is refused before
    wish = replace(wish, mechanism=_with_target(str(wish.mechanism), wish.alpha))
    started = datetime.now(UTC).replace(microsecond=0)
    if isinstance(declared, Domain):
        run = _run_on_table(declared, files.source, wish, workload, payer, reading, written)
    else:
        run = _run_on_tables(declared, files, wish, workload, payer, reading, written)
    check_ledger(payer.place, run.folder)
    try:
        with console.progress(quiet=written.quiet) as watcher:
            tell = _WithFiles(watcher, run.sources, run.answers)
            result = run.make(tell)
            tell("writing the release", 0.0)
            result.save(run.folder, replace=written.replace)
    except KeyboardInterrupt as stopped:
        _say_interrupted(payer.place, drawing=str(stopped))
        raise typer.Exit(INTERRUPTED) from None
    _say(result, run.folder, started=started, as_json=written.as_json)


@dataclass(frozen=True)
class _Run:
    """A release that nothing is left to refuse of before its tables are opened."""

    make: Callable[[Progress], Release | LinkedRelease]
    folder: Path
    sources: Sequence[str]
    answers: int


def _run_on_table(
    declared: Domain,
    source: str,
    wish: ReleaseRequest,
    workload: WorkloadWords,
    payer: Payer,
    reading: options.TableReading,
    written: Written,
) -> _Run:
    from maquette.api import release_of
    from maquette.releasing.planning import ways_asked
    from maquette.releasing.request import Request
    from maquette.results.folder import check_place

    queries = options.read_workload(workload, declared)
    folder = written.output or default_folder(source, reading.table)
    request = Request.of(queries, wish, persons=reading.persons)
    keys = [payer.key] if payer.key else [way.key for way in ways_asked(request)]
    check_place(folder, replace=written.replace, keys=_repeated(payer.place, keys))

    def make(tell: Progress) -> Release:
        return release_of(reading.open(source, declared, tell), queries, wish, payer, progress=tell)

    return _Run(make, folder, (source,), queries.count)


def _run_on_tables(
    schema: Schema,
    files: options.TableFiles,
    wish: ReleaseRequest,
    workload: WorkloadWords,
    payer: Payer,
    reading: options.TableReading,
    written: Written,
) -> _Run:
    from maquette.api import tables_released
    from maquette.core.budget import Accounting
    from maquette.linked.files import check_place
    from maquette.linked.run import LinkedRequest

    sources = files.of(schema)
    request = LinkedRequest.of(schema, options.order_of(workload), wish)
    assert files.schema is not None
    folder = written.output or Path(f"{files.schema.name.partition('.')[0] or 'tables'}.maquette")
    keys = [payer.key] if payer.key else [request.counted_by(way).key for way in get_args(Accounting)]
    check_place(folder, replace=written.replace, keys=_repeated(payer.place, keys))

    def make(tell: Progress) -> LinkedRelease:
        return tables_released(reading.open_all(sources, schema, tell), request, payer, progress=tell)

    answers = sum(one.queries.count for one in request.requests.values())
    return _Run(make, folder, [sources] if isinstance(sources, str) else list(sources.values()), answers)


READ_SECONDS, WRITE_SECONDS = 1.5e-8, 3e-7
"""For every byte of a table that is read, and for every answer that is written; a prediction that is corrected."""


@dataclass(frozen=True)
class _WithFiles(Progress):
    """A watcher that is told of reading and writing too, which a release by itself knows nothing of."""

    watcher: Progress
    sources: Sequence[str]
    answers: int

    def expect(self, stages: Sequence[Stage]) -> None:
        size = sum(_size(source) for source in self.sources)
        reading = Stage.of("reading the table", READ_SECONDS * size)
        writing = Stage.of("writing the release", 2.0 + WRITE_SECONDS * self.answers)
        self.watcher.expect((reading, *stages, writing) if stages else ())

    def __call__(self, what: str, share: float) -> None:
        self.watcher(what, share)


def _size(source: str) -> int:
    """Of a file; nothing where it is none."""
    try:
        return Path(source).stat().st_size
    except OSError:
        return 0


def default_folder(source: str, table: str | None) -> Path:
    """In the working folder, named after the table."""
    name = file_name(source, table)
    return Path(f"{Path(name).stem if name == source else name}.maquette")


def _repeated(ledger: str | None, keys: Sequence[str]) -> Sequence[str]:
    """The keys under which a ledger that is named has paid: only then can the release in a folder be the same one."""
    from maquette.accounting.ledger import Ledger

    if ledger is None:
        return keys
    if "://" not in ledger and not Path(ledger).exists():
        return ()
    with Ledger.open(ledger) as book:
        return [key for key in keys if book.find(key) is not None]


def check_ledger(ledger: str | None, place: Path) -> None:
    """Refuse a ledger that lost what the releases near it were paid with."""
    from maquette.accounting.ledger import Ledger

    if ledger is not None and ("://" in ledger or Path(ledger).exists()):
        with Ledger.open(ledger) as book:
            book.check_releases(place)


def _with_target(mechanism: str, alpha: float | None) -> str | SmallDb:
    """The mechanism, told the error to aim at."""
    if alpha is None:
        return mechanism
    from maquette.mechanisms.smalldb import SmallDb

    if mechanism != "smalldb":
        raise ParameterError("--alpha is for --mechanism smalldb only, where it decides the number of rows")
    return SmallDb(alpha=alpha)


def _say_interrupted(ledger: str | None, *, drawing: str) -> None:
    """What was paid and what the same command will cost; `drawing` is the gate's own word on a draw cut short."""
    from maquette.core.curator import STAYS_CHARGED

    state = paid_so_far(ledger) if ledger is not None else ""
    if drawing == STAYS_CHARGED:
        complain(f"{STAYS_CHARGED}." + (f" In the ledger, {state}" if state else ""))
        return
    complain(
        "interrupted. "
        + (f"In the ledger, {state}. " if state else "")
        + "What was paid is stored there with its answers; the same command continues from there; of what was "
        "paid, only a question that was being answered is paid again"
    )


def _say(result: Release | LinkedRelease, place: Path, *, started: datetime, as_json: bool) -> None:
    from maquette.results.document import dump
    from maquette.results.folder import REPORT
    from maquette.results.release import Release

    parts = {None: result} if isinstance(result, Release) else dict(result.views)
    if as_json:
        said = {name: {"headline": one.headline} | dump(one) for name, one in parts.items()}
        console.say_json({"folder": str(place)} | said.get(None, {"tables": said}))
        return
    if (created := max(one.created for one in parts.values())) < started:
        console.say(f"Paid for before, on {created:%Y-%m-%d at %H:%M} UTC: this repeat was free.")
    if isinstance(result, Release):
        _say_one(result)
        console.say(f"wrote {place}; read {place / REPORT} in a browser")
        return
    console.facts(result.facts())
    for name, one in parts.items():
        for note in one.notes:
            console.say(f"  note on {name}: {note}")
    reports = ", ".join(str(place / str(name) / REPORT) for name in parts)
    console.say(f"wrote {place}; read {reports} in a browser")


def _say_one(result: Release) -> None:
    from maquette.results.report import account_in_words

    console.say(result.headline)
    console.facts(result.facts())
    if result.account is not None:
        account = result.account
        console.say(f"  {console.bar(account.spent / account.total, account.reserved / account.total)}")
        console.say(f"  the ledger: {account_in_words(account, delta=result.budget.delta)}")
    for note in result.notes:
        console.say(f"  note: {note}")

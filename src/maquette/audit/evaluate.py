"""A release against the truth, for the person who holds the table. Not private and not for release."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.accounting.ledger import Ledger
from maquette.core import _check
from maquette.core._arguments import checks_arguments
from maquette.errors import ReleaseError, WorkloadError
from maquette.models.answers import Answers, answer_from
from maquette.owner import Table, exact_answers, is_table_of
from maquette.queries.marginals import Marginals
from maquette.results import plots, replacing, wording
from maquette.results.answering import answer
from maquette.results.binding import paid_for
from maquette.results.folder import MANIFEST
from maquette.results.release import Release
from maquette.results.report import template

WARNING = (
    "NOT PRIVATE, NOT FOR RELEASE: these figures compare the release with the private table, exactly and unpaid; "
    "show them to nobody who may not see the table"
)
BLOCK = 2**20
"""Queries compared at a time, where they are not marginals."""
SAMPLE_SIZE = 200
"""Single questions per group whose stated intervals are checked."""
NAMED = 10
"""Marginals listed as the worst."""


@dataclass(frozen=True, slots=True)
class Errors:
    """How far fractions are off: over the queries of a group, or of one marginal."""

    largest: float
    mean: float
    """Mean absolute error of a query."""
    l1: float | None
    """Mean over marginals of the L1 distance; None if there are none."""


@dataclass(frozen=True, slots=True)
class Intervals:
    """How often the error stated for a single answer held."""

    asked: int
    held: float | None
    """The share whose true value lay within the stated error; None if none was stated."""
    promised: float | None
    """The least confidence that was stated."""


@dataclass(frozen=True, slots=True)
class GroupEvaluation:
    """The true errors of one group of queries, of the released answers and of the released rows."""

    name: str
    queries: int
    answers: Errors
    rows: Errors | None
    stated: float | None
    """The error stated for all its answers at once, by certificate or guarantee; None if nothing useful is."""
    held: float | None
    """The share of answers within it."""
    intervals: Intervals


@dataclass(frozen=True, slots=True)
class MarginEvaluation:
    """The true errors of one marginal."""

    attributes: tuple[str, ...]
    answers: Errors
    rows: Errors | None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """True errors per group of the workload. Not private and not for release."""

    warning: str
    workload: str
    mechanism: str
    records: int
    beta: float
    groups: tuple[GroupEvaluation, ...]
    worst: tuple[MarginEvaluation, ...]
    """The marginals with the largest L1 distance of the rows, or of the answers if there are no rows."""
    notes: tuple[str, ...] = ()
    """Predicates that cut cells, and how they were read: so they are compared."""
    table: str = "not checked by a ledger to be the one the release was made from"
    """Whether this was the table of the release."""

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, the warning first."""
        return asdict(self)

    def page(self) -> str:
        """One self-contained HTML text with plots, marked as not private."""
        return render(self)

    def __str__(self) -> str:
        lines = [self.warning, f"{self.workload}, {self.mechanism}, {self.records:,} records"]
        lines.append(f"table: {self.table}")
        for group in self.groups:
            lines.append(f"{group.name} ({group.queries:,} queries)")
            for word, errors in (("answers", group.answers), ("rows", group.rows)):
                if errors is not None:
                    lines.append(f"  {word:<7}  {_in_words(errors)}")
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def compare(release: Release, numerators: NDArray[np.int64], *, denominator: int, records: int) -> Evaluation:
    """The true errors of a release, given the exact answers to its workload.

    Cost: time and memory linear in the number of queries, and one pass over the released rows.
    """
    if len(numerators) != len(release.answers):
        raise ReleaseError("expected one exact answer per query of the release")
    exact = Answers(numerators, denominator * max(records, 1))
    on_rows = None if release.database is None else answer_from(release.database, release.workload)
    blocks = [_compare_block(b, exact, release.answers, on_rows) for b in _blocks(release)]
    spans = [(g.name, g.start, g.stop) for g in release.workload.groups()]
    if len(spans) > 1:
        spans.insert(0, ("all queries", 0, release.workload.count))
    return Evaluation(
        warning=WARNING,
        workload=release.workload.describe(),
        mechanism=release.mechanism,
        records=records,
        beta=release.beta,
        groups=tuple(_group(release, exact, blocks, *span) for span in spans),
        worst=_worst(blocks),
        notes=release.workload.notes,
    )


@dataclass(frozen=True, slots=True)
class _Block:
    """A run of queries that are compared together: one marginal, or some queries of another class."""

    start: int
    stop: int
    attributes: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class _Compared:
    block: _Block
    answers: tuple[float, float]
    """Largest and total absolute error."""
    rows: tuple[float, float] | None


def _blocks(release: Release) -> Iterator[_Block]:
    workload, offset = release.workload, 0
    for part in workload.classes:
        if isinstance(part, Marginals):
            for margin, place in part.slices.items():
                yield _Block(offset + place.start, offset + place.stop, margin)
        else:
            for group in part.groups():
                for start in range(group.start, group.stop, BLOCK):
                    yield _Block(offset + start, offset + min(start + BLOCK, group.stop), None)
        offset += part.count


def _compare_block(block: _Block, exact: Answers, answers: Answers, on_rows: Answers | None) -> _Compared:
    truth = _part(exact, block.start, block.stop)

    def off(estimates: Answers) -> tuple[float, float]:
        errors = np.abs(_part(estimates, block.start, block.stop) - truth)
        return float(errors.max(initial=0.0)), float(errors.sum())

    return _Compared(block, off(answers), None if on_rows is None else off(on_rows))


def _part(answers: Answers, start: int, stop: int) -> NDArray[np.float64]:
    return answers.numerators[start:stop] / answers.denominator


def _group(
    release: Release, exact: Answers, blocks: Sequence[_Compared], name: str, start: int, stop: int
) -> GroupEvaluation:
    inside = [c for c in blocks if start <= c.block.start and c.block.stop <= stop]
    bound = _bound_of(release, name)
    share_within = None
    if bound is not None and stop > start:
        within = (
            np.abs(
                _part(release.answers, c.block.start, c.block.stop)
                - _part(exact, c.block.start, c.block.stop)
            )
            <= bound
            for c in inside
        )
        share_within = sum(int(good.sum()) for good in within) / (stop - start)
    rows = [(c.block, c.rows) for c in inside if c.rows is not None]
    return GroupEvaluation(
        name=name,
        queries=stop - start,
        answers=_errors([(c.block, c.answers) for c in inside]),
        rows=_errors(rows) if release.database is not None else None,
        stated=bound,
        held=share_within,
        intervals=_intervals(release, exact, start, stop),
    )


def _errors(totals: Sequence[tuple[_Block, tuple[float, float]]]) -> Errors:
    queries = sum(block.stop - block.start for block, _ in totals)
    distances = [total for block, (_, total) in totals if block.attributes is not None]
    return Errors(
        largest=max((largest for _, (largest, _) in totals), default=0.0),
        mean=math.fsum(total for _, (_, total) in totals) / max(queries, 1),
        l1=math.fsum(distances) / len(distances) if distances else None,
    )


def _bound_of(release: Release, name: str) -> float | None:
    """What is promised for all answers of a group at once."""
    bounds = [release.stated.alpha]
    if release.certificate is not None:
        bounds += [g.alpha for g in release.certificate.groups if g.name == name]
    return min((alpha for alpha in bounds if alpha < 1), default=None)


def _intervals(release: Release, exact: Answers, start: int, stop: int) -> Intervals:
    """Ask some of the queries one by one, as a reader would, evenly spread over the group."""
    within = 0
    promised: list[float] = []
    for index in np.unique(
        np.linspace(start, stop - 1, min(SAMPLE_SIZE, stop - start)).astype(np.int64)
    ).tolist():
        try:
            result = answer(release, release.workload.text(index))
        except (ReleaseError, WorkloadError):  # a query that has no words, or that the release does not cover
            continue
        if result.error is not None and result.confidence is not None:
            promised.append(result.confidence)
            truth = float(exact.numerators[index]) / exact.denominator
            within += int(abs(result.value - truth) <= result.error)
    count = len(promised)
    return Intervals(count, within / count if count else None, min(promised, default=None))


def _worst(blocks: Sequence[_Compared]) -> tuple[MarginEvaluation, ...]:
    marginals = [c for c in blocks if c.block.attributes is not None]
    marginals.sort(key=lambda c: -(c.answers if c.rows is None else c.rows)[1])
    return tuple(
        MarginEvaluation(
            attributes=c.block.attributes or (),
            answers=_errors([(c.block, c.answers)]),
            rows=None if c.rows is None else _errors([(c.block, c.rows)]),
        )
        for c in marginals[:NAMED]
    )


def _in_words(errors: Errors) -> str:
    distance = "" if errors.l1 is None else f"   mean L1 {errors.l1:.4g}"
    return f"largest {errors.largest:.4g}   mean absolute {errors.mean:.4g}{distance}"


# The page of an evaluation: the report's looks, and the warning on every screen of it.

ANSWERS, ROWS, BOUND = "answers", "rows", "stated for all at once"
MAX_GROUPS = 16


def render(evaluation: Evaluation) -> str:
    """The whole page as text."""
    page = template("evaluation.html.j2").render(
        evaluation=evaluation,
        words=wording,
        largest=_plot(evaluation, "largest"),
        mean=_plot(evaluation, "mean"),
    )
    return page.lstrip()


def _plot(evaluation: Evaluation, figure: str) -> str | None:
    """One line per group, in points (percent of all records); errors of zero cannot stand on a logarithmic scale."""
    marks: list[plots.Mark] = []
    for group in evaluation.groups[:MAX_GROUPS]:
        figures = [(ANSWERS, getattr(group.answers, figure))]
        if group.rows is not None:
            figures.append((ROWS, getattr(group.rows, figure)))
        if figure == "largest":
            figures.append((BOUND, group.stated))
        marks += [plots.Mark(group.name, word, 100 * value) for word, value in figures if value]
    if not marks:
        return None
    shown = [word for word in (ANSWERS, ROWS, BOUND) if any(mark.statement == word for mark in marks)]
    label = "; ".join(f"{m.group}: {m.statement} {m.points:.3g} points" for m in marks)
    name = "Largest" if figure == "largest" else "Mean absolute"
    return plots.errors(marks, shown, label=f"Not private. {name} true error per group. {label}")


SAME_TABLE = "known to the ledger as the one the release was made from"
FAR = 40
"""Standard deviations of the released number of records that no table of the release is away from it."""


@checks_arguments
def evaluate(release: Release, table: Table, *, ledger: Ledger | str | Path | None = None) -> Evaluation:
    """True errors of a release per group of its workload, of its answers and of its rows.

    Another table than the release was made from is refused: by the ledger that paid for it, the given one or the
    table's own, or without a ledger only if its number of records cannot be that of the release.

    Guarantee: none. It looks at the private table without noise and without payment, so that its result is as
        private as the table. It changes neither the ledger nor the release.
    """
    if not release.listed:
        raise ReleaseError(
            "this release lists no answers: its class is too large to be compared query by query"
        )
    if "weight" in release.parameters:
        raise ReleaseError(
            "this release weighs its records; an evaluation counts every record as one and does not apply"
        )
    if table.persons != release.persons:
        raise ReleaseError(
            "the release was made from a limited number of records of each person; open the table with the same "
            "person= and rows_per_person="
            if release.persons is not None
            else "the release was made from all records; open the table without person="
        )
    truth = exact_answers(table, release.workload)
    is_same = _is_known_table(release, table, ledger)
    if not is_same:
        _check_size(release, truth.records)
    result = compare(release, truth.numerators, denominator=truth.denominator, records=truth.records)
    return replace(result, table=SAME_TABLE) if is_same else result


def _is_known_table(release: Release, table: Table, ledger: Ledger | str | Path | None) -> bool:
    """Is it the table that the release's ledger paid for? Refuses another; False where no ledger is at hand."""
    if ledger is None:
        place = table.ledger_location
        if place is None or not place.exists():
            return False
        with Ledger.open(place) as book:
            return paid_for(book, release) and _is_known_table(release, table, book)
    if not isinstance(ledger, Ledger):
        with Ledger.open(ledger) as book:
            return _is_known_table(release, table, book)
    if not paid_for(ledger, release):
        raise ReleaseError(
            f"ledger '{ledger.name}' did not pay for this release: its receipts are not in it; give the one that did"
        )
    if not is_table_of(table, ledger):
        raise ReleaseError(
            f"this is not the table that the release was made from: ledger '{ledger.name}', which paid for it, "
            "knows another one; give the table and the domain of the release"
        )
    return True


def _check_size(release: Release, records: int) -> None:
    """Refuse a table whose number of records is out of reach of the released one."""
    size = release.size
    if size.unpaid:
        return
    reach = 0.0 if size.noise is None else FAR * size.noise.deviation + 1
    if abs(records - size.value) > reach:
        raise ReleaseError(
            "this is not the table that the release was made from: it has another number of records; give the table of "
            "the release"
        )


def check_page_place(path: Path) -> None:
    """Refuse to put an evaluation where a release is handed on from."""
    for folder in (path, *Path(os.path.realpath(path)).parents):  # a loop of links has no end
        if (folder / MANIFEST).exists():
            raise ReleaseError(
                f"an evaluation is not private and does not belong in the release folder {folder}; "
                "choose a place beside the private table"
            )


def check_default_page_place(path: Path) -> None:
    """Refuse to put a page that nobody named a place for into a folder that is kept from writing."""
    why = _check.kept_from_writing(path.parent)
    if why is not None:
        raise ReleaseError(
            f"the page would be written beside the table, but the folder {path.parent} {why}; name another place with "
            "-o, as private as the table's own, or leave the page out with --no-page"
        )


def write_page(evaluation: Evaluation, path: Path) -> None:
    """Write the page of an evaluation, readable by its owner alone, whole or not at all."""
    check_page_place(path)
    try:
        replacing.write_text(path, evaluation.page(), mode=0o600)
    except OSError as error:
        raise ReleaseError(f"cannot write {path}: {error.strerror or type(error).__name__}") from None

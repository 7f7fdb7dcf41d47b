"""The finished release: answers, the small database if there is one, and everything stated about them.

All of it is public. Nothing here can reach a row of the private table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maquette import _html
from maquette._version import __version__
from maquette.core import _check
from maquette.core._arguments import checks_arguments
from maquette.core.budget import Budget
from maquette.core.measurement import Receipt, Size
from maquette.core.neighbours import neighbours
from maquette.domain import Domain, Persons, Relation
from maquette.errors import ReleaseError
from maquette.models import answers as coverage
from maquette.models.answers import Answers, SmallDatabase, Unlisted, answer_from, decode
from maquette.queries.base import Queries
from maquette.queries.combinations import count as count_combinations
from maquette.queries.marginals import pieces
from maquette.queries.rows import Margin
from maquette.results import (
    answering,
    charts,
    export,
    folder,
    replicates,
    report,
    statements,
    tables,
    wording,
)
from maquette.results import sums as column_sums
from maquette.results.covering import Coverage
from maquette.results.distribution import Distribution, distribution_of
from maquette.results.knowledge import Knowledge
from maquette.results.statements import (
    Account,
    Answer,
    Certificate,
    ClassCertificate,
    Exactness,
    Guarantee,
    Population,
    QualityCertificate,
    RowsDistance,
    Spending,
    meaningful,
    named_in_headline,
    useful,
)
from maquette.results.sums import ColumnSum

if TYPE_CHECKING:
    import pyarrow

    from maquette.results.charts import Chart
    from maquette.results.export import Form
    from maquette.results.replicates import Replicates
    from maquette.results.tables import ResultTable


LARGEST_TABLE = 5_000_000
"""How many answers `answers_table` puts into words at once."""

CHECKED = {
    "bound": "unchanged since the release was made, checked against the ledger",
    "not bound": "not bound: paid, but by a version that stored no digest, so edits would not be noticed",
    "no ledger at hand": "not checked: no ledger at hand, edits would not be noticed",
}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Release:
    """What one paid run made of the table. Frozen; made by `maquette.release()` or read by `maquette.load()`."""

    workload: Queries
    answers: Answers
    mechanism: str
    relation: Relation
    budget: Budget
    beta: float
    size: Size
    guarantee: Guarantee
    certificate: Certificate | None = None
    certificates: tuple[ClassCertificate, ...] = ()
    """For whole classes of questions beside the workload's; all certificates hold together."""
    sums: tuple[ColumnSum, ...] = ()
    """The sums of columns that have a unit, each measured by itself."""
    quality: tuple[QualityCertificate, ...] = ()
    """How far the rows are off typically, and whole tables of them on average: together with the certificates."""
    database: SmallDatabase | None = None
    """The small database in codes, with the measured attributes only; None for a release of answers only."""
    rows_distance: RowsDistance | None = None
    """How far the rows lie from the answers; None for answers only, and for releases of versions that did not say."""
    model: Any = None
    """A public model that answers further queries inside what was measured, or None."""
    deviations: NDArray[Any] | None = None
    """Standard deviation of each answer's noise before post-processing, as a fraction, where it is known."""
    exactness: Exactness = "exact"
    """The class of the privacy claim."""
    spending: tuple[Spending, ...] = ()
    account: Account | None = None
    receipts: tuple[Receipt, ...] = ()
    parameters: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    watermark: str | None = None
    """None in production. A text on everything that came from a test double of the gate."""
    checked: str | None = None
    """None for a release that was just made; for a loaded one whether it is as its ledger bound it. Not stored."""
    version: str = ""
    persons: Persons | None = None
    """Whom the budget protects, where one person has several records; None where everybody has one."""
    created: datetime = field(default_factory=lambda: datetime.now(UTC).replace(microsecond=0))

    def __post_init__(self) -> None:
        _check.fraction(beta=self.beta)
        if not self.listed and self.database is None:
            raise ReleaseError("expected rows: without them a class too large to list has no answers")
        if self.listed and len(self.answers) != self.workload.count:
            raise ReleaseError(
                f"expected one answer per query, got {len(self.answers):,} answers to "
                f"{self.workload.count:,} queries"
            )
        if self.deviations is not None and len(self.deviations) != len(self.answers):
            raise ReleaseError("expected one standard deviation per answer")
        column_sums.check(self.sums, {a.name: a.grid for a in self.domain})
        # a column that nothing was measured about would be made up, whatever made or stored it
        database = coverage.only(self.database, self.measured)
        columns = self.measured if database is None else database.columns
        for name in self.measured:
            if self.domain[name].size > 1 and name not in columns:
                raise ReleaseError(f"the rows lack the measured attribute '{name}'")
        object.__setattr__(self, "database", database)
        if not self.version:
            object.__setattr__(self, "version", __version__)

    @property
    def domain(self) -> Domain:
        return self.workload.domain

    @cached_property
    def measured_together(self) -> frozenset[Margin]:
        """The sets of attributes that some measurement of this release looked at together."""
        return coverage.measured_together(self.workload, getattr(self.model, "margins", ()))

    @cached_property
    def measured(self) -> Margin:
        """The attributes that this release says something about; it holds, answers and draws no others."""
        used = {name for margin in self.measured_together for name in margin}
        return tuple(a.name for a in self.domain if a.name in used or a.size == 1)  # one cell: known

    @property
    def unmeasured(self) -> Margin:
        """The declared attributes that are not in this release, because no measurement looked at them."""
        return tuple(name for name in self.domain.names if name not in self.measured)

    @cached_property
    def distribution(self) -> Distribution | None:
        """What is shown as a distribution of records, which certificates of classes are about; None if it is none."""
        return distribution_of(self.workload, self.answers, self.database)

    @cached_property
    def coverage(self) -> Coverage | None:
        """Which questions the certificates of classes cover; None where there are none."""
        return Coverage.of(self)

    @cached_property
    def knowledge(self) -> Knowledge:
        """What is stated about sets of records, however they are asked for."""
        return Knowledge(self)

    @property
    def shares_beta(self) -> bool:
        """Was the chance to fail divided between several statements when they were bought?"""
        return bool(self.certificates or self.quality)

    @property
    def listed(self) -> bool:
        """Does it hold one answer per query? A class too large for that is answered from the rows on demand."""
        return not isinstance(self.answers, Unlisted)

    @cached_property
    def rows(self) -> pyarrow.Table:
        """The small database with real values, as an Arrow table (`.to_pandas()`; polars reads it as it is).

        Its columns are the measured attributes. Numeric cells stand as their midpoints; `decode_rows` gives uniform
        values inside the cells instead.
        """
        rows = self.decode_rows()
        _html.show_as(rows, lambda: _rows_html(rows))
        return rows

    @checks_arguments
    def decode_rows(self, *, rng: np.random.Generator | None = None) -> pyarrow.Table:
        """The small database with real values: cell midpoints, or uniform inside each cell if `rng` is given."""

        if self.database is None:
            raise ReleaseError(
                "this release holds answers only: the universe is too large for this mechanism to make rows; "
                "use release.answer(...) or release.answers_table(), or choose a mechanism that gives rows"
            )
        return decode(self.domain, self.database, rng=rng)

    @checks_arguments
    def answer(self, query: str | Queries) -> Answer:
        """Answer one query, with an error only where one is proved.

        Accuracy: the smallest error that is stated for the records that it counts, however it is written: by the noise
            of the measured tables, by the certificate or else the guarantee of the workload, by certificates of
            classes, or between what its parts leave (`results/knowledge.py`). Else it is read from the rows, without a
            stated error. A query about an attribute that was not measured is refused.
        """
        return answering.answer(self, query)

    @checks_arguments
    def population(self, query: str | Queries | None = None) -> Population:
        """What is stated about the population that the records were drawn from: the error of the table and of sampling.

        Of one question that was fixed before any answer was seen, or without one of the whole workload together.

        Accuracy: `theory.population.population_error`, with the certificate or else the guarantee; beta more for
            sampling. Nothing (an error of 1) where no error is stated.
        Holds when: the records are independent draws from the population.
        """
        return statements.of_release(self, query)

    @checks_arguments
    def table(
        self,
        *names: str,
        by: Sequence[str] | str | None = None,
        values: str | None = None,
        where: str | None = None,
    ) -> ResultTable:
        """A table of figures by the cells of some attributes, each with its error and how it is known.

        `values` is count(*) by default, or share(), sum(x), mean(x), median(x), quantile(x, 0.9) of a numeric
        attribute; `where` leaves only records that meet a condition. Costs nothing.
        """
        return tables.table(self, names, by=by, values=values, where=where)

    @checks_arguments
    def sql(self, statement: str) -> ResultTable:
        """The result of one SELECT over the records, with error columns beside every figure. Costs nothing.

        Any name may stand after FROM. What is supported is in `docs/tables.md`; everything else is refused by name.
        """
        return tables.sql(self, statement)

    @checks_arguments
    def plot(self, *names: str) -> Chart:
        """A chart of one attribute (bars with their errors) or of two (a heat map, errors under the pointer).

        Vega-Lite: it shows itself in a notebook; `.save("chart.html")` writes it, or .png, .svg, .json. Costs nothing.
        """
        return charts.plot(self, names)

    def export(
        self,
        path: str | Path,
        *,
        forms: Sequence[Form] = ("csv",),
        tables: Sequence[Sequence[str]] = (),
        replace: bool = False,
    ) -> Path:
        """Write rows, answers and tables as plain files with a data dictionary and metadata, whole or not at all.

        `forms` are some of "csv", "parquet" and "xlsx"; `tables` are sets of attributes that get a file of their own.
        """
        return export.export(self, path, forms=forms, tables=tables, replace=replace)

    @checks_arguments
    def replicates(self, k: int = 20) -> Replicates:
        """k further sets of rows, each fitted to the released tables with as much noise again. Costs nothing.

        `replicates.combine(statistic)` gives standard errors that know of the noise; for which statistics they hold is
        in `docs/replicates.md`. A rule of thumb, tried by simulation, and no theorem.
        """
        return replicates.replicates(self, k)

    def small_tables(self) -> list[Margin]:
        """The sets of one and of two attributes that were measured together, in the order of the domain."""
        pairs = {
            pair
            for margin in self.measured_together
            for k in (1, 2)
            for pair in combinations(margin, k)
            if pair
        }
        order = self.domain.index
        return sorted(pairs, key=lambda names: (len(names), [order(name) for name in names]))

    def answers_table(self) -> pyarrow.Table:
        """Every query in words with its answer, and its noise where known, as an Arrow table."""
        import pyarrow

        if self.workload.count > LARGEST_TABLE:
            raise ReleaseError(
                f"{wording.big(self.workload.count)} queries are too many to list at once "
                f"(at most {wording.big(LARGEST_TABLE)}); read release.answers.fractions by index instead"
            )
        columns: dict[str, Any] = {
            "query": [self.workload.text(i) for i in range(len(self.answers))],
            "answer": self.answers.fractions,
        }
        if self.deviations is not None:
            columns["deviation"] = self.deviations
        return pyarrow.table(columns)

    @checks_arguments
    def save(self, path: str | Path, *, report: bool = True, replace: bool = False) -> Path:
        """Write the release folder, whole or not at all; another release that is there stays, unless `replace`."""
        return folder.save(self, Path(path), report=report, replace=replace)

    @checks_arguments
    def report(self, path: str | Path | None = None) -> str:
        """The report as one self-contained HTML text; also written to `path` if given."""
        text = report.render(self, [] if path is None else folder.files_beside(Path(path).parent))
        if path is not None:
            folder.write_text(Path(path), text)
        return text

    @property
    def stated(self) -> Certificate | Guarantee:
        """The bound that is stated for all answers together: the certificate where one was bought, else the guarantee.

        Which of the two was decided before the answers were drawn, so that it holds as often as it says; the smaller of
        both, picked afterwards, would not.
        """
        return self.guarantee if self.certificate is None else self.certificate

    @property
    def headline(self) -> str:
        """What is stated about all answers together, in one plain sentence."""
        return headline(self)

    def facts(self) -> dict[str, str]:
        """What matters about this release, in a few lines of words."""
        lines = {
            "privacy": f"{wording.budget(self.budget.epsilon, self.budget.delta)}, "
            f"{neighbours(self.relation, self.persons)}, {self.exactness}",
            "mechanism": self.mechanism,
            "answers": f"{wording.big(self.workload.count)} ({self.workload.describe()})"
            + ("" if self.listed else ", read from the rows"),
            "certified": "not measured" if self.certificate is None else str(self.certificate),
            "guaranteed": _guaranteed(self.guarantee, certified=self.certificate is not None),
            "rows": self._rows_in_words(),
            "total weight" if "weight" in self.parameters else "records": f"{self.size.value:,}"
            + (" (public)" if self.size.public else " (noisy)"),
        }
        if self.certificates:
            lines["also certified"] = "; ".join(
                f"{one.says}{one.comma} {one.within}" for one in useful(self.certificates)
            )
        if said := meaningful(self.quality):
            lines["quality"] = "; ".join(f"{one.says} {one.within}" for one in said)
        if self.guarantee.target is not None:
            lines["asked for"] = _asked_for(self.guarantee)
        if self.checked is not None:
            lines["ledger"] = CHECKED.get(self.checked, self.checked)
        if self.unmeasured:
            lines["not measured"] = ", ".join(self.unmeasured)
        if self.watermark is not None:
            return {"NOT PRIVATE": self.watermark} | lines
        return lines

    def _rows_in_words(self) -> str:
        if self.database is None:
            return "answers only"
        distance = "" if self.rows_distance is None else f"; {self.rows_distance}"
        return f"{self.database.m:,} synthetic rows{distance}"

    def __repr__(self) -> str:
        facts = self.facts()
        width = max(len(name) for name in facts)
        return "\n".join(["Release", *(f"  {name:<{width}}  {text}" for name, text in facts.items())])

    def _repr_html_(self) -> str:
        return _html.facts("Release.", self.facts(), head=self.headline)


SHOWN_ROWS = 5
"""Rows that a notebook shows."""


def _rows_html(rows: pyarrow.Table) -> str:
    """The first rows, and what they are not."""
    first = rows.slice(0, SHOWN_ROWS).to_pylist()
    cells = [["" if value is None else str(value) for value in row.values()] for row in first]
    head = f"{len(rows):,} rows, {len(rows.column_names)} columns; no row is a person"
    return _html.table("Synthetic rows", rows.column_names, cells, head=head)


def headline(release: Release) -> str:
    """The sentence that opens every report."""
    count = release.workload.count
    subject = f"Every one of these {wording.big(count)} answers is" if count > 1 else "The one answer is"
    bound, beta = release.stated.alpha, release.stated.beta
    if not bound < 1:
        return (
            f"No useful bound is proved for all {wording.big(count)} answers together: "
            "the noise is large for a table of this size."
        )
    classes = "".join(
        f", {_says(release, one)} {one.within}" for one in named_in_headline(release.certificates)
    )
    return (
        f"{subject} within {wording.points(bound)} of the truth{classes}, "
        f"except with probability {wording.chance(beta)}{' for all of this together' if classes else ''}."
    )


def _says(release: Release, certificate: ClassCertificate) -> str:
    """The questions of a class, with their number where these are the plain combinations of values."""
    if certificate.name != "any combination" or release.distribution is None:
        return certificate.says
    columns = release.distribution.columns
    number = count_combinations(release.domain, columns, certificate.columns or len(columns))
    most = "" if certificate.columns is None else f", on up to {certificate.columns} columns together,"
    return f"every one of {wording.big(number)} combinations of values{most}"


def _asked_for(guarantee: Guarantee) -> str:
    """Whether the target is met, and what it would take."""
    target = f"within {wording.points(guarantee.target or 0.0)}"
    if guarantee.met:
        return f"{target}: guaranteed"
    if guarantee.records_needed is None:
        return f"{target}: not guaranteed, whatever the number of records"
    return f"{target}: not guaranteed, it takes {guarantee.records_needed:,} records"


def _guaranteed(guarantee: Guarantee, *, certified: bool) -> str:
    if guarantee.vacuous:
        return "none in advance for this mechanism" + ("; see the certificate" if certified else "")
    return (
        f"within {wording.points(guarantee.alpha)}, except with probability {wording.chance(guarantee.beta)}"
    )


def with_distance(release: Release) -> Release:
    """The same release, saying how far its rows lie from its answers, with a note where that is far."""
    if release.database is None:
        return release
    gap = distance(release.workload, release.answers, release.database)
    answer_error = next(
        (b.alpha for b in (release.certificate, release.guarantee) if b is not None and b.alpha < 1), None
    )
    notes = release.notes
    if answer_error is not None and gap.largest > answer_error:
        notes = (*notes, gap.warning(answer_error))
    return replace(release, rows_distance=gap, notes=notes)


def distance(workload: Queries, answers: Answers, database: SmallDatabase) -> RowsDistance:
    """The distance between counts of the rows and the released answers. Post-processing: it costs nothing."""
    if isinstance(answers, Unlisted) or not workload.count:
        return RowsDistance(0.0, 0.0)  # such answers are counted on the rows when they are asked for
    largest = total = 0.0
    for start, piece in pieces(workload):
        released = answers.numerators[start : start + piece.count] / answers.denominator
        gaps = np.abs(answer_from(database, piece).fractions - released)
        largest, total = max(largest, float(gaps.max())), total + float(gaps.sum())
    return RowsDistance(largest, total / workload.count)

"""A comparison: what every mechanism promises for one workload and budget, ranked, and how it is shown."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from html import escape
from typing import Any, Literal

from maquette import _html
from maquette.core import _check
from maquette.core._arguments import checks_arguments
from maquette.domain import Relation
from maquette.errors import MechanismError
from maquette.mechanisms.base import ClassForecast, Forecast
from maquette.queries.base import Queries
from maquette.queries.marginals import Marginals
from maquette.results import wording

Criterion = Literal["guaranteed", "expected"]

AS_GOOD = 1.05
"""An expected error within this factor of the smallest is as good: expectations are no closer than that."""


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """What every mechanism promises for one workload and budget, best guarantee first."""

    workload: str
    queries: int
    n: int
    epsilon: float
    delta: float
    relation: Relation
    beta: float
    certificate: float | None
    """The share for a certificate; None where each forecast is with one or without, whichever states less."""
    forecasts: tuple[Forecast, ...]
    rows_per_person: int = 1
    """How many records of a person count; the noise hides all of them."""

    @checks_arguments
    def best(self, by: Criterion = "expected") -> Forecast:
        """The mechanism with the smallest expected (or guaranteed) error among those that can run."""
        _check.one_of(("guaranteed", "expected"), by=by)
        able = self._able
        if not able:
            reasons = "; ".join(f"{f.mechanism}: {f.refusal}" for f in self.forecasts)
            raise MechanismError(f"no mechanism can answer this workload at this budget ({reasons})")
        other: Criterion = "expected" if by == "guaranteed" else "guaranteed"
        return min(able, key=lambda f: (error_by(f, by), error_by(f, other)))

    def to_dict(self) -> dict[str, Any]:
        """Everything, JSON-ready."""
        facts = asdict(self)
        if self.rows_per_person == 1:
            del facts["rows_per_person"]
        return facts | {
            "relation": str(self.relation),
            "forecasts": [
                asdict(f) | {"notes": list(f.notes), "classes": [asdict(one) for one in f.classes]}
                for f in self.forecasts
            ],
        }

    @property
    def _able(self) -> list[Forecast]:
        return [forecast for forecast in self.forecasts if forecast.refusal is None]

    def _legend(self) -> list[str]:
        refused = [forecast for forecast in self.forecasts if forecast.refusal is not None]
        if not self._able:
            return [f"{one.mechanism} cannot do this: {one.refusal}" for one in refused]
        names = ", ".join(one.mechanism for one in refused)
        folded = [f"not for this workload and budget: {names}; .forecasts say why"] if refused else []
        return [*self._classes(), *folded, _LEGEND.format(chance=wording.chance(self.beta))]

    def __repr__(self) -> str:
        rows = [_HEADER, *(_cells(f) for f in self._able)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADER))]
        lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([self._title(), *lines, *self._legend()])

    def _repr_html_(self) -> str:
        head = self._title().removeprefix("Plan ")
        table = _html.table("Plan", _HEADER, [_cells(f) for f in self._able], head=head)
        return table + "".join(f"<p><small>{escape(line)}</small></p>" for line in self._legend())

    def _classes(self) -> list[str]:
        """For every mechanism the classes of questions that it would certify."""
        return [
            f"{f.mechanism} would also certify, with these expected errors: "
            + "; ".join(map(_class, f.classes))
            for f in self.forecasts
            if f.classes
        ]

    def _title(self) -> str:
        budget = wording.budget(self.epsilon, self.delta)
        persons = f", {self.rows_per_person} records per person" if self.rows_per_person > 1 else ""
        return f"Plan for {self.workload}: n = {self.n:,}, {budget}, {self.relation} neighbours{persons}"


_HEADER = ("mechanism", "guaranteed", "expected", "stated by", "time", "memory", "rows", "remark")
_LEGEND = (
    "guaranteed: largest error over all queries, in points (percent of all records), except with probability "
    "{chance}; expected: typical largest error by formula or simulation, no promise; stated by: the guarantee, or a "
    "certificate that is measured afterwards"
)


def error_by(forecast: Forecast, by: Criterion) -> float:
    """One of the two errors of a forecast; infinite where there is none."""
    value = forecast.guaranteed if by == "guaranteed" else forecast.expected
    return float("inf") if value is None else value


def _cells(forecast: Forecast) -> tuple[str, ...]:
    remark = forecast.notes[0] if forecast.notes else ""
    return (
        forecast.mechanism,
        _error(forecast.guaranteed),
        _error(forecast.expected),
        forecast.stated or "-",
        _duration(forecast.seconds),
        f"{forecast.megabytes:,.0f} MB",
        "yes" if forecast.gives_rows else "answers only",
        remark,
    )


def _class(one: ClassForecast) -> str:
    return one.says if one.expected is None else f"{one.says} within {wording.points(one.expected)}"


def _error(value: float | None) -> str:
    return "-" if value is None else "none" if value >= 1 else f"{100 * value:.3g}"


def _duration(seconds: float) -> str:
    if seconds < 1:
        return "< 1 s"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def preferred(plan: Comparison, queries: Queries) -> str:
    """The mechanism that a release takes by itself.

    Sculpt for workloads with marginals and a delta, since it also gives rows and a far smaller mean error, unless
    another mechanism is expected to have less than half its largest error; else the smallest expected error, or one
    as good that states an error before the run.
    """
    best = _proved_where_as_good(plan, plan.best(by="expected"))
    sculpt = next((f for f in plan.forecasts if f.mechanism == "sculpt" and f.refusal is None), None)
    has_marginals = any(isinstance(part, Marginals) for part in queries.classes)
    if (
        plan.delta
        and has_marginals
        and sculpt is not None
        and error_by(best, "expected") > error_by(sculpt, "expected") / 2
    ):
        return sculpt.mechanism
    return best.mechanism


def _proved_where_as_good(plan: Comparison, best: Forecast) -> Forecast:
    """The mechanism itself where it has a guarantee in advance, else the best guarantee among those nearly as good."""
    if error_by(best, "guaranteed") < 1:
        return best
    limit = AS_GOOD * error_by(best, "expected")
    proved = [
        f
        for f in plan.forecasts
        if f.refusal is None and error_by(f, "guaranteed") < 1 and error_by(f, "expected") <= limit
    ]
    return min(proved, key=lambda f: error_by(f, "guaranteed"), default=best)

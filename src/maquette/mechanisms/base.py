"""What a mechanism is handed and what it hands back.

A mechanism is a strategy: it decides what to ask next from what was released so far. It knows the curator as
the protocol below and never sees a row, so a mistake in a mechanism can cost accuracy, not privacy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from maquette.core.any_order import Statistic
from maquette.core.binned import Binned
from maquette.core.budget import Unit
from maquette.core.class_errors import ClassSets, ReleasedTables
from maquette.core.combinations import ReleasedRows
from maquette.core.drawing import DrawnDatabase
from maquette.core.group_means import GroupMeans
from maquette.core.laws import IndependentLaw, NoiseRequest
from maquette.core.linear_queries import Group
from maquette.core.measurement import BinnedResidual, Measurement, NoisyCounts, NoisyTable, Residual, Size
from maquette.core.typical import TypicalError
from maquette.core.weighting import Weighting
from maquette.domain import Domain, Relation
from maquette.errors import MechanismError
from maquette.mechanisms import shape
from maquette.models.answers import Answers, SmallDatabase
from maquette.progress import Progress, Stage
from maquette.queries.base import Queries
from maquette.queries.rows import Margin
from maquette.requests import TYPICAL_ROWS as TYPICAL_ROWS
from maquette.samplers.structures import Draw

POSTS = ("auto", "none", "consistent", "lp", "l2")
"""Ways of post-processing, by name."""


class Curator(Protocol):
    """The gate as a mechanism sees it. Everything returned has been paid for out of one allowance."""

    @property
    def domain(self) -> Domain: ...

    @property
    def relation(self) -> Relation: ...

    @property
    def unit(self) -> Unit:
        """What the allowance is counted in."""
        ...

    @property
    def left(self) -> Fraction:
        """What is left of this allowance, in `unit`."""
        ...

    def size(self, *, price: Fraction) -> Size:
        """The number of records: free and exact under replace-one, noisy at `price` under add/remove-one."""
        ...

    def total(self, weight: Weighting, *, price: Fraction) -> Size:
        """The total weight of the records, rounded up and noisy at `price` under both relations."""
        ...

    def measure(self, queries: Queries, *, noise: NoiseRequest) -> Measurement:
        """Noisy answers to a class of queries."""
        ...

    def measure_residuals(
        self, margins: Sequence[Margin], *, variances: Sequence[Fraction]
    ) -> tuple[Residual, ...]:
        """Noisy residuals of many margins, with integer Gaussian noise of the given variances, in one payment."""
        ...

    def measure_binned_residuals(
        self, binned: Sequence[Binned], *, variances: Sequence[Fraction]
    ) -> tuple[BinnedResidual, ...]:
        """Noisy residuals of tables in bins, with integer Gaussian noise of the given variances, in one payment."""
        ...

    def measure_tables(
        self, binned: Sequence[Binned], *, variances: Sequence[Fraction]
    ) -> tuple[NoisyTable, ...]:
        """Tables in bins, each with noise of its own variance, in one payment."""
        ...

    def distances(
        self, binned: Sequence[Binned], references: Sequence[NDArray[np.int64]], *, price: Fraction
    ) -> tuple[NDArray[np.int64], IndependentLaw]:
        """The L1 distance in counts of every private table to a public one, plus noise."""
        ...

    def select_tables(
        self,
        binned: Sequence[Binned],
        references: Sequence[NDArray[np.int64]],
        penalties: NDArray[np.int64],
        *,
        count: int,
        price: Fraction,
        related: bool = False,
    ) -> tuple[int, ...]:
        """Up to `count` tables far from their references, no two of them sharing two attributes; `related` may."""
        ...

    def select(self, queries: Queries, answers: Answers, *, price: Fraction, signed: bool = False) -> int:
        """The index of a query that `answers` gets badly wrong, chosen privately by its count-scale error.

        With `signed` i means that the answer to query i is too small, i + count that it is too large.
        """
        ...

    def draw(self, question: Draw, *, price: Fraction) -> DrawnDatabase[Draw]:
        """A small database near the table, drawn exactly by the exponential mechanism."""
        ...

    def score_of(self, draw: DrawnDatabase[Draw], *, price: Fraction) -> NoisyCounts:
        """The largest count-scale error of a drawn database over its class, plus noise."""
        ...

    def largest_error(
        self, queries: Queries, answers: Answers, *, groups: Sequence[Group] | None = None, price: Fraction
    ) -> NoisyCounts:
        """The largest count-scale error of `answers` over the queries, or over each group, plus noise."""
        ...

    def class_errors(
        self, classes: Sequence[ClassSets], released: ReleasedTables, *, price: Fraction
    ) -> NoisyCounts:
        """The largest count-scale error of a released distribution over each class of questions, plus noise."""
        ...

    def combination_errors(
        self, released: ReleasedRows, statistics: Sequence[Statistic], *, price: Fraction
    ) -> NoisyCounts:
        """The largest count-scale error of released rows over each family of combinations, plus noise."""
        ...

    def typical_errors(
        self, released: ReleasedRows, statistics: Sequence[TypicalError], *, price: Fraction
    ) -> NoisyCounts:
        """How far released rows are off typically, in counts, plus noise."""
        ...

    def group_mean_errors(
        self, released: ReleasedRows, statistic: GroupMeans, *, price: Fraction
    ) -> NoisyCounts:
        """The largest error of released rows over group means, in counts, plus noise."""
        ...


@dataclass(frozen=True, slots=True)
class Task:
    """Everything public that a mechanism needs to plan and to run."""

    queries: Queries
    relation: Relation
    unit: Unit
    price: Fraction
    """What may be spent, in `unit`, certificate not included."""
    beta: float
    post: str = "auto"
    """Post-processing, one of `POSTS`."""
    rows: int | None = None
    """How many rows the small database should have; None leaves it to the mechanism."""
    weight: str | None = None
    """The attribute that weighs the records; None where each counts as one."""
    small: bool = False
    """Choose the fewest rows that keep the largest error; `rows` is None then."""
    typical_rows: int = TYPICAL_ROWS
    """A public guess of the number of records."""
    size: Size | None = None
    """The number of records, where it is private and was paid for before, out of another price."""


@dataclass(frozen=True, slots=True, repr=False)
class Guarantee:
    """Stated by a theorem from the noise that was really drawn: every answer within `alpha`, except with `beta`."""

    alpha: float
    beta: float
    bound: str
    """Which statement gave it, in words."""
    target: float | None = None
    """The error that was asked for, where one was."""
    records_needed: int | None = None
    """How many records the theorem needs for it; None where no number of them suffices, or none was asked for."""

    @property
    def vacuous(self) -> bool:
        """Whether it says nothing, answers being fractions."""
        return not self.alpha < 1

    @property
    def met(self) -> bool | None:
        """Whether the error that was asked for is guaranteed; None where none was."""
        return None if self.target is None else self.alpha <= self.target

    def __repr__(self) -> str:
        if self.vacuous:
            return "Guarantee(none before the run)"
        return f"Guarantee(within {100 * self.alpha:.3g} points, except with probability {100 * self.beta:.3g} %)"


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What a mechanism made out of what it was allowed to see. All public."""

    answers: Answers
    database: SmallDatabase | None
    """Rows over the attributes that were measured, or None for answers only."""
    size: Size
    guarantee: Guarantee
    deviations: NDArray[np.floating[Any]] | None = None
    """Standard deviation of each answer's noise before post-processing, as a fraction, where it is known."""
    parameters: dict[str, Any] = field(default_factory=dict)
    """Public settings and by-products worth reporting; JSON-ready."""
    notes: tuple[str, ...] = ()
    model: Any = None
    """A public model that can answer further queries inside what was measured (see models/), or None."""
    scored_draw: DrawnDatabase[Draw] | None = None
    """The draw that a certificate is measured on, where the answers are not listed or the records weigh."""


Stated = Literal["guarantee", "certificate"]
"""Which of its errors a release states."""


@dataclass(frozen=True, slots=True)
class ClassForecast:
    """A class of questions that a release would certify, and the bound that it is expected to state."""

    name: str
    says: str
    """The questions of the class, in words."""
    expected: float | None
    """No promise; None where no bound of this class was ever calibrated."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What the planner says of one mechanism, from public inputs only."""

    mechanism: str
    guaranteed: float | None
    """alpha except with probability beta, by a theorem."""
    expected: float | None
    """A typical largest error, by formula or simulation; no promise."""
    seconds: float
    megabytes: float
    gives_rows: bool
    refusal: str | None = None
    """Why it cannot run here, or None."""
    notes: tuple[str, ...] = ()
    stated: Stated | None = None
    """Which error a release would state; None where that was not asked."""
    certified: float | None = None
    """What the certificate is expected to state, where one would be bought; no promise."""
    classes: tuple[ClassForecast, ...] = ()
    """The classes of questions that a release would certify besides."""

    @classmethod
    def refused(cls, mechanism: str, why: str) -> Forecast:
        """Of a mechanism that cannot run here."""
        return cls(mechanism, None, None, 0.0, 0.0, False, why)


# A mechanism, and a mechanism at one task.


@dataclass(frozen=True, slots=True)
class Traits:
    """What is true of a mechanism whatever the task; everybody who needs to know asks here."""

    needs_delta: bool = False
    """It has no noise for a pure budget."""
    gaussian: bool = False
    """It spends a budget with a delta mostly on Gaussian noise, which needs less of it by Gaussian accounting."""
    projects_noise: bool = False
    """It may project its noise, which is then exact only within a proven bound."""
    weighs_records: bool = False
    """Records count by the value of a declared attribute."""
    chooses_few_rows: bool = False
    """It can choose the fewest rows that keep the largest error."""
    answers_from_rows: bool = False
    """Its answers are counts of rows, as many as records or more: whole tables that agree with each other."""
    special: bool = False
    """Made for few workloads: a plan that does not ask for it by name leaves it out where it cannot run."""
    by_name: bool = False
    """Left out of plans that do not ask for it by name: it searches before it can say anything."""


class Mechanism(ABC):
    """A named strategy. A new one is one file, and one line in `mechanisms/base.py` or an entry point of a package."""

    name: str
    traits: Traits
    prepared_by: ClassVar[type[Prepared]]
    """What `prepare` makes: the mechanism at one task."""

    def prepare(self, task: Task, *, n: int | None = None) -> Prepared:
        """The mechanism at one task on about n records (by default the task's guess). Public inputs only."""
        return self.prepared_by(self, task, task.typical_rows if n is None else n)

    def l2_shift(self, queries: Queries, relation: Relation) -> Fraction:
        """The squared distance by which one record moves what is measured, about: it decides the accounting."""
        return shape.sensitivities(queries)[relation].l2_squared

    def to_dict(self) -> dict[str, Any]:
        """The options of a mechanism that was not taken from the registry, for the digest of a request."""
        return {}


@dataclass(frozen=True, eq=False)
class Prepared(ABC):
    """A mechanism at one task: what follows from public inputs is derived once, for the forecast and for the run.

    A subclass says why it cannot run (`_refuse`), what it promises (`_foresee`) and what it does (`_run`).
    """

    mechanism: Mechanism
    task: Task
    n: int
    """About how many records there are: public, or a guess."""

    @cached_property
    def refusal(self) -> str | None:
        """Why it cannot run, or None."""
        if self.mechanism.traits.needs_delta and self.task.unit.is_pure:
            return "Gaussian noise needs a delta above 0"
        return self._refuse()

    @cached_property
    def forecast(self) -> Forecast:
        """What it promises and costs, before any data is touched."""
        if self.refusal is not None:
            return Forecast.refused(self.mechanism.name, self.refusal)
        if self.is_constant:
            return Forecast(self.mechanism.name, 0.0, 0.0, START_SECONDS, self.megabytes, False)
        return self._foresee()

    @property
    def stages(self) -> tuple[Stage, ...]:
        """What a run comes through, in order: the forecast's time in its parts; none where they are not known."""
        if self.is_constant or self.refusal is not None:
            return ()
        whole = sum(part for _, part in self.stage_parts) or 1.0
        seconds = self.forecast.seconds
        return tuple(Stage.of(name, seconds * part / whole) for name, part in self.stage_parts)

    @property
    def stage_parts(self) -> tuple[tuple[str, float], ...]:
        """The stages by the names under which a run reports them, and about which part of its time each takes."""
        return ()

    @property
    def is_constant(self) -> bool:
        """Does every query have the same weight on every record?"""
        return shape.distinct(self.task.queries) == 0

    @property
    def judges_size_with_answers(self) -> bool:
        """Is the noise of an answer and of the number of records one vector to what is stated in advance?

        Such a statement fails more often for some numbers of records and more seldom for others, so that the number
        must not decide whether it is made.
        """
        return False

    @property
    def megabytes(self) -> float:
        """Memory that a run takes, roughly."""
        return 300.0

    @property
    def expected_guarantee(self) -> float | None:
        """What the guarantee is expected to state after the run: never more than in advance."""
        return self.forecast.guaranteed

    @property
    def size_price(self) -> Fraction:
        """What is paid for the number of records, first of all, so that the rest is decided by it; 0 where nothing is.

        Holds when: it follows from public inputs.
        """
        return Fraction(0)

    def run(self, curator: Curator, *, rng: np.random.Generator, progress: Progress) -> Outcome:
        """Spend at most `task.price` and make answers, rows if possible; constant queries are answered for nothing."""
        if self.is_constant:
            return constant_outcome(curator, self.task)
        if self.refusal is not None:
            raise MechanismError(f"mechanism '{self.mechanism.name}' cannot do this: {self.refusal}")
        return self._run(curator, rng, progress)

    def slack_units(self, *, planned: bool) -> int:
        """What projected noise may take of a ledger's slack: at most, or `planned` for this task."""
        del planned
        return 0

    @abstractmethod
    def _refuse(self) -> str | None: ...

    @abstractmethod
    def _foresee(self) -> Forecast: ...

    @abstractmethod
    def _run(self, curator: Curator, rng: np.random.Generator, progress: Progress) -> Outcome: ...


# Workloads that need no data: nothing asked, or every answer the same for every record.


START_SECONDS = 0.2
"""Before anything is done."""
_FREE = "every query is constant: answered without looking at the table, at no cost"


def constant_outcome(curator: Curator, task: Task) -> Outcome:
    """The exact fractions of constant queries, read off any one record. Costs nothing and looks at nothing.

    Guarantee: 0; only a public size is asked for. A private size stays unknown: fractions do not need it.
    """
    queries = task.queries
    one = {a.name: np.zeros(1, dtype=np.int64) for a in queries.domain}
    numerators = np.asarray(queries.on_rows(one), dtype=np.int64) if queries.count else np.zeros(0, np.int64)
    public = task.relation is Relation.REPLACE_ONE
    size = curator.size(price=Fraction(0)) if public else Size.unknown()
    return Outcome(
        answers=Answers(numerators, queries.denominator),
        database=_rows(task, size),
        size=size,
        guarantee=Guarantee(0.0, task.beta, "the answers are the same for every table"),
        notes=(_FREE if public else f"{_FREE}; the number of records stays private",),
    )


def _rows(task: Task, size: Size) -> SmallDatabase | None:
    """Where there is only one possible record, the rows are known too."""
    if task.queries.domain.size > 1:
        return None
    m = task.rows or size.divisor
    return SmallDatabase({a.name: np.zeros(m, dtype=np.uint8) for a in task.queries.domain})


# Every mechanism that can be asked for by name: one line each, loaded when it is first needed.


class Registry(MutableMapping[str, Mechanism]):
    """Mechanisms by name. An entry is a mechanism, or the place of one as "module:object".

    Other packages add theirs by entry points of a group; a name that is taken here stays what it is.
    """

    def __init__(self, places: dict[str, str], *, group: str | None = None) -> None:
        self._places, self._group = places, group

    @cached_property
    def _entries(self) -> dict[str, Mechanism | str]:
        points = () if self._group is None else entry_points(group=self._group)
        return {
            **self._places,
            **{point.name: point.value for point in points if point.name not in self._places},
        }

    def __getitem__(self, name: str) -> Mechanism:
        entry = self._entries[name]
        if isinstance(entry, str):
            module, _, attribute = entry.partition(":")
            try:
                entry = getattr(import_module(module), attribute)
            except (ImportError, AttributeError) as error:
                raise MechanismError(f"mechanism '{name}' cannot be loaded from {module}: {error}") from error
            if not isinstance(entry, Mechanism):
                raise MechanismError(f"mechanism '{name}': {module}:{attribute} is no Mechanism")
            self._entries[name] = entry
        return entry

    def __setitem__(self, name: str, mechanism: Mechanism) -> None:
        self._entries[name] = mechanism

    def __delitem__(self, name: str) -> None:
        del self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


MECHANISMS = Registry(
    {
        "laplace": "maquette.mechanisms.direct:LAPLACE",
        "linf": "maquette.mechanisms.direct:CUBE",
        "gaussian": "maquette.mechanisms.direct:GAUSSIAN",
        "histogram-laplace": "maquette.mechanisms.direct:HISTOGRAM_LAPLACE",
        "histogram-gaussian": "maquette.mechanisms.direct:HISTOGRAM_GAUSSIAN",
        "residual": "maquette.mechanisms.residual:RESIDUAL",
        "residual-cells": "maquette.mechanisms.residual:RESIDUAL_CELLS",
        "sculpt": "maquette.sculpt.mechanism:SCULPT",
        "smalldb": "maquette.mechanisms.smalldb:SMALLDB",
        "roth": "maquette.mechanisms.roth:ROTH",
        "product": "maquette.mechanisms.product:PRODUCT",
        "knorm": "maquette.mechanisms.knorm:KNORM",
        "tree": "maquette.mechanisms.tree:TREE",
        "square-root": "maquette.mechanisms.square_root:SQUARE_ROOT",
        "factorisation": "maquette.mechanisms.factorisation:FACTORISATION",
        "mw": "maquette.mechanisms.weights:MW",
        "mwem": "maquette.mechanisms.weights:MWEM",
    },
    group="maquette.mechanisms",
)

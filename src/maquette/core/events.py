"""What ran on the private data, what it costs, and the receipt. Costs are exact rationals, rounded up to whole units.

An event says what was drawn, not what was meant: a sampler that is only close to exact states its gap. The tags
and the dictionary forms are part of the ledger's format and never change their meaning.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal, Self, cast

from maquette.core import _check
from maquette.core._arguments import checks_arguments
from maquette.core.budget import SLACK_UNITS, UNITS, Budget, Cost, Unit, charged
from maquette.core.conversions import rho_of_bounded_range, rho_of_gaussian
from maquette.core.errors import MechanismError, ParameterError

Rational = int | Fraction
Selection = Literal["exponential", "permute-and-flip"]
_WORDS = {"method", "what", "events"}
"""Fields that are no numbers."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """A place in a ledger's chain: what every released value, release and session carries of its payment.

    Whoever keeps one can later tell whether the ledger was cut back or rewritten.
    """

    sequence: int
    head: str

    @property
    def seq(self) -> int:
        """The sequence, by the name that entries of a ledger have for it."""
        return self.sequence

    @classmethod
    @checks_arguments
    def parse(cls, text: str) -> Receipt:
        """The receipt of its text form, "17:9f86d0..."."""
        if not re.fullmatch(r"[1-9][0-9]{0,17}:[0-9a-f]{64}", text):
            raise ParameterError(
                f"expected a receipt such as 17:<64 hexadecimal digits>, got {_check.shown(text)}"
            )
        sequence, head = text.split(":")
        return cls(int(sequence), head)

    def __str__(self) -> str:
        return f"{self.sequence}:{self.head}"


@dataclass(frozen=True, slots=True)
class Event(ABC):
    """The root of all events."""

    tag: ClassVar[str]
    above_zero: ClassVar[tuple[str, ...]] = ()
    """Fields that must not be 0; no number may be below it."""

    def __post_init__(self) -> None:
        for f in fields(self):
            name, value = f.name, getattr(self, f.name)
            if name in _WORDS:
                continue
            if isinstance(value, bool) or not isinstance(value, (int, Fraction)):
                raise ParameterError(f"expected {name} as int or Fraction, got {name}={value!r}")
            if value < 0 or (value == 0 and name in self.above_zero):
                relation = ">" if name in self.above_zero else ">="
                raise ParameterError(f"expected {name} {relation} 0, got {name}={value}")

    @abstractmethod
    def cost(self, unit: Unit) -> Cost:
        """What the ledger charges, in its units; MechanismError where no claim in them is proved."""

    def costs(self, budget: Budget) -> tuple[Cost, ...]:
        """How a ledger with this budget may charge it: to its total, and if it is pure to a pure part."""
        gaussian = self.cost(budget.unit)
        if not (budget.pure_units and self.is_pure):
            return (gaussian,)
        return gaussian, Cost(0, pure=self.cost(Unit.EPSILON).units)

    @property
    def is_pure(self) -> bool:
        """Has it a finite pure epsilon?"""
        return True

    @abstractmethod
    def of_rows(self, rows: int) -> Self:
        """The same look between tables that differ in up to `rows` records and not in one: sensitivities grow by that.

        What was drawn stays, and so does how far its law is from the exact one, a distance at one table.
        """

    def to_dict(self) -> dict[str, Any]:
        """The form that the ledger stores: the tag and every field, rationals as text."""
        return {"tag": self.tag} | {f.name: _plain(getattr(self, f.name)) for f in fields(self)}


@dataclass(frozen=True, slots=True)
class LaplaceEvent(Event):
    """Laplace noise of one scale, continuous or discrete, on answers of a given L1 sensitivity.

    Guarantee: (l1 / scale)-DP.
    """

    tag: ClassVar[str] = "laplace"
    above_zero: ClassVar[tuple[str, ...]] = ("scale",)
    scale: Rational
    l1: Rational

    def cost(self, unit: Unit) -> Cost:
        return Cost(unit.units_of_pure(Fraction(self.l1) / self.scale))

    def of_rows(self, rows: int) -> Self:
        return replace(self, l1=self.l1 * rows)


@dataclass(frozen=True, slots=True)
class GaussianEvent(Event):
    """Gaussian noise, continuous or discrete, on answers of a given L2 sensitivity.

    Guarantee: (l2_squared / (2 sigma_squared))-zCDP, for a sampler within `total_variation` of the exact one. No claim
        of Gaussian differential privacy: the discrete law needs a `SmoothedEvent`.
    """

    tag: ClassVar[str] = "gaussian"
    above_zero: ClassVar[tuple[str, ...]] = ("sigma_squared",)
    sigma_squared: Rational
    l2_squared: Rational
    total_variation: Rational = Fraction(0)

    @property
    def is_pure(self) -> bool:
        return False

    def cost(self, unit: Unit) -> Cost:
        _refuse_pure(unit)
        if unit.is_gaussian:
            raise MechanismError(
                "a ledger that counts Gaussian differential privacy has no cost for this rho or delta; state mu or a "
                "pure epsilon, or use a ledger that counts rho"
            )
        rho = rho_of_gaussian(sigma_squared=self.sigma_squared, l2_squared=self.l2_squared)
        return Cost(math.ceil(rho * UNITS), math.ceil(self.total_variation * SLACK_UNITS))

    def of_rows(self, rows: int) -> Self:
        return replace(self, l2_squared=self.l2_squared * rows**2)


@dataclass(frozen=True, slots=True)
class SmoothedEvent(Event):
    """Discrete Gaussian noise on whole numbers, some of it perhaps projected, set against a narrower continuous one.

    `sigma_squared` belongs to the noise that was drawn; `mu_squared` is the squared length of a neighbour's shift in
    units of the continuous noise, whose variance is smaller by the smoothing. `ripple` is what a projection changes,
    as a logarithm of probabilities; `log_ratio` is everything by which the drawn law differs from one made from the
    continuous noise, the ripple included.

    Guarantee: sqrt(mu_squared)-GDP for a law within exp(+-log_ratio) of the drawn one (`conversions.py`), and
        (l2_squared / (2 sigma_squared))-zCDP for one within the total variation `ripple`.
    """

    tag: ClassVar[str] = "smoothed"
    above_zero: ClassVar[tuple[str, ...]] = ("sigma_squared",)
    sigma_squared: Rational
    l2_squared: Rational
    mu_squared: Rational
    ripple: Rational
    log_ratio: Rational

    @property
    def is_pure(self) -> bool:
        return False

    def __post_init__(self) -> None:
        Event.__post_init__(self)
        if self.mu_squared * self.sigma_squared < self.l2_squared or self.log_ratio < self.ripple:
            raise ParameterError("expected mu_squared >= l2_squared / sigma_squared and log_ratio >= ripple")

    def cost(self, unit: Unit) -> Cost:
        _refuse_pure(unit)
        if unit.is_gaussian:
            half = self.mu_squared * Fraction(UNITS, 2)
            return Cost(math.ceil(half), math.ceil(self.log_ratio * SLACK_UNITS))
        rho = rho_of_gaussian(sigma_squared=self.sigma_squared, l2_squared=self.l2_squared)
        return Cost(math.ceil(rho * UNITS), math.ceil(self.ripple * SLACK_UNITS))

    def of_rows(self, rows: int) -> Self:
        square = rows**2
        return replace(self, l2_squared=self.l2_squared * square, mu_squared=self.mu_squared * square)


@dataclass(frozen=True, slots=True)
class CubeEvent(Event):
    """The L-infinity mechanism (K-norm noise with the cube).

    Guarantee: epsilon-DP (Steinke and Ullman 2016).
    """

    tag: ClassVar[str] = "cube"
    epsilon: Rational

    def cost(self, unit: Unit) -> Cost:
        return Cost(unit.units_of_pure(Fraction(self.epsilon)))

    def of_rows(self, rows: int) -> Self:
        return replace(self, epsilon=self.epsilon * rows)


@dataclass(frozen=True, slots=True)
class SelectionEvent(Event):
    """A private choice of one candidate by its score.

    Guarantee: epsilon-DP. The exponential mechanism has epsilon-bounded range, hence (epsilon^2 / 8)-zCDP;
        permute-and-flip has not and is charged epsilon^2 / 2. In mu^2 / 2 both are pi / 2 times as much.
    """

    tag: ClassVar[str] = "selection"
    epsilon: Rational
    method: Selection

    def __post_init__(self) -> None:
        Event.__post_init__(self)
        _check.one_of(("exponential", "permute-and-flip"), method=self.method)

    def cost(self, unit: Unit) -> Cost:
        if unit.is_pure or self.method != "exponential":
            return Cost(unit.units_of_pure(Fraction(self.epsilon)))
        return Cost(math.ceil(unit.cost_of_rho(rho_of_bounded_range(self.epsilon)) * UNITS))

    def of_rows(self, rows: int) -> Self:
        return replace(self, epsilon=self.epsilon * rows)


@dataclass(frozen=True, slots=True)
class SparseEvent(Event):
    """The sparse vector technique: one noisy threshold and any number of noisy tests, at most `cap` of them above it.

    Scales of Laplace noise, continuous or discrete, on scores that move by at most `sensitivity`, in any direction.

    Guarantee: (sensitivity / threshold_scale + 2 cap sensitivity / test_scale)-DP (Lyu, Su and Li 2017, the standard
        form). Noisy values of the scores are not included; they are events of their own.
    """

    tag: ClassVar[str] = "sparse"
    above_zero: ClassVar[tuple[str, ...]] = ("threshold_scale", "test_scale", "cap")
    threshold_scale: Rational
    test_scale: Rational
    cap: Rational
    sensitivity: Rational = 1

    def __post_init__(self) -> None:
        Event.__post_init__(self)
        if Fraction(self.cap).denominator != 1:
            raise ParameterError(f"expected cap as a whole number, got cap={self.cap}")

    @property
    def epsilon(self) -> Fraction:
        """The pure loss of the threshold and all tests together."""
        sensitivity = Fraction(self.sensitivity)
        return sensitivity / self.threshold_scale + 2 * self.cap * sensitivity / self.test_scale

    def cost(self, unit: Unit) -> Cost:
        return Cost(unit.units_of_pure(self.epsilon))

    def of_rows(self, rows: int) -> Self:
        return replace(self, sensitivity=self.sensitivity * rows)


@dataclass(frozen=True, slots=True)
class PureEvent(Event):
    """Any other pure mechanism; `what` names it for the reader.

    Guarantee: epsilon-DP.
    """

    tag: ClassVar[str] = "pure"
    epsilon: Rational
    what: str

    def cost(self, unit: Unit) -> Cost:
        return Cost(unit.units_of_pure(Fraction(self.epsilon)))

    def of_rows(self, rows: int) -> Self:
        return replace(self, epsilon=self.epsilon * rows)


@dataclass(frozen=True, slots=True)
class ComposedEvent(Event):
    """Several events in a row, each allowed to depend on what the earlier ones released.

    The cost is the sum of the rounded costs, so that a sum reserved in advance covers its parts one by one.
    """

    tag: ClassVar[str] = "composed"
    events: tuple[Event, ...]

    @property
    def is_pure(self) -> bool:
        return all(event.is_pure for event in self.events)

    def cost(self, unit: Unit) -> Cost:
        return sum((event.cost(unit) for event in self.events), Cost(0))

    def of_rows(self, rows: int) -> Self:
        return replace(self, events=tuple(event.of_rows(rows) for event in self.events))


_KINDS: dict[str, type[Event]] = {
    kind.tag: kind
    for kind in (
        LaplaceEvent,
        GaussianEvent,
        SmoothedEvent,
        CubeEvent,
        SelectionEvent,
        SparseEvent,
        PureEvent,
        ComposedEvent,
    )
}
RESERVED = frozenset({"tag"} | {f.name for kind in _KINDS.values() for f in fields(kind)})
"""Names in a ledger entry's body that say what was drawn, and that nothing else may stand under."""


def charges(event: Event, budget: Budget, spent: Cost, ledger: Budget) -> tuple[Cost, Cost, Cost | None]:
    """What an event takes of a curator's own budget, and the ways in which the curator's ledger may charge it.

    Of the own budget it takes the part of which it takes the smaller share; the ledger charges it as that does, and in
    either way where the own budget is pure throughout.
    """
    costs, whole = event.costs(budget), budget.whole
    own = costs[0] if len(costs) == 1 else charged(costs, whole=whole, left=whole - spent)
    if own.pure:
        return own, own, None
    in_pure_part = Cost(0, pure=own.units) if budget.pure and ledger.pure_units else None
    return own, event.cost(ledger.unit), in_pure_part


def from_dict(data: Mapping[str, Any]) -> Event:
    """The event of a stored form."""
    kind = _KINDS.get(str(data.get("tag")))
    if kind is None:
        raise ParameterError(
            f"expected an event tag, one of {', '.join(sorted(_KINDS))}, got {data.get('tag')!r}"
        )
    if kind is ComposedEvent:
        return ComposedEvent(tuple(from_dict(part) for part in data["events"]))
    values = {name: value for name, value in data.items() if name != "tag"}
    if set(values) != {f.name for f in fields(kind)}:
        raise ParameterError(f"expected the fields of a {kind.tag} event, got {', '.join(sorted(values))}")
    return kind(**{n: v if n in _WORDS else _parse(v, name=n) for n, v in values.items()})


def from_body(body: Mapping[str, Any]) -> Event:
    """The event of a ledger entry, whose body may say more beside it."""
    kind = _KINDS.get(str(body.get("tag")))
    if kind is None:
        raise ParameterError(
            f"expected the body of a paid question, got one without an event: {sorted(body)}"
        )
    return from_dict({"tag": kind.tag} | {f.name: body[f.name] for f in fields(kind) if f.name in body})


def _refuse_pure(unit: Unit) -> None:
    if unit.is_pure:
        raise MechanismError(
            "Gaussian noise has no finite pure epsilon; give a delta, or choose a mechanism with Laplace noise"
        )


def _plain(value: object) -> object:
    if isinstance(value, (int, Fraction)):
        return str(Fraction(value))
    if isinstance(value, tuple):
        return [event.to_dict() for event in cast("tuple[Event, ...]", value)]
    return value


def _parse(text: object, *, name: str) -> Fraction:
    try:
        return Fraction(cast("str", text))
    except (TypeError, ValueError, ZeroDivisionError):
        raise ParameterError(f"expected {name} as a rational number in text, got {text!r}") from None

"""How far the private inputs of one question moved between neighbouring tables, against what was charged for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from maquette.core.events import (
    ComposedEvent,
    CubeEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    SelectionEvent,
    SmoothedEvent,
    from_body,
)
from support.privacy_lattice import projected
from support.privacy_loss import minus_log


@dataclass(frozen=True, eq=False)
class Draw:
    """One private input, what was asked of the sampler, and what came out."""

    method: str
    parameters: dict[str, Any]
    exact: list[int]
    output: Any


@dataclass(frozen=True, eq=False)
class Outcome:
    """Of one call on one table."""

    error: tuple[type, str] | None
    result: Any
    entries: list[Any]
    draws: list[Draw]
    touched: int

    @property
    def charged(self) -> list[Any]:
        """What the ledger wrote, without the time and the chain."""
        kept = ("kind", "key", "parent", "tag", "request", "units", "slack", "envelope", "body")
        return [{name: getattr(entry, name) for name in kept} for entry in self.entries]

    @property
    def stored(self) -> list[Any]:
        """Digests of the values that the ledger keeps."""
        return [entry.payload_sha256 for entry in self.entries]

    def __str__(self) -> str:
        return "answered" if self.error is None else f"{self.error[0].__name__}({self.error[1]!r})"


def check_moves(method: str, arguments: dict[str, Any], one: Outcome, other: Outcome) -> None:
    """No private input moved farther than the sensitivity that was charged."""
    apart = [
        [a - b for a, b in zip(x.exact, y.exact, strict=True)]
        for x, y in zip(one.draws, other.draws, strict=True)
    ]
    if method in ("test", "test_all"):
        # scores, and the value of a far guess: paid for when the epoch opened, for moving by one count each
        guesses = [arguments["queries"]] if method == "test" else [g.queries for g in arguments["guesses"]]
        tested = 1 if method == "test" else len(one.result)
        for i, moved in enumerate(apart):
            if max(map(abs, moved)) > guesses[min(i, tested - 1)].denominator:
                raise AssertionError(f"the input of a test moved by {moved}, charged as one record")
        return
    paid = [from_body(e.body) for e in one.entries if e.kind == "reserve" and "tag" in e.body]
    if not paid or method == "open_epoch":  # which draws noise and looks at nothing
        if any(any(moved) for moved in apart):
            raise AssertionError(f"{method} looked at the table without a charge")
        return
    event = paid[-1]
    if method in ("measure_residuals", "measure_binned_residuals"):
        apart = [
            [
                Fraction(int(v), residual.denominator)
                for v in projected(
                    np.array(moved, dtype=object).reshape(residual.values.shape), residual.axes
                ).ravel()
            ]
            for moved, residual in zip(apart, one.result, strict=True)
        ]
    lost, charged = _loss(event, one.draws, apart), _charged(event)
    if (
        method == "draw"
    ):  # scores of sensitivity 1; that the base is worth its price is tested in tests/samplers
        charged = Fraction(1)
    if lost > charged:
        raise AssertionError(
            f"{method}: the private input moved by {float(lost):.6g}, charged {float(charged):.6g}"
        )


def _loss(event: Event, draws: Sequence[Draw], apart: Sequence[Sequence[Any]]) -> Fraction:
    """How far the inputs moved in units of the noise, by the norm of the event."""
    pairs = list(zip(draws, apart, strict=True))
    largest = [max(map(abs, moved), default=0) for moved in apart]
    match event:
        case LaplaceEvent():
            return sum(
                (sum(map(abs, moved)) / Fraction(d.parameters["scale"]) for d, moved in pairs), Fraction(0)
            )
        case GaussianEvent() | SmoothedEvent():
            squares = (
                sum(Fraction(v) ** 2 for v in moved) / Fraction(d.parameters["sigma"]) ** 2
                for d, moved in pairs
            )
            return sum(squares, Fraction(0))
        case CubeEvent():
            return sum(
                (m * minus_log(d.parameters["base"]) for d, m in zip(draws, largest, strict=True)),
                Fraction(0),
            )
        case PureEvent() if draws and draws[0].method == "norm":
            given = draws[0].parameters
            levels = math.ceil(given["resolution"] * given["body"].norm(np.array(apart[0], dtype=object)))
            return levels * minus_log(given["decay"])
        case SelectionEvent() | PureEvent() if draws and draws[0].method == "draw":
            return Fraction(max(largest, default=0))
        case SelectionEvent() | ComposedEvent():
            # what counts is how far two scores move apart: as far as one of them where all move the same way
            return max(
                (
                    (1 if min(moved) >= 0 or max(moved) <= 0 else 2) * m / Fraction(d.parameters["scale"])
                    for (d, moved), m in zip(pairs, largest, strict=True)
                ),
                default=Fraction(0),
            )
        case _:
            raise AssertionError(f"no rule for {event}")


def _charged(event: Event) -> Fraction:
    match event:
        case LaplaceEvent():
            return Fraction(event.l1) / event.scale
        case GaussianEvent() | SmoothedEvent():
            return Fraction(event.l2_squared) / event.sigma_squared
        case CubeEvent():
            return Fraction(event.epsilon)
        case SelectionEvent() | PureEvent():
            return Fraction(event.epsilon)
        case ComposedEvent(events):
            return max(_charged(part) for part in events)
        case _:
            raise AssertionError(f"no rule for {event}")

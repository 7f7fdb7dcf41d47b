"""What the gate hands out: noisy counts, the law of their noise, and the receipt that they were paid for.

And how the ledger stores it.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from maquette.core.binned import Binned
from maquette.core.errors import KeyReused, LedgerError
from maquette.core.events import Receipt
from maquette.core.forms import Margin
from maquette.core.laws import IndependentLaw, NoiseLaw
from maquette.core.linear_queries import LinearQueries

if TYPE_CHECKING:
    from maquette.core.ledger.entry import Entry


Q = TypeVar("Q", bound=LinearQueries)


@dataclass(frozen=True, slots=True, eq=False)
class Measurement(Generic[Q]):
    """Noisy answers to a class of queries. `values` are whole numbers over `queries.denominator`."""

    queries: Q
    values: NDArray[np.int64]
    noise: NoiseLaw
    receipt: Receipt

    @property
    def counts(self) -> NDArray[np.float64]:
        """The noisy answers as counts."""
        return self.values / self.queries.denominator


@dataclass(frozen=True, slots=True, eq=False)
class NoisyCounts:
    """Counts of records, or errors in counts, plus noise that is drawn for each number alone."""

    values: NDArray[np.int64]
    noise: IndependentLaw
    receipt: Receipt


@dataclass(frozen=True, slots=True, eq=False)
class NoisySums:
    """Noisy sums of (v - middle) / width over the groups of a margin, and half the numbers of their records.

    `values` are whole numbers over `denominator`, the sums first; the halved counts follow where there are some.
    """

    name: str
    by: Margin
    values: NDArray[np.int64]
    denominator: int
    noise: IndependentLaw
    receipt: Receipt


@dataclass(frozen=True, slots=True, eq=False)
class NoisyTable:
    """A table in bins plus noise; `values` are flat whole counts."""

    binned: Binned
    values: NDArray[np.int64]
    variance: Fraction
    """Of the noise in every bin, by the parameter of its law."""
    receipt: Receipt


@dataclass(frozen=True, slots=True, eq=False)
class Residual:
    """The noisy residual of one margin: its table plus noise, with the mean over each axis in `axes` removed.

    `values` are whole numbers; divide by `denominator` (the product of the sizes of `axes`). On the axes that
    were not removed before release, remove the mean on use: that is post-processing.
    """

    margin: Margin
    axes: tuple[int, ...]
    values: NDArray[np.int64]
    denominator: int
    variance: Fraction
    """Variance parameter of the integer noise that was added to every cell before the projection."""
    receipt: Receipt


@dataclass(frozen=True, slots=True, eq=False)
class BinnedResidual:
    """The noisy residual of one table in bins, as `Residual` is that of a margin: whole numbers over `denominator`."""

    binned: Binned
    axes: tuple[int, ...]
    values: NDArray[np.int64]
    denominator: int
    variance: Fraction
    receipt: Receipt


@dataclass(frozen=True, slots=True)
class Size:
    """The number of records: exact where it is public, a paid noisy value where it is private."""

    value: int
    noise: IndependentLaw | None
    receipt: Receipt | None
    unpaid: bool = False
    """Private, and nothing was paid for it: the value is 0 and says nothing."""

    @property
    def public(self) -> bool:
        return self.noise is None and not self.unpaid

    @classmethod
    def of(cls, paid: NoisyCounts) -> Size:
        """Private, and paid for: one noisy number."""
        return cls(int(paid.values[0]), paid.noise, paid.receipt)

    @classmethod
    def unknown(cls) -> Size:
        """Private, and nothing was paid for it."""
        return cls(0, None, None, unpaid=True)

    @property
    def divisor(self) -> int:
        """The value to divide by: at least 1, clamped after the noise."""
        return max(self.value, 1)

    def to_json(self) -> dict[str, Any]:
        """What is stored of it beside a model; where it was paid is in the release file."""
        return {"value": self.value, "noise": None if self.noise is None else self.noise.to_dict()}


# What the gate hands out when it tests a guess against the table: the public side of a sparse-vector epoch.


@dataclass(frozen=True, slots=True)
class EpochTerms:
    """What an epoch is asked for. Public: functions of public inputs and released values."""

    threshold: int
    """A guess is far off if it misses by about this many records or more."""
    cap: int
    """After this many guesses far off the epoch is closed."""
    threshold_price: Fraction
    """Pure epsilon of the noise on the threshold."""
    test_price: Fraction
    """Pure epsilon of all tests together."""
    answer_price: Fraction | None
    """What noisy values of the guesses far off cost together, in the curator's unit; None for the tests alone."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """An epoch that was paid for. The noisy threshold itself stays in the gate."""

    terms: EpochTerms
    threshold_scale: Fraction
    """Of the discrete Laplace noise on the threshold, in counts."""
    test_scale: Fraction
    """Of the discrete Laplace noise on each test, in counts."""
    answer_noise: IndependentLaw | None
    """The law of the noise on the values of guesses far off, in counts."""
    receipt: Receipt


@dataclass(frozen=True, slots=True)
class GuessOutcome:
    """What the test of a guess said: near enough, or far off with a fresh noisy value over the query's denominator."""

    far: bool
    value: int | None
    receipt: Receipt


# What is stored in the ledger: whole numbers as bytes, in the smallest integer type that holds them, and the steps of
# a session. Public throughout.


def pack(arrays: Sequence[NDArray[np.int64]], *, fixed: bool = False) -> bytes:
    """Arrays in order, without their shapes' meaning: the request says what they are.

    With `fixed` every number takes 8 bytes, so that the length says nothing about them.
    """
    buffer = io.BytesIO()
    for array in arrays:
        if fixed:
            np.save(buffer, array.astype(np.int64), allow_pickle=False)
            continue
        # not by np.abs, which has no answer for the smallest 64-bit number
        reach = max(int(array.max(initial=0)), -int(array.min(initial=0)))
        smallest = next((t for t in (np.int8, np.int16, np.int32) if reach <= np.iinfo(t).max), np.int64)
        np.save(buffer, array.astype(smallest), allow_pickle=False)
    return buffer.getvalue()


def unpack(payload: bytes) -> list[NDArray[np.int64]]:
    """The arrays of `pack`."""
    buffer = io.BytesIO(payload)
    arrays: list[NDArray[np.int64]] = []
    while buffer.tell() < len(payload):
        arrays.append(np.load(buffer, allow_pickle=False).astype(np.int64))
    return arrays


EPOCH, TEST, NOTE = "epoch", "test", "note"
"""The `ask` words of steps that are not measurements."""


class Verdict(IntEnum):
    """What is stored of a test."""

    NEAR = 0
    FAR = 1
    VOID = 2
    """Not tested: one before it in its batch was far."""
    LOST = 3
    """Looked at, perhaps, and lost with a process, and so the rest of its batch; it counts as one far guess."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the past, without its secrets."""

    number: int
    ask: str
    body: Mapping[str, Any]
    values: tuple[NDArray[np.int64], ...] | None
    """What was released; None for an epoch, whose threshold is secret, and for a step that was never answered."""
    units: int
    """What it took from the ledger, of whichever part."""
    created: str
    receipt: Receipt
    answered: bool


def read_step(entry: Entry) -> Step:
    """A step of whatever session as the ledger stores it, without its secrets."""
    ask, place = str(entry.body.get("ask", "")), entry.answered
    number = entry.key.rpartition("/")[2]
    if not re.fullmatch("[0-9]{4,}", number) or not ask:
        raise LedgerError(
            f"expected the steps of '{entry.parent}' by number, as a curator writes them, and found '{entry.key}', "
            "which something else reserved inside it; go on in a session or release of another name"
        )
    return Step(
        int(number),
        ask,
        entry.body,
        None if entry.payload is None or ask == EPOCH else tuple(unpack(entry.payload)),
        entry.units or entry.pure,
        entry.created,
        Receipt(entry.seq, entry.head) if place is None else place,
        place is not None,
    )


def pack_outcomes(outcomes: Sequence[tuple[int, int | None]], count: int) -> list[bytes]:
    """What is stored of so many tests: verdicts and values as far as there are some, void after them.

    All take the same room, so that nothing follows from it; the value is None where the epoch has no values.
    """
    void = (
        []
        if not outcomes
        else [(Verdict.VOID, None if outcomes[0][1] is None else 0)] * (count - len(outcomes))
    )
    numbers = [[verdict] if value is None else [verdict, value] for verdict, value in (*outcomes, *void)]
    return [pack([np.array([n], dtype=np.int64) for n in one], fixed=True) for one in numbers]


def has_outcome(step: Step) -> bool:
    """Is what was asked for there? Not after a far guess in the same batch, nor where it was lost with a process."""
    if step.ask in (EPOCH, NOTE):
        return True
    return bool(step.values) and (step.ask != TEST or verdict_of(step) in (Verdict.NEAR, Verdict.FAR))


def verdict_of(step: Step) -> int:
    """What is stored of a test."""
    if not step.values:
        raise LedgerError(f"step {step.number} holds no outcome")
    return int(step.values[0][0])


def outcome_of(step: Step) -> GuessOutcome:
    """The outcome of a test that is stored."""
    if step.values is None or not has_outcome(step):
        raise LedgerError(f"step {step.number} holds no outcome")
    far = verdict_of(step) == Verdict.FAR
    return GuessOutcome(far, int(step.values[1][0]) if far and len(step.values) > 1 else None, step.receipt)


def outcomes_of(steps: Sequence[Step]) -> list[GuessOutcome]:
    """The outcomes of tests that were stored together."""
    outcomes = [outcome_of(step) for step in steps if has_outcome(step)]
    if steps and not outcomes:
        raise KeyReused("another process took these steps; catch up and test again")
    return outcomes

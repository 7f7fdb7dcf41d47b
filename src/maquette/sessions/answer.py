"""What a session hands out. Small frozen values, all public."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from maquette.accounting.ledger import Receipt

Kind = Literal["free", "cached", "paid"]
"""free: the hypothesis passed its test, or no data was needed; cached: asked before; paid: measured, or the epoch
in which it was tested had to be opened."""


@dataclass(frozen=True, slots=True)
class SessionAnswer:
    """One answer. All answers of a session are within their errors together, except with probability `beta`."""

    query: str
    value: float
    """The share of the records, between 0 and 1."""
    error: float
    beta: float
    kind: Kind
    cost: float
    """What this question took, in `unit`; an epoch is paid by the question that opens it."""
    left: float
    """What the session still has, in `unit`."""
    unit: str
    receipt: Receipt | None
    """Where in the ledger it stands; None if no entry was needed."""
    notes: tuple[str, ...] = ()
    holds_for: str = "all answers of the session together"
    """What `beta` is the chance of failure of."""

    @property
    def low(self) -> float:
        return max(self.value - self.error, 0.0)

    @property
    def high(self) -> float:
        return min(self.value + self.error, 1.0)

    def __str__(self) -> str:
        return f"{100 * self.value:.2f} % ± {100 * self.error:.2f} points ({self.kind})"


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a question would cost at most and how good its answer would be, from public state only."""

    query: str
    kind: Literal["free", "cached", "size", "test", "measure"]
    """size: the number of records is bought first and decides the rest; test: answered from the hypothesis if it passes
    its test, measured otherwise."""
    cost: float
    """The most that it takes, in `unit`. Before the number of records is bought that may be all that is left;
    `Session.buy_size` buys the number alone, and `ask(at_most=)` sets a limit."""
    error: float | None
    """The largest error that its answer may state; None while the number of records is not known."""
    guess: float | None
    """What the hypothesis believes, without any promise."""
    left: float
    unit: str
    size_cost: float = 0.0
    """The part of `cost` for the number of records, exactly."""
    refusal: str | None = None
    """Why it would be refused: questions, epochs or budget that are used up, an error that says nothing; or None."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A question among many that was not answered. Nothing was read and nothing was spent for it."""

    query: str
    why: str
    exit_code: int
    """3 where something is used up, 2 where the answer would say nothing."""

    def __str__(self) -> str:
        return f"refused: {self.why}"


@dataclass(frozen=True, slots=True)
class Past:
    """One line of a session's history."""

    sequence: int
    when: str
    what: str
    """The question, or what was paid for."""
    value: float | None
    error: float | None
    kind: str
    cost: float
    key: str | None = None
    """The caller's idempotency key."""

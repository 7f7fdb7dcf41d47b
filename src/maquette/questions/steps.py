"""Steps of a session as the ledger stores them, and guesses that are tested one after the other. Public throughout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.accounting.ledger import Entry
from maquette.domain import Domain, Relation
from maquette.errors import LedgerError, ParameterError
from maquette.queries.base import Queries
from maquette.questions import bounds, sparse
from maquette.questions.measurement import Epoch, GuessOutcome
from maquette.questions.payload import unpack
from maquette.receipt import Receipt

EPOCH, TEST, NOTE = "epoch", "test", "note"
"""The `ask` words of steps that are not measurements."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the past, without its secrets."""

    number: int
    ask: str
    body: Mapping[str, Any]
    values: tuple[NDArray[np.int64], ...] | None
    """What was released; None for an epoch, whose threshold is secret, and for a step that was never answered."""
    units: int
    """What it took from the ledger."""
    created: str
    receipt: Receipt
    answered: bool


@dataclass(frozen=True, slots=True)
class Guess:
    """A guess of one query's answer, a whole number over its denominator, and what the ledger says about it."""

    queries: Queries
    guess: int
    about: Mapping[str, Any] = field(default_factory=dict[str, Any])


def check_guess(domain: Domain, guess: Guess, epoch: Epoch, relation: Relation) -> None:
    """One counting query over the table's own domain, and numbers that leave 64 bits to its score."""
    bounds.check_queries(domain, guess.queries)
    if guess.queries.count != 1:
        raise ParameterError(f"expected one query to test, got {guess.queries.count}")
    if guess.queries.sensitivity(relation).linf > 1:
        raise ParameterError("expected a query with weights between 0 and 1")
    most = bounds.SUMMANDS
    bounds.check_whole(guess.guess, least=-most, most=most, what="a guess")
    sparse.check_widths(epoch, guess.queries.denominator)
    bounds.check_about(guess.about)


def read_step(entry: Entry) -> Step:
    """A step of whatever session as the ledger stores it, without its secrets."""
    ask, place = str(entry.body.get("ask", "")), entry.answered
    return Step(
        int(entry.key.rpartition("/")[2]),
        ask,
        entry.body,
        None if entry.payload is None or ask == EPOCH else tuple(unpack(entry.payload)),
        entry.units,
        entry.created,
        Receipt(entry.seq, entry.head) if place is None else place,
        place is not None,
    )


def outcome_of(step: Step) -> GuessOutcome:
    """The outcome of a test that is stored."""
    if step.values is None:
        raise LedgerError(f"step {step.number} holds no outcome")
    far = bool(step.values[0][0])
    return GuessOutcome(far, int(step.values[1][0]) if far and len(step.values) > 1 else None, step.receipt)

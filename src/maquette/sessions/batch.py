"""Several questions with one commit: those that need no payment, up to the first that does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from maquette.gate.online import Guess
from maquette.mechanisms.online import USELESS, Settings, deviation
from maquette.models.answers import GRID
from maquette.sessions.planning import Desk
from maquette.sessions.question import Question
from maquette.sessions.shared import Following, Lent
from maquette.sessions.state import Kind, about

MOST = 64
"""Questions that share a commit."""


def guess_of(desk: Desk, question: Question, key: str | None, settings: Settings) -> Guess:
    """What the hypothesis believes of a question, in the form that the gate tests."""
    epoch = desk.curator.epoch
    assert epoch is not None
    n, share = desk.n(), desk.belief.guess(desk.state, question)
    more = about(question, key) | {
        "answer": share,
        "size": n,
        "errors": [settings.error, settings.answer_error],
        "deviation": 0.0 if epoch.answer_noise is None else deviation(epoch.answer_noise),
        "belief": desk.belief.named(desk.state),
    }
    return Guess(question.queries, _nearest(share * n * question.queries.denominator, GRID), more)


def lent_note(question: Question, key: str | None, lent: Lent) -> dict[str, Any]:
    """What the ledger says about an answer that is taken over from another session."""
    told = {"value": question.turned(lent.value, lent.side), "error": lent.error}
    return about(question, key) | told | {"lender": [lent.session, lent.beta]}


def following_note(question: Question, key: str | None, following: Following) -> dict[str, Any]:
    """What the ledger says about an answer that follows from the tables of a survey."""
    told = {"value": following.value, "error": following.error, "follows": True}
    return about(question, key) | told


@dataclass(slots=True)
class Batch:
    """New questions in order that are stored together: either guesses to be tested, or notes."""

    meanings: dict[str, Kind] = field(default_factory=dict[str, Kind])
    guesses: list[Guess] = field(default_factory=list[Guess])
    notes: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def store(self, desk: Desk) -> dict[str, Kind]:
        """One commit; says by meaning what kind of answers came of it."""
        if self.guesses:
            outcomes = desk.curator.test_all(self.guesses)
            asked = list(self.meanings)[: len(outcomes)]
            return {m: "paid" if o.far else "free" for m, o in zip(asked, outcomes, strict=True)}
        if self.notes:
            desk.curator.note_all(self.notes)
        return self.meanings


def collect(desk: Desk, questions: Sequence[Question], *, any_error: bool) -> Batch:
    """The next questions that cost nothing, by public state; what is known already is passed over."""
    batch = Batch()
    for question in _new(desk, questions[:MOST]):
        if question.meaning in batch.meanings:
            continue
        if not (_take_note(desk, batch, question) or _take_guess(desk, batch, question, any_error=any_error)):
            break
    return batch


def _new(desk: Desk, questions: Sequence[Question]) -> Iterator[Question]:
    return (q for q in questions if q.constant is None and q.meaning not in desk.state.known)


def _take_note(desk: Desk, batch: Batch, question: Question) -> bool:
    if batch.guesses:
        return False
    lent = desk.lent(question)
    if lent is not None:
        batch.meanings[question.meaning] = "cached"
        batch.notes.append(lent_note(question, None, lent))
        return True
    if desk.size() is None or not _has_room(desk, batch):
        return False
    following = desk.follows(question, desk.settle())
    if following is None:
        return False
    batch.meanings[question.meaning] = "free"
    batch.notes.append(following_note(question, None, following))
    return True


def _take_guess(desk: Desk, batch: Batch, question: Question, *, any_error: bool) -> bool:
    if batch.notes or desk.curator.epoch is None or not _has_room(desk, batch):
        return False
    settings = desk.settle()
    says = any_error or max(settings.error, settings.answer_error) < USELESS
    if not says or desk.lent(question) is not None or desk.measures(settings):
        return False
    batch.meanings[question.meaning] = "free"
    batch.guesses.append(guess_of(desk, question, None, settings))
    return True


def _has_room(desk: Desk, batch: Batch) -> bool:
    return desk.state.questions + len(batch.meanings) < desk.rules.questions


def _nearest(numerator: int, denominator: int) -> int:
    """A public quotient rounded to whole steps."""
    return (2 * numerator + denominator) // (2 * denominator)

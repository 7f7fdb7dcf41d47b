"""Answers that a session takes over from the release that it starts from, with the errors that are stated there.

Only from a release that the session's own ledger paid for and that is as it was bound there: a ledger knows one table,
so its statements are about the table that the session asks. Any other release is a start for guesses, and nothing that
it states is believed. And only answers whose error holds for all answers of the release together: whoever asks may
choose the question after looking.
"""

from __future__ import annotations

from maquette.accounting.ledger import Ledger
from maquette.errors import ReleaseError, WorkloadError
from maquette.results import binding
from maquette.results.release import Release
from maquette.sessions.question import Question
from maquette.sessions.state import Source, TakenOver

MAX_ANSWERS = 4096
"""Answers that are kept: a question is mostly forecast before it is asked."""


class BorrowedAnswers:
    """What a bound release states about single questions."""

    def __init__(self, release: Release, *, name: str) -> None:
        self._release = release
        self._name = name
        self._answers: dict[str, TakenOver | None] = {}

    @classmethod
    def of(cls, release: Release, book: Ledger) -> BorrowedAnswers | None:
        """None where the ledger does not say that the release is unchanged and about its table."""
        digest = binding.content_digest(release)
        return cls(release, name=digest[:12]) if binding.is_bound(book, digest) else None

    def find(self, question: Question, *, within: float) -> TakenOver | None:
        """What the release states about a question, if that is within so much."""
        if question.meaning not in self._answers:
            if len(self._answers) >= MAX_ANSWERS:
                self._answers.clear()
            self._answers[question.meaning] = self._read(question)
        answer = self._answers[question.meaning]
        return answer if answer is not None and answer.error <= within else None

    def _read(self, question: Question) -> TakenOver | None:
        try:
            answer = self._release.answer(question.queries)
        except (ReleaseError, WorkloadError):  # nothing was measured about it
            return None
        if answer.error is None or answer.confidence is None or answer.holds_for == "this question alone":
            return None
        source = Source(self._name, 1 - answer.confidence, is_release=True)
        return TakenOver(answer.value, question.side, answer.error, source)

"""Private choices among candidates of one's own: what is scored, and how far one record moves a score.

    count     the candidates are queries; the score of one is its answer, the larger the better
    nearest   the candidates are queries with a fraction f each; the score is -|q(x) - n f|, the nearer the better
    database  the candidates are lists of answers to the same queries; the score is -max |q(x) - n f| over the list

All scores are rounded up (distances before the minus sign) to whole counts, and move by at most 1 between neighbours:
an answer does (weights are in [0, 1]), q(x) - n f does (`questions/answers.py`), and neither absolute value, maximum
nor rounding makes a gap of at most 1 wider than 1. Under add/remove-one all counts move the same way, so that no two of
them move apart by more than 1: a choice by counts is then twice as sharp at the same price.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Domain, Relation
from maquette.errors import ParameterError
from maquette.queries import canonical_hash
from maquette.queries.base import Queries
from maquette.questions import bounds
from maquette.questions.answers import Answers, answers_digest, check_answers, count_errors

Goal = Literal["count", "nearest", "database"]
MAX_CANDIDATES = 10_000_000
"""Scores are held in memory."""


@dataclass(frozen=True, slots=True, eq=False)
class ChoiceQuestion:
    """Candidates and their score."""

    goal: Goal
    queries: Queries
    answers: tuple[Answers, ...] = ()
    """None for counts, one list with an answer per candidate for `nearest`, one list per candidate for `database`."""

    @property
    def count(self) -> int:
        """How many candidates there are."""
        return len(self.answers) if self.goal == "database" else self.queries.count

    def check(self, domain: Domain) -> None:
        """The sensitivity of 1 needs queries of this domain with weights in [0, 1] and answers between 0 and 1."""
        bounds.check_type(self.goal, str, "a choice by count, nearest or database")
        if self.goal not in get_args(Goal):
            raise ParameterError("expected a choice by count, nearest or database")
        bounds.check_queries(domain, self.queries)
        bounds.check_type(self.answers, tuple, "a tuple of released answers")
        lists = {"count": 0, "nearest": 1}.get(self.goal)
        if lists is not None and len(self.answers) != lists:
            raise ParameterError(f"expected {lists} lists of answers for a choice by {self.goal}")
        for answers in self.answers:
            check_answers(answers, self.queries.count)
        bounds.check_whole(self.count, least=1, most=MAX_CANDIDATES, what="how many candidates there are")

    def is_monotone(self, relation: Relation) -> bool:
        """Do all scores move the same way between neighbours?"""
        return self.goal == "count" and relation is Relation.ADD_REMOVE

    def request(self) -> dict[str, Any]:
        """What the ledger remembers of it."""
        return {
            "ask": f"choose {self.goal}",
            "queries": canonical_hash(self.queries),
            "answers": [answers_digest(one.numerators, one.denominator) for one in self.answers],
        }

    def scores(self, exact: NDArray[np.int64], n: int) -> NDArray[np.int64]:
        """Of all candidates, from the exact answers to all queries, over their denominator."""
        if self.goal == "count":
            return -(-exact // self.queries.denominator)
        errors = [count_errors(exact, self.queries.denominator, one, n) for one in self.answers]
        return -errors[0] if self.goal == "nearest" else -np.array([e.max(initial=0) for e in errors])

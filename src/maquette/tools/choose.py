"""`choose`: one of several candidates, picked privately by a score whose sensitivity is proved."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from maquette.core import _check
from maquette.core._arguments import checks_arguments
from maquette.core.answers import ChoiceQuestion
from maquette.domain import Relation
from maquette.errors import ParameterError, WorkloadError
from maquette.models.answers import Answers, SmallDatabase
from maquette.owner import Table
from maquette.queries.base import Queries, canonical_hash
from maquette.queries.predicates import predicates
from maquette.queries.ranges import Prefixes, prefixes
from maquette.releasing.payment import Place
from maquette.requests import Payer, Privacy
from maquette.results.release import Release
from maquette.tools.envelope import curator_for

Score = Literal["count", "error", "nearest", "quantile", "database"]
Method = Literal["auto", "permute-and-flip", "exponential", "noisy-max"]
_SCORES = ("count", "error", "nearest", "quantile", "database")
_METHODS = ("auto", "permute-and-flip", "exponential", "noisy-max")


@dataclass(frozen=True, slots=True)
class Chosen:
    """A candidate that was chosen privately, and how good the choice is."""

    index: int
    candidate: Any
    """The text of a query, the cell of a quantile, or the release that was given."""
    candidates: int
    score: str
    method: str
    epsilon: float
    """Of the choice itself: for a price in rho the epsilon of the exponential mechanism."""
    regret: float
    """No candidate is better by more than so many records, except with probability beta."""
    beta: float
    key: str

    def __str__(self) -> str:
        return (
            f"{self.candidate} (candidate {self.index + 1:,} of {self.candidates:,} by {self.score}; none is better by "
            f"more than {self.regret:,.1f} records, except with probability {self.beta:g})"
        )


@checks_arguments
def choose(
    table: Table,
    candidates: Queries | Sequence[str] | Sequence[Release] | Sequence[SmallDatabase] | str,
    *,
    score: Score = "count",
    answers: Sequence[float] | None = None,
    quantile: float | None = None,
    workload: Queries | None = None,
    epsilon: float,
    delta: float = 0.0,
    method: Method = "auto",
    beta: float = 0.05,
    relation: Relation | str = Relation.ADD_REMOVE,
    ledger: Place = None,
    total_epsilon: float | None = None,
    total_delta: float | None = None,
    key: str | None = None,
) -> Chosen:
    """Pick one of several candidates by the private table: the exponential mechanism, or permute-and-flip.

    `score` is what the best candidate has most of:
    "count"     candidates are queries (or SQL predicates): the one that counts most, weights included;
    "error"     candidates are queries with released `answers`, as fractions: the answer that is farthest off;
    "nearest"   the same: the answer that is nearest to the truth;
    "quantile"  candidates are the cells of an ordered attribute, given by its name: where `quantile` of the records are
                reached;
    "database"  candidates are releases, or small databases that one of them proposes (`mq.small_databases`): the one
                with the smallest largest error over `workload`.

    Guarantee: (epsilon, delta)-DP under `relation`, pure if delta is 0; charged to the ledger before the table is
        looked at. The same request again gives the stored choice and costs nothing. Scores have sensitivity 1
        (`core/answers.py`). `method` is permute-and-flip by default (report-noisy-max with exponential noise is
        the same thing: "noisy-max"), and the exponential mechanism with a delta.
    Accuracy: no candidate is better by more than `regret` records, except with probability beta: (s / epsilon)
        (ln of the candidates + ln 1/beta) + 1 for the rounding of scores, s = 2, or 1 for counts under add/remove-one
        (McSherry and Talwar 2007, Theorem 3.11 of Dwork and Roth 2014).
    """
    _check.one_of(_SCORES, score=score)
    _check.one_of(_METHODS, method=method)
    _check.fraction(beta=beta)
    listed = _question(table, candidates, score, answers, quantile, workload)
    privacy = Privacy(epsilon=epsilon, delta=delta, relation=relation)
    payer = Payer(ledger=ledger, total_epsilon=total_epsilon, total_delta=total_delta, key=key)
    sampler = _sampler(method, pure=delta == 0)
    about = {"score": score, "method": sampler, "what": listed.facts}
    with curator_for(table, privacy, payer, about, tag="choice") as paid:
        curator, price = paid.curator, paid.price
        if listed.question is None:
            index = curator.select(listed.queries, listed.answers, price=price)
        else:
            index = curator.choose(listed.question, price=price, method=sampler)
        unit, between = paid.budget.unit, curator.relation
        own = float(unit.selection_epsilon(price))
    monotone = listed.question is not None and listed.question.is_monotone(between)
    return Chosen(
        index=index,
        candidate=listed.name(index),
        candidates=listed.count,
        score=score,
        method=sampler or ("permute-and-flip" if delta == 0 else "exponential"),
        epsilon=own,
        regret=regret(own, listed.count, beta=beta, monotone=monotone),
        beta=beta,
        key=paid.key,
    )


def regret(epsilon: float, candidates: int, *, beta: float, monotone: bool = False) -> float:
    """How much better the best candidate can be than the chosen one, in records, except with probability beta.

    Accuracy: utility of the exponential mechanism, which permute-and-flip shares (McSherry and Talwar 2007; McKenna and
        Sheldon 2020), plus 1 for scores that are rounded up to whole records.
    """
    _check.positive(epsilon=epsilon)
    _check.whole(candidates=candidates)
    return (1 if monotone else 2) / epsilon * (math.log(candidates) - math.log(beta)) + 1


@dataclass(frozen=True, slots=True, eq=False)
class _Candidates:
    """Candidates as the gate takes them; `question` is None for the largest error, which has a question of its own."""

    queries: Queries
    answers: Answers
    question: ChoiceQuestion | None
    names: Sequence[Any] | None = None

    @property
    def count(self) -> int:
        return self.queries.count if self.question is None else self.question.count

    @property
    def facts(self) -> Any:
        name = canonical_hash(self.queries)
        if self.question is not None:
            return self.question.request(name)
        return ChoiceQuestion("nearest", self.queries, (self.answers,)).request(name) | {"ask": "select"}

    def name(self, index: int) -> Any:
        return self.queries.text(index) if self.names is None else self.names[index]


def _question(
    table: Table,
    candidates: Any,
    score: Score,
    answers: Sequence[float] | None,
    quantile: float | None,
    workload: Queries | None,
) -> _Candidates:
    if score == "database":
        return _databases(candidates, workload)
    if score == "quantile":
        return _quantile(table, candidates, quantile)
    queries = candidates if isinstance(candidates, Queries) else predicates(table.domain, list(candidates))
    if score == "count":
        if answers is not None:
            raise ParameterError("a choice by count takes no answers; see score='nearest' and 'error'")
        return _Candidates(queries, _nothing(queries), ChoiceQuestion("count", queries))
    if answers is None:
        raise ParameterError(f"a choice by {score} needs answers=, a fraction for every candidate")
    fractions = np.asarray(answers, dtype=float)
    if not (
        np.abs(fractions - 0.5) <= 1.5
    ).all():  # noise may lead a little out of [0, 1], counts far out of it
        raise ParameterError(
            "expected answers as fractions of the records, such as 0.3; divide counts by their number"
        )
    if fractions.shape != (queries.count,):
        raise ParameterError(
            f"expected {queries.count:,} answers, one for every candidate, got {len(fractions):,}"
        )
    released = Answers.from_fractions(fractions)
    if score == "error":
        return _Candidates(queries, released, None)
    return _Candidates(queries, released, ChoiceQuestion("nearest", queries, (released,)))


def _quantile(table: Table, candidates: Any, quantile: float | None) -> _Candidates:
    """The prefix whose share is nearest to the quantile, named by its last cell."""
    if quantile is None:
        raise ParameterError("a choice by quantile needs quantile=, a share of the records such as 0.5")
    _check.fraction(quantile=quantile)
    queries = prefixes(table.domain, candidates) if isinstance(candidates, str) else candidates
    if not isinstance(queries, Prefixes):
        raise WorkloadError("a quantile is chosen among the cells of one ordered attribute: give its name")
    target = Answers.from_fractions(np.full(queries.count, quantile))
    return _Candidates(queries, target, ChoiceQuestion("nearest", queries, (target,)))


def _databases(candidates: Any, workload: Queries | None) -> _Candidates:
    """Each release answers the whole workload; its largest error is its score."""
    releases = [] if isinstance(candidates, (Queries, str)) else list(candidates)
    if workload is None or not releases or not all(isinstance(o, Release | SmallDatabase) for o in releases):
        raise ParameterError(
            "a choice among databases needs a list of releases, or of small databases, and workload=, the queries that "
            "they answer"
        )
    lists = tuple(answers_of(one, workload) for one in releases)
    return _Candidates(workload, lists[0], ChoiceQuestion("database", workload, lists), releases)


def answers_of(release: Release | SmallDatabase, workload: Queries) -> Answers:
    """What a release answers to every query of a workload: its own answers, or those of its rows."""
    if isinstance(release, SmallDatabase):
        return release.answer(workload)
    if release.workload == workload:
        return release.answers
    if release.database is None:
        raise ParameterError(
            "a release without rows answers its own workload only; give that as workload=, or releases with rows"
        )
    return release.database.answer(workload)


def _nothing(queries: Queries) -> Answers:
    return Answers.from_fractions(np.zeros(queries.count))


def _sampler(method: Method, *, pure: bool) -> Any:
    """The word of the gate; None for its own choice."""
    if method == "auto":
        return None
    if method == "noisy-max":
        return "permute-and-flip" if pure else "exponential"
    if method == "permute-and-flip" and not pure:
        raise ParameterError(
            "permute-and-flip has no good price in rho; with a delta use method='exponential', or leave delta out"
        )
    return method

"""Opening a session: its rules are checked, its budget is set aside, what it starts from is prepared."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from maquette.accounting.ledger import Ledger
from maquette.core import _check
from maquette.core._arguments import checks_arguments
from maquette.core.budget import Budget
from maquette.core.curator import OnlineCurator
from maquette.domain import Domain, Relation
from maquette.errors import ParameterError
from maquette.mechanisms.base import TYPICAL_ROWS
from maquette.mechanisms.session_plan import ExpectedErrors
from maquette.models.hypothesis import Prior
from maquette.owner import Table
from maquette.queries.base import Queries
from maquette.releasing import parts
from maquette.releasing.payment import find_payer, warn_if_weak
from maquette.requests import Payer, SessionRequest
from maquette.results.release import Release
from maquette.samplers.draw import EXACT_DRAWS
from maquette.sessions.borrowed import BorrowedAnswers
from maquette.sessions.rules import (
    AUTO,
    Rules,
    reserve,
    share_key,
)
from maquette.sessions.session import Session

QUESTIONS = SessionRequest.queries
"""How many new questions a session takes by default."""


@checks_arguments
def session(
    table: Table,
    *,
    epsilon: float,
    delta: float = 0.0,
    beta: float = 0.05,
    alpha: float | None = None,
    mechanism: str = AUTO,
    queries: int = QUESTIONS,
    typical_rows: int = TYPICAL_ROWS,
    relation: Relation | str = Relation.ADD_REMOVE,
    update: str = "refit",
    measure_first: bool | None = None,
    budget_for_all: bool = False,
    attributes: Iterable[str] | None = None,
    workload: Queries | None = None,
    prior: Release | None = None,
    ledger: Ledger | str | Path | None = None,
    total_epsilon: float | None = None,
    total_delta: float | None = None,
    analyst: str | None = None,
    share: float | None = None,
    key: str | None = None,
) -> Session:
    """Open a session on a private table, or go on with one: questions one at a time, chosen as one goes.

    Guarantee: (epsilon, delta)-DP for all questions of the session together, whatever is asked; pure if delta is 0. The
        budget is set aside in the ledger when the session opens, where it counts against the total of all sessions,
        analysts and releases. The same parameters (or the same `key`) go on where they stopped.
    Accuracy: every answer within alpha as long as the budget lasts, all together, except with probability beta. Without
        alpha the session takes one that suits the budget; `budget_for_all` takes the smallest at which a theorem says
        that the budget lasts for all `queries` questions.

    `mechanism` "auto" measures every question (direct) where that is expected to state less, or nearly so, than testing
    guesses (pmw): decided before anything is paid, by the number of questions and the budget, for a table of
    `typical_rows` records, which is not read off the table. `Session.plan` says which and why. A session that is there
    already goes on as it began. With a delta, a session may run without it: on a ledger that it makes, or that has a
    pure part left, where pure noise is expected to state less, as it does for few questions. It then takes its epsilon
    of the pure part, and the stronger promise holds.

    `prior` is an earlier release over the same domain: guesses start from its rows, which is free (it is public) and
    saves what the first questions would pay for. If this ledger paid for it, what it states within the session's error
    is taken over from it, for nothing. Give the same release again to go on with the session.

    `workload` is the class that the questions come from, for the median mechanism: that the budget lasts is then proved
    with fewer rows, by the dimension or the shape of the class, and only for its questions (Roth 2010, Theorem 6).
    Others on the same attributes are answered too, with the same stated error.

    `analyst` and `share` set a share of the ledger's total aside for one analyst, out of which the sessions opened in
    that name are paid. They are bookkeeping, not access control: a name is taken as it is given, whoever holds the
    ledger may give any, and an answer of one session is free in all others. `measure_first` (the default of pmw)
    measures while guesses mostly fail, instead of testing them.
    """
    request = SessionRequest(
        epsilon=epsilon,
        delta=delta,
        relation=relation,
        beta=beta,
        alpha=alpha,
        mechanism=mechanism,
        queries=queries,
        typical_rows=typical_rows,
        update=update,
        measure_first=measure_first,
        budget_for_all=budget_for_all,
        attributes=None if attributes is None else tuple(attributes),
        analyst=analyst,
        share=share,
    )
    payer = Payer(ledger=ledger, total_epsilon=total_epsilon, total_delta=total_delta, key=key)
    return open_session(table, request, payer, workload=workload, prior=prior)


def open_session(
    table: Table,
    wish: SessionRequest,
    payer: Payer,
    *,
    workload: Queries | None = None,
    prior: Release | None = None,
) -> Session:
    """The session that is asked for, with its budget set aside."""
    _check.whole(typical_rows=wish.typical_rows)
    start = None if prior is None else _start_from(prior, table)
    digest = None if start is None else start.digest
    rules = Rules.of(wish, table.domain, persons=table.persons, workload=workload, prior=digest)
    warn_if_weak(rules.budget)
    can_choose = wish.mechanism == AUTO and wish.is_open and start is None
    ways = _Ways(rules, table.domain, rows=wish.typical_rows, is_auto=can_choose, share=wish.share)
    key = payer.key
    with ExitStack() as until:
        till = until.enter_context(find_payer(table, payer, relation=rules.relation))
        total = payer.total(rules.budget)
        book = till.open(ways.split(total) if rules.budget.delta and till.ledger is None else total)
        rules, expected_errors = ways.choose(book, key)
        name = key or own_key(rules, table)
        curator = OnlineCurator(
            table, book, key=name, budget=rules.budget, draws=EXACT_DRAWS
        )  # refuses another table
        if book.find(name) is None:
            is_public = rules.relation is Relation.REPLACE_ONE
            rules.check_possible(table.domain, curator.size(price=Fraction(0)) if is_public else None)
        reserve(book, name, table.domain, rules, share=wish.share)
        borrowed = None if prior is None else BorrowedAnswers.of(prior, book)
        opened = Session(
            curator, book, rules, key=name, prior=start, borrowed=borrowed, expected_errors=expected_errors
        )
        if prior is not None and borrowed is not None:
            opened.use_size(prior)
        until.pop_all()  # the ledger stays open as long as the session
        return opened


def own_key(rules: Rules, table: Table) -> str:
    """The name in the ledger of a session that was given none: it follows from the rules."""
    return own_key_of(rules, table.domain)


def own_key_of(rules: Rules, domain: Domain) -> str:
    """The same on any table of a domain."""
    return f"session-{rules.digest(domain)[:20]}"


@dataclass(frozen=True, slots=True)
class _Ways:
    """The ways in which a session may run; all of it goes by public numbers, for a table of `rows` records."""

    rules: Rules
    domain: Domain
    rows: int
    is_auto: bool
    """May the mechanism be chosen?"""
    share: float | None
    """The analyst's share of the ledger, where there is one."""

    def split(self, total: Budget) -> Budget:
        """A ledger that the session makes: what it spends is pure where it is then expected to state less."""
        run = self.rules.budget
        return parts.split(total, run, self._best(parts.ways_of_new_ledger(run, total)).budget)

    def choose(self, book: Ledger, key: str | None) -> tuple[Rules, ExpectedErrors | None]:
        """Those of the session to go on with; else the mechanism and the part of the ledger that state least."""
        budgets = [self.rules.budget]
        if self.rules.budget.delta and book.budget.pure_units:
            budgets.append(Budget(self.rules.budget.epsilon))
        way = parts.begun(
            (way for budget in budgets for way in self._mechanisms(self._with(budget))),
            book,
            lambda way: (key or own_key_of(way, self.domain), way.digest(self.domain)),
        )
        if way is not None:
            return way, None
        rules = self._best(
            parts.ways_of_ledger(self.rules.budget, book.budget, pure_left=self._pure_left(book))
        )
        if not self.is_auto:
            return rules, None
        errors = rules.expected_errors(self.domain, rows=self.rows)
        if rules.budget != self.rules.budget:
            errors = replace(errors, unused_delta=self.rules.budget.delta)
        return self._mechanisms(rules)[errors.mechanism == "pmw"], errors

    def _best(self, budgets: Sequence[Budget]) -> Rules:
        """The rules with the budget at which the session is expected to state least."""
        ways = [self._with(budget) for budget in budgets]
        return ways[0] if len(ways) == 1 else min(ways, key=self._error)

    def _pure_left(self, book: Ledger) -> int:
        """Of the pure part: of the whole ledger, or of the analyst's share."""
        if self.share is None:
            return book.balance().left.pure
        holders = {one.entry.key: one.left.pure for one in book.open_envelopes()}
        whole = math.floor(Fraction(str(self.share)) * book.budget.pure_units)
        return holders.get(share_key(self.rules), whole)

    def _with(self, budget: Budget) -> Rules:
        return replace(self.rules, budget=budget)

    def _mechanisms(self, rules: Rules) -> tuple[Rules, ...]:
        if not self.is_auto:
            return (rules,)
        direct = replace(rules, mechanism="direct", measure_first=False)
        return (
            replace(direct, fewer=True),
            rules,
            direct,
        )  # the last is what services opened for few questions

    def _error(self, rules: Rules) -> float:
        if not self.is_auto:
            return rules.expected_error(self.domain, rows=self.rows)
        errors = rules.expected_errors(self.domain, rows=self.rows)
        return errors.direct if errors.mechanism == "direct" else errors.pmw


def _start_from(release: Release, table: Table) -> Prior:
    """The rows of a release as the start of a hypothesis; public, and only of this domain."""
    if release.domain.fingerprint != table.domain.fingerprint:
        raise ParameterError("the release is about another domain than the table; leave prior out")
    if release.watermark is not None:
        raise ParameterError(f"the release is not private ({release.watermark}); leave prior out")
    if release.database is None:
        raise ParameterError(
            "the release holds answers and no rows to start from; release with a mechanism that gives rows (sculpt)"
        )
    return Prior.of(table.domain, release.database)

"""Opening a session: its rules are checked, its budget is set aside, what it starts from is prepared."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from maquette.accounting.ledger import Ledger
from maquette.core import _check
from maquette.core._arguments import checks_arguments
from maquette.core.budget import Budget
from maquette.core.curator import OnlineCurator
from maquette.domain import Relation
from maquette.errors import ParameterError
from maquette.mechanisms.base import TYPICAL_ROWS
from maquette.mechanisms.session_plan import ExpectedErrors
from maquette.models.hypothesis import Prior
from maquette.owner import Table
from maquette.releasing.payment import open_ledger, require_total, warn_if_weak
from maquette.results.release import Release
from maquette.samplers.draw import EXACT_DRAWS
from maquette.sessions.rules import (
    AUTO,
    MECHANISMS,
    Rules,
    check_analyst,
    check_names,
    reserve,
    warn_renamed,
)
from maquette.sessions.session import Session

QUESTIONS = 10_000
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
    bypass: bool | None = None,
    budget_for_all: bool = False,
    lasting: bool = False,
    attributes: Iterable[str] | None = None,
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
    already goes on as it began.

    `prior` is an earlier release over the same domain: guesses start from its rows, which is free (it is public) and
    saves what the first questions would pay for. What an answer states does not depend on it. Give the same release
    again to go on with the session.

    `analyst` and `share` set a share of the ledger's total aside for one analyst, out of which the sessions opened in
    that name are paid. They are bookkeeping, not access control: a name is taken as it is given, whoever holds the
    ledger may give any, and an answer of one session is free in all others. `measure_first` (the default of pmw)
    measures while guesses mostly fail, instead of testing them. `bypass` and `lasting` are the former names of
    `measure_first` and `budget_for_all`.
    """
    if bypass is not None:
        warn_renamed("bypass", "measure_first")
        measure_first = bypass if measure_first is None else measure_first
    if lasting:
        warn_renamed("lasting", "budget_for_all")
        budget_for_all = True
    is_open = alpha is None and update == "refit" and measure_first is None and not budget_for_all
    is_auto = mechanism == AUTO
    _check.one_of((AUTO, *MECHANISMS), mechanism=mechanism)
    _check.whole(typical_rows=typical_rows)
    if is_auto:
        mechanism = "pmw"
    if measure_first is None:
        measure_first = mechanism == "pmw" and update == "refit" and not budget_for_all
    start = None if prior is None else _start_from(prior, table)
    rules = Rules(
        budget=Budget(epsilon, delta),
        relation=Relation.named(relation),
        beta=beta,
        alpha=alpha,
        mechanism=mechanism,
        questions=queries,
        update=update,
        measure_first=measure_first,
        budget_for_all=budget_for_all,
        attributes=check_names(table.domain, attributes),
        analyst=check_analyst(analyst, share),
        persons=table.persons,
        prior=None if start is None else start.digest,
    )
    total = Budget(
        epsilon if total_epsilon is None else total_epsilon, delta if total_delta is None else total_delta
    )
    warn_if_weak(rules.budget)
    book = open_ledger(table, ledger, relation=rules.relation, budget=total)
    require_total(book, epsilon=total_epsilon, delta=total_delta)
    expected_errors = None
    if is_auto and is_open and start is None:
        rules, expected_errors = _choose(rules, book, table, key=key, rows=typical_rows)
    name = key or own_key(rules, table)
    curator = OnlineCurator(
        table, book, key=name, budget=rules.budget, draws=EXACT_DRAWS
    )  # refuses another table
    if book.find(name) is None:
        is_public = rules.relation is Relation.REPLACE_ONE
        rules.check_possible(table.domain, curator.size(price=Fraction(0)) if is_public else None)
    reserve(book, name, table.domain, rules, share=share)
    return Session(curator, book, rules, key=name, prior=start, expected_errors=expected_errors)


def own_key(rules: Rules, table: Table) -> str:
    """The name in the ledger of a session that was given none: it follows from the rules."""
    return f"session-{rules.digest(table.domain)[:20]}"


def _choose(
    rules: Rules, book: Ledger, table: Table, *, key: str | None, rows: int
) -> tuple[Rules, ExpectedErrors | None]:
    """The mechanism of a session that names none: that of the session to go on with, or the better one."""
    direct = replace(rules, mechanism="direct", measure_first=False)
    ways = {"direct": replace(direct, fewer=True), "pmw": rules}
    for way in (*ways.values(), direct):  # the last is what services opened for few questions
        entry = book.find(key or own_key(way, table))
        if entry is not None and entry.request == way.digest(table.domain):
            return way, None
    errors = rules.expected_errors(table.domain, rows=rows)
    return ways[errors.mechanism], errors


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

"""Opening a session: the ledger, the envelope in it, and what an analyst may spend of it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path

from maquette import _check
from maquette.accounting.budget import UNITS, Budget, Cost, share_of_slack
from maquette.accounting.ledger import Ledger
from maquette.domain import Relation
from maquette.errors import BudgetExceeded, MechanismError, ParameterError
from maquette.gate.handle import Table
from maquette.gate.online import OnlineCurator
from maquette.questions.measurement import Size
from maquette.releasing.payment import open_ledger, require_total, warn_if_weak
from maquette.sessions.rules import Rules
from maquette.sessions.session import Session
from maquette.sessions.shared import public_numbers, settle

QUESTIONS = 10_000
"""How many new questions a session takes if nobody says."""
LARGEST_TABLE = 1 << 40
"""Records of a table on which every session that is possible at all can be planned."""


def session(
    table: Table,
    *,
    epsilon: float,
    delta: float = 0.0,
    beta: float = 0.05,
    alpha: float | None = None,
    mechanism: str = "pmw",
    queries: int = QUESTIONS,
    relation: Relation | str = Relation.ADD_REMOVE,
    update: str = "refit",
    bypass: bool | None = None,
    lasting: bool = False,
    attributes: Iterable[str] | None = None,
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
        alpha the session takes one that suits the budget; `lasting` takes the smallest at which a theorem says that the
        budget lasts for all `queries` questions.

    `analyst` and `share` set a share of the ledger's total aside for one analyst, out of which the sessions opened in
    that name are paid. They are bookkeeping, not access control: a name is taken as it is given, whoever holds the
    ledger may give any, and what one session was answered is free in all others. `bypass` (the default of pmw) measures
    while guesses mostly fail, instead of testing them.
    """
    rules = Rules(
        budget=Budget(epsilon, delta),
        relation=Relation.named(relation),
        beta=beta,
        alpha=alpha,
        mechanism=mechanism,
        questions=queries,
        update=update,
        bypass=(mechanism == "pmw" and update == "refit" and not lasting) if bypass is None else bypass,
        lasting=lasting,
        attributes=_names(table, attributes),
        analyst=_analyst(analyst, share),
    )
    total = Budget(
        epsilon if total_epsilon is None else total_epsilon, delta if total_delta is None else total_delta
    )
    warn_if_weak(rules.budget)
    book = open_ledger(table, ledger, relation=rules.relation, budget=total)
    require_total(book, epsilon=total_epsilon, delta=total_delta)
    name = key or f"session-{rules.digest(table.domain)[:20]}"
    curator = OnlineCurator(table, book, key=name, budget=rules.budget)  # refuses another table
    if book.find(name) is None:
        _check_possible(rules, table, curator)
    parent = None if rules.analyst is None or share is None else _set_aside(book, rules, share)
    _reserve(book, name, table, rules, parent)
    return Session(curator, book, rules, key=name)


def _check_possible(rules: Rules, table: Table, curator: OnlineCurator) -> None:
    """Refuse before anything is reserved what no table can have, or not one of this size where that is public."""
    if rules.alpha is None and rules.bypass:
        return  # such a session takes an error that its table allows
    if rules.relation is Relation.REPLACE_ONE:
        size, where = curator.size(price=Fraction(0)), "this table"
    else:
        size, where = Size(LARGEST_TABLE, None, None), "a table of any size"
    try:
        settle(rules, public_numbers(rules, table.domain, size))
    except MechanismError as error:
        raise MechanismError(f"no session of this kind can be planned on {where}: {error}") from None


def _reserve(book: Ledger, name: str, table: Table, rules: Rules, parent: str | None) -> None:
    body = {name: value for name, value in rules.facts(table.domain).items() if name != "domain"}
    entry = book.reserve(
        name,
        request=rules.digest(table.domain),
        tag="session",
        cost=rules.cost(book),
        body=body | {"ask": "session"},
        parent=parent,
        envelope=True,
    )
    if entry.settled is not None:
        raise BudgetExceeded(
            f"session '{name}' was ended, and what it had left went back to the ledger; open another with a new key",
            unit=rules.budget.unit,
            needed=0.0,
            left=0.0,
        )


def _set_aside(book: Ledger, rules: Rules, share: float) -> str:
    """The analyst's part of the total: a cap and a promise, for all sessions in that name."""
    analyst, units = rules.analyst, math.floor(Fraction(str(share)) * book.total_units)
    name = f"analyst-{analyst}"
    needed = rules.cost(book).units
    if needed > units and book.find(name) is None:
        unit = book.budget.unit
        raise BudgetExceeded(
            f"the session needs {unit}={needed / UNITS:g}, but a share of {share:g} holds {unit}={units / UNITS:g}; "
            "give a larger share, or a session with a smaller epsilon",
            unit=unit,
            needed=needed / UNITS,
            left=units / UNITS,
        )
    request = hashlib.sha256(f"{name} {units}".encode()).hexdigest()
    # in a ledger that counts rho the draws of sessions are exact
    slack = share_of_slack(book.budget, units) if book.budget.accounting == "gaussian" else 0
    cost = Cost(units, slack)
    body = {"ask": "share", "analyst": analyst, "share": share, "amount": units / UNITS}
    book.reserve(name, request=request, tag="analyst", cost=cost, body=body, envelope=True)
    return name


def _names(table: Table, attributes: Iterable[str] | None) -> tuple[str, ...] | None:
    if attributes is None:
        return None
    wanted = set(attributes)
    for name in wanted:
        table.domain[name]  # refuses an unknown attribute
    return tuple(name for name in table.domain.names if name in wanted)


def _analyst(analyst: str | None, share: float | None) -> str | None:
    if share is not None:
        _check.fraction(share=share)
        if analyst is None:
            raise ParameterError("a share belongs to somebody; give analyst too")
    if analyst is not None and not (0 < len(analyst) <= 100 and analyst.isprintable()):
        raise ParameterError("expected analyst as a name of 1 to 100 printable characters")
    return analyst

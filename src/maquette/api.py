"""The whole main job: plan, then release. Introduces the mechanism to the gate and the ledger to both."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Literal
from weakref import WeakKeyDictionary

from maquette import _check
from maquette.accounting.budget import SLACK_UNITS, UNITS, Accounting, Budget, Cost, share_of_slack, split
from maquette.accounting.events import PureEvent
from maquette.accounting.gaussian import log_ratio
from maquette.accounting.ledger import Ledger
from maquette.domain import Relation
from maquette.errors import BudgetExceeded, LedgerError, MechanismError, ParameterError
from maquette.gate.curator import Curator
from maquette.gate.owner import Table
from maquette.mechanisms import constrained
from maquette.mechanisms.base import Mechanism, Outcome, Progress, Task
from maquette.mechanisms.certify import Certificates, certify, certify_drawn
from maquette.mechanisms.choose import (
    MECHANISMS,
    NOISE_BY_GAUSS,
    PROJECTING,
    SMALL,
    WEIGHTED,
    Plan,
    plan,
    preferred,
    required,
    suited,
)
from maquette.mechanisms.residual import planned_ripple, ripples
from maquette.mechanisms.smalldb import SmallDb
from maquette.models.measurement import Receipt
from maquette.models.rows import generator
from maquette.queries import canonical_hash
from maquette.queries.base import Queries
from maquette.release.release import Release
from maquette.release.statements import Account, Certificate, GroupCertificate, Guarantee, Spending

__all__ = ["Plan", "open_ledger", "plan", "release", "required"]

TYPICAL_ROWS = 100_000
"""What the choice of a mechanism assumes where the number of rows is private and no guess is given."""


def release(
    table: Table,
    queries: Queries,
    *,
    epsilon: float,
    delta: float = 0.0,
    relation: Relation | str = Relation.ADD_REMOVE,
    mechanism: str | SmallDb = "auto",
    beta: float = 0.05,
    ledger: Ledger | str | Path | None = None,
    total_epsilon: float | None = None,
    total_delta: float | None = None,
    accounting: Accounting | None = None,
    certificate: float = 0.05,
    groups: bool = False,
    rows: int | Literal["small"] | None = None,
    post: str = "auto",
    key: str | None = None,
    typical_rows: int = TYPICAL_ROWS,
    weight: str | None = None,
    progress: Progress | None = None,
) -> Release:
    """Answer every query of a workload on a private table, with a small database where one can be made.

    Guarantee: (epsilon, delta)-DP under `relation`; pure if delta is 0. Charged to the ledger before the table is
        looked at. The same request again (or the same `key`) returns the stored values and costs nothing; another
        `key` pays anew. `accounting` is how a ledger that is made here counts a delta: "gaussian" or "zcdp", by default
        the one in which the mechanism needs less noise; a ledger that is there counts as it was made to.
    Accuracy: `release.guarantee` in advance and, for the share `certificate` of the budget, `release.certificate`
        afterwards; per group of queries if `groups`. With `weight`, the name of a declared attribute, records count by
        its value (mechanism `roth`): fractions are of the total weight, and so are the errors. `rows` is the size of
        the small database: a number, or "small" for the fewest rows that still keep the largest error (`sculpt`).
    """
    configured = None if isinstance(mechanism, str) else mechanism
    request = _Request(
        queries=queries,
        budget=Budget(epsilon, delta),
        relation=_relation(relation),
        mechanism=mechanism if isinstance(mechanism, str) else mechanism.name,
        beta=beta,
        certificate=certificate,
        groups=groups,
        rows=rows,
        post=post,
        typical_rows=typical_rows,
        weight=weight,
        configured=configured,
    )
    way = _counted(table, ledger) or accounting
    chosen = request.choose(way)
    way = way or request.suited(chosen)
    request = request.counted(way)
    total = Budget(
        epsilon if total_epsilon is None else total_epsilon,
        delta if total_delta is None else total_delta,
        way,
    )
    book = open_ledger(table, ledger, relation=request.relation, budget=total)
    name = key or f"release-{request.digest[:20]}"
    try:
        request.check_covered(book, name, chosen)
        curator = Curator(table, book, key=name, budget=request.budget)
        request.reserve(book, name)
        done = run(curator, request, chosen, key=name, progress=progress)
        book.settle(name)
        return finish(request, chosen, done, book, name, watermark=curator.watermark)
    finally:
        if book is not ledger and book is not _MEMORY.get(table):
            book.close()


def open_ledger(
    table: Table, ledger: Ledger | str | Path | None, *, relation: Relation, budget: Budget
) -> Ledger:
    """The ledger that pays for a table: the given one, the file at a path (made if absent), or the table's own.

    Without a location a table from a file keeps its ledger beside the file, and a table from memory keeps one in
    memory for as long as its handle lives.
    """
    if isinstance(ledger, Ledger):
        book = ledger
    else:
        location = _own_place(table) if ledger is None else ledger
        book = (
            _in_memory(table, relation, budget)
            if location is None
            else _at(location, table, relation, budget)
        )
    book.require(relation=relation, domain_fingerprint=table.domain.fingerprint)
    return book


@dataclass(frozen=True, slots=True)
class _Request:
    """The public part of a call to `release`, checked before any data is opened."""

    queries: Queries
    budget: Budget
    relation: Relation
    mechanism: str
    beta: float
    certificate: float
    groups: bool
    rows: int | Literal["small"] | None
    post: str
    typical_rows: int
    weight: str | None = None
    configured: SmallDb | None = None
    """The mechanism with options of its own, where one was given."""

    def __post_init__(self) -> None:
        _check.fraction(beta=self.beta)
        _check.one_of(["auto", *MECHANISMS], mechanism=self.mechanism)
        _check.one_of(("auto", "none", "consistent", "lp", "l2"), post=self.post)
        _check.whole(typical_rows=self.typical_rows)
        if self.weight is not None and self.mechanism not in ("auto", *WEIGHTED):
            raise ParameterError(
                f"mechanism '{self.mechanism}' counts every record as one; weigh records by '{self.weight}' with "
                f"mechanism '{WEIGHTED[0]}'"
            )
        if self.rows is not None and self.rows != "small":
            _check.whole(rows=self.rows)
        if self.queries.domain.constraints:
            from maquette.models import constraints

            constraints.compile(
                self.queries.domain
            )  # what no record can meet is refused before anything is paid
        if not 0 <= self.certificate < 1:
            raise ParameterError(f"expected 0 <= certificate < 1, got certificate={self.certificate!r}")

    @property
    def prices(self) -> tuple[Fraction, Fraction]:
        """For the mechanism and for the certificate, on the ledger's grid; together never above the budget."""
        share = Fraction(str(self.certificate))
        rest, certificate = split(self.budget.total_units, [1 - share, share])
        return Fraction(rest, UNITS), Fraction(certificate, UNITS)

    @property
    def task(self) -> Task:
        return Task(
            self.queries,
            self.relation,
            self.budget.unit,
            self.prices[0],
            self.beta,
            self.post,
            None if self.rows == "small" else self.rows,
            self.weight,
            small=self.rows == "small",
        )

    def suited(self, chosen: Mechanism) -> Accounting:
        """How a ledger made for this release and mechanism counts."""
        epsilon, delta = self.budget.epsilon, self.budget.delta
        return suited(chosen.name, self.queries, relation=self.relation, epsilon=epsilon, delta=delta)

    def counted(self, way: Accounting) -> _Request:
        """The same request with its budget counted in this way."""
        return replace(self, budget=replace(self.budget, accounting=way))

    def choose(self, way: Accounting | None = None) -> Mechanism:
        """The named mechanism, or the one with the best expected error; refusals come before any data is touched.

        `way` is how the ledger counts, where that is decided already.
        """
        if self.mechanism != "auto":
            chosen = self.configured or MECHANISMS[self.mechanism]
            task = self.counted(way or self.suited(chosen)).task
            refusal = chosen.forecast(task, n=self.typical_rows).refusal
            if refusal is not None:
                raise MechanismError(f"mechanism '{self.mechanism}' cannot do this: {refusal}")
            return self._sized(chosen)
        ranked = plan(
            self.queries,
            n=self.typical_rows,
            epsilon=self.budget.epsilon,
            delta=self.budget.delta,
            relation=self.relation,
            beta=self.beta,
            weight=self.weight,
            accounting=way,
        )
        return self._sized(MECHANISMS[preferred(ranked, self.queries)])

    def _sized(self, chosen: Mechanism) -> Mechanism:
        """The same mechanism, if it can make a small database of itself where one is asked for."""
        if self.rows == "small" and chosen.name not in SMALL:
            raise MechanismError(
                f"rows='small' is for the mechanisms {', '.join(SMALL)}, and this would be '{chosen.name}'; ask for a "
                "number of rows, or name one of those"
            )
        return chosen

    @property
    def digest(self) -> str:
        """SHA-256 of everything that decides the release."""
        facts = {
            "domain": self.queries.domain.fingerprint,
            "queries": canonical_hash(self.queries),
            "budget": [self.budget.epsilon, self.budget.delta],
            "relation": str(self.relation),
            "mechanism": self.mechanism,
            "beta": self.beta,
            "certificate": self.certificate,
            "groups": self.groups,
            "rows": self.rows,
            "post": self.post,
            "typical_rows": self.typical_rows,
        }
        if self.weight is not None:
            facts["weight"] = self.weight
        if self.configured is not None:
            facts["options"] = self.configured.to_dict()
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    def check_covered(self, book: Ledger, key: str, chosen: Mechanism) -> None:
        """Refuse what the ledger cannot pay, before anything is opened or bound."""
        cost, left = self.cost(book), book.balance().left_units
        if book.find(key) is not None:
            return
        self._check_slack(book, cost, chosen)
        if cost.units > left:
            unit, needed, rest = book.budget.unit, cost.units / UNITS, left / UNITS
            raise BudgetExceeded(
                f"this release needs {unit}={needed:g}, but ledger '{book.name}' has {unit}={rest:g} left; "
                "ask for a smaller epsilon, or repeat an earlier request, which is free",
                unit=unit,
                needed=needed,
                left=rest,
            )

    def _check_slack(self, book: Ledger, cost: Cost, chosen: Mechanism) -> None:
        """Refuse a mechanism whose noise is only close to exact where the ledger has nothing set aside for that."""
        if self.budget.pure:
            return
        there = min(cost.slack, book.balance().slack_left)
        needed = ripples(self.queries) if chosen.name in PROJECTING else 0
        if there < needed and self.budget.accounting == "zcdp":
            needed = planned_ripple(self.task, per="cell" if chosen.name == "residual-cells" else "marginal")
        if self.budget.accounting == "gaussian" and chosen.name in NOISE_BY_GAUSS:
            needed += math.ceil(log_ratio(self.queries.count) * SLACK_UNITS)
        if there < needed:
            raise MechanismError(
                f"mechanism '{chosen.name}' draws noise that is not exact, within a proven bound, and ledger "
                f"'{book.name}' with {book.budget} has too little of its promise set aside for that; use mechanism "
                "'gaussian', or a ledger made with accounting 'gaussian' and a total nearer to this release's budget"
            )

    def reserve(self, book: Ledger, key: str) -> None:
        """Set the whole budget aside, durably; the key names this release in the ledger from now on."""
        body = {
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "mechanism": self.mechanism,
            "queries": self.queries.describe(),
        }
        book.reserve(key, request=self.digest, tag="release", cost=self.cost(book), body=body, envelope=True)

    def cost(self, book: Ledger) -> Cost:
        """The whole budget in what the ledger counts; its share of the slack goes by its share of the total."""
        if self.budget.pure:
            return PureEvent(Fraction(self.budget.total_units, UNITS), "release").cost(book.budget.unit)
        if book.budget.pure:
            raise LedgerError(
                f"ledger '{book.name}' counts pure epsilon and cannot pay for a delta; ask without delta, or use a "
                "ledger that was made with one"
            )
        if book.budget.accounting != self.budget.accounting:
            raise LedgerError(
                f"ledger '{book.name}' was made by another process in the meantime and counts by "
                f"{book.budget.accounting}; ask again"
            )
        units = self.budget.total_units
        return Cost(units, min(share_of_slack(book.budget, units), self.budget.slack_units))


@dataclass(frozen=True, slots=True)
class _Done:
    outcome: Outcome
    certificates: Certificates | None


def run(
    curator: Curator, request: _Request, chosen: Mechanism, *, key: str, progress: Progress | None = None
) -> _Done:
    """The mechanism, then the certificate, both through the same gate."""
    tell = progress or (lambda _what, _share: None)
    outcome = chosen.run(curator, request.task, rng=generator(key), progress=tell)
    outcome = constrained.meeting(outcome, request.queries, key=key)
    price = request.prices[1]
    if not price or not request.queries.count:
        return _Done(outcome, None)
    tell("measuring the largest error", 0.0)
    certificates = _certify(curator, request, outcome, price)
    tell("measuring the largest error", 1.0)
    return _Done(outcome, certificates)


def _certify(curator: Curator, request: _Request, outcome: Outcome, price: Fraction) -> Certificates:
    """Over the listed answers, or by the score of a drawn database."""
    queries, beta = request.queries, request.beta
    if outcome.judged is not None:
        return certify_drawn(curator, queries, outcome.judged, size=outcome.size, price=price, beta=beta)
    return certify(
        curator,
        queries,
        outcome.answers,
        size=outcome.size,
        price=price,
        beta=beta,
        by_group=request.groups,
    )


def finish(
    request: _Request, chosen: Mechanism, done: _Done, book: Ledger, key: str, *, watermark: str | None
) -> Release:
    """Everything public about the run, in one object."""
    outcome = done.outcome
    balance = book.balance()
    payments = list(book.entries(kind="reserve", parent=key))
    return Release(
        workload=request.queries,
        answers=outcome.answers,
        mechanism=chosen.name,
        relation=request.relation,
        budget=request.budget,
        beta=request.beta,
        size=outcome.size,
        guarantee=Guarantee(outcome.guarantee.alpha, outcome.guarantee.beta, outcome.guarantee.bound),
        certificate=None if done.certificates is None else _certificate(done.certificates),
        database=outcome.database,
        model=outcome.model,
        deviations=outcome.deviations,
        exactness="exact" if not any(p.slack for p in payments) else "approximate with a proven bound",
        spending=tuple(
            Spending(p.tag, p.units / UNITS, book.budget.unit, p.seq, p.body.get("ask")) for p in payments
        ),
        account=Account(
            book.name, book.budget.unit, balance.total_units / UNITS, balance.spent_units / UNITS
        ),
        receipts=_receipts(book, key),
        parameters=outcome.parameters | {"key": key},
        notes=outcome.notes,
        watermark=watermark,
    )


def _certificate(measured: Certificates) -> Certificate:
    groups = tuple(
        GroupCertificate(c.group.name, c.group.stop - c.group.start, c.alpha, c.counts)
        for c in measured.groups
    )
    return Certificate(measured.whole.alpha, measured.beta, measured.whole.counts, groups)


def _receipts(book: Ledger, key: str) -> tuple[Receipt, ...]:
    answers = (entry for entry in book.entries(kind="answer") if entry.key.startswith(f"{key}/"))
    return tuple(Receipt(entry.seq, entry.head) for entry in answers)


def _counted(table: Table, ledger: Ledger | str | Path | None) -> Accounting | None:
    """How the ledger that is there counts a delta; None where it will be made, or is pure."""
    if isinstance(ledger, Ledger):
        return None if ledger.budget.pure else ledger.budget.accounting
    location = _own_place(table) if ledger is None else ledger
    if location is None:
        return None if table not in _MEMORY else _counted(table, _MEMORY[table])
    if "://" not in str(location) and not Path(location).exists():
        return None
    with Ledger.open(location) as book:
        return _counted(table, book)


def _relation(relation: Relation | str) -> Relation:
    _check.one_of([str(r) for r in Relation], relation=str(relation))
    return Relation(relation)


def _own_place(table: Table) -> Path | None:
    """Where a table keeps its ledger by itself, if a file may be put there."""
    place = table.ledger_location
    if place is not None and not place.exists():
        why = _check.kept_from_writing(place.parent)
        if why is not None:
            raise LedgerError(
                f"a table keeps its ledger beside its file, as {place.name}, but the folder {place.parent} {why}; name "
                "another place for it with ledger= (--ledger on the command line), always the same one for this table"
            )
    return place


def _at(location: str | Path, table: Table, relation: Relation, budget: Budget) -> Ledger:
    if "://" not in str(location) and not Path(location).exists():
        try:
            return Ledger.create(
                location,
                budget=budget,
                relation=relation,
                domain_fingerprint=table.domain.fingerprint,
                name=table.name,
            )
        except LedgerError:
            if not Path(location).exists():
                raise
    return Ledger.open(location)


def _in_memory(table: Table, relation: Relation, budget: Budget) -> Ledger:
    if table not in _MEMORY:
        _MEMORY[table] = Ledger.memory(
            budget=budget, relation=relation, domain_fingerprint=table.domain.fingerprint, name=table.name
        )
    return _MEMORY[table]


_MEMORY: WeakKeyDictionary[Table, Ledger] = WeakKeyDictionary()

"""What is asked for in a release: checked before any data is opened, and what it takes of a ledger."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

from maquette import _check
from maquette.accounting.budget import SLACK_UNITS, UNITS, Accounting, Budget, Cost, share_of_slack, split
from maquette.accounting.events import PureEvent
from maquette.accounting.gaussian import log_ratio
from maquette.accounting.ledger import Entry, Ledger
from maquette.accounting.ledger.entry import reserved_note
from maquette.domain import Relation
from maquette.errors import BudgetExceeded, LedgerError, MechanismError, ParameterError, WorkloadError
from maquette.mechanisms import shape, sizing
from maquette.mechanisms.base import POSTS, Mechanism, Task
from maquette.mechanisms.residual import planned_ripple, ripples
from maquette.mechanisms.smalldb import SmallDb
from maquette.queries import canonical_hash
from maquette.queries.base import Queries
from maquette.queries.merging import Merged
from maquette.questions.measurement import Size
from maquette.releasing.certify import SHARE, expected, worth_buying
from maquette.releasing.planning import (
    MECHANISMS,
    NOISE_BY_GAUSS,
    PROJECTING,
    SMALL,
    WEIGHTED,
    plan,
    preferred,
    suited,
)


@dataclass(frozen=True, slots=True)
class Request:
    """The public part of a call to `release`, checked before any data is opened."""

    queries: Queries
    budget: Budget
    relation: Relation
    mechanism: str
    beta: float
    certificate: float | None
    """The share of the budget for a certificate; None buys one where it is expected to beat the guarantee."""
    groups: bool
    rows: int | Literal["small"] | None
    post: str
    typical_rows: int
    weight: str | None = None
    configured: SmallDb | None = None
    """The mechanism with options of its own, where one was given."""
    certified: bool = True
    """Is the certificate that nobody asked for, or asked against, bought?"""

    @classmethod
    def of(
        cls,
        queries: Queries,
        *,
        epsilon: float,
        delta: float = 0.0,
        relation: Relation | str = Relation.ADD_REMOVE,
        mechanism: str | SmallDb = "auto",
        **options: Any,
    ) -> Request:
        """What a call to `release` asks for, in its own words."""
        return cls(
            queries=queries,
            budget=Budget(epsilon, delta),
            relation=Relation.named(relation),
            mechanism=mechanism if isinstance(mechanism, str) else mechanism.name,
            configured=None if isinstance(mechanism, str) else mechanism,
            **options,
        )

    def __post_init__(self) -> None:
        _check.fraction(beta=self.beta)
        if not self.queries.attributes:
            raise WorkloadError(
                "these queries ask about no attribute: their answers are the same for every table, and nothing is "
                "paid for that; ask about at least one attribute"
            )
        _check.one_of(["auto", *MECHANISMS], mechanism=self.mechanism)
        _check.one_of(POSTS, post=self.post)
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
        if self.certificate is not None:
            _check.fraction_or_zero(certificate=self.certificate)

    @property
    def prices(self) -> tuple[Fraction, Fraction]:
        """For the mechanism and for the certificate, on the ledger's grid; together never above the budget."""
        asked = (SHARE if self.certified else 0) if self.certificate is None else self.certificate
        share = Fraction(str(asked))
        rest, certificate = split(self.budget.total_units, [1 - share, share])
        return Fraction(rest, UNITS), Fraction(certificate, UNITS)

    @property
    def merged(self) -> Merged:
        """What is asked of the table for the workload, and the way back to its answers."""
        return shape.merged(self.queries)

    @property
    def task(self) -> Task:
        return Task(
            self.merged.queries,
            self.relation,
            self.budget.unit,
            self.prices[0],
            self.beta,
            self.post,
            None if self.rows == "small" else self.rows,
            self.weight,
            small=self.rows == "small",
            typical_rows=self.typical_rows,
        )

    def decided(self, chosen: Mechanism, *, n: int, drift: float = 0.0) -> Request:
        """The same request, with or without a certificate for a table of about n records. Public inputs only.

        One that was asked for by its share or by groups is bought.
        """
        if self.certificate is not None or self.groups:
            return self
        bought, without = replace(self, certified=True), replace(self, certified=False)
        price, task = bought.prices[1], bought.task
        hoped = expected(chosen.forecast(task, n=n), task, price=price, n=n, drift=drift)
        guaranteed = chosen.forecast(without.task, n=n).guaranteed
        return bought if worth_buying(hoped, guaranteed) else without

    def decided_again(self, chosen: Mechanism, *, size: Size) -> Request:
        """The same once the number of records is released: what is set aside for a certificate need not be spent.

        Holds when: the noise of the answers does not depend on that of the number of records.
        """
        if not self.certified or size.public or chosen.name in PROJECTING:
            return self
        return self.decided(chosen, n=size.divisor, drift=sizing.drift(size, self.beta))

    def suited(self, chosen: Mechanism) -> Accounting:
        """How a ledger made for this release and mechanism counts."""
        epsilon, delta = self.budget.epsilon, self.budget.delta
        return suited(chosen.name, self.queries, relation=self.relation, epsilon=epsilon, delta=delta)

    def counted(self, way: Accounting) -> Request:
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
    def key(self) -> str:
        """The name of this release in a ledger, where it is given no other."""
        return f"release-{self.digest[:20]}"

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
            "certificate": SHARE if self.certificate is None else self.certificate,
            "groups": self.groups,
            "rows": self.rows,
            "post": self.post,
            "typical_rows": self.typical_rows,
        }
        if (
            self.certificate == SHARE
        ):  # also what is taken where nothing is asked for, if it is worth its price
            facts["certificate asked for"] = True
        if self.weight is not None:
            facts["weight"] = self.weight
        if self.configured is not None:
            facts["options"] = self.configured.to_dict()
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    def check_covered(self, book: Ledger, key: str, chosen: Mechanism) -> None:
        """Refuse what the ledger cannot pay, before anything is opened or bound."""
        cost, balance = self.cost(book), book.balance()
        if book.find(key) is not None:
            return
        self._check_slack(book, cost, chosen)
        if cost.units > balance.left_units:
            unit, needed, rest = book.budget.unit, cost.units / UNITS, balance.left_units / UNITS
            raise BudgetExceeded(
                f"this release needs {unit}={needed:g}, but ledger '{book.name}' has {unit}={rest:g} left"
                f"{reserved_note(balance.reserved_units, unit)}; ask for a smaller epsilon, or repeat an "
                "earlier request, which is free",
                unit=unit,
                needed=needed,
                left=rest,
            )

    def _check_slack(self, book: Ledger, cost: Cost, chosen: Mechanism) -> None:
        """Refuse a mechanism whose noise is only close to exact where the ledger has nothing set aside for that."""
        if self.budget.pure:
            return
        there = min(cost.slack, book.balance().slack_left)
        needed = ripples(self.merged.queries) if chosen.name in PROJECTING else 0
        if there < needed and self.budget.accounting == "zcdp":
            needed = planned_ripple(self.task, per="cell" if chosen.name == "residual-cells" else "marginal")
        if self.budget.accounting == "gaussian" and chosen.name in NOISE_BY_GAUSS:
            needed += math.ceil(log_ratio(self.merged.queries.count) * SLACK_UNITS)
        if there < needed:
            raise MechanismError(
                f"mechanism '{chosen.name}' draws noise that is not exact, within a proven bound, and ledger "
                f"'{book.name}' with {book.budget} has too little of its promise set aside for that; use mechanism "
                "'gaussian', or a ledger made with accounting 'gaussian' and a total nearer to this release's budget"
            )

    def reserve(self, book: Ledger, key: str) -> Entry:
        """Set the whole budget aside, durably; the key names this release in the ledger from now on."""
        body = {
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "mechanism": self.mechanism,
            "queries": self.queries.describe(),
        }
        return book.reserve(
            key, request=self.digest, tag="release", cost=self.cost(book), body=body, envelope=True
        )

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

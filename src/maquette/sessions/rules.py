"""What a session was opened with: public, checked before any data is touched, fixed for its whole life."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from maquette import _check
from maquette.accounting.budget import UNITS, Budget, Cost, share_of_slack
from maquette.accounting.events import PureEvent
from maquette.accounting.gaussian import half_square_of_rho
from maquette.accounting.ledger import Ledger
from maquette.domain import Domain, Relation
from maquette.errors import LedgerError, ParameterError
from maquette.mechanisms.online import SIZE_SHARE

MECHANISMS = ("direct", "median", "pmw")
UPDATES = ("refit", "step")


@dataclass(frozen=True, slots=True)
class Rules:
    """The public part of a call to `session`."""

    budget: Budget
    relation: Relation
    beta: float
    alpha: float | None
    mechanism: str
    questions: int
    update: str
    bypass: bool
    lasting: bool
    attributes: tuple[str, ...] | None
    analyst: str | None

    def __post_init__(self) -> None:
        _check.fraction(beta=self.beta)
        if self.alpha is not None:
            _check.fraction(alpha=self.alpha)
        _check.one_of(MECHANISMS, mechanism=self.mechanism)
        _check.one_of(UPDATES, update=self.update)
        _check.whole(queries=self.questions)
        if self.bypass and not self.plain:
            raise ParameterError("bypass goes with mechanism pmw and update refit that spend as needed")
        if self.alpha is not None and (self.mechanism == "median" or self.lasting):
            raise ParameterError(
                "the median mechanism and lasting sessions choose their own error; leave alpha out"
            )

    @property
    def plain(self) -> bool:
        """The default kind of session: spends as needed and refits."""
        return self.mechanism == "pmw" and self.update == "refit" and not self.lasting

    @property
    def size_price(self) -> Fraction:
        """For the number of records; nothing where it is public."""
        if self.relation is Relation.REPLACE_ONE:
            return Fraction(0)
        return Fraction(int(SIZE_SHARE * self.budget.total_units), UNITS)

    @property
    def price(self) -> Fraction:
        """For everything else."""
        return Fraction(self.budget.total_units, UNITS) - self.size_price

    def facts(self, domain: Domain) -> dict[str, Any]:
        """Everything that decides how the session runs; JSON-ready."""
        return {
            "domain": domain.fingerprint,
            "budget": [self.budget.epsilon, self.budget.delta],
            "relation": str(self.relation),
            "beta": self.beta,
            "alpha": self.alpha,
            "mechanism": self.mechanism,
            "questions": self.questions,
            "update": self.update,
            "bypass": self.bypass,
            "lasting": self.lasting,
            "attributes": None if self.attributes is None else list(self.attributes),
            "analyst": self.analyst,
        }

    def digest(self, domain: Domain) -> str:
        return hashlib.sha256(json.dumps(self.facts(domain), sort_keys=True).encode()).hexdigest()

    def cost(self, book: Ledger) -> Cost:
        """The whole budget in what the ledger counts.

        A session with a delta plans in rho. A ledger that counts mu^2 / 2 charges pure tests pi / 2 times their rho,
        and Gaussian values at most that (`gate/calibrate.py`); its share of the slack is set aside too. In a ledger
        that counts rho every draw of a session is exact.
        """
        if self.budget.pure:
            whole = Fraction(self.budget.total_units, UNITS)
            return PureEvent(whole, "session").cost(book.budget.unit)
        if book.budget.pure:
            raise LedgerError(
                f"ledger '{book.name}' counts pure epsilon and cannot pay for a delta; ask without delta, or use a "
                "ledger that was made with one"
            )
        if book.budget.accounting == "zcdp":
            return Cost(self.budget.total_units)
        units = math.ceil(half_square_of_rho(Fraction(self.budget.total_units)))
        return Cost(units, share_of_slack(book.budget, units))

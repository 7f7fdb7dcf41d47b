"""What an action is asked for: frozen values, checked when they are made, before any data is opened."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from maquette.core.budget import Accounting, Budget
from maquette.core.neighbours import Relation

if TYPE_CHECKING:
    from maquette.core.ledger.ledger import Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class Privacy:
    """What may be learnt about a person, and who are neighbours."""

    epsilon: float
    delta: float = 0.0
    relation: Relation | str = Relation.ADD_REMOVE

    @property
    def between(self) -> Relation:
        """The relation by its word or as itself."""
        return Relation.named(self.relation)

    def budget(self, accounting: Accounting = "zcdp", *, thresholds: bool = False) -> Budget:
        """The whole of it, as a ledger that counts in this way pays for it."""
        return Budget(self.epsilon, self.delta, accounting, thresholds=thresholds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Payer:
    """The ledger that pays, the totals of one that is made, and the name of this run in it."""

    ledger: Ledger | str | Path | None = None
    """A ledger, where one is or will be, "memory", or None for the one beside the table's file."""
    total_epsilon: float | None = None
    total_delta: float | None = None
    key: str | None = None

    def total(self, budget: Budget) -> Budget:
        """Of a ledger that is made: what is named of it, and the budget of this run where nothing is."""
        return replace(
            budget,
            epsilon=budget.epsilon if self.total_epsilon is None else self.total_epsilon,
            delta=budget.delta if self.total_delta is None else self.total_delta,
        )

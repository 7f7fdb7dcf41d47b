"""One paid run over several tables: one reservation, out of which each table's release is paid as any other."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from maquette.accounting.ledger import Ledger
from maquette.core.budget import Accounting, Budget, Cost
from maquette.errors import ParameterError
from maquette.linked import dividing
from maquette.linked.release import LinkedRelease
from maquette.owner import Table, Tables
from maquette.progress import Progress
from maquette.queries.base import Queries
from maquette.releasing import planning
from maquette.releasing.payment import Bill, bill_of, find_payer, pay, warn_if_weak
from maquette.releasing.plan import Plan
from maquette.releasing.request import Request
from maquette.requests import Payer, ReleaseRequest
from maquette.results.release import Release
from maquette.schema import Schema

Part = Callable[[Table, Ledger, Plan, Bill, Progress], Release]
"""The release of one table that is paid by a bill."""


@dataclass(frozen=True, slots=True)
class LinkedRequest:
    """The public part of a call to `release` with several tables: a request for each, at the whole budget."""

    schema: Schema
    requests: Mapping[str, Request]

    @classmethod
    def of(
        cls,
        schema: Schema,
        queries: Mapping[str, Queries] | int,
        wish: ReleaseRequest,
        *,
        rows: Mapping[str, int] | None = None,
    ) -> LinkedRequest:
        """What a call asks for; all that is stated of the tables holds together, except with probability beta.

        `rows` are guesses of the rows of every table; without them, by the number of units that is guessed.
        """
        workloads = dividing.workloads(schema, queries) if isinstance(queries, int) else queries
        if set(workloads) != set(schema.names):
            raise ParameterError(
                f"expected queries for each of the tables {', '.join(schema.names)}, or a number k"
            )
        rows = rows or dividing.typical_rows(schema, wish.typical_rows)
        for name, workload in workloads.items():
            if workload.domain.fingerprint != schema.domain(name).fingerprint:
                raise ParameterError(
                    f"the queries of table '{name}' are about another domain; make them with schema.domain('{name}')"
                )
        requests = {
            name: Request.of(
                workloads[name],
                replace(wish, typical_rows=rows[name], beta=wish.beta / len(workloads)),
                persons=schema.persons[name],
            )
            for name in schema.names
        }
        return cls(schema, requests)

    @property
    def first(self) -> Request:
        return next(iter(self.requests.values()))

    def counted_by(self, accounting: Accounting) -> LinkedRequest:
        """The same with an accounting."""
        return LinkedRequest(
            self.schema, {name: replace(one, accounting=accounting) for name, one in self.requests.items()}
        )

    def divided(self, accounting: Accounting | None) -> tuple[LinkedRequest, Budget, dict[str, Plan]]:
        """The request, counted as a ledger does or as suits it; the whole budget, and each table's part of it."""
        accounting = accounting or planning.plan_of(self.first).budget.accounting
        request = self.counted_by(accounting)
        budget = replace(self.first.budget, accounting=accounting)
        budgets = dividing.parts(budget, dividing.shares(request.requests))
        return request, budget, request.plans(budgets)

    def plans(self, budgets: Mapping[str, Budget]) -> dict[str, Plan]:
        """Each request with its part of the budget, and all that follows from it."""
        return {
            name: planning.plan_of(replace(one, epsilon=budgets[name].epsilon))
            for name, one in self.requests.items()
        }

    @property
    def digest(self) -> str:
        """SHA-256 of everything that decides the run."""
        facts = [self.schema.fingerprint, {name: one.digest for name, one in self.requests.items()}]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    @property
    def key(self) -> str:
        """The name of the run in a ledger, where nobody gives it another."""
        return f"tables-{self.digest[:20]}"


def release_tables(
    tables: Tables, request: LinkedRequest, payer: Payer, *, part: Part, progress: Progress
) -> LinkedRelease:
    """Divide, reserve once, release each table out of the reservation, settle.

    Guarantee: (epsilon, delta)-DP between neighbours that differ by a unit: every look is charged as many rows as a
        unit has in its table, and all looks together stay within the reservation.
    """
    first = request.first
    warn_if_weak(first.budget)
    with find_payer(tables.root, payer, relation=first.between) as till:
        request, budget, plans = request.divided(till.accounting)
        for name, plan in plans.items():
            planning.check_memory(plan, limit=tables[name].memory_limit)
        key = payer.key or request.key
        book = till.open(payer.total(budget))
        bills = {name: bill_of(plan, f"{key}.{name}") for name, plan in plans.items()}
        if book.find(key) is None:
            for one in bills.values():
                one.check(book, one.cost(book))
        views: dict[str, Release] = {}
        with pay(book, _bill(request, key, budget)) as payment:
            for name, plan in plans.items():
                bill = replace(bills[name], parent=key, costs=_within(payment.entry.cost, budget))
                views[name] = part(tables[name], book, plan, bill, progress)
        payment.settle()
        return LinkedRelease(schema=tables.schema, views=views, budget=budget, key=key)


def _bill(request: LinkedRequest, key: str, budget: Budget) -> Bill:
    return Bill(
        tag="release",
        key=key,
        request=request.digest,
        budget=budget,
        body={
            "epsilon": budget.epsilon,
            "delta": budget.delta,
            "tables": list(request.requests),
            "queries": "; ".join(one.queries.describe() for one in request.requests.values())[:1000],
        },
        advice="; an earlier request can be repeated, which is free",
    )


def _within(whole: Cost, budget: Budget) -> Callable[[Budget, Ledger], tuple[Cost, ...]]:
    """A part of a reservation, in what the ledger counts; its slack goes with it."""

    def costs(part: Budget, book: Ledger) -> tuple[Cost, ...]:
        del book
        share = part.total_units
        return (
            Cost(
                whole.units * share // budget.total_units,
                whole.slack * share // budget.total_units,
                whole.pure * share // budget.total_units,
            ),
        )

    return costs

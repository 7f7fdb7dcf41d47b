"""A ledger that is a list: the true decisions, no database, no chain and nothing durable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from maquette.core.budget import Budget, Cost
from maquette.core.events import Receipt
from maquette.core.ledger.decide import (
    Accept,
    Account,
    Refuse,
    Repeat,
    Reservation,
    closed,
    decide,
    nothing_reserved,
)
from maquette.core.ledger.entry import Entry, canonical, next_row, to_entry
from maquette.core.ledger.pace import Pace, Rate, present
from maquette.errors import RateExceeded


class ListLedger:
    """Reservations in the order in which they were made; what is left is summed up anew each time."""

    def __init__(self, budget: Budget, name: str = "survey") -> None:
        self.budget = budget
        self.name = name
        self.entries: list[Entry] = []
        self._given_back: dict[str, Cost] = {}
        self._paces: dict[str, Pace] = {}

    def limit(self, parent: str, rate: Rate) -> None:
        self._paces[parent] = Pace(rate)

    def find(self, key: str) -> Entry | None:
        return next((entry for entry in self.entries if entry.key == key), None)

    def left_in(self, parent: str | None) -> Cost:
        whole = self.budget.whole if parent is None else self._there(parent).cost
        for entry in self.entries:
            if entry.parent == parent:
                whole = whole - entry.cost + self._given_back.get(entry.key, Cost(0))
        return whole

    def reserve(
        self,
        key: str,
        *,
        request: str,
        tag: str,
        cost: Cost,
        body: Mapping[str, Any],
        parent: str | None = None,
        envelope: bool = False,
        pure: Cost | None = None,
    ) -> Entry:
        costs = (cost,) if pure is None else (cost, pure)
        asked = Reservation(key, request, tag, costs, canonical(body), parent, envelope)
        taken = {one: self.find(one) for one in (key, *([parent] if parent else []))}
        now, pace = present(), self._paces.get(parent or "")
        dates = [entry.created for entry in self.entries if entry.parent == parent]
        recent = [] if pace is None else pace.dates(dates[-pace.rate.entries :], now)
        match decide(self._payer(parent, taken), taken, recent, now, pace.rate if pace else None, asked):
            case Repeat(entry):
                return replace(entry, fresh=False)
            case Refuse(error):
                if pace is not None and isinstance(error, RateExceeded):
                    pace.note_refusal()
                raise error
            case Accept(cost):
                amounts = {"units": cost.units, "slack": cost.slack, "pure": cost.pure}
                row = next_row(
                    "reserve", seq=len(self.entries) + 2, prev="0" * 64, key=key, parent=parent, tag=tag,
                    request=request, envelope=int(envelope), body=asked.body, **amounts,
                )  # fmt: skip
                self.entries.append(to_entry(row))
                return replace(self.entries[-1], fresh=True)

    def answer(self, key: str, payload: bytes) -> Entry:
        entry = self._there(key)
        return entry if entry.answered else self._put(entry, payload=payload, answered=Receipt(1, "0" * 64))

    def settle(self, key: str) -> Entry:
        entry = self._there(key)
        if entry.settlement is None:
            outer = None if entry.parent is None else self._there(entry.parent)
            is_lost = outer is not None and outer.settlement is not None
            self._given_back[key] = Cost(0) if is_lost else self.left_in(key)
            entry = self._put(entry, settlement=Receipt(1, "0" * 64))
        return entry

    def _payer(self, parent: str | None, taken: Mapping[str, Entry | None]) -> Account:
        unit, delta, holder = self.budget.unit, self.budget.delta, taken.get(parent or "")
        if parent is None or holder is None or closed(parent, holder):
            envelopes = [e.key for e in self.entries if e.envelope and not e.settlement and self._is_open(e)]
            held = sum((self.left_in(key) for key in envelopes), Cost(0))
            return Account(self.name, unit, delta, self.budget.whole, self.left_in(None), None, held)
        return Account(self.name, unit, delta, holder.cost, self.left_in(parent), parent)

    def _is_open(self, entry: Entry) -> bool:
        return entry.parent is None or self._is_open_parent(self._there(entry.parent))

    def _is_open_parent(self, entry: Entry) -> bool:
        return entry.settlement is None and self._is_open(entry)

    def _there(self, key: str) -> Entry:
        if (entry := self.find(key)) is None:
            raise nothing_reserved(key)
        return entry

    def _put(self, entry: Entry, **changes: Any) -> Entry:
        place = self.entries.index(entry)
        self.entries[place] = replace(entry, **changes)
        return self.entries[place]

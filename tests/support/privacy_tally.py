"""A ledger in a dictionary: quick enough for ten thousand runs. Its charges are compared with the real one's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from maquette.accounting.ledger import Receipt, Record
from maquette.core.budget import Budget, Cost
from maquette.domain import Persons, Relation


@dataclass(frozen=True)
class Slip:
    """What the curator needs of an entry."""

    key: str
    request: str
    tag: str
    cost: Cost
    body: Mapping[str, Any]
    payload: bytes | None = None
    answered: Receipt | None = None


class TallyLedger:
    """Reserve and answer, nothing else; what was charged is in `slips`."""

    name, location, opened = "tally", "memory", ""
    salt = b"tally"
    commitment = None
    awaits_domain = False

    def __init__(self, *, budget: Budget, relation: Relation, persons: Persons | None = None) -> None:
        self.budget = budget
        self.persons = persons
        self.relation = relation
        self.slips: dict[str, Slip] = {}

    def require(self, *, relation: Relation, domain_fingerprint: str, persons: Persons | None = None) -> None:
        assert (relation, persons) == (self.relation, self.persons)

    def bind(self, commitment: str) -> None:
        assert commitment

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
    ) -> Slip:
        return self.slips.setdefault(key, Slip(key, request, tag, cost, dict(body)))

    def answer(self, key: str, payload: bytes) -> Slip:
        slip = self.slips[key]
        if slip.payload is None:
            slip = replace(slip, payload=payload, answered=Receipt(len(self.slips), "0" * 64))
            self.slips[key] = slip
        return slip

    def begin(
        self, record: Record, *, cost: Cost, parent: str, takes_look: bool = True, pure: Cost | None = None
    ) -> Slip:
        assert pure is None, "a tally has one part"
        return self.reserve(
            record.key, request=record.request, tag=record.tag, cost=cost, body=record.body, parent=parent
        )

    def store(self, begun: Slip, look: Callable[[], bytes]) -> Slip:
        return self.answer(begun.key, look())

    def turn(self, _envelope: str) -> AbstractContextManager[None]:
        return nullcontext()

    @property
    def charges(self) -> tuple[tuple[str, int, int], ...]:
        return tuple((s.tag, s.cost.units, s.cost.slack) for s in self.slips.values())

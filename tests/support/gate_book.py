"""A ledger in lists that a curator for single questions can use: quick enough for a hundred thousand calls.

The suite runs the same calls with the real ledger too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

from maquette.accounting.ledger import Entry, Receipt, Record
from maquette.core.budget import Budget, Cost
from maquette.domain import Relation

_HEAD = "0" * 64


class BookDouble:
    """Reserve, answer, record and read back; keys are given once, and nothing is weighed against the total."""

    salt = b"double"
    commitment: str | None = None
    persons = None
    awaits_domain = False
    name = "a list"
    opened = location = "in memory"

    def __init__(self, *, budget: Budget, relation: Relation) -> None:
        self.budget = budget
        self.relation = relation
        self._entries: list[Entry] = []
        self._places: dict[str, int] = {}

    def require(self, **_: Any) -> None: ...

    def bind(self, commitment: str) -> None: ...

    def receipt(self) -> Receipt:
        return Receipt(len(self._entries), _HEAD)

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
    ) -> Entry:
        assert key not in self._places, f"the key {key} was used twice"
        body = json.loads(json.dumps(dict(body), allow_nan=False))
        self._places[key] = len(self._entries)
        return self._add("reserve", key, parent, tag, request, cost, envelope, body, None)

    def answer(self, key: str, payload: bytes) -> Entry:
        place = self._places[key]
        held = self._entries[place]
        assert held.payload is None
        digest = hashlib.sha256(payload).hexdigest()
        end = self._add("answer", key, held.parent, held.tag, held.request, Cost(0), False, {}, digest)
        self._entries[place] = replace(held, payload=payload, answered=Receipt(end.seq, _HEAD))
        return self._entries[place]

    def record(self, key: str, *, payload: bytes, **asked: Any) -> Entry:
        self.reserve(key, **asked)
        return self.answer(key, payload)

    def record_all(self, records: Sequence[Record], *, parent: str) -> list[Entry]:
        return [
            self.record(
                one.key,
                request=one.request,
                tag=one.tag,
                cost=Cost(0),
                body=one.body,
                payload=one.payload,
                parent=parent,
            )
            for one in records
        ]

    def turn(self, _envelope: str) -> AbstractContextManager[None]:
        return nullcontext()

    def room(self, _parent: str) -> int | None:
        return None

    def begin(
        self, record: Record, *, cost: Cost, parent: str, takes_look: bool = True, pure: Cost | None = None
    ) -> Entry:
        assert pure is None, "this book has one part"
        return self.reserve(
            record.key, request=record.request, tag=record.tag, cost=cost, body=record.body, parent=parent
        )

    def begin_all(self, records: Sequence[Record], *, parent: str) -> list[Entry]:
        return [self.begin(one, cost=Cost(0), parent=parent) for one in records]

    def store(self, begun: Entry, look: Callable[[], bytes]) -> Entry:
        return self.answer(begun.key, look())

    def store_all(self, begun: Sequence[Entry], look: Callable[[], Sequence[bytes]]) -> list[Entry]:
        return [self.answer(entry.key, data) for entry, data in zip(begun, look(), strict=True)]

    def finish(self, begun: Sequence[Entry]) -> list[Entry]:
        """It keeps nothing: nothing here fails to be stored."""
        return []

    def wait(self, begun: Entry) -> Entry:
        return begun

    def was_looked_at(self, begun: Entry) -> bool:
        return True

    def children(self, parent: str, *, after: int = 0) -> Iterator[Entry]:
        return (e for e in self._entries[after:] if e.kind == "reserve" and e.parent == parent)

    def entries(self, *, after: int = 0) -> Iterator[Entry]:
        return (replace(e, payload=None) for e in self._entries[after:])

    def _add(
        self,
        kind: Any,
        key: str,
        parent: str | None,
        tag: str,
        request: str,
        cost: Cost,
        envelope: bool,
        body: Mapping[str, Any],
        digest: str | None,
    ) -> Entry:
        seq = len(self._entries) + 1
        entry = Entry(
            seq,
            kind,
            key,
            parent,
            tag,
            request,
            cost.units,
            cost.slack,
            envelope,
            body,
            digest,
            _HEAD,
            _HEAD,
            "",
        )
        self._entries.append(entry)
        return entry

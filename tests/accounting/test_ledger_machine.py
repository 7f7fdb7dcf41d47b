"""The ledger against a small model of it, under any order of requests, retries, crashes and reopenings."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from maquette.accounting import Cost
from maquette.accounting.ledger import Ledger, Receipt
from maquette.core.ledger.transaction import Transaction
from maquette.errors import BudgetExceeded, KeyReused, LedgerError
from support.ledger_cases import create, digest, pay
from support.ledger_postgres import new_database

pytestmark = pytest.mark.law


@dataclass
class Reserved:
    """A reservation in the model."""

    cost: int
    parent: str | None
    envelope: bool
    answer: bytes | None = None
    settled: bool = False
    back: int = 0


@dataclass
class Model:
    """What a ledger must do, without durability, hashes or concurrency."""

    total: int
    held: dict[str, Reserved] = field(default_factory=dict)

    def spent(self) -> int:
        return sum(r.cost - r.back for r in self.held.values() if r.parent is None)

    def left_in(self, key: str) -> int:
        own = self.held[key]
        return own.cost - sum(r.cost - r.back for r in self.held.values() if r.parent == key)

    def covers(self, cost: int, parent: str | None) -> bool:
        return cost <= (self.total - self.spent() if parent is None else self.left_in(parent))

    def settle(self, key: str) -> None:
        own = self.held[key]
        if not own.settled:
            closed = own.parent is not None and self.held[own.parent].settled
            own.back = 0 if closed else self.left_in(key)
            own.settled = True


class LedgerMachine(RuleBasedStateMachine):
    keys = Bundle("keys")
    envelopes = Bundle("envelopes")

    def place(self) -> str:
        self._folder = Path(tempfile.mkdtemp(prefix="mq-machine-"))
        return str(self._folder / "survey.ledger")

    @initialize(total=st.integers(1, 300))
    def start(self, total: int) -> None:
        self._folder: Path | None = None
        self.location = self.place()
        self.ledger = create(self.location, total)
        self.model = Model(total)
        self.receipts: list[Receipt] = [self.ledger.receipt()]
        self.dropped: list[Ledger] = []
        self.count = 0

    def new_key(self) -> str:
        self.count += 1
        return f"key-{self.count}"

    def reserve(self, cost: int, parent: str | None, envelope: bool) -> str | None:
        key = self.new_key()
        if parent is not None and self.model.held[parent].settled:
            with pytest.raises(LedgerError, match="is settled"):
                pay(self.ledger, key, cost, parent=parent, envelope=envelope)
            return None
        if not self.model.covers(cost, parent):
            with pytest.raises(BudgetExceeded):
                pay(self.ledger, key, cost, parent=parent, envelope=envelope)
            assert self.ledger.find(key) is None
            return None
        entry = pay(self.ledger, key, cost, parent=parent, envelope=envelope)
        assert (entry.fresh, entry.units, entry.payload) == (True, cost, None)
        self.model.held[key] = Reserved(cost, parent, envelope)
        return key

    @rule(target=keys, cost=st.integers(0, 20))
    def reserve_from_the_total(self, cost: int):
        return _given(self.reserve(cost, None, envelope=False))

    @rule(target=envelopes, cost=st.integers(0, 40))
    def reserve_an_envelope(self, cost: int):
        return _given(self.reserve(cost, None, envelope=True))

    @rule(target=keys, cost=st.integers(0, 20), parent=envelopes)
    def reserve_from_an_envelope(self, cost: int, parent: str):
        return _given(self.reserve(cost, parent, envelope=False))

    @rule(target=envelopes, cost=st.integers(0, 20), parent=envelopes)
    def reserve_an_inner_envelope(self, cost: int, parent: str):
        return _given(self.reserve(cost, parent, envelope=True))

    @rule(key=st.one_of(keys, envelopes))
    def retry(self, key: str) -> None:
        held = self.model.held[key]
        entry = pay(self.ledger, key, held.cost, parent=held.parent, envelope=held.envelope)
        assert (entry.fresh, entry.payload, entry.settlement is not None) == (
            False,
            held.answer,
            held.settled,
        )

    @rule(key=st.one_of(keys, envelopes))
    def reuse_for_another_request(self, key: str) -> None:
        held = self.model.held[key]
        with pytest.raises(KeyReused):
            pay(
                self.ledger,
                key,
                held.cost,
                parent=held.parent,
                envelope=held.envelope,
                request=digest("other"),
            )

    @rule(key=st.one_of(keys, envelopes), data=st.binary(max_size=40))
    def answer(self, key: str, data: bytes) -> None:
        held = self.model.held[key]
        if held.answer is None:
            held.answer = data
        assert self.ledger.answer(key, data).payload == held.answer
        assert self.ledger.answer(key, data + b" again").payload == held.answer

    @rule(data=st.binary(max_size=4))
    def answer_what_was_never_reserved(self, data: bytes) -> None:
        with pytest.raises(LedgerError, match="nothing was reserved"):
            self.ledger.answer(self.new_key(), data)

    @rule(key=envelopes)
    def settle(self, key: str) -> None:
        self.ledger.settle(key)
        self.model.settle(key)

    @rule(key=consumes(envelopes))
    def settle_twice(self, key: str) -> None:
        for _ in range(2):
            self.settle(key)

    @rule(key=keys)
    def settle_a_look(self, key: str) -> None:
        with pytest.raises(LedgerError, match="stays charged"):
            self.ledger.settle(key)

    @rule()
    def crash(self) -> None:
        """The process is gone: its object is dropped without being closed, another opens the ledger."""
        self.dropped.append(self.ledger)
        self.ledger = Ledger.open(self.location)

    @rule()
    def close_and_open(self) -> None:
        self.ledger.close()
        self.ledger = Ledger.open(self.location)

    @rule(parent=envelopes)
    def fill_an_envelope(self, parent: str) -> None:
        if not self.model.held[parent].settled:
            assert self.reserve(self.model.left_in(parent), parent, envelope=False) is not None
            assert self.reserve(1, parent, envelope=False) is None

    @precondition(lambda self: self.count > 12)
    @rule()
    def exhaust(self) -> None:
        left = self.model.total - self.model.spent()
        key = self.new_key()
        pay(self.ledger, key, left)
        self.model.held[key] = Reserved(left, None, envelope=False)
        with pytest.raises(BudgetExceeded):
            pay(self.ledger, self.new_key(), 1)

    @rule()
    def keep_a_receipt(self) -> None:
        self.receipts.append(self.ledger.receipt())

    @invariant()
    def agrees_with_the_model(self) -> None:
        assert self.ledger.spent_units == self.model.spent() <= self.model.total
        assert self.ledger.left_units == self.model.total - self.model.spent()

    def teardown(self) -> None:
        if not hasattr(self, "ledger"):
            return
        try:
            self.check_the_whole()
        finally:
            for ledger in (self.ledger, *self.dropped):
                ledger.close()
            if self._folder is not None:
                shutil.rmtree(self._folder)

    def check_the_whole(self) -> None:
        for receipt in self.receipts:
            self.ledger.verify(receipt)
        for key, held in self.model.held.items():
            found = self.ledger.find(key)
            assert found is not None
            assert (found.units, found.payload) == (held.cost, held.answer)


class PostgresMachine(LedgerMachine):
    def place(self) -> str:
        return new_database()


def _given(key: str | None):
    return multiple() if key is None else key


def _settings(examples: int, steps: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


def test_a_ledger_file_behaves_like_the_model():
    run_state_machine_as_test(LedgerMachine, settings=_settings(40, 40))


def test_a_ledger_in_postgresql_behaves_like_the_model():
    run_state_machine_as_test(PostgresMachine, settings=_settings(8, 30))


def _charges_half(real):
    def broken(self: Transaction, asked, *rest, **options):
        entry = real(self, asked, *rest, **options)
        if entry.fresh and asked.parent is None:
            self._spent -= Cost(entry.units // 2)
        return entry

    return broken


def _forgets_children(_real):
    def broken(self: Transaction, holder):
        return Cost(holder.units, holder.slack)

    return broken


def _answers_again(real):
    def broken(self: Transaction, key: str, data: bytes):
        from dataclasses import replace

        return replace(real(self, key, data), payload=data)

    return broken


@pytest.mark.parametrize(
    ("method", "breaks"),
    [("reserve", _charges_half), ("_rest_of", _forgets_children), ("answer", _answers_again)],
    ids=["charges half", "forgets children", "answers again"],
)
def test_the_model_notices_a_broken_ledger(monkeypatch, method, breaks):
    monkeypatch.setattr(Transaction, method, breaks(getattr(Transaction, method)))
    quick = settings(
        _settings(60, 30),
        derandomize=True,
        database=None,
        phases=[p for p in settings().phases if p.name == "generate"],
    )
    with pytest.raises(
        BaseException, match=r"assert|DID NOT RAISE|tampered|edited|BudgetExceeded|needs \d|% of"
    ):
        run_state_machine_as_test(LedgerMachine, settings=quick)

"""Answers that other sessions on the same ledger were given: released already, so they cost nobody anything."""

from __future__ import annotations

from dataclasses import dataclass

from maquette.accounting.ledger import Ledger
from maquette.domain import Domain
from maquette.gate.online import Step, read_step
from maquette.queries.form import from_spec
from maquette.sessions.state import is_near, read_answer


@dataclass(frozen=True, slots=True)
class Lent:
    """An answer of another session, with what was promised there."""

    session: str
    value: float
    side: bool
    error: float
    beta: float
    """The chance that any answer of that session is off by more than its error."""
    sequence: int


class Shelf:
    """Follows the other sessions of a ledger, and finds what was answered there."""

    def __init__(self, ledger: Ledger, domain: Domain, *, own: str) -> None:
        self._ledger = ledger
        self._domain = domain
        self._own = own
        self._seen = 0
        self._betas: dict[str, float] = {}
        self._read: dict[str, int] = {}
        self._behind: set[str] = set()
        self._steps: dict[str, list[tuple[str, Step]]] = {}

    def catch_up(self) -> None:
        """Read what is new in the ledger."""
        for line in self._ledger.outline(after=self._seen):
            self._seen = line.seq
            if line.tag == "session" and line.key != self._own:
                entry = self._ledger.find(line.key)
                assert entry is not None
                self._betas[line.key] = float(entry.body["beta"])
            elif line.parent in self._betas:
                self._behind.add(line.parent)
        self._behind = {name for name in self._behind if not self._follow(name)}

    def find(self, meaning: str, *, within: float) -> Lent | None:
        """The answer with the smallest error, if that is at most `within`; of equals the earliest."""
        lent = [self._lend(name, step) for name, step in self._steps.get(meaning, [])]
        return min(
            (one for one in lent if one.error <= within),
            key=lambda one: (one.error, one.sequence),
            default=None,
        )

    def _follow(self, name: str) -> bool:
        """Read on in another session; False if it waits for an answer that may still come."""
        for entry in self._ledger.children(name, after=self._read.get(name, 0)):
            step = read_step(entry)
            if not step.answered:
                return False
            self._read[name] = entry.seq
            if step.ask in ("test", "measure") or step.body.get("follows"):
                self._steps.setdefault(step.body["meaning"], []).append((name, step))
        return True

    def _lend(self, name: str, step: Step) -> Lent:
        if step.ask == "note":
            value, error = float(step.body["value"]), float(step.body["error"])
        else:
            denominator = 1 if is_near(step) else from_spec(self._domain, step.body["spec"]).denominator
            value, error = read_answer(step, denominator)
        side, beta = bool(step.body["side"]), self._betas[name]
        return Lent(name, value, side, error, beta, step.receipt.sequence)

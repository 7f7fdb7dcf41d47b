"""The same table behind a session, and random questions to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from maquette.domain import Relation
from maquette.sessions import opening
from support.gate_arguments import Rng, pick
from support.gate_world import TapedCurator
from support.observed import KEY, Call, ObservedTape, Watched
from support.observed_worlds import LEDGER_CALLS


@contextmanager
def taped_sessions(tape: ObservedTape) -> Iterator[None]:
    """Let the curator of every session that is opened draw from a tape."""
    real = opening.OnlineCurator
    opening.OnlineCurator = partial(TapedCurator, noise=tape)  # type: ignore[misc, assignment]
    try:
        yield
    finally:
        opening.OnlineCurator = real  # type: ignore[misc]


class WatchedSession(Watched):
    """The same table behind a session."""

    is_opened_by_itself = True

    def __init__(self, *facts: Any, options: dict[str, Any]) -> None:
        self.options = options
        super().__init__(*facts)

    def start(self) -> None:
        relation = self.ledger.relation
        # the public number of records may be too small for a hypothesis
        options = (
            self.options
            if relation is Relation.ADD_REMOVE
            else SESSIONS[0] | {"queries": self.options["queries"]}
        )
        with taped_sessions(self.tape):
            self.asked = opening.session(
                self.table, ledger=self.ledger, key=KEY, relation=relation, **options
            )

    def take_step(self, ahead: int = 0) -> Any:
        """Another process answers a question in the same session."""
        mine, self.ledger, asked = self.ledger, self.other_process, self.asked
        try:
            self.start()
            return self.asked.ask(OTHERS[ahead], allow_useless=True)
        finally:
            self.ledger, self.asked = mine, asked


SESSIONS = (
    {"epsilon": 2.0, "mechanism": "direct", "queries": 20, "attributes": ["a", "b", "c", "d"]},
    {"epsilon": 18.0, "delta": 1e-6, "mechanism": "pmw", "alpha": 0.49, "queries": 40},
    {"epsilon": 90.0, "mechanism": "pmw", "alpha": 0.45, "queries": 30, "measure_first": False},
    {"epsilon": 90.0, "mechanism": "pmw", "alpha": 0.4, "queries": 40},
)
"""With so few records a hypothesis needs a large epsilon."""
TEXTS = (
    "a = 1",
    "b = 1",
    "b = 0",
    "c = 1 AND b = 1",
    "d > 2",
    "d = 3 OR c = 1",
    "a >= 1",
    "nobody = 1",
    "a = 0",
)
OTHERS = ("b = 0 AND c = 0", "d = 1 AND b = 1", "a = 0 AND c = 1")
SELECTS = (
    "select b, count(*) from t group by b",
    "select count(*) from t where c = 1",
    "select a, share(*) from t group by a",
    "select sum(d) from t",
)


def session_call(rng: Rng) -> tuple[str, Call]:
    """A question of a session."""
    text, several = pick(rng, TEXTS), [pick(rng, TEXTS[:7]) for _ in range(int(rng.integers(1, 5)))]
    select, useless = pick(rng, SELECTS), bool(rng.integers(5))
    calls: list[tuple[str, Call]] = [
        ("ask", lambda side: side.asked.ask(text, allow_useless=useless)),
        ("ask", lambda side: side.asked.ask(text, allow_useless=True)),
        ("ask_many", lambda side: side.asked.ask_many(several, allow_useless=useless)),
        ("sql", lambda side: side.asked.sql(select, allow_useless=True)),
        ("sql", lambda side: side.asked.sql(select, allow_useless=useless)),
        ("forecast", lambda side: side.asked.forecast(text)),
        ("buy_size", lambda side: side.asked.buy_size()),
        ("history", lambda side: side.asked.history()),
        pick(rng, LEDGER_CALLS),
    ]
    return pick(rng, calls)

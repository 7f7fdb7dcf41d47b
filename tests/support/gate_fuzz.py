"""Arbitrary public arguments to all questions of the gate, on pairs of neighbouring tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from support.gate_arguments import pick
from support.gate_calls import STRATEGIES
from support.gate_moves import Outcome
from support.gate_world import Pair, draws_on_tape
from support.privacy_doubles import CAUGHT

CALLS = 40
"""Questions to one pair; their past decides what is possible next."""
LOOKS_OFTEN = ("open_epoch", "test", "test_all", "score_of", "draw")
"""LinearQueries twice as often as others: much must come together for an answer."""


@dataclass
class Tally:
    """How often every method was answered, and refused by which error."""

    answered: dict[str, int] = field(default_factory=dict)
    refused: dict[str, dict[str, int]] = field(default_factory=dict)

    def count(self, method: str, outcome: Outcome) -> None:
        if outcome.error is None:
            self.answered[method] = self.answered.get(method, 0) + 1
        else:
            kinds = self.refused.setdefault(method, {})
            kinds[outcome.error[0].__name__] = kinds.get(outcome.error[0].__name__, 0) + 1

    @property
    def calls(self) -> int:
        return sum(self.answered.values()) + sum(sum(kinds.values()) for kinds in self.refused.values())

    def __str__(self) -> str:
        return f"{self.calls} calls, answered {self.answered}, refused {self.refused}"


def fuzz(
    seeds: Iterable[int],
    *,
    methods: Sequence[str] | None = None,
    real: bool = False,
    ledger: str = "double",
    calls: int = CALLS,
) -> Tally:
    """Ask until a difference is found: AssertionError with the seed and the number of the call."""
    chosen = sorted(STRATEGIES if methods is None else methods)
    chosen += [name for name in LOOKS_OFTEN if name in chosen]
    tally = Tally()
    with draws_on_tape():
        for seed in seeds:
            pair, rng = Pair(seed, real=real, ledger=ledger), np.random.default_rng([seed, 1])
            for number in range(calls):
                method = pick(rng, chosen)
                arguments = STRATEGIES[method](rng)
                try:
                    tally.count(method, pair.ask(method, arguments))
                except CAUGHT as error:
                    raise AssertionError(f"seed {seed}, call {number}: {error}") from error
                if pair.parted:
                    break
    return tally

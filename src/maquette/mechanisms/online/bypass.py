"""Whether a question is worth a test, or is better measured at once: decided from released outcomes only.

While a hypothesis knows little, most guesses are far off, and a far guess uses up a share of an epoch that costs
several times what a plain measurement costs. So a session measures until guesses hold: every measured value shows
whether the guess would have passed (Turbo, Kostopoulou et al. 2023, measures until each cell of a query has been
updated often enough; here the two prices decide).
"""

from __future__ import annotations

from collections.abc import Sequence

WINDOW = 4
"""How many outcomes are remembered, in units of the price ratio."""


def worth_testing(far: Sequence[bool], *, ratio: float) -> bool:
    """Is the expected price of a test, by the last outcomes, below that of a measurement?

    `far` are the outcomes so far, in order; `ratio` is the price of a far guess in units of a measurement.
    """
    recent = far[-(int(WINDOW * ratio) + 1) :]
    chance = (sum(recent) + 1) / (len(recent) + 2)
    return chance * ratio < 1

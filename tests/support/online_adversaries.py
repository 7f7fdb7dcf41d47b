"""Analysts who choose their questions after seeing answers, each with a purpose. None of them sees the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Ask = Callable[[str], Any]
Told = Callable[[str], Any]


def chase(ask: Ask, told: Told, rng: np.random.Generator) -> Iterator[str]:
    """Overfitting: keeps every condition that made the answer larger than expected, and goes on from there."""
    held: list[str] = []
    best = 0.0
    for _ in range(8):
        name, size = (("age", 8), ("sex", 2), ("job", 4))[int(rng.integers(3))]
        text = " or ".join([*held[-6:], f"{name} = {int(rng.integers(size))}"])
        yield text
        value = ask(text).value
        if value > best:
            best, held = value, text.split(" or ")


def bisect(ask: Ask, told: Told, rng: np.random.Generator) -> Iterator[str]:
    """Looks for questions whose guess is just at the border of passing the test."""
    low, high = 0, 7
    for turn in range(8):
        middle = (low + high) // 2
        text = f"age <= {middle} and job <> {int(rng.integers(4))} or sex = {turn % 2} and age = {turn % 8}"
        yield text
        answer, guess = ask(text), told(text).guess
        if abs(answer.value - (guess or 0.0)) > 0.5 * answer.error:
            high = max(middle, low + 1)
        else:
            low = min(middle, high - 1)


def repeat(ask: Ask, told: Told, rng: np.random.Generator) -> Iterator[str]:
    """Asks the same things again, hoping for other noise."""
    texts = [f"age >= {int(rng.integers(1, 8))}", "sex = 1", f"job = {int(rng.integers(4))}"]
    for turn in range(10):
        yield texts[turn % 3] if turn % 2 else f"({texts[turn % 3]}) and TRUE"


def complements(ask: Ask, told: Told, rng: np.random.Generator) -> Iterator[str]:
    """Asks a thing and its opposite, to average the noise of the two."""
    for _ in range(5):
        text = f"age between {int(rng.integers(4))} and {int(rng.integers(4, 7))} and sex = {int(rng.integers(2))}"
        yield text
        yield f"not ({text})"


def near_duplicates(ask: Ask, told: Told, rng: np.random.Generator) -> Iterator[str]:
    """Asks nearly the same thing many times: each differs from the first in one cell."""
    for turn in range(8):
        yield f"age >= 3 or (age = {turn % 3} and sex = {turn % 2} and job = {turn % 4})"


def exhaust(ask: Ask, told: Told, rng: np.random.Generator) -> Iterator[str]:
    """Asks whatever is new until nothing is left."""
    for _ in range(12):
        cells = [f"(age = {int(rng.integers(8))} and job = {int(rng.integers(4))})" for _ in range(5)]
        yield " or ".join(cells)


ADVERSARIES = {
    "chase": chase,
    "bisect": bisect,
    "repeat": repeat,
    "complements": complements,
    "near duplicates": near_duplicates,
    "exhaust": exhaust,
}

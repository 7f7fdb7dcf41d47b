"""What an attack found, next to what privacy allows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """How much one attack recovered, over one release or several trials."""

    attack: str
    answers: str
    """`exact`, or the mechanism."""
    people: int
    """Secret bits per trial."""
    queries: int
    trials: int
    recovered: float
    """The share of secret bits guessed right."""
    limit: float | None
    """What no attack exceeds on average if the answers are private; None for exact answers."""
    chance: float = 0.5
    """What guessing the more common value recovers without any answer."""

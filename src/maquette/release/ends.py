"""A predicate that cuts cells, answered from both sides: the records that surely satisfy it and those that may."""

from __future__ import annotations

from dataclasses import dataclass

from maquette.release import words


@dataclass(frozen=True, slots=True)
class Between:
    """The middle between both ends; its error reaches from the lower end's lowest value to the upper end's highest."""

    value: float
    error: float | None
    note: str


def join(low: float, low_error: float | None, high: float, high_error: float | None) -> Between:
    """One answer out of those to both ends.

    Accuracy: if both ends are within their errors, so is the answer to the predicate as it was written.
    """
    value = (low + high) / 2
    surely, maybe = words.percent(min(max(low, 0.0), 1.0)), words.percent(min(max(high, 0.0), 1.0))
    note = f"the middle between those who surely satisfy it, {surely}, and those who may, {maybe}"
    if low_error is None or high_error is None:
        return Between(value, None, note)
    error = max(value - max(low - low_error, 0.0), min(high + high_error, 1.0) - value)
    return Between(value, error, f"{note}; the error covers both")

"""How much may be held at once, and where a query may stand."""

from __future__ import annotations

from maquette.errors import WorkloadError

MOST_ANSWERS = 2**28
"""Answers that may be computed at once (2 GB); larger classes know their size and sensitivity only."""


def check_size(count: int) -> None:
    """Few enough queries to answer all of them?"""
    if count > MOST_ANSWERS:
        raise WorkloadError(
            f"{count:,} queries are too many to answer at once (at most {MOST_ANSWERS:,}); ask a smaller class"
        )


def check_whole(value: object, *, least: int, most: int, what: str) -> None:
    """A whole number within its range?"""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise WorkloadError(f"expected {what} from {least} to {most}, got {value!r}")


def check_index(index: int, count: int) -> None:
    """Is there a query of this number?"""
    if not 0 <= index < count:
        raise WorkloadError(f"expected the number of a query from 0 to {count - 1}, got {index}")

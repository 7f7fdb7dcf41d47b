"""Rough time and memory, so that a plan can say "minutes, not hours". Rates measured on two shared cores."""

from __future__ import annotations

from maquette.mechanisms import shape
from maquette.mechanisms.base import Task
from maquette.mechanisms.consistent import route

COUNTED = 1e8
"""Cell increments per second while counting rows."""
DRAWN = 5e6
"""Noisy values per second: drawn, compressed and stored in the ledger."""
PASSED = 3e8
"""Elements per second of plain array passes."""
START = 0.2
"""Seconds before anything is done."""
_PASSES = 25
_ARRAYS = 9
_LIBRARIES = 250


def seconds(task: Task, *, n: int, cells: int, tables: int) -> float:
    """Counting the tables, noise for the cells, and post-processing with a fit where there is one."""
    fit = 0.0
    if route(task) != "none" and shape.gives_rows(task.queries):
        fit = shape.fit_rounds(task.queries) * shape.fit_pass(task.queries) / PASSED
    return measuring(n=n, cells=cells, tables=tables, answers=cells) + fit


def measuring(*, n: int, cells: int, tables: int, answers: int) -> float:
    """Counting the tables, noise for the cells, a few passes over the answers."""
    return START + n * tables / COUNTED + cells / DRAWN + _PASSES * answers / PASSED


def megabytes(task: Task, *, cells: int) -> float:
    """The tables and answers at their peak, and the histogram where one is fitted."""
    fitted = shape.universe(task.queries) if shape.gives_rows(task.queries) else 0
    return holding(cells + fitted)


def holding(cells: int) -> float:
    """Megabytes for this many cells of eight bytes in every array that is held at once, and the libraries."""
    return _LIBRARIES + _ARRAYS * 8e-6 * cells

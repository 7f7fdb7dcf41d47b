"""Rough time and memory, so that a plan can say "minutes, not hours". Rates measured on two shared cores."""

from __future__ import annotations

from maquette.mechanisms import shape
from maquette.mechanisms.base import Task
from maquette.mechanisms.consistent import route

COUNTED = 1e8
"""Cell increments per second while counting rows."""
DRAWN = 2e7
"""Noise values per second."""
PASSED = 3e8
"""Elements per second of plain array passes."""
START = 0.05


def seconds(task: Task, *, n: int, cells: int, tables: int) -> float:
    """Counting the tables, drawing noise for the cells, post-processing."""
    counting = n * tables / COUNTED
    noise = cells / DRAWN
    passes = 12 * cells / PASSED
    fit = 0.0
    if route(task) != "none" and shape.gives_rows(task.queries):
        fit = shape.fit_rounds(task.queries) * shape.fit_pass(task.queries) / PASSED
    return START + counting + noise + passes + fit


def megabytes(task: Task, *, cells: int) -> float:
    """Tables of eight bytes: exact, noisy, answers and work space; and the histogram where one is fitted."""
    held = 6 * 8 * cells
    if shape.gives_rows(task.queries):
        held += 6 * 8 * shape.universe(task.queries)
    return 100 + held / 1e6

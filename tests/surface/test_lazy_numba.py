"""Loops are compiled when they first run, together with the loops that they call."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from maquette.core import _lazy_numba as numba


@numba.njit(nogil=True)
def twice(value: int) -> int:
    """Two times a number."""
    return 2 * value


@numba.njit(nogil=True)
def sum_of_doubles(values: Any) -> int:
    total = 0
    for i in range(len(values)):
        total += twice(values[i])
    return total


def test_a_loop_may_call_another():
    inner: Callable[..., Any] = twice
    assert inner.__doc__ == "Two times a number."
    assert sum_of_doubles(np.arange(5)) == 20
    assert not isinstance(sum_of_doubles, numba.Kernel)  # the compiled one has taken its place
    assert inner(4) == 8


def loaded_by(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.slow
def test_numba_is_loaded_by_the_first_count_and_not_before():
    code = (
        "import sys, numpy as np\n"
        "from maquette.models.answers import SmallDatabase\n"
        "from maquette.demo import domain\n"
        "from maquette.queries import marginals\n"
        "before = 'numba' in sys.modules\n"
        "whole = domain()\n"
        "rows = SmallDatabase({name: np.zeros(3, dtype=np.int64) for name in whole.names})\n"
        "rows.answer(marginals(whole, k=1))\n"
        "print(before, 'numba' in sys.modules)"
    )
    assert loaded_by(code) == "False True"


@numba.njit(nogil=True)
def thrice(value: Any) -> Any:
    return 3 * value


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_rests_while_a_loop_is_compiled(enabled: bool):
    compiled = thrice if not isinstance(thrice, numba.Kernel) else thrice.compiled()
    from numba.core import event

    seen: list[bool] = []

    class Look(event.Listener):
        def on_start(self, event: Any) -> None:
            seen.append(gc.isenabled())

        def on_end(self, event: Any) -> None:
            """Nothing."""

    look = Look()
    event.register("numba:compile", look)
    try:
        if not enabled:
            gc.disable()
        assert compiled(5.0 if enabled else 5) == 15  # a type each, so that each is compiled
        assert gc.isenabled() is enabled
    finally:
        gc.enable()
        event.unregister("numba:compile", look)
    assert seen == [False]


@numba.njit(plain=True)
def sum_of_rows(table: Any) -> Any:
    total = np.int64(0)
    for i in range(len(table)):
        row = table[i]
        for j in range(len(row)):
            total += row[j]
    return total


@numba.njit(plain=True)
def length_of_new(size: int) -> int:
    return len(np.empty(size))


def test_a_plain_loop_takes_views_and_is_refused_if_it_makes_an_array():
    """Without what counts the users of an array, one that is made could not be freed."""
    assert sum_of_rows(np.arange(6).reshape(2, 3)) == 15
    from numba.core.errors import TypingError

    with pytest.raises(TypingError, match="array passed into the function as argument"):
        length_of_new(3)

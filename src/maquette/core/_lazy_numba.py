"""Compiled loops without the wait: `njit` as in numba, which is loaded when a loop first runs.

Loading numba takes longer than most commands need altogether, and few of them run a loop.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import cache
from threading import RLock
from typing import Any, ClassVar, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
_compiling = RLock()


class Kernel(Generic[P, R]):
    """A function that numba compiles, or reads from its cache on disk, at the first call."""

    def __init__(self, function: Callable[P, R], options: dict[str, Any]) -> None:
        self._function = function
        self._options = options
        self._compiled: Callable[P, R] | None = None
        self.__doc__ = function.__doc__

    def compiled(self) -> Callable[P, R]:
        """The compiled function. Kernels that it may call are compiled with it: numba knows only its own."""
        with _compiling:
            if self._compiled is None:
                import numba

                _pause_collection()
                self._compiled = numba.njit(**self._options)(self._function)
                names = self._function.__globals__
                for name, value in list(names.items()):
                    if isinstance(value, Kernel):
                        names[name] = value.compiled()
            return self._compiled

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.compiled()(*args, **kwargs)


@cache
def _pause_collection() -> None:
    """From now on Python's collector of cycles rests while numba compiles; what is garbage is collected later.

    A compiler keeps most of its many objects: the collector would look at everything again and again, for nothing.
    """
    from numba.core import event

    class Pause(event.Listener):
        paused: ClassVar[list[bool]] = []  # one function is compiled inside another, under numba's own lock

        def on_start(self, event: Any) -> None:
            self.paused.append(gc.isenabled())
            gc.disable()

        def on_end(self, event: Any) -> None:
            if self.paused.pop():
                gc.enable()

    event.register("numba:compile", Pause())  # pyright: ignore[reportUnknownMemberType]


def njit(*, plain: bool = False, **options: Any) -> Callable[[Callable[P, R]], Kernel[P, R]]:
    """The decorator, with the options of `numba.njit`.

    `plain` loops make no array and write no expression of whole arrays (slices that are views may be taken): what
    numba does for these is left out, and compiled sooner. It refuses a loop that makes one.
    """
    if plain:
        options |= {"_nrt": False, "no_rewrites": True}
    # nobody takes the address of a kernel, which a wrapper of its own would be compiled for
    return lambda function: Kernel(function, {"no_cfunc_wrapper": True, **options})

"""Values that are made once for each name, while others who ask for another name do not wait."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class MadeOnce(Generic[Value]):
    """By name what was made for it. Who asks for a name that is being made waits for that one alone."""

    def __init__(self) -> None:
        self._values: dict[str, Value] = {}
        self._making: dict[str, threading.Lock] = {}
        self._mutex = threading.Lock()

    def get(self, name: str, make: Callable[[], Value]) -> Value:
        """The value of a name; what `make` raises is raised, and the next who asks tries again."""
        with self._mutex:
            if name in self._values:
                return self._values[name]
            making = self._making.setdefault(name, threading.Lock())
        with making:
            with self._mutex:
                if name in self._values:
                    return self._values[name]
            value = make()
            with self._mutex:
                if self._making.get(name) is making:  # not forgotten meanwhile
                    self._values[name] = value
                    del self._making[name]
            return value

    def forget(self, name: str) -> None:
        """Make it anew the next time; what is being made now is not kept."""
        with self._mutex:
            self._values.pop(name, None)
            self._making.pop(name, None)

    def items(self) -> list[tuple[str, Value]]:
        with self._mutex:
            return list(self._values.items())

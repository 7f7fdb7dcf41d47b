"""Values that nobody means: what every public function and command is given in the place of each argument."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np


class Called(Exception):
    """A method of a hostile object was called."""


class Raises:
    """An object whose every method fails."""

    def _fail(self, *_: object, **__: object) -> Any:
        raise Called

    __repr__ = __str__ = __bytes__ = __format__ = __hash__ = __bool__ = __len__ = __iter__ = __next__ = _fail
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __getattr__ = __getitem__ = __contains__ = _fail
    __int__ = __float__ = __index__ = __call__ = __enter__ = __exit__ = __fspath__ = __array__ = _fail
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _fail


class Endless:
    """An iterable without an end."""

    def __iter__(self) -> Endless:
        return self

    def __next__(self) -> str:
        return "age"

    def __repr__(self) -> str:
        return "Endless()"


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def looped() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def values() -> dict[str, Any]:
    """By name, made anew for every call of this function.

    They are also given to functions that write: no text or path here leads out of the folder that a test runs in.
    """
    return {
        "None": None,
        "True": True,
        "0": 0,
        "-1": -1,
        "3": 3,
        "10^30": 10**30,
        "10^400": 10**400,
        "-10^400": -(10**400),
        "0.5": 0.5,
        "-0.0": -0.0,
        "NaN": math.nan,
        "inf": math.inf,
        "-inf": -math.inf,
        "5e-324": 5e-324,
        "1e308": 1e308,
        "1j": 1j,
        "Decimal NaN": Decimal("NaN"),
        "Fraction": Fraction(1, 3),
        "numpy NaN": np.float32("nan"),
        "numpy array": np.array([[0.5, math.nan]]),
        "empty text": "",
        "blank text": " \t\n",
        "text": "0.5",
        "word": "zebra",
        "long number": "1e99999999",
        "NUL": "a\0b",
        "half a character": "\ud800",
        "strange text": "‮age\u200b'\";--\N{COMBINING ACUTE ACCENT}\U0001f600",
        "long text": "x" * 200_000,
        "deep condition": "(" * 3_000 + "age > 1" + ")" * 3_000,
        "bytes": b"age",
        "empty list": [],
        "list of None": [None],
        "list of text": ["a"],
        "list of -1": [-1],
        "list of 5": [5],
        "list of NaN": [math.nan],
        "list of lists": [[["age"]]],
        "deep list": nested(5_000),
        "looped list": looped(),
        "empty tuple": (),
        "empty dictionary": {},
        "dictionary": {"age": object()},
        "dictionary of None": {None: None},
        "set": {"age", 3},
        "endless": Endless(),
        "function": lambda *_, **__: None,
        "class": int,
        "object": object(),
        "raising object": Raises(),
        "list of raising objects": [Raises()],
        "a folder": Path(),
    }

"""Parts of stored models, which a stranger may have written: everything has its declared type, shape and range."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Domain
from maquette.errors import ReleaseError
from maquette.queries.base import Margin
from maquette.queries.marginals import Binned
from maquette.questions.measurement import Size
from maquette.questions.noise import Gaussian, IndependentLaw, Laplace

LARGEST = 10**300
"""Numbers up to here fit a float, and so do their inverses."""
MAX_BINS = 2**28
"""Bins of one table."""
_EXACT = re.compile(r"-?[0-9]{1,4000}(/0*[1-9][0-9]{0,4000})?")
_LAWS: dict[str, tuple[type[IndependentLaw], str, str]] = {
    "laplace": (Laplace, "epsilon", "scale"),
    "gaussian": (Gaussian, "rho", "sigma_squared"),
}


def law_of(data: object) -> IndependentLaw:
    """A law of independent noise from its form in a release file: exact numbers as texts."""
    fields = _object(data, "a law of noise")
    law, price, parameter = _LAWS.get(str(fields.get("law")), (None, "", ""))
    if law is None or set(fields) != {"law", price, parameter}:
        raise ReleaseError("the release states noise of an unknown law")
    amount, width = _fraction(fields[price]), _fraction(fields[parameter])
    if amount is None or amount < 0:
        raise ReleaseError("the release states noise without a price")
    if width is None or width <= 0:
        raise ReleaseError("the release states noise of width 0")
    return law(amount, width)


def size_of(data: object) -> Size:
    """The number of records of a model: public, or with noise of a stated width."""
    fields = _object(data, "the size of a model")
    noise = None if fields.get("noise") is None else law_of(fields["noise"])
    return Size(whole(fields.get("value"), least=-LARGEST), noise, None)


def margin_of(domain: Domain, names: object) -> Margin:
    """Distinct attributes of the domain."""
    margin = tuple(_list(names, "a set of attributes"))
    if len(set(map(str, margin))) < len(margin) or any(name not in domain.names for name in margin):
        raise ReleaseError("the model is over attributes that the domain does not have")
    return cast("Margin", margin)


def table_of(arrays: Mapping[str, NDArray[Any]], name: str, shape: Sequence[int]) -> NDArray[Any]:
    """An array of finite numbers of this shape."""
    table = arrays.get(name)
    if table is None or table.shape != tuple(shape) or not np.isfinite(table).all():
        raise ReleaseError(f"the model has no array '{name}' of finite numbers in the shape that it declares")
    return table


def amounts_of(values: object, count: int, *, positive: bool = False) -> list[float]:
    """So many finite numbers that are not negative."""
    numbers = _list(values, "a list of numbers")
    if len(numbers) != count:
        raise ReleaseError(f"the model declares {len(numbers):,} numbers where {count:,} belong")
    return [amount(value, positive=positive) for value in numbers]


def amount(value: Any, *, positive: bool = False, signed: bool = False) -> float:
    """One finite number."""
    plain = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not plain or not math.isfinite(value) or abs(value) > LARGEST:
        raise ReleaseError(f"the model holds {value!r:.80} in the place of a number")
    if not signed and (value < 0 or (positive and value < 1 / LARGEST)):
        raise ReleaseError("the model holds a number that is too small in the place of a variance")
    return float(value)


def whole(value: object, *, least: int) -> int:
    """One whole number."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST:
        raise ReleaseError(f"the model holds {value!r:.80} in the place of a whole number")
    return value


def binned_of(domain: Domain, named: object) -> Binned:
    """A table in bins that is a partition of the universe."""
    parts = _list(named, "a table in bins")
    if len(parts) not in (2, 3):
        raise ReleaseError("the model holds a table in bins of an unknown form")
    cuts = tuple(
        tuple(whole(start, least=0) for start in _list(cut, "cuts")) for cut in _list(parts[1], "cuts")
    )
    table = Binned(margin_of(domain, parts[0]), cuts)
    if table.bins > MAX_BINS:
        raise ReleaseError("the model holds a table of too many bins")
    if len(parts) == 3:
        runs = [[whole(n, least=0) for n in _list(run, "groups")] for run in _list(parts[2], "groups")]
        if any(len(run) != 2 for run in runs) or sum(run[1] for run in runs) != table.bins:
            raise ReleaseError("the model holds groups that do not fit their bins")
        table = Binned.from_json(parts)
    table.check(domain)
    return table


def _fraction(text: object) -> Fraction | None:
    if text is None:
        return None
    if not isinstance(text, str) or not _EXACT.fullmatch(text):
        raise ReleaseError(f"the release states {text!r:.80} in the place of an exact number")
    value = Fraction(text)
    if abs(value) > LARGEST or (value and abs(value) < Fraction(1, LARGEST)):
        raise ReleaseError("the release states noise whose size is out of range")
    return value


def _object(data: object, what: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise ReleaseError(f"expected {what} as an object, got {type(data).__name__}")
    return cast("dict[str, Any]", data)


def _list(data: object, what: str) -> list[Any]:
    if not isinstance(data, list):
        raise ReleaseError(f"expected {what} as a list, got {type(data).__name__}")
    return cast("list[Any]", data)

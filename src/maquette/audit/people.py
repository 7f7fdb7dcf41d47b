"""What an attacker knows: people with all their attributes, from a text file, coded by the public domain."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Attribute, Domain, Kind
from maquette.errors import SourceError


def read_people(path: str | Path, domain: Domain, *, delimiter: str = ",") -> dict[str, NDArray[np.int64]]:
    """Coded columns of every declared attribute; the file belongs to the auditor and its values are not secret here."""
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file, delimiter=delimiter))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SourceError(f"cannot read {path}: {error}") from None
    if not rows:
        raise SourceError(f"{path} has a header only; expected at least one person")
    missing = [name for name in domain.names if name not in rows[0]]
    if missing:
        raise SourceError(
            f"{path} lacks the declared column '{missing[0]}'; it needs {', '.join(domain.names)}"
        )
    return {a.name: encode(a, [row[a.name] or "" for row in rows], domain.na_values) for a in domain}


def encode(attribute: Attribute, values: list[str], na_values: tuple[str, ...] = ()) -> NDArray[np.int64]:
    """The code of each text; never an error, as in the vault."""
    if attribute.kind is Kind.NUMERIC:
        numbers = np.array([_number(value, na_values) for value in values])
        return np.asarray(attribute.bin_index(numbers), dtype=np.int64)
    cells = {str(value): code for code, value in enumerate(_labels(attribute))}
    codes = [
        attribute.missing_code
        if value.strip() in ("", *na_values)
        else cells.get(value.strip(), attribute.unknown_code)
        for value in values
    ]
    return np.array(codes, dtype=np.int64)


def _labels(attribute: Attribute) -> list[object]:
    return list(attribute.categories if attribute.categories is not None else range(attribute.cells))


def _number(value: str, na_values: tuple[str, ...]) -> float:
    if value.strip() in ("", *na_values):
        return math.nan
    try:
        return float(value)
    except ValueError:
        return math.nan

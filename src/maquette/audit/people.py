"""What an attacker knows: people with all their attributes, from a text file, coded by the public domain."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Domain
from maquette.errors import SourceError
from maquette.gate.owner import encode


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
    found = encode(domain, {name: [row[name] or "" for row in rows] for name in domain.names})
    return {name: codes.astype(np.int64) for name, codes in found.items()}

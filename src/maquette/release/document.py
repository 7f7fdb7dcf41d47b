"""release.json, versions 1 and 2: the statements of a release as plain JSON, and back."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from datetime import datetime
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.accounting.budget import Budget
from maquette.domain import Relation
from maquette.models.answers import Answers, SmallDatabase
from maquette.models.measurement import Receipt, Size, as_json
from maquette.models.stored import law_of
from maquette.queries.base import Queries
from maquette.release.release import Release
from maquette.release.statements import Account, Certificate, Exactness, Guarantee, RowsDistance, Spending
from maquette.release.typed import build, read

FORMAT = 2
"""The newest that can be read. A release with listed answers is written in format 1, one without in format 2."""


def dump(release: Release) -> dict[str, Any]:
    """Everything but the arrays. There is no seed to store: noise comes from the operating system."""
    return {
        "format": 1 if release.listed else 2,
        "software": {"name": "maquette", "version": release.version},
        "created": release.created.isoformat(),
        "watermark": release.watermark,
        "mechanism": release.mechanism,
        "relation": str(release.relation),
        "budget": _budget(release.budget),
        "exactness": release.exactness,
        "beta": release.beta,
        "queries": release.workload.describe(),
        "attributes": {"measured": list(release.measured), "not measured": list(release.unmeasured)},
        "answers": {"count": release.workload.count, "denominator": release.answers.denominator},
        "rows": None if release.database is None else release.database.m,
        "size": _size(release.size),
        "guarantee": _guarantee(release.guarantee),
        "certificate": None if release.certificate is None else asdict(release.certificate),
        "spending": [asdict(payment) for payment in release.spending],
        "account": None if release.account is None else asdict(release.account),
        "receipts": [asdict(receipt) for receipt in release.receipts],
        "parameters": release.parameters,
        "notes": list(release.notes),
    } | _rows_distance(release)


def _rows_distance(release: Release) -> dict[str, Any]:
    """Releases of earlier versions do not say how far their rows lie from the answers."""
    return {} if release.rows_distance is None else {"rows_distance": asdict(release.rows_distance)}


def _guarantee(guarantee: Guarantee) -> dict[str, Any]:
    """What was asked for is stored where something was: earlier versions know no such fields."""
    stored = asdict(guarantee)
    return {name: value for name, value in stored.items() if value is not None}


def _budget(budget: Budget) -> dict[str, Any]:
    """Releases of earlier versions do not say how a delta was counted: by zCDP."""
    counted = {} if budget.pure else {"accounting": budget.accounting}
    return {"epsilon": budget.epsilon, "delta": budget.delta} | counted


def parse(
    data: dict[str, Any],
    *,
    workload: Queries,
    answers: Answers,
    deviations: NDArray[Any] | None,
    database: SmallDatabase | None,
    model: Any,
) -> Release:
    """A release from its document and its arrays."""
    made = datetime.fromisoformat(read(str, data["created"], where="created"))
    return Release(
        workload=workload,
        answers=answers,
        deviations=deviations,
        database=database,
        model=model,
        mechanism=read(str, data["mechanism"], where="mechanism"),
        relation=Relation(data["relation"]),
        budget=Budget(**data["budget"]),
        beta=data["beta"],
        size=_parse_size(data["size"]),
        guarantee=build(Guarantee, data["guarantee"], where="guarantee"),
        certificate=read(Certificate | None, data["certificate"], where="certificate"),
        rows_distance=read(RowsDistance | None, data.get("rows_distance"), where="rows_distance"),
        exactness=read(Exactness, data["exactness"], where="exactness"),
        spending=read(tuple[Spending, ...], data["spending"], where="spending"),
        account=read(Account | None, data["account"], where="account"),
        receipts=read(tuple[Receipt, ...], data["receipts"], where="receipts"),
        parameters=read(dict, data["parameters"], where="parameters"),
        notes=read(tuple[str, ...], data["notes"], where="notes"),
        watermark=read(str | None, data["watermark"], where="watermark"),
        version=read(str, data["software"]["version"], where="software.version"),
        created=made,
    )


def to_text(document: dict[str, Any]) -> str:
    """JSON that every reader understands: no NaN, no infinity, exact numbers as texts."""
    return json.dumps(plain(document), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def plain(value: Any) -> Any:
    """A value in JSON's own types."""
    match value:
        case dict():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case np.ndarray():
            return plain(value.tolist())
        case np.generic():
            return plain(value.item())
        case float() if not math.isfinite(value):
            return str(value)
        case Fraction():
            return str(value)
        case None | bool() | int() | float() | str():
            return value
        case _:
            raise TypeError(f"a release cannot store a {type(value).__name__}")


def _size(size: Size) -> dict[str, Any]:
    return {
        "value": size.value,
        "noise": None if size.noise is None else as_json(size.noise),
        "receipt": None if size.receipt is None else asdict(size.receipt),
    }


def _parse_size(data: dict[str, Any]) -> Size:
    receipt = read(Receipt | None, data["receipt"], where="size.receipt")
    return Size(read(int, data["value"], where="size.value"), law_of(data["noise"]), receipt)

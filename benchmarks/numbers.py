"""Means of numeric columns: by equal cells alone, and by bounds and a unit, beside the true ones.

All pairs of Adult (48,842 records, 14 columns) at epsilon 1, delta 1e-9. In `cells` its domain is as a first user has
it; in `unit` every numeric column has its bounds and whole numbers as its unit instead of bins. Three releases each:
the figures are those of one, the mean stated error, and the mean and largest distance from the truth.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv as csv

import maquette as mq
from maquette.accounting.ledger import Ledger
from maquette.core.budget import Budget
from maquette.domain import Domain

COLUMNS = ("age", "hours-per-week", "capital-gain")
RUNS = 3
WAYS = ("cells", "unit")


def run(data: Path | None) -> list[dict[str, Any]]:
    if data is None:
        raise SystemExit("numbers needs --data, a folder with adult_raw.csv and adult_raw.domain.json")
    declared = json.loads((data / "adult_raw.domain.json").read_text(encoding="utf-8"))
    source = data / "adult_raw.csv"
    rows = csv.read_csv(source)
    return [figure for way in WAYS for figure in _figures(way, _domain(declared, way), source, rows)]


def _domain(declared: dict[str, Any], way: str) -> Domain:
    entries = [dict(entry) for entry in declared["attributes"]]
    for entry in entries:
        if way == "unit" and entry["kind"] == "numeric":
            del entry["bins"]
            entry |= {"unit": 1, "integer": True}
    return Domain.from_dict({"attributes": entries, "na_values": declared.get("na_values", [])})


def _figures(way: str, domain: Domain, source: Path, rows: Any) -> Iterator[dict[str, Any]]:
    begin, releases = time.process_time(), []
    for number in range(RUNS):
        table = mq.open(source, domain)
        book = Ledger.memory(
            budget=Budget(1.0, 1e-9),
            domain_fingerprint=domain.fingerprint,
            name=f"run {number}",
            relation="add-remove",
        )
        releases.append(mq.release(table, mq.marginals(domain, 2), epsilon=1.0, delta=1e-9, ledger=book))
    seconds = (time.process_time() - begin) / RUNS
    sex = rows.column("sex").to_numpy(zero_copy_only=False)
    for column in COLUMNS:
        values = rows.column(column).to_numpy()
        stated = [release.sql(f'SELECT avg("{column}") AS m FROM t').to_pylist()[0] for release in releases]
        yield _row(way, column, "all", float(values.mean()), stated, seconds)
        tables = [release.table("sex", values=f'mean("{column}")').to_pylist() for release in releases]
        for group in ("Female", "Male"):
            of_group = [next(row for row in table if row["sex"] == group) for table in tables]
            stated = [{"m": row["value"], "m error": row["error"]} for row in of_group]
            yield _row(way, column, group, float(values[sex == group].mean()), stated, seconds)


def _row(
    way: str, column: str, group: str, true: float, stated: list[dict[str, Any]], seconds: float
) -> dict[str, Any]:
    off = np.array([abs(row["m"] - true) for row in stated])
    return {
        "domain": way,
        "figure": f"avg({column})",
        "records": group,
        "true": round(true, 3),
        "one release": round(stated[0]["m"], 3),
        "stated within": round(float(np.mean([row["m error"] for row in stated])), 3),
        "off, mean": round(float(off.mean()), 3),
        "off, most": round(float(off.max()), 3),
        "runs": RUNS,
        "epsilon": 1.0,
        "delta": 1e-9,
        "cpu_seconds": round(seconds, 1),
    }

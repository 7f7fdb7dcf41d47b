"""The tables that accuracy is measured on: public ones from a folder, and generated ones."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

import maquette as mq
from maquette.domain import Attribute, Domain, Kind
from maquette.queries.marginals import Marginals

FILES = {
    "adult": "adult.csv",
    "msnbc": "msnbc.parquet",
    "nist_acs": "nist_acs.csv",
    "chicago_taxi": "chicago_taxi.parquet",
    "salary": "salary.parquet",
}
OTHER_FILES = {
    "titanic": "titanic.csv",
    "adult_raw": "adult_raw.csv",
    "flights": "flights.parquet",
    "diamonds": "diamonds.csv",
    "pums_1000": "pums_1000.csv",
    "penguins": "penguins.csv",
    "hair_eye": "hair_eye.csv",
}
"""Tables that the accuracy benchmark leaves out; the families have all of them."""
NAMES = (*FILES, "adult-reduced", "xor")
WIDEST = 100_000
"""Cells of a marginal, where all of a table's marginals together would be more than can be compared."""
MAX_QUERIES = 25_000_000

_REDUCED = ("education-num", "marital-status", "occupation", "race", "sex", "income>50K")
_FIRST_AGE = 16
"""The age of code 0 in the coded adult table."""


@dataclass(frozen=True, slots=True)
class Made:
    """A table as the public interface opens it."""

    domain: Domain
    source: Any
    """A path or an Arrow table."""

    def open(self) -> mq.Table:
        return mq.open(self.source, domain=self.domain)


def load(name: str, data: Path | None) -> Made:
    """One of `NAMES`."""
    if name == "xor":
        return xor()
    if data is None:
        raise SystemExit(f"table {name} needs --data DIR")
    if name == "adult-reduced":
        return adult_reduced(data)
    return Made(Domain.load(data / f"{name}.domain.json"), data / (FILES | OTHER_FILES)[name])


def workload(domain: Domain, k: int) -> tuple[Marginals, str]:
    """All k-way marginals and their name; the narrow ones of them where they are too many to be compared."""
    every = mq.marginals(domain, k=k)
    if every.count <= MAX_QUERIES:
        return every, f"all {k}-way marginals"
    narrow = [m for m in every.margins if domain.cells(m) <= WIDEST]
    return mq.marginals(domain, attributes=narrow), f"all {k}-way marginals of at most {WIDEST:,} cells"


def adult_reduced(data: Path) -> Made:
    """Seven columns of adult, age in decades: |X| = 336,000, as in the peers' figures."""
    table = csv.read_csv(data / "adult.csv")
    sizes = {a.name: a.size for a in Domain.load(data / "adult.domain.json")}
    age = (table.column("age").to_numpy() + _FIRST_AGE) // 10
    columns = {name: table.column(name).to_numpy() for name in _REDUCED} | {"age": age}
    return coded(columns, {name: sizes[name] for name in _REDUCED} | {"age": 10})


def xor(n: int = 50_000) -> Made:
    """Pure three-way structure: triples whose pairs say (nearly) nothing, among correlated and independent columns."""
    rng = np.random.default_rng(123)
    a, b = rng.integers(0, 2, (2, n))
    parity = a ^ b ^ (rng.random(n) < 0.05)
    c, d = rng.integers(0, 4, (2, n))
    modulo = np.where(rng.random(n) < 0.9, (c + d) % 4, rng.integers(0, 4, n))
    e, f = rng.integers(0, 3, (2, n))
    product = np.where(rng.random(n) < 0.7, (e * f + f) % 3, rng.integers(0, 3, n))
    factor = rng.normal(size=n)
    measured = [
        np.clip(np.floor(10 + 4 * (w * factor + math.sqrt(1 - w * w) * rng.normal(size=n))), 0, 19)
        for w in (0.8, 0.5, 0.3)
    ]
    mixed = parity ^ (measured[0] > 10)
    skew = rng.choice(6, size=n, p=[0.5, 0.2, 0.1, 0.1, 0.05, 0.05])
    columns = [a, b, parity, c, d, modulo, e, f, product, *measured, mixed, skew]
    sizes = [2, 2, 2, 4, 4, 4, 3, 3, 3, 20, 20, 20, 2, 6]
    return coded(
        {f"x{i}": np.asarray(column, dtype=np.int64) for i, column in enumerate(columns)},
        {f"x{i}": size for i, size in enumerate(sizes)},
    )


def chain(n: int, d: int, *, levels: int = 10) -> Made:
    """A generated table of any size: every column leans on an earlier one."""
    rng = np.random.default_rng(5)
    columns = [rng.integers(0, levels, n).astype(np.uint8)]
    for j in range(1, d):
        parent, weight, factor = columns[rng.integers(0, j)], 0.8 * rng.random(), int(rng.integers(1, 4))
        leans = (parent * np.int64(factor) + rng.integers(0, 2, n)) % levels
        own = np.minimum(rng.geometric(0.3, n) - 1, levels - 1)
        columns.append(np.where(rng.random(n) < weight, leans, own).astype(np.uint8))
    names = [f"x{i}" for i in range(d)]
    return coded(dict(zip(names, columns, strict=True)), dict.fromkeys(names, levels))


def first_pairs(domain: Domain, count: int) -> Marginals:
    """The first so many 2-way marginals."""
    return mq.marginals(
        domain, attributes=list(itertools.islice(itertools.combinations(domain.names, 2), count))
    )


def coded(columns: dict[str, Any], sizes: dict[str, int]) -> Made:
    domain = Domain(tuple(Attribute(name, Kind.ORDINAL, codes=size) for name, size in sizes.items()))
    narrow = {
        name: np.asarray(codes).astype(np.min_scalar_type(sizes[name] - 1)) for name, codes in columns.items()
    }
    return Made(domain, pa.table(narrow))

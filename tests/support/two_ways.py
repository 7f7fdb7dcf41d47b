"""Questions that can be written in several ways, over small releases of several mechanisms on random tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import maquette as mq
from maquette.domain import Attribute, Domain, Kind
from maquette.queries import condition, from_json, weights
from maquette.queries.condition import Every, Leaf, Runs
from maquette.queries.names import condition_text, runs_text

MECHANISMS = ("sculpt", "residual", "histogram-gaussian", "histogram-laplace", "gaussian", "laplace")


@dataclass(frozen=True)
class Told:
    """What one way of asking says: the share, its ends, and how it was asked."""

    way: str
    value: float
    low: float | None
    high: float | None

    def agrees(self, other: Told) -> bool:
        ours, theirs = (self.value, self.low, self.high), (other.value, other.low, other.high)
        return all(
            (a is None) == (b is None) and (a is None or b is None or abs(a - b) < 1e-9)
            for a, b in zip(ours, theirs, strict=True)
        )


def random_domain(rng: np.random.Generator) -> Domain:
    """Three or four attributes of few cells: numbers, categories and codes, some with missing or other values."""
    kinds = [
        {"kind": "numeric", "bounds": [0, 40], "bins": 4},
        {"kind": "numeric", "bounds": [1, 6], "bins": 5, "integer": True},
        {"kind": "categorical", "categories": ["red", "green", "blue"]},
        {"kind": "boolean", "categories": ["no", "yes"]},
        {"kind": "ordinal", "size": 4},
    ]
    chosen = rng.permutation(len(kinds))[: int(rng.integers(3, 5))]
    extras = [{"nullable": bool(rng.integers(2)), "overflow": bool(rng.integers(2))} for _ in chosen]
    return Domain.from_dict(
        {
            "attributes": [
                {"name": f"c{i}", **kinds[k], **extra}
                for i, (k, extra) in enumerate(zip(chosen, extras, strict=True))
            ]
        }
    )


def random_release(rng: np.random.Generator, mechanism: str, folder: Path) -> mq.Release:
    """Two-way marginals, sometimes with those of one attribute, of a table of 300 to 3,000 records."""
    domain = random_domain(rng)
    common = rng.binomial(3, 0.4, int(rng.integers(300, 3000)))
    codes = {a.name: (rng.binomial(a.size - 1, 0.5, len(common)) + common) % a.size for a in domain}
    table = mq.open(_frame(domain, codes, folder / f"t{rng.integers(2**40)}.csv"), domain=domain)
    orders = [[2], [1, 2]][int(rng.integers(2))]
    return mq.release(
        table,
        mq.marginals(domain, k=orders),
        epsilon=float(rng.choice([0.5, 2.0])),
        delta=0.0 if "laplace" in mechanism else 1e-6,
        ledger=folder / f"l{rng.integers(2**40)}.ledger",
        mechanism=mechanism,
    )


def _frame(domain: Domain, codes: dict[str, np.ndarray], place: Path) -> Path:
    """The table as a file: a value for every code, nothing for missing ones, one that is not declared for others."""
    columns = {a.name: [_value(a, int(code)) for code in codes[a.name]] for a in domain}
    rows = zip(*columns.values(), strict=True)
    place.write_text("\n".join([",".join(columns), *(",".join(row) for row in rows)]) + "\n")
    return place


def _value(attribute: Attribute, code: int) -> str:
    if code == attribute.null_cell:
        return ""
    if code == attribute.overflow_cell:
        return "99"
    if attribute.kind is Kind.NUMERIC:
        return str(int(attribute.edge(code)))
    return str(attribute.categories[code] if attribute.categories is not None else code)


def random_sets(rng: np.random.Generator, domain: Domain) -> dict[str, Runs]:
    """A conjunction on one to three attributes: single cells, ranges and lists of cells."""
    names = [str(name) for name in rng.permutation(domain.names)[: int(rng.integers(1, 4))]]
    sets: dict[str, Runs] = {}
    for name in names:
        size = domain[name].size
        if rng.integers(2):
            sets[name] = condition.runs_of([int(rng.integers(size))])
        else:
            some = np.flatnonzero(rng.random(size) < 0.5)
            sets[name] = condition.runs_of(some.tolist() if 0 < len(some) < size else [0])
    return sets


def ways(rng: np.random.Generator, release: mq.Release) -> Iterator[Told]:
    """One set of records, asked for in every way that there is."""
    domain = release.domain
    sets = random_sets(rng, domain)
    leaves = tuple(Leaf(name, runs) for name, runs in sets.items())
    target = condition.simplify(domain, Every(leaves))
    text = condition_text(domain, target)
    assert text is not None
    yield _answered("answer", release, text)
    others = [runs_text(domain[leaf.attribute], leaf.runs) for leaf in leaves]
    yield _answered("answer, turned round", release, " AND ".join(f"({one})" for one in reversed(others)))
    stored = {"format": "maquette-queries", "version": 1, "queries": {"kind": "predicate", "where": text}}
    yield _answered("JSON", release, from_json(domain, _json(domain, stored, text)))
    names = tuple(name for name in domain.names if name in sets)
    mask = condition.table_mask(domain, target, names).astype(float).reshape(1, -1)
    yield _answered("weights", release, weights(domain, mask, attributes=list(names)))
    yield from _told("SQL with WHERE", release.sql(f"select share() as s from t where {text}"))
    yield from _told("SQL with FILTER", release.sql(f"select share() filter (where {text}) as s from t"))
    yield from _told("SQL with SHARE", release.sql(f"select share({text}) as s from t"))
    single = {name: runs[0][0] for name, runs in sets.items() if condition.count(runs) == 1}
    if not single:
        return
    by = [str(name) for name in rng.permutation(list(single))[: int(rng.integers(1, len(single) + 1))]]
    rest = [f"({one})" for one, leaf in zip(others, leaves, strict=True) if leaf.attribute not in by]
    where = " AND ".join(rest) or None
    key = {name: domain[name].label(single[name]) for name in by}
    rows = release.table(*by, values="share()", where=where).to_pylist()
    (row,) = [row for row in rows if all(row[name] == label for name, label in key.items())]
    yield Told("table", row["value"], row["lower"], row["upper"])
    said = f"where {where}" if where else ""
    table = release.sql(f"select {', '.join(by)}, share() as s from t {said} group by {', '.join(by)}")
    yield from _told("SQL with GROUP BY", table, key)


def _json(domain: Domain, stored: dict[str, Any], text: str) -> str:
    """The form that the library writes for a predicate."""
    from maquette.queries import to_json

    written = json.loads(to_json(mq.where(domain, text)))
    assert written["queries"] == stored["queries"]
    return json.dumps(written)


def _answered(way: str, release: mq.Release, query: Any) -> Told:
    answer = release.answer(query)
    return Told(f"{way}: {answer.query}", answer.value, answer.low, answer.high)


def _told(way: str, table: Any, key: dict[str, str] | None = None) -> Iterator[Told]:
    for row in table.to_pylist():
        if all(row[name] == label for name, label in (key or {}).items()):
            yield Told(way, row["s"], row["s lower"], row["s upper"])


def pairs(
    seed: int, folder: Path, *, questions: int, mechanisms: tuple[str, ...] = MECHANISMS
) -> Iterator[tuple[Told, Told]]:
    """Each way of asking beside the first, for so many questions to a release of every mechanism."""
    rng = np.random.default_rng(seed)
    for mechanism in mechanisms:
        release = random_release(rng, mechanism, folder)
        for _ in range(questions):
            first, *more = ways(rng, release)
            yield from ((first, other) for other in more)

"""What the golden files hold, computed anew: small public tables, seeded noise, everything a user relies on.

Each function returns plain JSON. Times, random blinds, heads of the chain and places on the disk are left out; so are
sentences, since they may be said better.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import maquette as mq
from golden import seam

VOLATILE = {
    "blind",
    "created",
    "opened",
    "head",
    "when",
    "folder",
    "location",
    "receipt",
    "receipts",
    "files",
}
"""Fields that hold a time, something random or a place, whatever they stand in."""
LATER = {"statement", "classes"}
"""Fields that came after the files were made: by what an error is covered, certificates of classes of questions."""
OF_A_RUN = re.compile(r"binding-[0-9a-f]{64}|[0-9]+:[0-9a-f]{64}")
"""Texts that hold the digest of a whole release, with its time, or a head of the chain."""
SENTENCE = 4
"""Texts with at least so many spaces are for people."""
LISTED = 200
"""Released values of a step up to this number are stored one by one, longer ones by their digest."""

DOMAIN = mq.Domain.from_dict(
    {
        "attributes": [
            {
                "name": "age",
                "kind": "numeric",
                "bounds": [0, 90],
                "bins": 6,
                "integer": True,
                "nullable": True,
            },
            {
                "name": "region",
                "kind": "categorical",
                "categories": ["north", "south", "west"],
                "overflow": True,
                "nullable": False,
            },
            {"name": "member", "kind": "boolean", "categories": ["no", "yes"], "nullable": False},
            {"name": "score", "kind": "ordinal", "categories": [0, 1, 2, 3], "nullable": True},
        ],
        "na_values": ["?"],
    }
)
CLOSED = mq.Domain.from_dict(
    {
        "attributes": [
            {"name": "height", "kind": "numeric", "edges": [0, 0.5, 2.5, 7, 100], "nullable": False},
            {"name": "smoker", "kind": "boolean", "categories": ["f", "t"], "nullable": False},
            {"name": "tall", "kind": "boolean", "categories": ["f", "t"], "nullable": False},
            {"name": "left", "kind": "boolean", "categories": ["f", "t"], "nullable": False},
        ]
    }
)
ROWS = 300
MANY = 3000
"""Records of the table that sessions ask: with fewer, few of them can be planned."""
QUESTIONS = [
    "age < 30",
    "member = 'yes'",
    "member = 'no'",
    "age >= 30 and member = 'yes'",
    "region = 'north'",
    "score in (1, 2)",
    "region <> 'south' or age >= 60",
    "age between 10 and 70",
    "score is null",
]


def columns(rows: int = ROWS) -> dict[str, list[str]]:
    """A table by arithmetic, with a few values that no declaration foresaw."""
    index = range(rows)
    return {
        "age": ["" if i % 37 == 5 else str((i * i // 7 + 3 * i) % 97) for i in index],
        "region": [
            ("north", "north", "south", "west", "north", "east")[(i * 5 + i // 11) % 6] for i in index
        ],
        "member": ["yes" if (i * i // 7 + 3 * i) % 97 > 40 and i % 3 else "no" for i in index],
        "score": [("0", "1", "2", "3", "?", "1", "2")[(i + i * i // 13) % 7] for i in index],
    }


def table(rows: int = ROWS) -> mq.Table:
    return mq.open(pa.table(columns(rows)), domain=DOMAIN, name="people")


# --- what is left out ----------------------------------------------------------------------------------------------


def kept(value: Any, *, sentences: bool = False) -> Any:
    """The value in JSON's own types without what changes from run to run."""
    match value:
        case dict():
            return {
                str(name): kept(item, sentences=sentences)
                for name, item in value.items()
                if name not in VOLATILE | LATER
            }
        case list() | tuple():
            return [kept(item, sentences=sentences) for item in value]
        case str() if not sentences and value.count(" ") >= SENTENCE:
            return "<sentence>"
        case str() if OF_A_RUN.fullmatch(value):
            return "<of this run>"
        case None | bool() | int() | float() | str():
            return value
        case _ if dataclasses.is_dataclass(value):
            found = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
            return kept(found, sentences=sentences)
        case _:
            return str(value)


def digest(data: bytes | str) -> str:
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


# --- queries and domains --------------------------------------------------------------------------------------------


def all_queries() -> dict[str, mq.Queries]:
    matrix = [[(3 * i + j) % 2 for j in range(4)] for i in range(3)]
    fractional = [[0, 0.25, 0.5, 1], [1, 0.3, 0, 0.125]]
    return {
        "marginals 1": mq.marginals(DOMAIN, k=1),
        "marginals 1 2": mq.marginals(DOMAIN, k=[1, 2]),
        "marginals 3": mq.marginals(DOMAIN, k=3),
        "marginals named": mq.marginals(DOMAIN, attributes=[("age", "region"), ("member",)]),
        "points": mq.points(DOMAIN, ["region", "member"]),
        "points all": mq.points(DOMAIN),
        "thresholds": mq.thresholds(DOMAIN, "age"),
        "prefixes": mq.prefixes(DOMAIN, "score"),
        "ranges": mq.ranges(DOMAIN, "age"),
        "ranges of two": mq.ranges(DOMAIN, "age", "score"),
        "boxes": mq.boxes(DOMAIN, [{"age": (1, 3)}, {"age": (0, 4), "member": (1, 1)}, {}]),
        "conjunctions": mq.conjunctions(CLOSED, 2),
        "conjunctions literals": mq.conjunctions(CLOSED, 2, literals=True, attributes=["smoker", "left"]),
        "halfspaces": mq.halfspaces(DOMAIN, ["age", "score"], [[1, 2], [0.5, -1]], [4, 0.25]),
        "weights": mq.weights(CLOSED, matrix, attributes=["smoker", "left"]),
        "weights fractional": mq.weights(CLOSED, fractional, attributes=["height"]),
        "where": mq.where(DOMAIN, "age >= 30 and (region = 'north' or not member = 'yes')"),
        "where cut": mq.where(DOMAIN, "age between 10 and 70"),
        "predicates": seam.predicates(DOMAIN, QUESTIONS),
        "union": mq.union(
            mq.marginals(DOMAIN, k=2), mq.prefixes(DOMAIN, "age"), mq.where(DOMAIN, "score = 1")
        ),
    }


def queries() -> dict[str, Any]:
    """Stored forms, hashes and facts of every class of queries, and of two domains."""
    found: dict[str, Any] = {
        name: {
            "json": json.loads(seam.to_json(one)),
            "canonical_hash": seam.canonical_hash(one),
            "count": one.count,
            "attributes": list(one.attributes),
        }
        for name, one in all_queries().items()
    }
    for name, domain in {"domain": DOMAIN, "domain closed": CLOSED}.items():
        found[name] = {"json": domain.to_dict(), "fingerprint": domain.fingerprint, "size": domain.size}
    return found


# --- releases -------------------------------------------------------------------------------------------------------

PURE: dict[str, Any] = {"epsilon": 1.0}
APPROXIMATE = PURE | {"delta": 1e-6}
TWO, AGES = mq.marginals(DOMAIN, k=2), mq.prefixes(DOMAIN, "age")
EVERYTHING = mq.union(mq.marginals(DOMAIN, k=3), AGES)
RELEASES: dict[str, tuple[mq.Queries, dict[str, Any]]] = {
    "laplace": (mq.union(TWO, AGES), PURE),
    "laplace certificate": (
        TWO,
        PURE | {"mechanism": "laplace", "certificate": 0.1, "relation": "replace-one"},
    ),
    "linf": (mq.union(mq.marginals(DOMAIN, k=1), AGES), PURE),
    "gaussian": (TWO, APPROXIMATE),
    "gaussian zcdp": (TWO, APPROXIMATE | {"mechanism": "gaussian", "accounting": "zcdp", "post": "none"}),
    "histogram-laplace": (TWO, PURE),
    "histogram-gaussian": (TWO, APPROXIMATE | {"rows": 150}),
    "residual": (TWO, APPROXIMATE),
    "residual-cells": (TWO, {"epsilon": 2.0, "delta": 1e-6, "groups": True}),
    "sculpt": (EVERYTHING, APPROXIMATE | {"rows": 400}),
    "sculpt small": (mq.marginals(DOMAIN, k=3), PURE | {"mechanism": "sculpt", "rows": "small"}),
    "sculpt replace-one": (TWO, APPROXIMATE | {"mechanism": "sculpt", "relation": "replace-one"}),
    "smalldb": (AGES, PURE),
    "smalldb alpha": (AGES, PURE | {"mechanism": mq.SmallDb(alpha=0.4), "relation": "replace-one"}),
    "roth": (AGES, PURE | {"weight": "score"}),
    "tree": (AGES, PURE),
    "tree zcdp": (AGES, APPROXIMATE | {"mechanism": "tree", "accounting": "zcdp"}),
    "mw": (AGES, APPROXIMATE),
    "mwem": (mq.marginals(DOMAIN, k=2), APPROXIMATE),
    "auto": (TWO, PURE | {"mechanism": "auto", "beta": 0.1}),
    "predicates": (seam.predicates(DOMAIN, QUESTIONS[:6]), PURE | {"mechanism": "auto", "key": "a key"}),
    "square-root": (AGES, APPROXIMATE),
    "factorisation": (AGES, APPROXIMATE),
    "product": (mq.union(AGES, mq.marginals(DOMAIN, attributes=[["age", "region"]])), APPROXIMATE),
    "knorm": (mq.marginals(DOMAIN, attributes=[["region"]]), PURE | {"relation": "replace-one"}),
}
"""One or more for every mechanism; the first word names it where the options do not."""
FLOATS = ("sculpt", "mw", "mwem", "factorisation", "knorm", "product")
"""Mechanisms whose choices follow from long sums of floats, which another processor may round otherwise."""


def mechanism_of(name: str) -> str:
    return name.split(" ")[0]


def release(name: str, folder: Path) -> dict[str, Any]:
    """One release: its ledger, the folder it is stored in, and answers to further questions."""
    workload, options = RELEASES[name]
    options: dict[str, Any] = {"mechanism": mechanism_of(name)} | options
    accounting = options.get("accounting", "gaussian")
    book = mq.Ledger.memory(
        budget=mq.Budget(options["epsilon"], options.get("delta", 0.0), accounting),
        relation=mq.Relation(options.get("relation", "add-remove")),
        domain_fingerprint=DOMAIN.fingerprint,
        name="golden",
    )
    with seam.seeded(list(RELEASES).index(name)):
        made = mq.release(table(), workload, ledger=book, **options)
    place = made.save(folder / name.replace(" ", "-"), report=False)
    return {
        "entries": entries(book),
        "document": kept(json.loads((place / "release.json").read_text())),
        "stored": sorted(file.name for file in place.iterdir()),
        "workload": digest((place / "workload.json").read_text()),
        "answers": numbers(place / "answers.parquet"),
        "rows": rows(place),
        "model": model(place / "model.npz"),
        "questions": [asked(made, question) for question in QUESTIONS],
        "stated": kept(made.stated),
    }


def entries(book: mq.Ledger) -> list[dict[str, Any]]:
    """The chain, without what ties it to one run."""
    found: list[dict[str, Any]] = []
    for entry in book.entries(payloads=True):
        one: dict[str, Any] = {
            "kind": entry.kind,
            "key": entry.key,
            "parent": entry.parent,
            "tag": entry.tag,
            "request": entry.request,
            "units": entry.units,
            "slack": entry.slack,
            "envelope": entry.envelope,
            "body": kept(dict(entry.body), sentences=True),
        }
        if entry.kind in ("open", "bind"):  # hold the random salt and the commitment that it hides
            one = {"kind": entry.kind, "body": sorted(entry.body)}
        elif "binding" in (entry.tag, entry.body.get("ask")) or entry.key.startswith("binding"):
            # digests of the whole release, and so of its time
            one = {"kind": entry.kind, "tag": entry.tag, "units": entry.units, "body": sorted(entry.body)}
        elif entry.payload is not None:
            one["values"] = released(entry.payload)
        found.append(one)
    return found


def released(payload: bytes) -> Any:
    try:
        arrays = seam.values_of(payload)
    except ValueError:
        return {"sha256": digest(payload), "bytes": len(payload)}
    listed = sum(map(len, arrays)) <= LISTED
    return {"lengths": [len(a) for a in arrays], "values": arrays if listed else digest(json.dumps(arrays))}


def numbers(file: Path) -> Any:
    """The stored answers and their deviations, column by column."""
    if not file.exists():
        return None
    stored = pq.read_table(file)
    stored = stored.select([name for name in stored.column_names if name in ("numerator", "deviation")])
    return {
        "names": stored.column_names,
        "values": {name: kept(stored[name].to_pylist(), sentences=True) for name in stored.column_names},
    }


def rows(place: Path) -> Any:
    """The small database: exact digests, and all one-way and two-way tables of its codes."""
    if not (place / "codes.parquet").exists():
        return None
    codes, real = pq.read_table(place / "codes.parquet"), pq.read_table(place / "rows.parquet")
    columns = {name: codes[name].to_numpy().astype(np.int64) for name in codes.column_names}
    counted = {name: count(column) for name, column in columns.items()}
    names = list(columns)
    for i, first in enumerate(names):
        for second in names[i + 1 :]:
            counted[f"{first} {second}"] = count(columns[first] * 1000 + columns[second])
    return {
        "count": codes.num_rows,
        "names": real.column_names,
        "tables": counted,
        "codes": digest(json.dumps({name: column.tolist() for name, column in columns.items()})),
        "real": digest(json.dumps(real.to_pydict(), default=str)),
    }


def count(codes: Any) -> dict[str, int]:
    values, counts = np.unique(codes, return_counts=True)
    return {str(value): int(number) for value, number in zip(values, counts, strict=True)}


def model(file: Path) -> Any:
    if not file.exists():
        return None
    with np.load(file, allow_pickle=False) as stored:
        shapes = {name: [str(stored[name].dtype.kind), *stored[name].shape] for name in sorted(stored.files)}
        whole = hashlib.sha256()
        for name in sorted(stored.files):
            whole.update(np.ascontiguousarray(stored[name]).tobytes())
    return {"arrays": shapes, "exact": whole.hexdigest()}


def asked(made: mq.Release, question: str) -> Any:
    try:
        return kept(made.answer(question))
    except mq.MaquetteError as error:
        return {"refused": type(error).__name__}


# --- sessions -------------------------------------------------------------------------------------------------------

SESSIONS: dict[str, dict[str, Any]] = {
    "pmw": {"epsilon": 4.0, "alpha": 0.2},
    "pmw spend": {"epsilon": 4.0},
    "pmw delta": {"epsilon": 4.0, "delta": 1e-6, "alpha": 0.2, "measure_first": False},
    "pmw step": {"epsilon": 8.0, "alpha": 0.3, "update": "step", "relation": "replace-one"},
    "pmw share": {"epsilon": 4.0, "analyst": "ana", "share": 0.5, "total_epsilon": 8.0},
    "direct": {"epsilon": 4.0, "mechanism": "direct", "queries": 20},
    "direct delta": {"epsilon": 4.0, "delta": 1e-6, "mechanism": "direct", "alpha": 0.1},
    "median": {"epsilon": 60.0, "mechanism": "median", "queries": 20},
    "lasting": {"epsilon": 60.0, "budget_for_all": True, "queries": 20},
}


def session(name: str, folder: Path) -> dict[str, Any]:
    """One session on a ledger in a file, that is closed in the middle and gone on with."""
    options: dict[str, Any] = {"mechanism": "pmw"} | SESSIONS[name]
    total = {k: options[k] for k in ("total_epsilon", "total_delta") if k in options}
    place = folder / f"{name.replace(' ', '-')}.ledger"
    told: list[Any] = []
    for part, questions in enumerate([QUESTIONS[:5], [QUESTIONS[0], *QUESTIONS[5:]]]):
        budget = mq.Budget(total.get("total_epsilon", options["epsilon"]), options.get("delta", 0.0))
        relation = mq.Relation(options.get("relation", "add-remove"))
        facts: dict[str, Any] = {
            "budget": budget,
            "relation": relation,
            "domain_fingerprint": DOMAIN.fingerprint,
        }
        book = mq.Ledger.open(place) if part else mq.Ledger.create(place, name="golden", **facts)
        with seam.seeded(100 + 10 * list(SESSIONS).index(name) + part), book:
            opened = mq.session(table(MANY), ledger=book, **options)
            told += [{"key": opened.key, "left": opened.left, "questions_left": opened.questions_left}]
            for question in questions:
                told += [
                    kept(_or_refused(opened.forecast, question)),
                    kept(_or_refused(opened.ask, question)),
                ]
            if part:
                told += [kept(opened.history()), entries(book)]
    return {"told": told}


def _or_refused(ask: Callable[..., Any], question: str) -> Any:
    try:
        return ask(question)
    except mq.MaquetteError as error:
        return {"refused": type(error).__name__}

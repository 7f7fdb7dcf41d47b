"""Free answers per second of a session on a durable ledger: one by one, many at once, and asked before.

python -m benchmarks asking
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import maquette as mq
from maquette.domain import Attribute, Domain, Kind
from maquette.sessions import Session, SessionAnswer

SIZES = (16, 8, 8, 4)
ROWS, LEARN, ASKED, TURNS = 50_000, 400, 640, 3


def run(data: Path | None) -> list[dict[str, Any]]:
    """Both ways in turns on two sessions of one table, each on a ledger of its own."""
    del data
    domain = Domain(tuple(Attribute(f"x{i}", Kind.ORDINAL, codes=size) for i, size in enumerate(SIZES)))
    with tempfile.TemporaryDirectory(prefix="mq-bench-") as name:
        single, many = (_session(domain, Path(name) / f"{way}.ledger") for way in ("one", "many"))
        asked = _questions(domain)
        rates: dict[str, list[float]] = {"one by one": [], "many at once": [], "asked before": []}
        kinds: list[str] = []
        for _ in range(TURNS):
            texts = list(itertools.islice(asked, ASKED))
            rates["one by one"].append(_rate(lambda t: [single.ask(q) for q in t], texts, kinds))
            rates["many at once"].append(_rate(many.ask_many, texts, kinds))
            rates["asked before"].append(_rate(many.ask_many, texts, []))
    per_second = {way: round(statistics.median(found)) for way, found in rates.items()}
    return [
        {
            "what": "answers of a session on a durable ledger",
            "cells": domain.size,
            "records": ROWS,
            "questions": TURNS * ASKED,
            "free": round(kinds.count("free") / len(kinds), 3),
            "per second": per_second,
            "many at once over one by one": round(per_second["many at once"] / per_second["one by one"], 1),
        }
    ]


def _session(domain: Domain, location: Path) -> Session:
    """Its hypothesis has learned enough, and an epoch is open."""
    rng = np.random.default_rng(1)
    columns = {a.name: np.minimum(rng.poisson(a.size / 4, ROWS), a.size - 1) for a in domain}
    import pandas

    opened = mq.session(
        mq.open(pandas.DataFrame(columns), domain=domain),
        epsilon=20.0,
        alpha=0.05,
        measure_first=False,
        ledger=location,
        queries=10_000,
    )
    opened.ask_many(list(itertools.islice(_questions(domain, seed=1), LEARN)))
    return opened


def _questions(domain: Domain, seed: int = 2):
    """Random boxes of one to three attributes, never the same twice."""
    rng, seen = np.random.default_rng(seed), set()
    while True:
        chosen = sorted(rng.choice(len(SIZES), int(rng.integers(1, 4)), replace=False).tolist())
        box = {f"x{i}": tuple(sorted(rng.integers(0, SIZES[i], 2).tolist())) for i in chosen}
        if (text := repr(box)) not in seen:
            seen.add(text)
            yield mq.boxes(domain, [box])


def _rate(ask: Callable[[Sequence[Any]], Sequence[Any]], texts: Sequence[Any], kinds: list[str]) -> float:
    start = time.perf_counter()
    answers = ask(texts)
    taken = time.perf_counter() - start
    assert all(isinstance(answer, SessionAnswer) for answer in answers)
    kinds += [answer.kind for answer in answers]
    return len(texts) / taken

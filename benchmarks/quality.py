"""How far random questions, whole tables and group means are off, beside what a default release states of them.

One release of all marginals of a table at epsilon 1. For every figure of `release.quality` the true value is computed
with the table at hand: quantiles of 20,000 fresh questions of the kind, the mean total variation of all tables, the
largest error of group means. Also stated: the certificate of any combination of values, which holds for the worst
question, and the processor time of the release, of choosing and searching columns and of typical errors.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import maquette as mq
from benchmarks import tables
from benchmarks.class_certificates import DELTA, ledger_of
from maquette.core import any_order, group_means
from maquette.core import curator as gate
from maquette.core.combinations import axes_of
from maquette.core.rows import engine as looks
from maquette.core.rows.engine import Engine
from maquette.core.typical import TypicalQuestion
from maquette.owner import engine_of
from maquette.queries.quality import numbers_of
from maquette.queries.typical import QuestionKind, TableKind
from maquette.releasing import certify
from maquette.results.release import Release
from maquette.results.statements import QualityCertificate

TABLES = {"adult": 3, "adult_raw": 3, "diamonds": 3, "salary": 3}
"""Tables by name, with the order of the marginals that are released."""
EPSILON = 1.0
FRESH = 10
"""Times that questions are drawn anew."""


def run(data: Path | None) -> list[dict[str, Any]]:
    """All tables of the folder; none without one."""
    return [] if data is None else [measure(name, data) for name in TABLES]


def main(arguments: list[str]) -> None:
    from benchmarks.__main__ import append_each

    parser = argparse.ArgumentParser(prog="python -m benchmarks quality")
    parser.add_argument("--table", choices=list(TABLES), required=True)
    parser.add_argument("--data", type=Path, required=True)
    chosen = parser.parse_args(arguments)
    command = {"command": f"python -m benchmarks quality --table {chosen.table} --data DIR"}
    append_each("quality", iter([measure(chosen.table, chosen.data) | command]))


def measure(name: str, data: Path) -> dict[str, Any]:
    """One release, with what it states and what is true, in points."""
    table = tables.load(name, data).open()
    clock = Clock()
    with clock:
        start = time.process_time()
        release = mq.release(
            table,
            mq.marginals(table.domain, k=TABLES[name]),
            epsilon=EPSILON,
            delta=DELTA,
            mechanism="sculpt",
            ledger=ledger_of(table, EPSILON),
        )
        seconds = {"release": round(time.process_time() - start, 1)} | clock.seconds
    engine = engine_of(table)
    figures = {one.name: stated_and_true(release, engine, one) for one in release.quality}
    worst = {one.name: points(one.alpha) for one in release.certificates}
    return {"table": name, "k": TABLES[name], "quality": figures, "certificates": worst, "cpu": seconds}


def stated_and_true(release: Release, engine: Engine, one: QualityCertificate) -> dict[str, float]:
    """What is stated and what is true; of questions also the part of fresh ones within what is stated."""
    assert release.distribution is not None
    released, kind, n = release.distribution.rows(), one.kind, engine.size()
    axes = axes_of(release.domain, released.names)
    if isinstance(kind, QuestionKind):
        errors = np.concatenate(list(_fresh(release, engine, kind)))
        inside = float((errors <= one.alpha).mean())
        true = float(np.quantile(errors, kind.part))
        return {"stated": points(one.alpha), "true": points(true), "inside": round(inside, 3)}
    if isinstance(kind, TableKind):
        statistic = kind.statistic(release.domain, released, rng=np.random.default_rng(1), chance=0.5)
        assert statistic is not None
        (error,) = looks.typical_errors(engine, TypicalQuestion.of(release.domain, released, [statistic]))
    else:
        codes, times = engine.distinct_records(released.names)
        means = group_means.GroupMeans(numbers_of(release.domain, released.names), one.over)
        error = group_means.largest_error(axes, codes, released.codes, means, times=times)
    return {"stated": points(one.alpha), "true": points(int(error) / n), "over": one.over}


def _fresh(release: Release, engine: Engine, kind: QuestionKind) -> Iterator[np.ndarray]:
    """Errors of questions that are drawn anew, as shares of the records."""
    assert release.distribution is not None
    released = release.distribution.rows()
    axes, rows = axes_of(release.domain, released.names), released.codes
    codes, times = engine.distinct_records(released.names)
    for seed in range(FRESH):
        drawn = kind.draw(axes, rows, np.random.default_rng([seed, 7]))
        assert drawn is not None
        shares = drawn.counts(codes, times) / times.sum()
        yield np.abs(shares - drawn.counts(rows, np.ones(len(rows), dtype=np.int64)) / len(rows))


def points(share: float) -> float:
    return float(f"{100 * share:.3g}")


class Clock:
    """Processor seconds of the parts of a release, by the functions that they spend their time in."""

    PARTS: tuple[tuple[Any, str, str], ...] = (
        (certify, "affordable_order", "choosing"),
        (any_order, "largest_errors", "searching"),
        (group_means, "affordable_order", "choosing for means"),
        (group_means, "largest_error", "searching for means"),
        (gate, "typical_errors", "typical"),
    )

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def __enter__(self) -> None:
        self._before = [getattr(module, name) for module, name, _part in self.PARTS]
        for (module, name, part), function in zip(self.PARTS, self._before, strict=True):
            setattr(module, name, self._timed(function, part))

    def __exit__(self, *_: object) -> None:
        for (module, name, _part), function in zip(self.PARTS, self._before, strict=True):
            setattr(module, name, function)

    def _timed(self, function: Any, part: str) -> Any:
        def timed(*arguments: Any, **options: Any) -> Any:
            start = time.process_time()
            try:
                return function(*arguments, **options)
            finally:
                self.seconds[part] = round(self.seconds.get(part, 0.0) + time.process_time() - start, 2)

        return timed

# type: ignore  (annotations of tests are not checked)
"""When whole marginals are measured: the quick look says no only where the full plan does."""

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from benchmarks import calibrate

import maquette as mq
from maquette.core.budget import Unit
from maquette.core.measurement import Receipt, Size
from maquette.domain import Relation
from maquette.mechanisms import residual, shape
from maquette.mechanisms.base import Task
from maquette.models.residual import cell_variance
from maquette.sculpt import allocation, finish, measurements, mechanism


@pytest.mark.slow
@pytest.mark.parametrize("relation", list(Relation))
def test_the_quick_look_changes_no_decision(relation, monkeypatch):
    tasks = []
    for case in map(calibrate.case, range(60)):
        queries = mq.marginals(calibrate.domain_of(case.sizes), k=case.k)
        if queries.count < 50_000:
            tasks.append(
                (case.n, Task(queries, relation, Unit.RHO, Fraction(str(0.01 * case.epsilon)), 0.05))
            )
    quick = [allocation.dense_noise(task, n=n, price=task.price) is not None for n, task in tasks]
    skipped = [
        allocation._is_out_of_reach(
            task, allocation.shape.margins_of(task.queries) or [], n=n, price=task.price
        )
        for n, task in tasks
    ]
    monkeypatch.setattr(allocation, "_is_out_of_reach", lambda *_, **__: False)
    full = [allocation.dense_noise(task, n=n, price=task.price) is not None for n, task in tasks]
    assert quick == full
    assert 5 < sum(full) < len(full) - 5
    assert sum(skipped) > 5


class Exact:
    """Residuals without noise: every margin of a histogram."""

    def __init__(self, domain: mq.Domain, histogram: np.ndarray) -> None:
        self.domain, self.histogram = domain, histogram

    def covers(self, _names) -> bool:
        return True

    def deviation(self, _margin) -> float:
        return 3.0

    def table(self, margin) -> np.ndarray:
        gone = tuple(i for i, name in enumerate(self.domain.names) if name not in margin)
        return self.histogram.sum(axis=gone).astype(np.float64)


def test_rows_are_fitted_to_no_more_cells_than_there_is_room_for(monkeypatch):
    domain = calibrate.domain_of((20, 7, 5))
    histogram = np.random.default_rng(3).integers(0, 90, domain.shape)
    model: Any = Exact(domain, histogram)
    size: Any = Size(int(histogram.sum()), cast("Any", None), Receipt(0, ""))
    sets = [(0, 1), (0, 2), (1, 2), (0, 1, 2)]
    whole = measurements.from_residuals(domain, model, size, sets).tables
    assert [table.noisy.binned.cells for table in whole] == [140, 100, 35, 700]
    monkeypatch.setattr(measurements, "MAX_FITTED_CELLS", 300)
    tables = measurements.from_residuals(domain, model, size, sets).tables
    assert [table.shape.attributes for table in tables] == sets
    assert sum(table.noisy.binned.cells for table in tables) <= 300
    for table, full in zip(tables, whole, strict=True):
        sums = full.noisy.values.reshape([domain.shape[a] for a in table.shape.attributes])
        for axis, cut in enumerate(table.noisy.binned.cuts):
            sums = np.add.reduceat(sums, cut, axis=axis)
        assert (table.noisy.values == sums.ravel()).all()
        assert table.noisy.variance >= full.noisy.variance


def test_many_rows_are_fitted_as_few_first():
    """As near as rows that were swept all together, within what a row can be off by; copies are drawn apart."""
    domain = calibrate.domain_of((6, 5, 4))
    histogram = np.random.default_rng(4).integers(0, 9000, domain.shape)
    model: Any = Exact(domain, histogram)
    size: Any = Size(int(histogram.sum()), cast("Any", None), Receipt(0, ""))
    found = measurements.from_residuals(domain, model, size, [(0, 1), (0, 2), (1, 2), (0, 1, 2)])
    shares: list[float] = []
    fitted = finish.fit_many(found, m=1004, rng=np.random.default_rng(1), progress=shares.append)
    assert fitted.rows.shape == (1004, 3)
    assert fitted.all_sweeps.shape == (2008, 3)
    assert not np.array_equal(fitted.all_sweeps[:1004], fitted.all_sweeps[1004:])
    counts = np.zeros(domain.shape)
    np.add.at(counts, tuple(fitted.rows.T), 1)
    assert np.abs(counts - histogram * (1004 / size.divisor)).max() < 3
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


@pytest.mark.parametrize(("limit", "whole", "expected"), [(500, True, 1), (501, True, 0), (500, False, 0)])
def test_only_long_fits_of_whole_marginals_are_made_so(monkeypatch, limit, whole, expected):
    calls: list[int] = []
    monkeypatch.setattr(finish, "_LONG", limit)
    monkeypatch.setattr(mechanism, "fit_many", lambda *_, m, **__: calls.append(m))
    monkeypatch.setattr(mechanism.Run, "finish", lambda *_, **__: None)
    monkeypatch.setattr(mechanism, "begin", lambda *_, **__: None)
    task: Any = SimpleNamespace(rows=100)
    tables = [SimpleNamespace(shape=SimpleNamespace(attributes=names)) for names in ((0, 1), (0, 1, 2))]
    found: Any = SimpleNamespace(tables=tables)
    nothing: Any = None
    mechanism.Run(nothing, task, nothing, nothing, lambda *_: None).fit(found, dense=whole)
    assert len(calls) == expected


def test_rows_keep_every_code_of_a_large_attribute():
    """Tables with more than 512 codes had been left out, so that rows knew nothing of them."""
    domain = calibrate.domain_of((900, 4))
    histogram = np.random.default_rng(5).integers(0, 90, domain.shape)
    model: Any = Exact(domain, histogram)
    size: Any = Size(int(histogram.sum()), cast("Any", None), Receipt(0, ""))
    found = measurements.from_residuals(domain, model, size, [(0, 1)])
    assert found.hierarchy.is_full((0, 1))
    assert [table.noisy.binned.cells for table in found.tables] == [3_600]


@pytest.mark.parametrize("sizes", [(22, 5, 2, 35), (13, 7, 3, 2, 5)])
def test_a_marginal_that_counts_by_its_fourth_root_has_less_noise_than_equal_marginals(sizes):
    """In the mean and in the largest of all cells: large marginals have most of them."""
    domain = calibrate.domain_of(sizes)
    margins = shape.margins_of(mq.marginals(domain, k=2)) or []
    price, mean, largest = Fraction(1, 2), {}, {}
    for per in ("marginal", "fourth root"):
        found = residual.least_variances(domain, margins, relation=Relation.ADD_REMOVE, price=price, per=per)
        mean[per] = allocation._marginal_noise(domain, margins, found).sum()
        largest[per] = residual._level(domain, margins, {(): 0.0} | found, 0.5)
    assert mean["fourth root"] < 0.97 * mean["marginal"]
    assert largest["fourth root"] < 0.98 * largest["marginal"]


def test_the_number_of_records_is_known_as_well_as_a_cell():
    """What it costs more lies in no answer; less, and large cells would be off by it."""
    queries = mq.marginals(calibrate.domain_of((22, 5, 2, 35, 8, 8)), k=2)
    task = Task(queries, Relation.ADD_REMOVE, Unit.RHO, Fraction(1, 2), 0.05, "none")
    plan = residual.RESIDUAL_FOR_ROWS.prepare(task).plan
    parts, variances = plan.request()
    of_size = 1 / (2 * plan.parts.size)
    found = {(): 0.0} | dict(zip(parts, map(float, variances), strict=True))
    cells = [cell_variance(queries.domain, found, m.margin) for m in shape.margins_of(queries) or []]
    assert 0.9 * np.median(cells) < of_size < 1.1 * np.median(cells)
    assert plan.parts.size + plan.parts.answers == task.price
    stated = residual.RESIDUAL.prepare(task).plan
    assert stated.parts.size > 2 * plan.parts.size
    public = replace(task, relation=Relation.REPLACE_ONE)
    assert residual.RESIDUAL_FOR_ROWS.prepare(public).plan.parts.size == 0


def test_noise_of_a_few_records_needs_little_signal():
    domain = calibrate.domain_of((20, 7, 5))
    margins = shape.margins_of(mq.marginals(domain, k=2)) or []
    cells = np.array([float(domain.cells(m.margin)) for m in margins])
    assert allocation._dense_signal(domain, margins, 5 * cells) < 2
    assert allocation._dense_signal(domain, margins, 7 * cells) > 10
    triples = shape.margins_of(mq.marginals(domain, k=3)) or []
    assert allocation._dense_signal(domain, triples, np.array([5 * 700.0])) > 10

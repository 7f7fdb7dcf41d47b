"""When whole marginals are measured: the quick look says no only where the full plan does."""

from fractions import Fraction

import pytest
from benchmarks import calibrate

import maquette as mq
from maquette.accounting.unit import Unit
from maquette.domain import Relation
from maquette.mechanisms.base import Task
from maquette.sculpt import allocation


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

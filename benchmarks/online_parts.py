"""What sessions and releases state for few questions on a ledger that they make, beside one in one part.

    python -m benchmarks online_parts

65,000 made-up records at epsilon 1 and delta 1e-9, both relations: the table, the questions and the share of 22 % of
`online_few`. An own ledger takes the split that the plan finds best; `one part` is one made by hand. A release is asked
all questions at once and states one error for all.
Possible: the best of Laplace, L-infinity and Gaussian noise on as many questions that are known in advance, a fifth of
the budget for a private number of records, all within at 95 %. Covered: runs in which every answer was within.
"""

from __future__ import annotations

import math
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import maquette as mq
from benchmarks.online_few import DOMAIN, FIRST, _questions, _table
from maquette.core.budget import UNITS
from maquette.sessions import Refusal
from maquette.theory import draws, ratios

N, BUDGET, SHARE = 65_000, mq.Budget(1.0, 1e-9), 0.22
RUNS = {1: 20, 5: 4, 20: 4, 200: 1}


def run(data: Path | None) -> list[dict[str, Any]]:
    del data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [
            case(relation, k, own=own)
            for case in (_case, _release)
            for relation in mq.Relation
            for k in RUNS
            for own in (True, False)
        ]


def _release(relation: mq.Relation, k: int, *, own: bool) -> dict[str, Any]:
    table, columns = _table(N, np.random.default_rng(3))
    asked = _questions(k)
    queries = mq.union(*(mq.where(DOMAIN, text) for text, *_ in asked))
    true = [float(((columns["a"] < a) & (columns[name] < b)).mean()) for _, name, a, b in asked]
    stated, within, made = list[float](), list[bool](), set[tuple[mq.Budget, str]]()
    for _ in range(RUNS[k]):
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder, "few.ledger")
            if not own:
                _one_part(place, relation)
            release = mq.release(
                table.for_another_ledger(),
                queries,
                epsilon=BUDGET.epsilon,
                delta=BUDGET.delta,
                relation=relation,
                ledger=place,
            )
            with mq.Ledger.open(place) as ledger:
                made.add((ledger.budget, release.mechanism))
        assert release.stated is not None
        stated.append(release.stated.alpha)
        within.append(bool(np.all(np.abs(release.answers.fractions - true) <= release.stated.alpha)))
    ((total, mechanism),) = made
    return {
        "kind": "release", "n": N, "epsilon": BUDGET.epsilon, "delta": BUDGET.delta, "relation": str(relation),
        "questions": k, "ledger": "own" if own else "one part", "pure_part": total.pure_epsilon,
        "mechanism": mechanism, "runs": len(within), "possible": round(possible(k, relation), 7),
        "stated": round(float(np.mean(stated)), 7), "covered": float(np.mean(within)),
    }  # fmt: skip


def _case(relation: mq.Relation, k: int, *, own: bool) -> dict[str, Any]:
    table, columns = _table(N, np.random.default_rng(3))
    runs = RUNS[k] if own else 1
    stated, covered, budgets = list[float](), 0, set[mq.Budget]()
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as folder:
            session, total = _open(table, relation, k, Path(folder, "few.ledger"), own=own)
            budgets.add(total)
            asked = _questions(k)
            answers = session.ask_many([text for text, *_ in asked])
        within = True
        for (text, name, a, b), answer in zip(asked, answers, strict=True):
            assert not isinstance(answer, Refusal)
            true = float(((columns["a"] < a) & (columns[name] < b)).mean())
            within &= abs(answer.value - true) <= answer.error
            stated += [answer.error] if text == FIRST else []
        covered += within
    (total,) = budgets
    return {
        "n": N, "epsilon": BUDGET.epsilon, "delta": BUDGET.delta, "relation": str(relation), "questions": k,
        "ledger": "own" if own else "one part", "pure_part": total.pure_epsilon, "sessions": runs,
        "possible": round(possible(k, relation), 7), "stated": round(float(np.mean(stated)), 7),
        "covered": covered / runs,
    }  # fmt: skip


def _open(
    table: mq.Table, relation: mq.Relation, k: int, place: Path, *, own: bool
) -> tuple[mq.Session, mq.Budget]:
    if not own:
        _one_part(place, relation)
    session = mq.session(
        table.for_another_ledger(),
        epsilon=BUDGET.epsilon,
        delta=BUDGET.delta,
        relation=relation,
        queries=k,
        ledger=place,
    )
    with mq.Ledger.open(place) as ledger:
        return session, ledger.budget


def _one_part(place: Path, relation: mq.Relation) -> None:
    facts: dict[str, Any] = {"relation": relation, "domain_fingerprint": DOMAIN.fingerprint, "name": "few"}
    mq.Ledger.create(place, budget=BUDGET, **facts).close()


def possible(k: int, relation: mq.Relation) -> float:
    """With the noise that states least; pure noise takes of (epsilon, delta) its epsilon."""
    is_public = relation is mq.Relation.REPLACE_ONE
    most = 1.0 if is_public else 0.8
    log_k, rest, size = math.log(k), most * BUDGET.epsilon, (1 - most) * BUDGET.epsilon
    width, chance = 0.0 if is_public else 1 / size, 0.05 if is_public else 0.025
    error = draws.cube_continuous(epsilon=rest, queries=k, beta=chance)
    price = BUDGET.total_units / UNITS
    deviations = [math.sqrt(k / (2 * most * price)), 0.0 if is_public else math.sqrt(1 / (2 * price / 5))]
    gaps = (
        ratios.laplace_gap(scale=k / rest, size_scale=width, beta=0.05, log_queries=log_k, step=0.0),
        ratios.joint_gap(error=error, size_error=width * math.log(1 / chance)),
        ratios.gaussian_gap(
            deviation=deviations[0], size_deviation=deviations[1], beta=0.05, log_queries=log_k, step=0.0
        ),
    )
    ends = [ratios.share_between(SHARE * N, N, gap=gap) for gap in gaps]
    return min(max(float(high[0]) - SHARE, SHARE - float(low[0])) for low, high in ends)

"""How often statements about the population hold, by simulation: tables drawn from one, released or asked.

    python -m benchmarks population

A workload that is fixed before: all two-way marginals of a made-up population, released by two mechanisms. A session:
one question fixed before, and an analyst who asks for what stands out in a first half of the answers.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np

import maquette as mq
from benchmarks._online import ledger_for
from maquette.domain import Attribute, Kind

SHAPE = (2, 2, 2, 2, 2, 2)
RUNS = {"release": 100, "session": 25}
BETA = 0.05


def run(data: Path | None) -> list[dict[str, Any]]:
    figures = [
        _releases(mechanism, n) for n in (500, 5_000) for mechanism in ("laplace", "histogram-laplace")
    ]
    return [*figures, *(_sessions(n, epsilon) for n, epsilon in ((20_000, 1.0), (400_000, 0.02)))]


def _population(rng: np.random.Generator) -> tuple[mq.Domain, np.ndarray]:
    domain = mq.Domain(tuple(Attribute(f"a{i}", Kind.CATEGORICAL, codes=s) for i, s in enumerate(SHAPE)))
    return domain, rng.dirichlet(np.full(domain.size, 0.3))


def _draw(domain: mq.Domain, shares: np.ndarray, n: int, rng: np.random.Generator) -> mq.Table:
    import pandas as pd

    codes = np.unravel_index(rng.choice(domain.size, size=n, p=shares), SHAPE)
    return mq.open(pd.DataFrame(dict(zip(domain.names, codes, strict=True))), domain=domain)


def _releases(mechanism: str, n: int) -> dict[str, Any]:
    rng = np.random.default_rng([n, len(mechanism)])
    domain, shares = _population(rng)
    workload = mq.marginals(domain, 2)
    truth = workload.on_histogram((shares * 10**9).round().astype(np.int64).reshape(SHAPE)) / 1e9
    inside, stated, errors = 0, 0.0, []
    for _ in range(RUNS["release"]):
        table = _draw(domain, shares, n, rng)
        release = mq.release(
            table.for_another_ledger(),
            workload,
            epsilon=1.0,
            beta=BETA,
            relation="replace-one",
            mechanism=mechanism,
            certificate=0.0,
            ledger=ledger_for(table, mq.Budget(1.0)),
        )
        statement = release.population()
        errors.append(float(np.abs(release.answers.fractions - truth).max()))
        inside, stated = inside + (errors[-1] <= statement.error), statement.error
    return {
        "what": f"workload by {mechanism}",
        "n": n,
        "runs": len(errors),
        "promised coverage": 1 - 2 * BETA,
        "coverage": round(inside / len(errors), 4),
        "stated error": round(stated, 4),
        "median of the largest error": round(float(np.median(errors)), 4),
    }


def _sessions(n: int, epsilon: float) -> dict[str, Any]:
    """Every answer of an analyst who asks for conjunctions of the questions that surprised so far."""
    rng = np.random.default_rng(n)
    domain, shares = _population(rng)
    cells = np.stack(np.unravel_index(np.arange(domain.size), SHAPE))
    beta = 0.01 if epsilon == 1.0 else 1e-4
    fixed, adaptive, stated, scope = 0, 0, 0.0, ""
    for _ in range(RUNS["session"]):
        table = _draw(domain, shares, n, rng)
        session = mq.session(
            table.for_another_ledger(),
            epsilon=epsilon,
            beta=beta,
            alpha=0.1,
            queries=60,
            relation="replace-one",
            ledger=ledger_for(table, mq.Budget(epsilon)),
        )
        gaps = []
        for first, second in itertools.combinations(range(len(SHAPE)), 2):
            answer = session.ask(f"a{first} = 1 and a{second} = 1")
            gaps.append((abs(answer.value - 0.25), first, second))
            if len(gaps) == 1:
                statement = session.population(answer)
                share = float(shares[(cells[first] == 1) & (cells[second] == 1)].sum())
                fixed += abs(answer.value - share) <= statement.error
                stated, scope = statement.error, statement.holds_for
        worst = 0.0
        for (_, a, b), (_, c, d) in itertools.pairwise(sorted(gaps, reverse=True)[:12]):
            names = sorted({a, b, c, d})
            answer = session.ask(" and ".join(f"a{i} = 1" for i in names))
            share = float(shares[np.all(cells[names] == 1, axis=0)].sum())
            worst = max(worst, abs(answer.value - share) - session.population(answer).error)
        adaptive += worst <= 0
    return {
        "what": "session",
        "n": n,
        "epsilon": epsilon,
        "runs": RUNS["session"],
        "promised coverage": 0.95,
        "coverage of a question fixed before": round(fixed / RUNS["session"], 4),
        "coverage of questions chosen after answers, all together": round(adaptive / RUNS["session"], 4),
        "stated error": round(stated, 4),
        "stated for": scope,
    }

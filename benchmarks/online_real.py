"""How many real questions a session answers within a wanted error before its budget ends, in rho.

    python -m benchmarks online_real --data DIR

20,000 random conjunctions of three attributes of Adult, ranges of ordered ones, asked in order until the first
refusal. Every design states the same: all answers within alpha, except with probability 0.05. A table of another kind,
diamonds, says whether what was chosen for the one suits the other.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

import maquette as mq
from benchmarks._online import ASKED, open_session, real_question
from maquette.errors import BudgetExceeded

ALPHA, BUDGET = 0.02, mq.Budget(1.0, 1e-9)
DESIGNS: dict[str, dict[str, Any]] = {
    "fresh Gaussian noise": {"mechanism": "direct"},
    "a survey first": {},
}


def run(data: Path | None) -> list[dict[str, Any]]:
    if data is None:
        return []
    return [
        {"what": design, "table": name, "epsilon": BUDGET.epsilon, "delta": BUDGET.delta, "alpha": ALPHA}
        | _until_refused(data, name, options)
        for name in ("adult", "diamonds")
        for design, options in DESIGNS.items()
    ]


def _until_refused(data: Path, name: str, options: dict[str, Any]) -> dict[str, Any]:
    domain = mq.Domain.load(data / f"{name}.domain.json")
    table = mq.open(data / f"{name}.csv", domain=domain)
    rng = np.random.default_rng(7)
    session = open_session(table, BUDGET, alpha=ALPHA, **options)
    started, errors, kinds, outside = time.process_time(), [0.0], [], 0
    size = table._engine.size()
    for _ in range(ASKED):
        question = real_question(domain, rng)
        try:
            answer = session.ask(question)
        except BudgetExceeded:
            break
        kinds.append(answer.kind)
        errors.append(abs(answer.value - int(table._engine.answer(question.to_forms())[0]) / size))
        outside += errors[-1] > answer.error
    told = [past for past in session.history() if past.kind == "survey"]
    return {
        "answered": len(kinds),
        "of": ASKED,
        "truly within alpha": sum(error <= ALPHA for error in errors[1:]),
        "outside of the stated error": outside,
        "largest error": round(max(errors), 4),
        "paid": kinds.count("paid"),
        "free": kinds.count("free"),
        "cached": kinds.count("cached"),
        "rho": session.total,
        "rho of the survey": round(sum(past.cost for past in told), 6),
        "processor seconds": round(time.process_time() - started, 1),
    }

"""What a session that names no mechanism states for few questions, beside what is possible; and whether it holds.

    python -m benchmarks online_few

65,000 made-up records at epsilon 1, with and without a delta, and 1,306 at epsilon 0.5, both relations. All questions
of a session are asked, chosen beforehand; the first holds about 22 % of the records, and its error is shown. Possible:
Gaussian noise with a delta, Laplace noise without, on as many questions that are known in advance, a fifth of the
budget for a private number of records, all within at 95 %. Covered: sessions in which every answer was within its
error. `bold` asks after the number of records was seen, for one of two shares, by its noise: what no analyst
knows who cannot see the table.
"""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import maquette as mq
from maquette.core.budget import UNITS
from maquette.domain import Attribute, Kind
from maquette.sessions import Refusal
from maquette.theory import ratios

DOMAIN = mq.Domain(
    (
        Attribute("a", Kind.ORDINAL, codes=50),
        Attribute("b", Kind.ORDINAL, codes=20),
        Attribute("c", Kind.ORDINAL, codes=10),
    )
)
FIRST = "a < 11"
CASES = ((65_000, mq.Budget(1.0, 1e-9)), (65_000, mq.Budget(1.0)), (1306, mq.Budget(0.5)))
RUNS = {1: 40, 20: 10, 200: 2, 10_000: 1}
ASKED = 100
"""Questions that are asked of a session which takes 10,000."""


def run(data: Path | None) -> list[dict[str, Any]]:
    del data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = [
            _case(n, budget, relation, k, mechanism)
            for n, budget in CASES
            for relation in mq.Relation
            for k in RUNS
            for mechanism in (("auto", "pmw") if k == 20 else ("auto",))
        ]
        return [*rows, *(_bold(n, budget) for n, budget in CASES)]


def _table(n: int, rng: np.random.Generator) -> tuple[mq.Table, dict[str, np.ndarray]]:
    columns = {a.name: rng.integers(0, a.size, n) for a in DOMAIN}
    return mq.open({name: codes.tolist() for name, codes in columns.items()}, domain=DOMAIN), columns


def _questions(k: int) -> list[tuple[str, str, int, int]]:
    """Half-lines of a with one of b or c, all different; the text, the other column and the two borders."""
    pairs = [
        (a, name, b) for a in range(1, 50) for name, size in (("b", 20), ("c", 10)) for b in range(1, size)
    ]
    chosen = np.random.default_rng(7).permutation(len(pairs))[: min(k, ASKED)]
    texts = [(f"a < {a} and {name} < {b}", name, a, b) for a, name, b in (pairs[i] for i in chosen)]
    return [(FIRST, "c", 11, 10), *texts][: min(k, ASKED)]


def _case(n: int, budget: mq.Budget, relation: mq.Relation, k: int, mechanism: str) -> dict[str, Any]:
    table, columns = _table(n, np.random.default_rng(3))
    stated: list[float] = []
    true: list[float] = []
    covered = refused = 0
    chosen = ""
    for _ in range(RUNS[k]):
        session = _open(table, budget, relation, k, mechanism)
        chosen = session.rules.mechanism
        asked = _questions(k)
        answers = session.ask_many([text for text, *_ in asked])
        is_within = True
        for (text, name, a, b), answer in zip(asked, answers, strict=True):
            if isinstance(answer, Refusal):
                refused += 1
                continue
            off = abs(answer.value - float(((columns["a"] < a) & (columns[name] < b)).mean()))
            is_within &= off <= answer.error
            if text == FIRST:
                stated.append(answer.error)
                true.append(off)
        covered += is_within
    return {
        "n": n, "epsilon": budget.epsilon, "delta": budget.delta, "relation": str(relation), "questions": k,
        "mechanism": mechanism, "chosen": chosen, "sessions": RUNS[k], "refused": refused / RUNS[k],
        "possible": round(_possible(0.22, n, k, budget, relation), 7),
        "stated": round(float(np.mean(stated)), 7) if stated else None,
        "true": round(float(np.mean(true)), 7) if true else None,
        "covered": covered / RUNS[k],
    }  # fmt: skip


def _open(table: mq.Table, budget: mq.Budget, relation: mq.Relation, k: int, mechanism: str) -> mq.Session:
    """On a ledger of its own."""
    ledger = mq.Ledger.memory(
        budget=budget, relation=relation, domain_fingerprint=DOMAIN.fingerprint, name="few"
    )
    return mq.session(
        table.for_another_ledger(), epsilon=budget.epsilon, delta=budget.delta, relation=relation, queries=k,
        mechanism=mechanism, ledger=ledger,
    )  # fmt: skip


def _possible(share: float, n: int, k: int, budget: mq.Budget, relation: mq.Relation) -> float:
    price = budget.total_units / UNITS
    size = 0.0 if relation is mq.Relation.REPLACE_ONE else price / 5
    each, log_k = (price - size) / k, math.log(k)
    if budget.pure:
        scale, size_scale = 1 / each, 1 / size if size else 0.0
        gap = ratios.laplace_gap(scale=scale, size_scale=size_scale, beta=0.05, log_queries=log_k, step=0.0)
    else:
        widths = [math.sqrt(1 / (2 * part)) if part else 0.0 for part in (each, size)]
        gap = ratios.gaussian_gap(
            deviation=widths[0], size_deviation=widths[1], beta=0.05, log_queries=log_k, step=0.0
        )
    low, high = ratios.share_between(share * n, n, gap=gap)
    return max(float(high[0]) - share, share - float(low[0]))


def _bold(n: int, budget: mq.Budget) -> dict[str, Any]:
    """One question whose share follows from the noise of the number of records."""
    table, columns = _table(n, np.random.default_rng(4))
    runs, covered = 60, 0
    for _ in range(runs):
        session = _open(table, budget, mq.Relation.ADD_REMOVE, 1, "auto")
        session.buy_size()
        assert session.size is not None
        assert session.size.noise is not None
        noise = abs(session.size.value - n)
        border = 49 if noise > session.size.noise.deviation else 3
        answer = session.ask(f"a < {border}")
        covered += abs(answer.value - float((columns["a"] < border).mean())) <= answer.error
    return {
        "n": n, "epsilon": budget.epsilon, "delta": budget.delta, "questions": 1, "mechanism": "bold",
        "sessions": runs, "covered": covered / runs,
    }  # fmt: skip

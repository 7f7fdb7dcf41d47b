"""What `plan` says of sessions, by its option --online: what one can promise, from public numbers only."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path

from maquette.cli import console
from maquette.errors import ParameterError


def say_online(
    domain: Path,
    *,
    n: int | None,
    epsilon: float | None,
    delta: float,
    beta: float,
    alpha: float | None,
    as_json: bool,
) -> None:
    """Error against the number of questions; from how many on PMW beats fresh noise; how many an alpha allows."""
    from maquette.domain import Domain
    from maquette.theory import guarantees, overview
    from maquette.theory.existence import Facts

    if n is None or epsilon is None:
        raise ParameterError("plan --online needs --n, a public figure, and --epsilon")
    universe = Domain.load(domain).size
    setting = overview.Setting(
        facts=Facts(universe=universe, log_queries=0.0), n=n, epsilon=epsilon, delta=delta, beta=beta
    )
    crossing = overview.crossover(setting)
    affordable = None
    if alpha is not None:
        needed = overview.needs_of(guarantees.guarantee("pmw"), setting, alpha=alpha)
        affordable = None if needed.log_queries is None else needed.log_queries / math.log(10)
    if as_json:
        console.say_json(
            asdict(crossing)
            | ({} if alpha is None else {"alpha": alpha, "affordable_questions_log10": affordable})
        )
        return
    console.say(
        f"Largest error of all answers in points (percent of all records), except with probability {100 * beta:g} %"
    )
    console.table(
        ["questions", "pmw", "fresh noise"],
        [[f"{k:,}", _points(ours), _points(fresh)] for k, ours, fresh in crossing.lines],
        right=(0, 1, 2),
    )
    if crossing.questions is None:
        console.say("fresh noise is guaranteed to be better for any number of questions here")
    else:
        console.say(f"from {crossing.questions:,} questions on the guarantee of pmw is the better one")
    if alpha is not None:
        said = "not one" if affordable is None else f"10^{affordable:,.1f}"
        console.say(f"questions that pmw can answer within {100 * alpha:g} points: {said}")
    console.say("guarantees hold for the worst table; sessions usually do better (docs: online sessions)")


def _points(error: float) -> str:
    return f"{100 * error:.3g}" if error < 1 else "none"

"""The stages of a release and how long each will take, predicted from public numbers: for those who watch it run."""

from __future__ import annotations

from dataclasses import dataclass

from maquette.queries.marginals import Marginals
from maquette.releasing.planning import Choice

LARGEST_ERROR = "measuring the largest error"
LEAST_SECONDS = 0.2
"""No stage is predicted to be shorter."""
CERTIFYING = 0.1
"""What certificates take, as a part of the mechanism's time."""
_DIRECT = (("measuring the workload", 0.7), ("making the answers consistent", 0.3))
_HISTOGRAM = (("measuring the histogram", 0.5), ("answering from the histogram", 0.5))
_RESIDUAL = (("measuring residuals", 0.8), ("putting the margins together", 0.2))
_DRAW = (("drawing a small database", 1.0),)
PARTS: dict[str, tuple[tuple[str, float], ...]] = {
    "sculpt": (
        ("measuring one-way tables", 0.01),
        ("measuring two-way tables", 0.2),
        ("choosing three-way tables", 0.15),
        ("measuring three-way tables", 0.15),
        ("fitting the synthetic rows", 0.3),
        ("averaging the synthetic rows", 0.3),
        ("repairing the synthetic rows", 0.12),
    ),
    "residual": _RESIDUAL,
    "residual-cells": _RESIDUAL,
    "gaussian": _DIRECT,
    "laplace": _DIRECT,
    "linf": _DIRECT,
    "histogram-laplace": _HISTOGRAM,
    "histogram-gaussian": _HISTOGRAM,
    "tree": (("measuring the tree", 0.5), ("fitting the tree", 0.5)),
    "mw": (("learning from the largest errors", 1.0),),
    "mwem": (("choosing and measuring", 0.6), ("fitting all measurements", 0.4)),
    "smalldb": _DRAW,
    "roth": _DRAW,
}
"""By mechanism: its stages in order, as they name themselves, and about which part of its time each takes. Those of
sculpt as measured for two-way and three-way marginals of Adult; the others are too quick to matter, or have one."""


@dataclass(frozen=True, slots=True)
class ExpectedStage:
    """One stage that a run will come to."""

    name: str
    seconds: float
    """How long it will take, by formula; a watcher corrects it by what it sees."""


def stages_of(choice: Choice) -> tuple[ExpectedStage, ...]:
    """What a run of this choice goes through, in order; none for a mechanism that is not ours."""
    parts = [part for part in PARTS.get(choice.mechanism.name, ()) if _applies(part[0], choice)]
    seconds = choice.prepared.forecast.seconds
    whole = sum(share for _, share in parts) or 1.0
    stages = [ExpectedStage(name, max(seconds * share / whole, LEAST_SECONDS)) for name, share in parts]
    if stages and (choice.request.prices[1] or choice.request.class_price):
        stages.append(ExpectedStage(LARGEST_ERROR, max(seconds * CERTIFYING, LEAST_SECONDS)))
    return tuple(stages)


def _applies(name: str, choice: Choice) -> bool:
    if "three-way" not in name:
        return True
    return any(
        len(margin) >= 3
        for part in choice.request.queries.classes
        if isinstance(part, Marginals)
        for margin in part.margins
    )

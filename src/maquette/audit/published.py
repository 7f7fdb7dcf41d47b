"""Linear reconstruction against a finished release, by someone who knows the people but for one attribute."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from maquette.audit import reconstruct
from maquette.audit.finding import Finding
from maquette.audit.reconstruct import METHODS, Method
from maquette.errors import WorkloadError
from maquette.queries.base import Columns
from maquette.release.release import Release
from maquette.theory import lower


def attack(
    release: Release, people: Columns, *, hidden: str, methods: Sequence[Method] = METHODS
) -> list[Finding]:
    """Guess the hidden attribute of everyone from the released answers, and compare with the truth.

    `people` are the records of the private table, coded, with the hidden attribute in place. What this returns
    depends on them without any noise: it is for the owner's eyes.
    """
    queries = release.workload
    if hidden not in queries.attributes:
        raise WorkloadError(
            f"no query of this release looks at '{hidden}'; it looks at {', '.join(queries.attributes)}"
        )
    known = {name: np.asarray(people[name]) for name in queries.attributes if name != hidden}
    truth = np.asarray(people[hidden]) == 1
    system = reconstruct.design(queries, known, hidden=hidden)
    common = float(max(truth.mean(), 1 - truth.mean()))
    limit = lower.recovered(
        epsilon=release.budget.epsilon,
        delta=release.budget.delta,
        steps=lower.hops(release.relation),
        prior=common,
    )
    counts = reconstruct.released_counts(release)
    return [
        Finding(
            method,
            release.mechanism,
            len(truth),
            queries.count,
            1,
            float((reconstruct.linear(system, counts, method=method) == truth).mean()),
            limit,
            common,
        )
        for method in methods
    ]

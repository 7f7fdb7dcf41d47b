"""From the table to the population that its records were drawn from: what a stated error becomes.

Privacy keeps answers near the table; the table is a sample. Both errors add up.
"""

from __future__ import annotations

import math

from maquette import _check


def sampling_share(*, n: float, log_queries: float, beta: float) -> float:
    """How far the shares of a sample of n records are from those of the population, over k queries together.

    Accuracy: sqrt(ln(2k/beta) / (2n)) (Hoeffding 1963, union bound), except with probability beta.
    Holds when: the records are independent draws from the population, and the queries were fixed before the table was
        looked at. Weights in [0, 1] count too.
    """
    _check.positive(n=n)
    _check.fraction(beta=beta)
    return math.sqrt((math.log(2 / beta) + log_queries) / (2 * n))


def population_error(*, alpha: float, n: float, log_queries: float, beta: float) -> float:
    """What answers within alpha of the table are within of the population: alpha + `sampling_share`.

    Accuracy: the triangle inequality; except with the probability of alpha plus beta.
    Holds when: as for `sampling_share`: for the workload of a release, not for questions chosen after earlier answers
        (their transfer theorems need a small epsilon: Dwork et al. 2015, Bassily et al. 2016, Jung et al. 2020).
    """
    _check.positive(alpha=alpha)
    return alpha + sampling_share(n=n, log_queries=log_queries, beta=beta)

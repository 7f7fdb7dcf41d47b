"""From the table to the population: what a release or an answer of a session says about where its records come from."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from maquette.accounting.budget import Budget
from maquette.domain import Relation
from maquette.queries.base import Queries
from maquette.results.statements import Population
from maquette.theory import population

if TYPE_CHECKING:
    from maquette.results.release import Release

SIZE_PART = 0.1
"""Of the chance for sampling, for a number of records that is noisy."""
FIXED = "this question alone, if it was fixed before any answer was seen"
ADAPTIVE = "all questions of the session together, whatever made one ask them"
WORKLOAD = "the whole workload together"


def of_release(release: Release, query: str | Queries | None) -> Population:
    """See `Release.population`."""
    if query is None:
        bound = release.certificate or release.guarantee
        error, failure, log_queries, scope = (
            bound.alpha,
            bound.beta,
            math.log(release.workload.count),
            WORKLOAD,
        )
    else:
        answer = release.answer(query)
        error, log_queries, scope = answer.error, 0.0, FIXED
        failure = 1.0 if answer.confidence is None else 1 - answer.confidence
    if error is None or error >= 1 or release.size.unpaid:
        return Population(1.0, min(failure, 1.0), scope)
    noise, beta = release.size.noise, release.beta
    n = release.size.divisor - (0.0 if noise is None else noise.quantile(SIZE_PART * beta))
    if n < 1:
        return Population(1.0, failure, scope)
    sampled = beta if noise is None else (1 - SIZE_PART) * beta
    share = population.sampling_share(n=n, log_queries=log_queries, beta=sampled)
    return Population(min(1.0, error + share), failure + beta, scope)


def of_session_answer(
    *, error: float, beta: float, n: float, budget: Budget, relation: Relation, chance: float
) -> Population:
    """See `Session.population`; `n` is a number of records that is surely there in the event that `beta` leaves."""
    epsilon, delta = budget.epsilon, budget.delta
    if relation is Relation.ADD_REMOVE:
        epsilon, delta = population.replace_one(epsilon=epsilon, delta=delta)
    adaptive = population.adaptive_error(alpha=error, epsilon=epsilon, delta=delta, beta=beta, chance=chance)
    options = [Population(min(1.0, adaptive), chance, ADAPTIVE)]
    if chance > beta:
        fixed = error + population.sampling_share(n=n, log_queries=0.0, beta=chance - beta)
        options.append(Population(min(1.0, fixed), chance, FIXED))
    return min(options, key=lambda one: one.error)

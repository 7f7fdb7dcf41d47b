"""From the table to the population that its records were drawn from: what a stated error becomes.

Privacy keeps answers near the table; the table is a sample. Both errors add up.
"""

from __future__ import annotations

import math

from maquette.core import _check


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
        (`adaptive_error`).
    """
    _check.positive(alpha=alpha)
    return alpha + sampling_share(n=n, log_queries=log_queries, beta=beta)


def agnostic_error(*, alpha: float, n: float, log_queries: float, beta: float) -> float:
    """What the rule with the fewest released errors loses to the best of its class: twice `population_error`.

    Accuracy: private agnostic learning through a release (Roth 2010). Whether a rule errs on a record is a counting
        query;
        all of them within a of the population, the rule chosen and the best one each lose a at most.
    Holds when: as for `population_error`, over the queries [rule(x) != label] of all rules.
    """
    return 2 * population_error(alpha=alpha, n=n, log_queries=log_queries, beta=beta)


def adaptive_error(*, alpha: float, epsilon: float, delta: float, beta: float, chance: float) -> float:
    """What answers of a session are within of the population, whatever was asked after whatever answer.

    Accuracy: the transfer theorem of Jung, Ligett, Neel, Roth, Sharifi-Malvajerdi and Shenfeld (2020): all answers
        within alpha of the table except with probability beta, and (epsilon, delta)-DP under replace-one, give
        alpha + (e^epsilon - 1) + c + 2d except with probability beta / c + delta / d, for every c, d > 0. At a total
        of `chance` the smallest is alpha + (e^epsilon - 1) + (sqrt(beta) + sqrt(2 delta))^2 / chance.
        Proof. Let S be the table, t everything that the session answered, S' drawn again from the law of S given t, and
        q(t) = E[q(S') | t]. (S', t) has the law of (S, t), so P(some answer is off by more than alpha on S') <= beta.
        Given t an answer a is within alpha + P(that | t) of q(t), and by Markov the chance exceeds c with probability
        at most beta / c. Next, for f in [0, 1] and a fresh record x of the population P,
        E f(t, S_i) = E f(t with S_i replaced by x, x) <= e^epsilon E f(t, x) + delta. Take f = q_t(.) 1[t in T], where
        T holds the transcripts with a question q_t for which q_t(t) > q_t(P) + (e^epsilon - 1) + 2d. In the mean over i
        E q_t(t) 1[T] <= E q_t(P) 1[T] + (e^epsilon - 1) P(T) + delta, so 2d P(T) <= delta; likewise below, with 1 - q.
    Holds when: the records are independent draws from the population. An epsilon under add/remove-one counts twice
        (`replace_one`). It says something only for a small epsilon and a beta far below `chance`.
    """
    _check.positive(epsilon=epsilon)
    _check.fraction(beta=beta, chance=chance)
    spread = (math.sqrt(beta) + math.sqrt(2 * delta)) ** 2 / chance
    return alpha + math.expm1(epsilon) + spread


def replace_one(*, epsilon: float, delta: float) -> tuple[float, float]:
    """An (epsilon, delta) under add/remove-one as one under replace-one: two steps.

    Accuracy: group privacy of two: (2 epsilon, (1 + e^epsilon) delta).
    """
    _check.positive(epsilon=epsilon)
    return 2 * epsilon, (1 + math.exp(epsilon)) * delta

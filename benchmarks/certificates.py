"""How often is the certificate of a whole release below its true error? At most in a share beta of many releases.

Replace-one, where the number of records is public and the whole of beta is spent on the certificate's own noise: the
hardest case. Every release goes through the public interface with real noise. The chance that the noise falls below
its margin is known exactly (the law is discrete, so it is a little below beta) and stands beside what was seen, with
the exact binomial interval of what was seen.
"""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest

import maquette as mq
from benchmarks import tables
from maquette.core.budget import UNITS, split
from maquette.core.laws import Gaussian, IndependentLaw, Laplace
from maquette.mechanisms.base import MECHANISMS
from maquette.owner import exact_answers
from maquette.queries.marginals import Marginals
from maquette.releasing.planning import best_accounting
from maquette.theory import quantiles
from maquette.theory.quantiles import law_at

RUNS = 125
"""Releases of each mechanism at each beta."""
BETAS = (0.05, 0.2)
PURE = ("laplace", "linf", "histogram-laplace")
NOISY = ("gaussian", "histogram-gaussian", "residual", "residual-cells", "sculpt")
EPSILON, DELTA, SHARE = 2.0, 1e-6, 0.05
RECORDS = 4000
_CLEAR = "sculpt"


def run(_data: Path | None = None) -> list[dict[str, Any]]:
    """A thousand releases at each beta, by mechanism and together."""
    return [figure for beta in BETAS for figure in at(beta)]


def at(beta: float, *, runs: int = RUNS, mechanisms: tuple[str, ...] = PURE + NOISY) -> list[dict[str, Any]]:
    """Failures of each mechanism's certificates, and of all of them."""
    seen = {name: failures(name, beta, runs) for name in mechanisms}
    exact = {name: chance(name, beta) for name in mechanisms}
    every = summary("all", beta, runs * len(seen), sum(seen.values()), float(np.mean([*exact.values()])))
    return [*(summary(name, beta, runs, count, exact[name]) for name, count in seen.items()), every]


def summary(name: str, beta: float, releases: int, failed: int, exact: float) -> dict[str, Any]:
    """What was seen beside what was stated, with the exact 95 % interval of the true share."""
    tested = binomtest(failed, releases, beta, alternative="greater")
    low, high = binomtest(failed, releases).proportion_ci(0.95, "exact")
    return {
        "what": f"certificates below the true error, {name}, beta {beta:g}",
        "mechanism": name,
        "beta": beta,
        "releases": releases,
        "failures": failed,
        "exact chance": float(f"{exact:.4g}"),
        "interval": [float(f"{low:.3g}"), float(f"{high:.3g}")],
        "p-value of a share above beta": float(f"{tested.pvalue:.3g}"),
    }


def failures(name: str, beta: float, runs: int) -> int:
    """In how many releases some answer is further off than certified."""
    queries, table = asked(name)
    exact = exact_answers(table, queries)
    truth = exact.numerators / exact.denominator / exact.records
    return sum(_release(name, queries, table, beta, truth) for _ in range(runs))


def asked(name: str) -> tuple[Marginals, mq.Table]:
    """Two-way marginals: of eight columns for sculpt, whose rows are then fitted, of four for the others."""
    made = tables.chain(RECORDS, 8 if name == _CLEAR else 4, levels=4)
    return mq.marginals(made.domain, k=2), made.open()


def budget(name: str, queries: Marginals) -> mq.Budget:
    delta = 0.0 if name in PURE else DELTA
    relation = mq.Relation.REPLACE_ONE
    return mq.Budget(
        EPSILON,
        delta,
        best_accounting(MECHANISMS[name], queries, relation=relation, epsilon=EPSILON, delta=delta),
    )


def _release(name: str, queries: Marginals, table: mq.Table, beta: float, truth: np.ndarray) -> bool:
    allowed = budget(name, queries)
    ledger = mq.Ledger.memory(
        budget=allowed,
        relation=mq.Relation.REPLACE_ONE,
        domain_fingerprint=queries.domain.fingerprint,
        name="benchmark",
    )
    done = mq.release(
        table.for_another_ledger(),
        queries,
        epsilon=allowed.epsilon,
        delta=allowed.delta,
        relation="replace-one",
        mechanism=name,
        beta=beta,
        certificate=SHARE,
        ledger=ledger,
    )
    assert done.certificate is not None
    return bool(np.abs(done.answers.fractions - truth).max() > done.certificate.alpha)


def chance(name: str, beta: float) -> float:
    """The exact probability that the noise of the certificate falls below its margin."""
    allowed = budget(name, asked(name)[0])
    _, units = split(allowed.total_units, [1 - Fraction(str(SHARE)), Fraction(str(SHARE))])
    price = Fraction(units, UNITS)
    noise = law_at(price, unit=allowed.unit)
    return tail(noise, quantiles.lower_quantile(noise, beta=beta))


def tail(noise: IndependentLaw, margin: float) -> float:
    """P(z < -margin) of discrete noise, term by term."""
    match noise:
        case Laplace(scale=scale):
            width, power = float(scale), 1
        case Gaussian(sigma_squared=variance):
            width, power = math.sqrt(2 * variance), 2
    weights = np.exp(-((np.arange(math.ceil(60 * width) + margin + 2) / width) ** power))
    return float(weights[math.floor(margin) + 1 :].sum() / (2 * weights.sum() - 1))

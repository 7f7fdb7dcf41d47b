"""The stated error of every direct mechanism, through the real gate and ledger: paid, drawn, post-processed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import maquette as mq
from maquette.domain import Attribute, Domain, Kind

pytestmark = pytest.mark.accuracy

RUNS = 60
BETA = 0.2
DOMAIN = Domain(
    tuple(Attribute(name, Kind.ORDINAL, codes=size) for name, size in zip("abc", (4, 3, 2), strict=True))
)
RECORDS = pd.DataFrame(
    {a.name: np.random.default_rng(i).binomial(a.size - 1, 0.3, 600) for i, a in enumerate(DOMAIN)}
)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize(
    "mechanism", ["laplace", "linf", "histogram-laplace", "gaussian", "histogram-gaussian", "residual"]
)
def test_released_answers_keep_the_stated_error(mechanism, relation):
    queries = mq.marginals(DOMAIN, k=2)
    delta = 0.0 if mechanism in ("laplace", "linf", "histogram-laplace") else 1e-6
    truth = queries.on_rows({name: RECORDS[name].to_numpy() for name in DOMAIN.names}) / len(RECORDS)
    failures = 0
    for _ in range(RUNS):
        table = mq.open(RECORDS, domain=DOMAIN)
        made = mq.release(
            table,
            queries,
            epsilon=2.0,
            delta=delta,
            relation=relation,
            mechanism=mechanism,
            beta=BETA,
            certificate=0.0,
            ledger="memory",
        )
        assert made.mechanism == mechanism
        assert sum(payment.amount for payment in made.spending) <= made.account.total
        failures += bool(np.abs(made.answers.fractions - truth).max() > made.guarantee.alpha)
    assert binom.sf(failures - 1, RUNS, BETA) >= 1e-6

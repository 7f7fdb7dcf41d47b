"""The certificate holds as often as it says, and is loose by no more than its own noise.

Every run goes through the real gate with real noise: pay, look, return, then the one-sided bound.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from scipy.stats import binomtest

from maquette import owner as handle
from maquette.accounting.ledger import Ledger
from maquette.core.budget import Budget, Cost
from maquette.core.curator import Curator
from maquette.core.laws import Gaussian, Laplace
from maquette.core.measurement import Size
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.models.answers import Answers
from maquette.owner import Table
from maquette.queries import marginals
from maquette.releasing.certify import certify
from maquette.results.statements import Certificate
from maquette.theory import quantiles

pytestmark = pytest.mark.accuracy

RUNS = 1000
BETA = 0.1
FALSE_ALARM = 1e-6
DOMAIN = Domain(
    (Attribute("colour", Kind.CATEGORICAL, codes=4), Attribute("shape", Kind.CATEGORICAL, codes=3))
)
QUERIES = marginals(DOMAIN, k=[1, 2])
PURE, CONCENTRATED = Budget(1.0), Budget(1.0, 1e-6)


@pytest.fixture(scope="module")
def table() -> Table:
    rng = np.random.Generator(np.random.PCG64(5))
    columns = {"colour": rng.integers(0, 4, 300), "shape": rng.integers(0, 3, 300) * rng.integers(0, 2, 300)}
    return handle.open(columns, domain=DOMAIN)


@pytest.fixture(scope="module")
def truth(table: Table) -> np.ndarray:
    return table._engine.answer(QUERIES.to_forms())


@pytest.fixture(scope="module")
def answers(truth: np.ndarray) -> Answers:
    """Answers that are wrong by up to a few records: public, fixed, made up once."""
    shifted = truth + np.random.Generator(np.random.PCG64(6)).integers(-9, 10, len(truth))
    return Answers.from_fractions(shifted / 300)


@cache
def runs(
    table: Table, answers: Answers, *, relation: Relation, budget: Budget, by_group: bool = False
) -> list[tuple[Certificate, Size]]:
    """Independent certificates, each at the full price of its own envelope."""
    total = Budget(1e4, budget.delta)
    ledger = Ledger.memory(
        budget=total, relation=relation, domain_fingerprint=DOMAIN.fingerprint, name="certificates"
    )
    price = Fraction(budget.total_units, 2 * 10**12)
    found: list[tuple[Certificate, Size]] = []
    for i in range(RUNS):
        key = f"run-{i}"
        ledger.reserve(
            key, request=f"{i:064x}", tag="release", cost=Cost(budget.total_units), body={}, envelope=True
        )
        curator = Curator(table.for_another_ledger(), ledger, key=key, budget=budget)
        size = curator.size(price=price)
        made = certify(curator, QUERIES, answers, size=size, price=price, beta=BETA, by_group=by_group)
        found.append((made, size))
    return found


def errors(truth: np.ndarray, answers: Answers) -> np.ndarray:
    return np.abs(truth - 300 * answers.fractions)


def plausible(failures: int, chance: float = BETA) -> bool:
    """Could a true failure probability of at most `chance` give this many?"""
    return binomtest(int(failures), RUNS, chance, alternative="greater").pvalue > FALSE_ALARM


@pytest.mark.parametrize("budget", [PURE, CONCENTRATED], ids=["pure", "zcdp"])
@pytest.mark.parametrize("relation", list(Relation))
def test_the_true_largest_error_exceeds_the_certificate_in_at_most_a_beta_fraction(
    table, truth, answers, relation, budget
):
    largest = errors(truth, answers).max()
    made = runs(table, answers, relation=relation, budget=budget)
    assert plausible(sum(largest / 300 > c.alpha for c, _ in made))
    assert plausible(sum(largest > c.counts for c, _ in made))


@pytest.mark.parametrize("budget", [PURE, CONCENTRATED], ids=["pure", "zcdp"])
def test_the_check_would_notice_a_certificate_without_its_margin(table, truth, answers, budget):
    largest = errors(truth, answers).max()
    noise = Laplace(Fraction(1, 2), Fraction(2)) if budget.pure else _gaussian(budget)
    margin = quantiles.lower_quantile(noise, beta=BETA)
    made = runs(table, answers, relation=Relation.REPLACE_ONE, budget=budget)
    assert not plausible(sum(largest > c.counts - margin for c, _ in made))


@pytest.mark.parametrize("budget", [PURE, CONCENTRATED], ids=["pure", "zcdp"])
@pytest.mark.parametrize("relation", list(Relation))
def test_the_certificate_is_loose_by_no_more_than_its_noise(table, truth, answers, relation, budget):
    largest = errors(truth, answers).max()
    noise = Laplace(Fraction(1, 2), Fraction(2)) if budget.pure else _gaussian(budget)
    share = BETA if relation is Relation.REPLACE_ONE else BETA / 2
    margin = quantiles.lower_quantile(noise, beta=share)
    excess = np.array([c.counts - largest for c, _ in runs(table, answers, relation=relation, budget=budget)])
    rounded = 1 + 1e-6  # the score is rounded up to whole records
    assert plausible((excess > margin + rounded).sum(), 0.5)
    assert plausible((excess > 2 * margin + rounded).sum(), share)
    assert not plausible((excess + margin > margin + rounded).sum(), 0.5)  # a margin more would be noticed


def test_certificates_of_groups_hold_together(table, truth, answers):
    found = errors(truth, answers)
    made = runs(table, answers, relation=Relation.ADD_REMOVE, budget=CONCENTRATED, by_group=True)
    groups = QUERIES.groups()
    assert len(groups) == 2
    failed = 0
    for certificates, _ in made:
        parts = {c.name: c.alpha for c in certificates.groups}
        failed += any(found[g.start : g.stop].max() / 300 > parts[g.name] for g in groups)
        assert certificates.alpha == max(parts.values())
    assert plausible(failed)


def _gaussian(budget: Budget) -> Gaussian:
    rho = Fraction(budget.total_units, 2 * 10**12)
    return Gaussian(rho, 1 / (2 * rho))

"""Who is in a table, and who is alone in a cell: guessed from exact answers, and hardly from releases."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from maquette.audit import attacks
from maquette.domain import Domain, Relation
from maquette.queries import marginals

pytestmark = pytest.mark.privacy
EPSILON = 0.5
CELLS = 512


def codes(domain: Domain, values: np.ndarray) -> dict[str, np.ndarray]:
    return {domain.names[0]: values.astype(np.int64)}


def table_domain(cells: int) -> Domain:
    values = [f"c{i}" for i in range(cells)]
    return Domain.from_dict({"attributes": [{"name": "cell", "kind": "categorical", "categories": values}]})


def singled_out(answering: attacks.Answering) -> tuple[float, float, int]:
    """Of the cells whose answer is nearest to one: the part that holds one record; the same of all cells; how many."""
    domain, rng = table_domain(CELLS), random.Random(5)
    people = codes(domain, np.array([rng.randrange(CELLS) for _ in range(CELLS)]))
    counts = np.bincount(people["cell"], minlength=CELLS)
    answers = np.asarray(answering(domain, marginals(domain, 1), people))
    chosen = np.argsort(np.abs(answers - 1), kind="stable")[: CELLS // 4]
    return float(np.mean(counts[chosen] == 1)), float(np.mean(counts == 1)), len(chosen)


def limit_of(baseline: float, trials: int) -> float:
    return math.exp(EPSILON) * baseline + 5 / math.sqrt(4 * trials)


def test_a_release_singles_out_nobody():
    """A4: the excess over chance is at most (e^epsilon - 1) times chance, and what sampling adds."""
    answering = attacks.releasing(epsilon=EPSILON, relation=Relation.ADD_REMOVE, mechanism="laplace")
    success, baseline, trials = singled_out(answering)
    assert success <= limit_of(baseline, trials)


def test_exact_counts_single_out_everybody():
    success, baseline, trials = singled_out(attacks.exact)
    assert success == 1.0 > limit_of(baseline, trials)


def guessed(answering: attacks.Answering, *, runs: int) -> float:
    """How often an attacker is right who knows all other records, and that the one is there every second time."""
    domain, right = table_domain(2), 0
    for run in range(runs):
        is_there = run % 2
        people = codes(domain, np.array([0] * 20 + [1] * is_there))
        answers = np.asarray(answering(domain, marginals(domain, 1), people))
        right += int((answers[1] > 0.5) == bool(is_there))
    return right / runs


def test_membership_is_guessed_no_better_than_the_budget_allows():
    """A5: at most e^epsilon / (1 + e^epsilon), and what sampling adds."""
    answering = attacks.releasing(epsilon=EPSILON, relation=Relation.ADD_REMOVE, mechanism="laplace")
    runs = 100
    limit = math.exp(EPSILON) / (1 + math.exp(EPSILON)) + 5 / math.sqrt(4 * runs)
    assert guessed(answering, runs=runs) <= limit < 0.9
    assert guessed(attacks.exact, runs=10) == 1.0

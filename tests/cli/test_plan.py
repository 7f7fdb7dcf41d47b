"""A plan marks what a release would take, speaks in points and folds refusals away."""

from __future__ import annotations

import pytest

from maquette.accounting.charges import affordable_epsilon, release_cost
from maquette.core.budget import Budget, Cost, percent_of
from maquette.domain import Domain
from maquette.queries import marginals
from maquette.releasing.planning import plan
from maquette.releasing.ranking import preferred
from support.cli_files import call, write_domain


@pytest.fixture(scope="module")
def domain(tmp_path_factory):
    return write_domain(tmp_path_factory.mktemp("plan"))


def ask(domain, *words):
    ended = call("plan", "--domain", domain, "--marginals", 1, "--n", 4000, "--epsilon", 1, *words)
    assert ended.code == 0, ended
    return ended.out


def test_the_chosen_mechanism_is_marked_and_refusals_are_folded(domain):
    text = ask(domain)
    queries = marginals(Domain.load(domain), k=1)
    ranked = plan(queries, n=4000, epsilon=1.0)
    (marked,) = [line for line in text.splitlines() if line.startswith("  →")]
    best = preferred(ranked, queries)
    assert marked.split()[1] == best
    forecast = next(f for f in ranked.forecasts if f.mechanism == best)
    assert forecast.expected is not None
    assert f" {100 * forecast.expected:.2g} " in marked
    refusals = [f for f in ranked.forecasts if f.refusal is not None]
    assert refusals
    assert "--all says why" in text
    assert str(refusals[0].refusal) not in text
    everything = ask(domain, "--all")
    assert all(f"{f.mechanism} cannot do this: {f.refusal}" in everything for f in refusals)


def test_a_plan_says_how_much_of_a_ledger_it_takes(domain, tmp_path):
    place = tmp_path / "people.ledger"
    budget = Budget(0.6, 1e-6, "gaussian")
    call("ledger", "create", place, "--domain", domain, "--epsilon", 0.6, "--delta", 1e-6)
    small = ask(domain, "--ledger", place, "--epsilon", 0.3, "--delta", 1e-6)
    share = percent_of(release_cost(Budget(0.3, 1e-6, "gaussian"), budget).units, budget.total_units)
    assert f"It takes {share} of ledger 'people', of which 100.0 % is left." in small
    large = ask(domain, "--ledger", place, "--epsilon", 1)
    pure = affordable_epsilon(budget, Cost(budget.total_units, budget.slack_units), delta=0.0)
    assert f"epsilon=0.6, delta=1e-06 fits; a pure epsilon={pure:g} fits" in large


def test_a_plan_says_which_classes_of_questions_would_be_certified(domain):
    text = ask(domain, "--delta", 1e-6, "--epsilon", 3)
    ranked = plan(marginals(Domain.load(domain), k=1), n=4000, epsilon=3.0, delta=1e-6, mechanisms=["sculpt"])
    (one, *_) = ranked.forecasts[0].classes
    assert one.expected is not None
    assert f"{one.says} within {100 * one.expected:.2g} points" in " ".join(text.split())

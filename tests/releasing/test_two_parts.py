"""Releases, sessions, tools and analysts on a ledger in two parts, and what people and programs are shown of it."""

# pyright: reportArgumentType=false, reportOptionalMemberAccess=false

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

import maquette as mq
from maquette.accounting.ledger import Ledger
from maquette.core.budget import UNITS, Accounting, Budget, Cost
from maquette.errors import BudgetExceeded, PureCostWarning
from maquette.results.report import account_in_words, render
from maquette.verify import verdict
from support.cli_files import call, refused
from support.online_cases import PEOPLE, people

ONES = mq.marginals(PEOPLE, k=1)


def made(folder: Path, pure: float = 1.5, accounting: Accounting = "gaussian") -> Ledger:
    return Ledger.create(
        folder / "people.ledger",
        budget=Budget(3.0, 1e-5, accounting),
        relation="add-remove",
        domain_fingerprint=PEOPLE.fingerprint,
        name="people",
        pure=pure,
    )


@pytest.fixture(autouse=True)
def _no_warning_of_what_pure_budgets_cost():
    """They cost the pure part what they are."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", PureCostWarning)
        yield


@pytest.mark.parametrize(("pure", "accounting"), [(1.5, "gaussian"), (1.5, "zcdp"), (3.0, "zcdp")])
def test_a_pure_release_takes_its_epsilon_of_the_pure_part(tmp_path, pure, accounting):
    ledger = made(tmp_path, pure, accounting)
    release = mq.release(people(2_000), ONES, epsilon=0.5, ledger=ledger, mechanism="laplace")
    whole, left = ledger.budget.whole, ledger.balance().left
    assert whole - left == Cost(0, 0, UNITS // 2)
    assert release.account is not None
    assert (release.account.unit, release.account.total, release.account.spent) == ("epsilon", pure, 0.5)
    assert {payment.unit for payment in release.spending} == {"epsilon"}
    share = f"{50 / pure:.1f} % spent"
    assert account_in_words(release.account, delta=0).startswith(share)
    assert share.removesuffix(" spent").replace(" ", "\u00a0") in render(release)
    release.save(tmp_path / "people.release")
    again = mq.load(tmp_path / "people.release", ledger=ledger)
    assert again.account == release.account
    code, said = verdict([str(tmp_path / "people.ledger"), str(tmp_path / "people.release")])
    assert (code, said.count(" fits: ")) == (0, 2), said
    assert f"0.5 of {pure} pure epsilon" in said
    document = json.loads((tmp_path / "people.release/release.json").read_text())
    document["spending"][0]["unit"] = ledger.budget.unit.value
    (tmp_path / "people.release/release.json").write_text(json.dumps(document))
    assert verdict([str(tmp_path / "people.ledger"), str(tmp_path / "people.release")])[0] == 1


@pytest.mark.parametrize("accounting", ["gaussian", "zcdp"])
def test_a_release_with_a_delta_takes_the_other_part(tmp_path, accounting):
    ledger = made(tmp_path, 1.5, accounting)
    release = mq.release(people(2_000), ONES, epsilon=1.5, delta=1e-5, ledger=ledger, mechanism="gaussian")
    assert ledger.balance().pure_spent == 0
    assert ledger.balance().left_units < ledger.total_units // 1000  # all of the rest of epsilon
    assert release.account is not None
    assert release.account.unit == ledger.budget.unit
    release.save(tmp_path / "people.release")
    assert verdict([str(tmp_path / "people.ledger"), str(tmp_path / "people.release")])[0] == 0
    with pytest.raises(
        BudgetExceeded, match=r"of the Gaussian part of ledger 'people'.*a pure epsilon=1\.5 fits"
    ):
        mq.release(
            people(2_000), ONES, epsilon=0.1, delta=1e-5, ledger=ledger, mechanism="gaussian", beta=0.1
        )


def test_sessions_and_tools_take_of_the_part_that_they_suit(tmp_path):
    ledger, table = made(tmp_path), people(2_000)
    pure = mq.session(table, epsilon=0.5, ledger=ledger, queries=3)
    answer = pure.ask("age >= 3")
    assert (ledger.balance().spent_units, ledger.balance().pure_spent) == (0, UNITS // 2)
    assert pure.history()[-1].cost > 0  # what a step took, of whichever part
    assert answer.cost == pytest.approx(0.5 - pure.left)
    approximate = mq.session(table, epsilon=0.5, delta=1e-5, ledger=ledger, queries=200)
    approximate.ask("age >= 4")
    assert ledger.balance().pure_spent == UNITS // 2
    assert ledger.balance().spent_units > 0
    mq.above_threshold(table, threshold=100, positives=1, questions=5, epsilon=0.1, ledger=ledger)
    assert ledger.balance().pure_spent == 6 * UNITS // 10
    ledger.verify()
    ledger.close()
    assert verdict([str(tmp_path / "people.ledger")])[0] == 0


def test_a_session_goes_on_after_a_restart_with_what_it_paid(tmp_path):
    table = people(2_000)
    with made(tmp_path) as ledger:
        first = mq.session(table, epsilon=0.5, ledger=ledger, queries=3, key="ana")
        answer, left = first.ask("age >= 3"), first.left
    with Ledger.open(tmp_path / "people.ledger") as ledger:
        again = mq.session(table, epsilon=0.5, ledger=ledger, queries=3, key="ana")
        assert again.ask("age >= 3").value == answer.value
        assert again.left == left


def test_an_analyst_has_a_share_of_both_parts(tmp_path):
    ledger, table = made(tmp_path), people(2_000)
    terms: dict[str, Any] = {"ledger": ledger, "queries": 3, "analyst": "ana", "share": 0.2}
    mq.session(table, epsilon=0.3, **terms)
    entry = ledger.find("analyst-ana")
    assert entry is not None
    assert (entry.units, entry.pure) == (ledger.total_units // 5, 3 * UNITS // 10)
    with pytest.raises(
        BudgetExceeded
    ):  # the share's pure part is spent, and of its other part this takes too much
        mq.session(table, epsilon=0.3, **terms, key="another")
    third = mq.session(
        table, epsilon=0.3, delta=1e-5, **terms, key="third"
    )  # though the ledger has a pure part left
    assert third.budget == Budget(0.3, 1e-5)
    with pytest.raises(
        BudgetExceeded, match=r"needs 33\.3 % of the pure part .* share is 20\.0 % of the Gaussian and"
    ):
        mq.session(table, epsilon=0.5, **(terms | {"analyst": "ben"}))


def test_the_command_line_makes_and_shows_both_parts(tmp_path):
    PEOPLE.save(tmp_path / "people.domain.json")
    place = str(tmp_path / "people.ledger")
    words = ["ledger", "create", place, "--domain", str(tmp_path / "people.domain.json")]
    said = call(*words, "--epsilon", "3", "--delta", "1e-5", "--pure", "1").out
    assert "epsilon=3, delta=1e-05, of it 1 pure" in said
    with Ledger.open(place) as ledger:
        mq.release(people(2_000), ONES, epsilon=0.5, ledger=ledger, mechanism="laplace")
    shown = call("ledger", "show", place, "--details").out
    assert (
        "0.0 % spent, 0.0 % reserved, 100.0 % left; pure part: 50.0 % spent, 0.0 % reserved, 50.0 % left"
        in shown
    )
    assert "50.0 % pure" in shown
    assert "the pure part in epsilon: 0.5 spent, 0 reserved, 0.5 left of 1" in shown
    facts = json.loads(call("ledger", "show", place, "--json").out)
    assert (facts["pure_epsilon"], facts["pure"]["left"], facts["left"]) == (1.0, 0.5, facts["total"])
    assert sum(payment.get("pure", 0) for payment in facts["payments"] if payment["parent"]) == pytest.approx(
        0.5
    )
    plot = tmp_path / "x.json"
    call("ledger", "show", place, "--plot", str(plot))
    again = call(*words[:2], f"{place}.2", *words[3:], "--epsilon", "3", "--pure", "1")
    refused(again, "without a delta is pure as a whole")

"""Ledgers that count Gaussian differential privacy: made, opened, spent from by releases and sessions."""

import sqlite3
from contextlib import closing, nullcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

import maquette as mq
from maquette.accounting import SLACK_UNITS, UNITS, Budget, Cost
from maquette.accounting.charges import share_of_slack
from maquette.accounting.ledger import Ledger
from maquette.core import budget as unit_module
from maquette.core import events, prices
from maquette.core.budget import Unit
from maquette.core.curator import Curator
from maquette.core.forms import Sensitivity
from maquette.core.laws import NoiseRequest
from maquette.core.ledger import store
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.errors import BudgetExceeded, LedgerError, MechanismError, ParameterError
from maquette.mechanisms.base import MECHANISMS, Task
from maquette.releasing.planning import best_accounting
from maquette.samplers.draw import EXACT_DRAWS
from support.cli_files import call, desk, refused
from support.ledger_tampering import tamper
from support.priced import priced
from support.privacy_cases import BY_GAUSS, GAUSSIAN_CASES
from support.privacy_conformance import TINY, check_exactly
from support.privacy_doubles import histograms

DOMAIN = Domain(
    (
        Attribute("a", Kind.ORDINAL, codes=4),
        Attribute("b", Kind.CATEGORICAL, codes=3),
        Attribute("c", Kind.CATEGORICAL, codes=2),
    )
)
PAIRS = mq.marginals(DOMAIN, k=2)
ONE = Sensitivity(Fraction(1), Fraction(1), Fraction(1))


def people(rows: int = 400):
    generator = np.random.default_rng(3)
    frame = pd.DataFrame({a.name: generator.integers(0, a.size, rows) for a in DOMAIN.attributes})
    return mq.open(frame, domain=DOMAIN)


def book(budget: Budget, location=None) -> Ledger:
    facts = {
        "budget": budget,
        "relation": Relation.ADD_REMOVE,
        "domain_fingerprint": DOMAIN.fingerprint,
        "name": "x",
    }
    return Ledger.memory(**facts) if location is None else Ledger.create(location, **facts)


# --- the ledger itself ---


def test_it_is_kept_opened_and_verified(tmp_path):
    made = book(BY_GAUSS, tmp_path / "x.ledger")
    made.close()
    with Ledger.open(tmp_path / "x.ledger") as again:
        assert again.budget == BY_GAUSS
        assert again.budget.unit == "mu^2/2"
        assert (again.total_units, again.slack_total) == (BY_GAUSS.total_units, BY_GAUSS.slack_units)
        again.verify()
    with closing(sqlite3.connect(tmp_path / "x.ledger")) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)


def test_a_program_that_cannot_count_so_refuses_it(tmp_path, monkeypatch):
    book(BY_GAUSS, tmp_path / "x.ledger").close()
    monkeypatch.setattr(store, "NEWEST", 1)
    with pytest.raises(LedgerError, match="has format 2"):
        Ledger.open(tmp_path / "x.ledger")


def unit_of(release: mq.Release) -> str:
    assert release.account is not None
    return release.account.unit


def test_a_ledger_turned_into_the_other_kind_is_found_out(tmp_path):
    book(BY_GAUSS, tmp_path / "x.ledger").close()
    tamper(tmp_path / "x.ledger", "UPDATE account SET unit = 'rho'")
    with pytest.raises(LedgerError, match="tampered"):
        Ledger.open(tmp_path / "x.ledger")


# --- which way a release counts ---


def test_a_new_ledger_counts_in_the_way_that_suits_the_mechanism():
    ways = {
        name: best_accounting(MECHANISMS[name], PAIRS, relation=Relation.ADD_REMOVE, epsilon=1.0, delta=1e-9)
        for name in MECHANISMS
    }
    by_gauss = {name for name, way in ways.items() if way == "gaussian"}
    assert by_gauss == {
        "factorisation",
        "gaussian",
        "histogram-gaussian",
        "product",
        "residual",
        "residual-cells",
        "sculpt",
        "square-root",
        "tree",
    }
    # narrow noise loses more to the smoothing of whole numbers than it gains
    assert (
        best_accounting(MECHANISMS["gaussian"], PAIRS, relation=Relation.ADD_REMOVE, epsilon=30.0, delta=1e-9)
        == "zcdp"
    )
    assert (
        best_accounting(MECHANISMS["gaussian"], PAIRS, relation=Relation.ADD_REMOVE, epsilon=1.0, delta=0.0)
        == "zcdp"
    )


@pytest.mark.slow
def test_a_release_makes_such_a_ledger_and_a_later_one_follows_it(tmp_path):
    table, place = people(), tmp_path / "x.ledger"
    options = {"delta": 1e-6, "ledger": place, "total_epsilon": 4.0}
    first = mq.release(table, PAIRS, epsilon=1.0, mechanism="residual", **options)
    second = mq.release(table, PAIRS, epsilon=1.0, mechanism="laplace", **options)
    with pytest.warns(mq.PureCostWarning, match="give it unless the promise has to be pure"):
        third = mq.release(table, PAIRS, epsilon=0.3, mechanism="laplace", ledger=place)
    assert [unit_of(r) for r in (first, second, third)] == ["mu^2/2"] * 3
    assert first.budget == second.budget == Budget(1.0, 1e-6, "gaussian")
    assert third.budget == Budget(0.3)
    assert first.exactness == "approximate with a proven bound"
    with Ledger.open(place) as kept:
        kept.verify()
        spent = kept.spent_units
        assert spent <= sum(Budget(1.0, 1e-6, "gaussian").total_units for _ in range(2)) + 0.3**2 * UNITS
    mq.release(table, PAIRS, epsilon=1.0, mechanism="residual", **options)
    with Ledger.open(place) as kept:
        assert kept.spent_units == spent


def test_a_ledger_of_zcdp_goes_on_counting_so(tmp_path):
    ledger = book(Budget(1.0, 1e-6))
    release = mq.release(people(), PAIRS, epsilon=1.0, delta=1e-6, mechanism="residual", ledger=ledger)
    assert (release.budget, unit_of(release)) == (Budget(1.0, 1e-6), "rho")
    asked = mq.release(
        people(), PAIRS, epsilon=1.0, delta=1e-6, mechanism="residual", accounting="zcdp", ledger="memory"
    )
    assert unit_of(asked) == "rho"


def test_noise_is_narrower_than_by_zcdp():
    widths = []
    for way in ("gaussian", "zcdp"):
        ledger = book(Budget(1.0, 1e-9, way))
        made = mq.release(people(), PAIRS, epsilon=1.0, delta=1e-9, mechanism="gaussian", ledger=ledger)
        assert made.deviations is not None
        widths.append(made.deviations[0] * made.size.divisor)  # in counts
    assert 0.93 < widths[0] / widths[1] < 0.98


@pytest.mark.slow
def test_a_stored_release_remembers_it(tmp_path):
    release = mq.release(people(), PAIRS, epsilon=1.0, delta=1e-6, mechanism="gaussian", ledger="memory")
    release.save(tmp_path / "x.maquette")
    again = mq.load(tmp_path / "x.maquette")
    assert again.budget == release.budget == Budget(1.0, 1e-6, "gaussian")
    assert "Gaussian differential privacy" in (tmp_path / "x.maquette" / "report.html").read_text("utf-8")


def test_a_wrong_word_is_refused_before_anything_is_opened(tmp_path):
    wrong: Any = "renyi"
    with pytest.raises(ParameterError, match="accounting"):
        mq.release(people(), PAIRS, epsilon=1.0, delta=1e-6, accounting=wrong, ledger=tmp_path / "x.ledger")
    assert not (tmp_path / "x.ledger").exists()


# --- what is set aside for noise that is not exact ---


def test_a_release_without_room_for_its_noise_is_refused_before_it_is_charged():
    ledger = book(Budget(60.0, 1e-9))
    assert ledger.slack_total == 0
    for mechanism in ("residual", "residual-cells", "sculpt"):
        with pytest.raises(MechanismError, match="accounting 'gaussian'"):
            mq.release(people(), PAIRS, epsilon=60.0, delta=1e-9, mechanism=mechanism, ledger=ledger)
    assert ledger.spent_units == 0
    assert list(ledger.entries(kind="reserve")) == []
    fine = mq.release(
        people(),
        PAIRS,
        epsilon=60.0,
        delta=1e-9,
        mechanism="residual",
        certificate=0.05,
        ledger=book(Budget(60.0, 1e-9, "gaussian")),
    )
    assert fine.certificate is not None


def test_a_sliver_of_a_ledger_has_a_sliver_of_its_slack():
    assert share_of_slack(BY_GAUSS, BY_GAUSS.total_units) == BY_GAUSS.slack_units
    assert share_of_slack(BY_GAUSS, BY_GAUSS.total_units // 10) == pytest.approx(BY_GAUSS.slack_units / 10)
    domain = Domain(tuple(Attribute(f"x{i}", Kind.CATEGORICAL, codes=40) for i in range(30)))
    table = mq.open(pd.DataFrame({a.name: [0, 1] for a in domain.attributes}), domain=domain)
    ledger = Ledger.memory(
        budget=Budget(1000.0, 1e-3, "gaussian"),
        relation=Relation.ADD_REMOVE,
        domain_fingerprint=domain.fingerprint,
        name="wide",
    )
    many = {"queries": mq.marginals(domain, k=2), "mechanism": "gaussian", "ledger": ledger}
    with pytest.raises(MechanismError, match="set aside"):
        mq.release(table, epsilon=1e-5, delta=1e-9, **many)
    assert ledger.spent_units == 0


# --- sessions ---


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{}, {"mechanism": "direct", "queries": 20}, {"epsilon": 0.5, "delta": 0.0}]
)
def test_a_session_runs_on_such_a_ledger(options):
    ledger = book(Budget(4.0, 1e-6, "gaussian"))
    usual = {"epsilon": 1.0, "delta": 1e-6} | options
    said = pytest.warns(mq.PureCostWarning) if usual["delta"] == 0 else nullcontext()
    with said:
        session = mq.session(people(40_000), ledger=ledger, **usual)
    answers = [session.ask(text, allow_useless=True) for text in ("a = 1", "a >= 2 and b = 0", "c = 1")]
    assert all(
        abs(answer.value - truth) < 0.3 for answer, truth in zip(answers, (0.25, 1 / 6, 0.5), strict=True)
    )
    ledger.verify()
    taken = sum(entry.units for entry in ledger.entries(kind="reserve") if entry.parent)
    (envelope,) = [entry for entry in ledger.entries(kind="reserve") if entry.envelope]
    assert 0 < taken <= envelope.units
    again = mq.session(people(40_000), ledger=ledger, **usual)
    assert again.ask("a = 1", allow_useless=True).value == answers[0].value


def test_noise_planned_in_rho_is_charged_at_most_half_pi_times_as_much():
    mixed = priced(Unit.RHO, ledger=Unit.HALF_MU_SQUARED)
    for rho in (Fraction(1, 10**6), Fraction(1, 100), Fraction(2, 25)):
        plan = mixed.noise(NoiseRequest("gaussian", rho), ONE, coordinates=1)
        in_rho, by_gauss = plan.event.cost(Unit.RHO).units, plan.event.cost(Unit.HALF_MU_SQUARED).units
        assert in_rho <= by_gauss <= 1.5708 * in_rho + 1
        assert plan.law == prices.gaussian(ONE, rho=rho, denominator=1).law
    with pytest.raises(MechanismError, match=r"less than 2\.5 counts"):
        mixed.noise(NoiseRequest("gaussian", Fraction(1, 10)), ONE, coordinates=1)


# --- planted bugs ---

FEW = histograms(TINY.size, most=1)


def _case(name: str):
    return next(case for case in GAUSSIAN_CASES if case.name == name)


def _fails(name: str) -> bool:
    try:
        check_exactly(_case(name), Relation.ADD_REMOVE, FEW)
    except AssertionError:
        return True
    return False


def test_without_a_bug_nothing_is_caught():
    assert not any(
        _fails(name)
        for name in ("select signed, by Gauss", "tables, by Gauss", "residual", "gaussian, by Gauss")
    )


def test_planted_a_choice_charged_as_in_rho_is_caught(monkeypatch):
    monkeypatch.setattr(unit_module, "half_square_of_rho", lambda rho: rho)
    assert _fails("select signed, by Gauss")
    assert _fails("laplace, by Gauss")


@pytest.mark.parametrize("name", ["tables, by Gauss", "residuals, no axes, by Gauss", "gaussian, by Gauss"])
def test_planted_the_drawn_variance_charged_as_if_it_were_continuous_is_caught(name, monkeypatch):
    real = events.SmoothedEvent.cost

    def cost(self, unit):
        whole = real(self, unit)
        return type(whole)(real(self, Unit.RHO).units, whole.slack) if unit == "mu^2/2" else whole

    monkeypatch.setattr(events.SmoothedEvent, "cost", cost)
    assert _fails(name)


@pytest.mark.parametrize("name", ["tables, by Gauss", "residual", "gaussian, by Gauss"])
def test_planted_a_ratio_that_is_not_charged_is_caught(name, monkeypatch):
    real = events.SmoothedEvent.cost

    def cost(self, unit):
        return type(real(self, unit))(real(self, unit).units, 0)

    monkeypatch.setattr(events.SmoothedEvent, "cost", cost)
    assert _fails(name)


def test_planted_noise_of_one_number_charged_for_many_is_caught(monkeypatch):
    monkeypatch.setattr(prices, "log_ratio", lambda coordinates: Fraction(22, 10**20))
    assert _fails("gaussian, by Gauss")


def test_slack_runs_out_with_a_message_of_its_own():
    ledger = book(BY_GAUSS)
    ledger.reserve(
        "k",
        request="0" * 64,
        tag="release",
        cost=Cost(BY_GAUSS.total_units, BY_GAUSS.slack_units),
        body={},
        envelope=True,
    )
    curator = Curator(people(), ledger, key="k", budget=BY_GAUSS, draws=EXACT_DRAWS)
    curator._spent = Cost(0, BY_GAUSS.slack_units)
    with pytest.raises(BudgetExceeded, match="follows its law only up to a small proven error") as refusal:
        curator.measure(PAIRS, noise=NoiseRequest("gaussian", Fraction(1, 1000)))
    assert refusal.value.needed >= PAIRS.count * 2e-19 > 1 / SLACK_UNITS


# --- the command line ---


def test_the_command_line_tells_how_a_ledger_counts(tmp_path):
    own = desk(tmp_path)
    made = call(
        "ledger", "create", own.ledger, "--domain", own.domain, "--epsilon", 3, "--delta", 1e-9, "--json"
    )
    assert made.json["accounting"] == "gaussian"
    assert made.json["unit"] == "mu^2/2"
    assert "Gaussian differential privacy" in call("ledger", "show", own.ledger, "--details").out
    other = call(
        "ledger", "create", tmp_path / "z", "--domain", own.domain, "--epsilon", 3, "--delta", 1e-9,
        "--accounting", "zcdp", "--json",
    )  # fmt: skip
    assert other.json["unit"] == "rho"
    refused(
        call("ledger", "create", tmp_path / "y", "--domain", own.domain, "--epsilon", 3, "--accounting", "x"),
        "accounting",
    )


@pytest.mark.slow
def test_a_release_by_the_command_line(tmp_path):
    own = desk(tmp_path)
    made = own.release("--delta", 1e-9, "--accounting", "zcdp", "--mechanism", "gaussian", "--json")
    assert made.json["budget"]["accounting"] == "zcdp"
    refused(own.release("--accounting", "x"), "accounting")


def test_little_slack_is_enough_where_little_is_needed():
    ledger = book(Budget(26.0, 1e-9))
    wide = mq.marginals(DOMAIN, k=[1, 2, 3])
    task = Task(wide, Relation.ADD_REMOVE, Unit.RHO, Fraction(1), 0.05)
    most = MECHANISMS["residual"].prepare(task).slack_units(planned=False)
    assert 0 < ledger.slack_total < most
    release = mq.release(
        people(), wide, epsilon=26.0, delta=1e-9, mechanism="residual", certificate=0.05, ledger=ledger
    )
    assert ledger.slack_spent <= ledger.slack_total
    assert release.certificate is not None

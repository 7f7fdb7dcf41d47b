"""What a session was opened with: public, checked before any data is touched, fixed for its whole life.

The rules decide the settings that a session runs with, once the number of records is known, and the envelope that is
set aside for it in the ledger.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from maquette.accounting.charges import pure_costs, share_of_slack, shares_in_words
from maquette.accounting.ledger import Ledger
from maquette.core import _check
from maquette.core.budget import UNITS, Budget, Cost, charged, percent_of
from maquette.core.conversions import half_square_of_rho
from maquette.core.measurement import Size
from maquette.domain import Domain, Persons, Relation, check_relation, rows_of
from maquette.errors import BudgetExceeded, MechanismError, ParameterError
from maquette.mechanisms.online import (
    PublicNumbers,
    Settings,
    direct_settings,
    largest_error,
    median_settings,
    pmw_settings,
    settings_for_all,
    textbook_settings,
)
from maquette.mechanisms.session_plan import (
    FAIR,
    SIZE_SHARE,
    USELESS,
    ExpectedErrors,
    choose_mechanism,
    few_answers_settings,
    size_share,
)
from maquette.models.hypothesis import LOG_MIXING
from maquette.queries.base import Queries
from maquette.releasing.payment import Bill, exceeded, pay
from maquette.requests import SessionRequest
from maquette.theory.existence import facts_of
from maquette.theory.quantiles import law_at

MECHANISMS = ("direct", "median", "pmw")
AUTO = "auto"
"""Instead of a mechanism: the one that is expected to state least."""
UPDATES = ("refit", "step")
LARGEST_TABLE = 1 << 40
"""Records of a table on which every session that is possible at all can be planned."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The public part of a call to `session`."""

    budget: Budget
    relation: Relation
    beta: float
    alpha: float | None
    mechanism: str
    questions: int
    update: str
    measure_first: bool
    """Measure while guesses mostly fail, instead of testing them."""
    budget_for_all: bool
    """The smallest error at which the budget provably lasts for all questions."""
    attributes: tuple[str, ...] | None
    analyst: str | None
    persons: Persons | None = None
    """Whom the budget protects, where one person has several records."""
    prior: str | None = None
    """Digest of the release that the hypothesis starts from; None for a uniform start."""
    workload: Queries | None = None
    """The class that the questions come from, where the median mechanism is told so."""
    fewer: bool = False
    """Measure fewer questions than `questions` where answers to all of them would say nothing?"""

    @classmethod
    def of(cls, wish: SessionRequest, domain: Domain, **facts: Any) -> Rules:
        """What is asked for, with what else are `facts` of table and questions.

        Where the mechanism is left open it is `pmw`, until that is decided.
        """
        _check.one_of((AUTO, *MECHANISMS), mechanism=wish.mechanism)
        mechanism = "pmw" if wish.mechanism == AUTO else wish.mechanism
        spends_as_needed = mechanism == "pmw" and wish.update == "refit" and not wish.budget_for_all
        names = _attributes(domain, wish.attributes, facts.get("workload"))
        return cls(
            budget=Budget(wish.epsilon, wish.delta),
            relation=wish.between,
            beta=wish.beta,
            alpha=wish.alpha,
            mechanism=mechanism,
            questions=wish.queries,
            update=wish.update,
            measure_first=spends_as_needed if wish.measure_first is None else wish.measure_first,
            budget_for_all=wish.budget_for_all,
            attributes=check_names(domain, names),
            analyst=check_analyst(wish.analyst, wish.share),
            **facts,
        )

    def __post_init__(self) -> None:
        _check.fraction(beta=self.beta)
        check_relation(self.persons, self.relation)
        if self.alpha is not None:
            _check.fraction(alpha=self.alpha)
        _check.one_of(MECHANISMS, mechanism=self.mechanism)
        _check.one_of(UPDATES, update=self.update)
        _check.whole(queries=self.questions)
        spends_as_needed = self.mechanism == "pmw" and self.update == "refit" and not self.budget_for_all
        if self.measure_first and not spends_as_needed:
            raise ParameterError(
                "measure_first goes with mechanism='pmw' and update='refit', without budget_for_all"
            )
        if self.alpha is not None and (self.mechanism == "median" or self.budget_for_all):
            raise ParameterError(
                "the median mechanism and sessions with budget_for_all choose their own error; leave alpha out"
            )
        if self.workload is not None and self.mechanism != "median":
            raise ParameterError(
                "a class that all questions come from makes a difference to the median mechanism only; leave workload "
                "out, or take mechanism='median'"
            )
        if self.prior is not None and self.mechanism == "direct":
            raise ParameterError(
                "mechanism 'direct' measures every question anew and uses no prior; a prior goes with pmw or median"
            )

    @property
    def size_price(self) -> Fraction:
        """For the number of records; nothing where it is public."""
        if self.relation is Relation.REPLACE_ONE:
            return Fraction(0)
        share = SIZE_SHARE
        if self.mechanism == "direct" and self.alpha is None:
            whole = Fraction(self.row_units, UNITS)
            share = size_share(self.budget.unit, whole, questions=self.questions, beta=self.beta)
        return Fraction(int(share * self.row_units), UNITS)

    @property
    def row_units(self) -> int:
        """The budget as the price of looks at single records, in which the session plans."""
        return self.budget.row_units(rows_of(self.persons))

    @property
    def group_factor(self) -> int:
        """How many times such a price is charged, for all records of a person."""
        return self.budget.unit.group_factor(rows_of(self.persons))

    def facts(self, domain: Domain) -> dict[str, Any]:
        """Everything that decides how the session runs; JSON-ready, in the words that ledgers have always stored."""
        persons = {} if self.persons is None else {"persons": [self.persons.column, self.persons.rows]}
        prior = {} if self.prior is None else {"prior": self.prior}
        fewer = {"fewer": True} if self.fewer else {}
        workload = {} if self.workload is None else {"workload": _digest(self.workload.spec())}
        return (
            persons
            | prior
            | fewer
            | workload
            | {
                "domain": domain.fingerprint,
                "budget": [self.budget.epsilon, self.budget.delta],
                "relation": str(self.relation),
                "beta": self.beta,
                "alpha": self.alpha,
                "mechanism": self.mechanism,
                "questions": self.questions,
                "update": self.update,
                "bypass": self.measure_first,
                "lasting": self.budget_for_all,
                "attributes": None if self.attributes is None else list(self.attributes),
                "analyst": self.analyst,
            }
        )

    def digest(self, domain: Domain) -> str:
        return _digest(self.facts(domain))

    def costs(self, budget: Budget, ledger: Ledger) -> tuple[Cost, ...]:
        """The ways in which the ledger may charge a whole budget for such a session.

        A session with a delta plans in rho. A ledger that counts mu^2 / 2 charges pure tests pi / 2 times their rho,
        and Gaussian values at most that (`core/prices.py`); its share of the slack is set aside too. In a ledger
        that counts rho every draw of a session is exact.
        """
        units = replace(budget, accounting="zcdp").total_units
        if budget.pure:
            return pure_costs(Fraction(units, UNITS), ledger.budget)
        if ledger.budget.accounting == "zcdp":
            return (Cost(units),)
        units = math.ceil(half_square_of_rho(Fraction(units)))
        return (Cost(units, share_of_slack(ledger.budget, units)),)

    def public(
        self, domain: Domain, size: Size, *, paid: Sequence[Fraction] = (), is_begun: bool = False
    ) -> PublicNumbers:
        """Everything that settings are made from, once the number of records is known.

        `paid` are the prices that the number was bought for; by default it was bought once, as it is today. Once a
        session has begun to answer it is not bought again.
        """
        names = self.attributes
        return PublicNumbers(
            unit=self.budget.unit,
            price=Fraction(self.row_units, UNITS) - (sum(paid, Fraction(0)) if paid else self.size_price),
            size=size,
            k=self.questions,
            beta=self.beta,
            alpha=self.alpha,
            universe=domain.size if names is None else domain.cells(names),
            measuring=self.measure_first,
            domain=domain,
            attributes=names or domain.names,
            log_start=0.0 if self.prior is None else LOG_MIXING,
            size_is_final=is_begun or len(paid) > 1,
            facts=None if self.workload is None else facts_of(self.workload),
        )

    def expected_errors(self, domain: Domain, *, rows: int) -> ExpectedErrors:
        """Which mechanism suits these rules on a table of `rows` records; they name neither alpha nor a way to test."""

        def public(mechanism: str) -> PublicNumbers:
            rules = replace(self, mechanism=mechanism, measure_first=mechanism == "pmw")
            paid = rules.size_price
            noise = law_at(paid, unit=rules.budget.unit) if paid else None
            return rules.public(domain, Size(rows, noise, None))

        return choose_mechanism(public)

    def expected_error(self, domain: Domain, *, rows: int) -> float:
        """The largest error that such a session is expected to state on `rows` records; 1 where none can be planned."""
        paid = self.size_price
        noise = law_at(paid, unit=self.budget.unit) if paid else None
        try:
            return largest_error(self.settings(self.public(domain, Size(rows, noise, None))))
        except MechanismError:
            return 1.0

    def settings(self, public: PublicNumbers) -> Settings:
        """What this kind of session runs with."""
        if self.mechanism == "direct":
            direct = direct_settings(public)
            return few_answers_settings(public) if self.fewer and direct.error >= USELESS else direct
        if self.mechanism == "median":
            return median_settings(public)
        if self.update == "step" and self.alpha is None:
            return textbook_settings(public)
        if self.budget_for_all:
            return settings_for_all(public)
        if self.alpha is not None or not self.measure_first:
            return pmw_settings(public)
        try:
            usual = pmw_settings(public)
        except MechanismError:  # a table so small that no epoch can be paid
            return few_answers_settings(public)
        return few_answers_settings(public) if largest_error(usual) > FAIR else usual

    def check_possible(self, domain: Domain, size: Size | None) -> None:
        """Refuse a session that no table can have; or not one of this size, where the size is public."""
        if self.alpha is None and self.measure_first:
            return  # such a session takes an error that its table allows
        which = "a table of any size" if size is None else "this table"
        try:
            self.settings(self.public(domain, size or Size(LARGEST_TABLE, None, None)))
        except MechanismError as error:
            raise MechanismError(f"no session of this kind can be planned on {which}: {error}") from None


def _digest(facts: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _attributes(
    domain: Domain, attributes: tuple[str, ...] | None, workload: Queries | None
) -> Iterable[str] | None:
    """The attributes that may be asked about: by default those of the class that the questions come from."""
    if workload is None:
        return attributes
    if workload.domain.fingerprint != domain.fingerprint:
        raise ParameterError("the workload is about another domain than the table")
    names = workload.attributes if attributes is None else attributes
    if not set(workload.attributes) <= set(names):
        raise ParameterError("expected attributes to name all that the workload looks at")
    return names


def check_names(domain: Domain, attributes: Iterable[str] | None) -> tuple[str, ...] | None:
    """The attributes that may be asked about, in the order of the domain; None for all."""
    if attributes is None:
        return None
    chosen = set(attributes)
    if not chosen:
        raise ParameterError("expected attributes to name one at least; leave it out to ask about all")
    for name in chosen:
        domain[name]  # refuses an unknown attribute
    return tuple(name for name in domain.names if name in chosen)


def check_analyst(analyst: str | None, share: float | None) -> str | None:
    """The analyst's name; a share needs one."""
    if share is not None:
        _check.fraction(share=share)
        if analyst is None:
            raise ParameterError("a share belongs to an analyst; give analyst too")
    if analyst is not None and not (0 < len(analyst) <= 100 and analyst.isprintable()):
        raise ParameterError("expected analyst as a name of 1 to 100 printable characters")
    return analyst


_WAYS = {
    "direct": "every new question is measured",
    "pmw": "guesses are tested, and measured where they fail",
    "median": "medians of small databases are tested, and measured where they fail",
}


def _number_of(number: int, word: str) -> str:
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def how_answered(rules: Rules, expected_errors: ExpectedErrors | None) -> str:
    """How a session answers, what it pays for the number of records, and what decided that."""
    words = f"{_WAYS[rules.mechanism]} (mechanism {rules.mechanism})"
    if expected_errors is not None:
        direct, pmw = (f"{100 * error:.2g}" for error in (expected_errors.direct, expected_errors.pmw))
        words += (
            f", chosen for {_number_of(rules.questions, 'question')}: on {_number_of(expected_errors.rows, 'record')} "
            "measuring is expected to "
            f"state up to {direct} points, testing {pmw}"
        )
        if expected_errors.unused_delta:
            words += f"; pure noise is expected to state less, so delta={expected_errors.unused_delta:g} is not used"
    if rules.size_price:
        share = percent_of(int(rules.size_price * UNITS), rules.row_units)
        words += f"; {share} of the budget buys the number of records first"
    return words


# --- the envelope in the ledger -------------------------------------------------------------------------------------


def reserve(ledger: Ledger, key: str, domain: Domain, rules: Rules, *, share: float | None) -> None:
    """Set the budget of a session aside in the ledger, out of the analyst's share where there is one."""
    facts = rules.facts(domain)
    bill = Bill(
        tag="session",
        key=key,
        request=rules.digest(domain),
        budget=rules.budget,
        body={name: value for name, value in facts.items() if name != "domain"} | {"ask": "session"},
        costs=rules.costs,
    )
    if rules.analyst is not None and share is not None:
        bill = replace(bill, parent=_reserve_share(ledger, rules, bill, share))
    if pay(ledger, bill).entry.settlement is not None:
        raise BudgetExceeded(
            f"session '{key}' was ended, and what it had left went back to the ledger; open another with a new key",
            unit=rules.budget.unit,
            needed=0.0,
            left=0.0,
        )


def share_key(rules: Rules) -> str:
    """The envelope of an analyst's share."""
    return f"analyst-{rules.analyst}"


def _reserve_share(ledger: Ledger, rules: Rules, session: Bill, share: float) -> str:
    """The analyst's part of the total: a cap and a promise, for all sessions in that name."""
    analyst, whole = rules.analyst, ledger.budget.whole
    part = Fraction(str(share))
    units, pure = (math.floor(part * amount) for amount in (ledger.total_units, whole.pure))
    name, there = share_key(rules), Cost(units, pure=pure)
    needed = charged(session.ways(ledger), whole=whole, left=replace(there, slack=whole.slack))
    if (needed.units > units or needed.pure > pure) and ledger.find(name) is None:
        raise exceeded(
            f"the session needs {shares_in_words(needed, whole)} of ledger '{ledger.name}', but the analyst's "
            f"share is {shares_in_words(there, whole)}; give a larger share, or the session a smaller epsilon",
            ledger.budget,
            needed,
            there,
        )
    words = " ".join([name, str(units), *([str(pure)] if pure else [])])
    # in a ledger that counts rho the draws of sessions are exact
    slack = share_of_slack(ledger.budget, units) if ledger.budget.accounting == "gaussian" else 0
    body = {"ask": "share", "analyst": analyst, "share": share, "amount": units / UNITS}
    request, cost = hashlib.sha256(words.encode()).hexdigest(), Cost(units, slack, pure)
    ledger.reserve(name, request=request, tag="analyst", cost=cost, body=body, envelope=True)
    return name

"""What a release would state at several budgets, and by which mechanism. Public inputs only; spends nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from maquette.accounting.charges import pure_in_words, release_cost
from maquette.core.budget import Accounting, Budget
from maquette.domain import Domain
from maquette.errors import MaquetteError
from maquette.releasing.planning import Comparison, plan, preferred
from maquette.web.requests import ReleaseRequest

STEPS = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)
"""Parts of what the ledger has left that are compared: the marks of the slider."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a plan counts with besides the request: how many records, who are neighbours, how a delta counts."""

    n: int
    relation: str = "add-remove"
    accounting: Accounting = "zcdp"


@dataclass(frozen=True, slots=True)
class Choice:
    """One budget and what the mechanism that would be taken says about it."""

    epsilon: float
    mechanism: str
    guaranteed: float | None
    expected: float | None
    certified: float | None
    """What the certificate is expected to state; None where a guarantee is stated instead."""
    stated_by: str
    gives_rows: bool
    problem: str | None = None

    @property
    def statement(self) -> float | None:
        """The error that a release would state, or is expected to."""
        return self.guaranteed if self.certified is None else self.certified


def choices(
    domain: Domain, request: ReleaseRequest, setting: Setting, *, further: float | None
) -> list[Choice]:
    """The chosen budget and parts of what is left, from small to large."""
    epsilons = {_round_down(part * further) for part in STEPS} if further else set()
    epsilons = {one for one in epsilons if one > 0} | {request.epsilon}
    return [_choice(domain, request.model_copy(update={"epsilon": one}), setting) for one in sorted(epsilons)]


def _round_down(value: float) -> float:
    """Two digits, and never more than the value."""
    power = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.floor(value / power + 1e-9) * power:.2g}")


@dataclass(frozen=True, slots=True)
class Offer:
    """One mechanism at the chosen budget, as a row of the page."""

    name: str
    expected: float | None
    guaranteed: float | None
    certified: float | None
    gives_rows: bool
    remark: str
    is_able: bool

    @property
    def statement(self) -> float | None:
        """The error that a release would state, or is expected to."""
        return self.guaranteed if self.certified is None else self.certified


def offers(whole: Comparison) -> list[Offer]:
    """Every mechanism, the smallest expected error first; those that cannot run come last."""
    rows = [
        Offer(
            one.mechanism,
            one.expected,
            _useful(one.guaranteed),
            _useful(one.certified),
            one.gives_rows,
            one.refusal or (one.notes[0] if one.notes else ""),
            one.refusal is None,
        )
        for one in whole.forecasts
    ]
    return sorted(rows, key=lambda one: (not one.is_able, 2.0 if one.expected is None else one.expected))


def _useful(error: float | None) -> float | None:
    return None if error is None or error >= 1 else error


def compared(domain: Domain, request: ReleaseRequest, setting: Setting) -> Comparison:
    """Every mechanism at one budget."""
    return _plan(domain, _frozen(request), setting)


def note_of_cost(request: ReleaseRequest, total: Budget) -> str | None:
    """How much less of a ledger a pure budget would take with a delta; None where there is nothing to say."""
    budget = Budget(request.epsilon, request.delta, total.accounting)
    return pure_in_words(total, budget, lambda one: release_cost(one, total))


def _choice(domain: Domain, request: ReleaseRequest, setting: Setting) -> Choice:
    try:
        whole = _plan(domain, _frozen(request), setting)
        name = preferred(whole, request.queries(domain)) if request.mechanism == "auto" else request.mechanism
        best = next(one for one in whole.forecasts if one.mechanism == name)
    except MaquetteError as error:
        return Choice(request.epsilon, "-", None, None, None, "-", False, str(error))
    return Choice(
        request.epsilon,
        name,
        _useful(best.guaranteed),
        best.expected,
        _useful(best.certified),
        best.stated or "-",
        best.gives_rows,
        best.refusal,
    )


def _frozen(request: ReleaseRequest) -> str:
    return request.model_copy(update={"name": ""}).model_dump_json()


@lru_cache(maxsize=256)
def _plan(domain: Domain, request: str, setting: Setting) -> Comparison:
    parsed = ReleaseRequest.model_validate_json(request)
    arguments: dict[str, Any] = {"epsilon": parsed.epsilon, "delta": parsed.delta, "beta": parsed.beta}
    return plan(
        parsed.queries(domain),
        n=setting.n,
        relation=setting.relation,
        accounting=None if not parsed.delta else setting.accounting,
        **arguments,
    )

"""What a release would state at several budgets, and by which mechanism. Public inputs only; spends nothing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from maquette.domain import Domain
from maquette.errors import MaquetteError
from maquette.releasing.planning import Plan, plan, preferred
from maquette.web.requests import ReleaseRequest

STEPS = (0.1, 0.25, 0.5, 0.75, 1.0)
"""Parts of what the ledger has left that are compared."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One budget and what the mechanism that would be taken says about it."""

    epsilon: float
    mechanism: str
    guaranteed: float | None
    expected: float | None
    stated_by: str
    gives_rows: bool
    problem: str | None = None


def choices(domain: Domain, request: ReleaseRequest, *, n: int, further: float | None) -> list[Choice]:
    """The chosen budget and parts of what is left, from small to large."""
    epsilons = {float(f"{part * further:.2g}") for part in STEPS} if further else set()
    epsilons = {one for one in epsilons if further is None or 0 < one <= further} | {request.epsilon}
    return [_choice(domain, request.model_copy(update={"epsilon": one}), n) for one in sorted(epsilons)]


def compared(domain: Domain, request: ReleaseRequest, *, n: int) -> Plan:
    """Every mechanism at one budget."""
    return _plan(domain, _frozen(request), n)


def _choice(domain: Domain, request: ReleaseRequest, n: int) -> Choice:
    try:
        whole = _plan(domain, _frozen(request), n)
        name = preferred(whole, request.queries(domain)) if request.mechanism == "auto" else request.mechanism
        best = next(one for one in whole.forecasts if one.mechanism == name)
    except MaquetteError as error:
        return Choice(request.epsilon, "-", None, None, "-", False, str(error))
    return Choice(
        request.epsilon,
        name,
        best.guaranteed,
        best.expected,
        best.stated or "-",
        best.gives_rows,
        best.refusal,
    )


def _frozen(request: ReleaseRequest) -> str:
    return request.model_copy(update={"name": ""}).model_dump_json()


@lru_cache(maxsize=256)
def _plan(domain: Domain, request: str, n: int) -> Plan:
    parsed = ReleaseRequest.model_validate_json(request)
    arguments: dict[str, Any] = {"epsilon": parsed.epsilon, "delta": parsed.delta, "beta": parsed.beta}
    return plan(parsed.queries(domain), n=n, **arguments)

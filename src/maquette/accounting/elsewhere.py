"""Guarantees of other programs as events of a ledger, which adds up all that is spent on a table.

    ledger.charge(spent(epsilon=0.5), reason="OpenDP: mean of age")           # pure
    ledger.charge(spent(rho=0.01), reason="Tumult: counts by region")         # zero-concentrated
    ledger.charge(from_dp_accounting(event), reason="DP-SGD, 3 epochs")       # an event of dp_accounting
    dp_accounting_events(ledger)                                              # and back: one event a payment

A guarantee has to hold between the neighbours of the ledger: an epsilon between tables that differ in one replaced
record is none between tables of which one has a record more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from importlib import import_module
from itertools import islice, repeat
from typing import TYPE_CHECKING, Any

from maquette.core import _check
from maquette.core.budget import UNITS, Cost, Unit
from maquette.core.conversions import exact
from maquette.core.errors import ParameterError
from maquette.core.events import ComposedEvent, Event, GaussianEvent, LaplaceEvent, PureEvent, SmoothedEvent

if TYPE_CHECKING:
    from maquette.accounting.ledger import Ledger

_NOTHING = Fraction(0)
MAX_EVENTS = 1_000
"""Events that one payment may be composed of."""


def spent(
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    mu: float | None = None,
) -> Event:
    """The event of a guarantee that somebody else states.

    epsilon alone is pure. With a delta it is charged as a law within a distance `delta` of a pure one, which such
    mechanisms are between any two neighbours (Kairouz, Oh and Viswanath 2015); only a ledger that counts rho has room
    for that. rho is zero-concentrated, mu is Gaussian differential privacy.
    """
    names = [name for name, value in (("epsilon", epsilon), ("rho", rho), ("mu", mu)) if value is not None]
    if len(names) != 1 or (delta is not None and epsilon is None):
        raise ParameterError("expected one of epsilon (perhaps with a delta), rho and mu")
    if epsilon is not None:
        _check.positive(epsilon=epsilon)
        pure = PureEvent(exact(epsilon), "stated by another program")
        if not delta:
            return pure
        _check.fraction_or_zero(delta=delta)
        far = GaussianEvent(sigma_squared=1, l2_squared=_NOTHING, total_variation=exact(delta))
        return ComposedEvent((pure, far))
    if rho is not None:
        _check.positive(rho=rho)
        return GaussianEvent(sigma_squared=1, l2_squared=2 * exact(rho))
    assert mu is not None
    _check.positive(mu=mu)
    return _gaussian(exact(mu) ** 2)


def _gaussian(mu_squared: Fraction) -> Event:
    """A mechanism of sqrt(mu_squared)-GDP, such as continuous Gaussian noise."""
    return SmoothedEvent(
        sigma_squared=1, l2_squared=mu_squared, mu_squared=mu_squared, ripple=_NOTHING, log_ratio=_NOTHING
    )


# Events of dp_accounting, known by their class's name: that library need not be installed to read one.


def from_dp_accounting(event: object) -> Event:
    """Our event of one of dp_accounting's; ParameterError for those that have no cost in a ledger."""
    events = list(islice(_theirs(event, 1), MAX_EVENTS + 1))
    if len(events) > MAX_EVENTS:
        raise ParameterError(f"expected at most {MAX_EVENTS:,} events in one payment; book them in several")
    if not events:
        raise ParameterError("expected an event that costs something")
    return events[0] if len(events) == 1 else ComposedEvent(tuple(events))


def _theirs(event: object, times: int) -> Iterator[Event]:
    name = type(event).__name__
    if name == "ComposedDpEvent":
        for part in _field(event, "events"):
            yield from _theirs(part, times)
    elif name == "SelfComposedDpEvent":
        yield from _theirs(_field(event, "event"), times * _check_times(_field(event, "count")))
    elif name in _READERS:
        yield from _READERS[name](event, times)
    elif name != "NoOpDpEvent":
        readable = ", ".join([*_READERS, "ComposedDpEvent", "SelfComposedDpEvent"])
        raise ParameterError(
            f"expected an event of dp_accounting that a ledger can add up ({readable}), got {_check.shown(name)}; "
            "let its accountant state an epsilon with a delta, and charge that"
        )


def _check_times(count: object) -> int:
    if not isinstance(count, int) or count < 1:
        raise ParameterError(
            f"expected how often an event is repeated as a whole number, got {_check.shown(count)}"
        )
    return count


def _field(event: object, name: str) -> Any:
    return getattr(event, name)


def _number(event: object, name: str) -> Fraction:
    value = float(_field(event, name))
    _check.positive(**{name: value})
    return exact(value)


def _zcdp(event: object, times: int) -> Iterable[Event]:
    if _field(event, "xi"):
        raise ParameterError("expected a ZCDpEvent without xi: a ledger has no unit for it")
    return (GaussianEvent(sigma_squared=1, l2_squared=2 * _number(event, "rho") * times),)


def _gaussian_noise(event: object, times: int) -> Iterable[Event]:
    return (_gaussian(times / _number(event, "noise_multiplier") ** 2),)


def _laplace(event: object, times: int) -> Iterable[Event]:
    return repeat(LaplaceEvent(scale=_number(event, "noise_multiplier"), l1=1), times)


def _discrete_laplace(event: object, times: int) -> Iterable[Event]:
    """dp_accounting's parameter is 1 / scale."""
    scale, l1 = 1 / _number(event, "noise_parameter"), int(_number(event, "sensitivity"))
    return repeat(LaplaceEvent(scale=scale, l1=l1), times)


_READERS: Mapping[str, Callable[[object, int], Iterable[Event]]] = {
    "GaussianDpEvent": _gaussian_noise,
    "LaplaceDpEvent": _laplace,
    "DiscreteLaplaceDpEvent": _discrete_laplace,
    "ZCDpEvent": _zcdp,
}


def payments(ledger: Ledger) -> list[dict[str, Any]]:
    """Every payment of a ledger with what it was charged, as fields of an event of dp_accounting.

    `event` is the name of its class with its fields. They say what the *ledger counts*, so that they compose to its
    epsilon; noise itself may be worth less.
    """
    return [
        {"key": entry.key, "created": entry.created, "tag": entry.tag, "events": events}
        for entry in ledger.entries(kind="reserve")
        if not entry.envelope and (events := list(_ours(entry.cost, ledger.budget.unit)))
    ]


def _ours(cost: Cost, unit: Unit) -> Iterator[dict[str, Any]]:
    amount = cost.units / UNITS
    pure = cost.pure / UNITS + (amount if unit.is_pure else 0.0)
    if pure:  # whole numbers, moved by one: every outcome has odds e^epsilon or e^-epsilon, the worst pure mechanism
        yield {"event": "DiscreteLaplaceDpEvent", "noise_parameter": pure, "sensitivity": 1}
    if amount and unit.is_gaussian:
        yield {"event": "GaussianDpEvent", "noise_multiplier": 1 / math.sqrt(2 * amount)}
    if amount and not unit.is_gaussian and not unit.is_pure:
        yield {"event": "ZCDpEvent", "rho": amount}


def dp_accounting_events(ledger: Ledger) -> Any:
    """All payments of a ledger as one `ComposedDpEvent` of dp_accounting, which must be installed.

    Its accountant `PLDAccountant` adds up pure and Gaussian events, `RdpAccountant` those in rho. A ledger that counts
    rho and has a pure part beside needs both, and the sum of their epsilons.
    """
    try:
        dp_event = import_module("dp_accounting.dp_event")
    except ImportError:
        raise ParameterError("this needs the package dp-accounting: pip install dp-accounting") from None
    events = [dict(fields) for payment in payments(ledger) for fields in payment["events"]]
    return dp_event.ComposedDpEvent([getattr(dp_event, e.pop("event"))(**e) for e in events])

"""Numbers as people say them, in one wording for reprs, reports and the command line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from maquette.accounting.charges import affordable_epsilon
from maquette.core.budget import UNITS

if TYPE_CHECKING:
    from maquette.accounting.ledger import Ledger
    from maquette.core.budget import Cost
    from maquette.core.ledger.reading import Part

QUESTION_LABELS = {
    "size": "number of records",
    "total": "total weight",
    "sums": "sum of a column",
    "measure": "noisy answers",
    "residuals": "noisy answers",
    "residuals in bins": "noisy answers",
    "tables": "noisy tables",
    "distances": "noisy distances of tables",
    "select": "choosing queries",
    "select signed": "choosing queries",
    "select tables": "choosing tables",
    "choose count": "private choice",
    "choose nearest": "private choice",
    "choose database": "choosing a small database",
    "draw": "drawing the rows",
    "largest error": "certificate",
    "judge": "certificate",
    "class errors": "errors over classes of questions",
    "combination errors": "errors over combinations of values",
    "typical errors": "typical errors and distances of tables",
    "group mean errors": "errors of group means",
    "kinds of values": "kinds of values of a column",
    "numbers by ladder": "bounds of a column",
    "numbers between borders": "cells of a numeric column",
    "days by year": "years of a column",
    "common values": "list of values of a column",
}
"""The questions of the gate, as a reader would call them."""

ENTRY_LABELS = {
    "session": "session",
    "choice": "private choice",
    "sparse vector": "sparse vector",
    "share": "share of an analyst",
    "epoch": "epoch of tests",
    "test": "test",
    "note": "answered before",
    "binding": "what the release states",
    "lost": "entries that were lost",
    "charge": "another program",
}
"""Entries of a ledger that ask the table nothing by themselves."""


EVENT_LABELS = {
    "laplace": "noisy answers",
    "gaussian": "noisy answers",
    "smoothed": "noisy answers",
    "cube": "noisy answers",
    "pure": "noisy answers",
    "composed": "several noisy answers",
    "selection": "choosing queries",
    "sparse": "epoch of tests",
    "analyst": "share of an analyst",
    "discovery": "finding a domain",
    "fixed": "table or domain that was fixed",
}
"""Kinds of noise, for payments of which no more is known."""


def payment(question: str | None, tag: str) -> str:
    """What was paid for, as a reader would call it."""
    if question is None:
        return EVENT_LABELS.get(tag, tag)
    return ENTRY_LABELS.get(question) or QUESTION_LABELS.get(question, question)


def further(epsilon: float | None, delta: float) -> str:
    """What the rest of a ledger is good for: the largest epsilon of one more release."""
    if epsilon is None:
        return "nothing more can be released"
    return f"one more release could have up to {budget(epsilon, delta)}"


def account(book: Ledger) -> dict[str, Any]:
    """The state of a ledger for scripts and pages; `affordable_epsilon` is the largest of one more release, or None.

    Of a ledger in two parts amounts are those of the Gaussian part, with those of the other as `pure`; or of the pure
    part, where that is all.
    """
    balance = book.balance()
    (unit, main), *others = balance.parts(book.budget.unit).items()
    pure = {"pure": _amounts(others[0][1])} if others else {}
    return {
        "unit": unit,
        **_amounts(main),
        **pure,
        "affordable_epsilon": affordable_epsilon(book.budget, balance.left),
        "receipt": str(balance.head),
    }


def _amounts(part: Part) -> dict[str, float]:
    return {
        "total": part.total / UNITS,
        "spent": part.charged / UNITS,
        "reserved": part.reserved / UNITS,
        "left": part.left / UNITS,
    }


def amounts_of(cost: Cost, book: Ledger) -> dict[str, float]:
    """What an entry charges in the unit of `account`, as `amount`; beside it as `pure` what it takes of a pure part."""
    if not book.budget.total_units:
        return {"amount": cost.pure / UNITS}
    pure = {"pure": cost.pure / UNITS} if cost.pure else {}
    return {"amount": cost.units / UNITS} | pure


def big(value: int | float) -> str:
    """A count in words once it is long: 20.9 million, 364, 12,800; a power of ten beyond trillions."""
    if value >= 10**15:
        exponent = math.floor(math.log10(value))
        return f"{value / 10**exponent:.3g} × 10^{exponent}"
    for size, name in ((10**12, "trillion"), (10**9, "billion"), (10**6, "million")):
        if value >= size:
            return f"{value / size:,.3g} {name}"
    return f"{value:,.0f}"


NAMED = 8
"""How many attributes a sentence lists."""


def listed(names: Sequence[str]) -> str:
    """Names as a sentence says them; many of them cut short."""
    if len(names) > NAMED:
        return f"{', '.join(names[:NAMED])} and {len(names) - NAMED:,} more"
    if len(names) < 2:
        return "".join(names) or "no attribute"
    return f"{', '.join(names[:-1])} and {names[-1]}"


def assumption(names: Sequence[str]) -> str:
    """That nobody looked at some attributes together."""
    return (
        f"no measurement of this release looked at {listed(names)} together: how they go together in the synthetic "
        "rows is an assumption (that of independence, where nothing else connects them)"
    )


def higher_order(names: Sequence[str]) -> str:
    """What would cover a question that nothing covers."""
    own = f"with the marginal of {listed(names)}, or with this question itself"
    return f"a release of a higher order, {own}, would cover it"


def points(alpha: float) -> str:
    """An error of a fraction in points, percent of all records, rounded up: 0.00811 is 0.82 points."""
    if not math.isfinite(alpha):
        return "an unknown amount"
    return f"{_rounded_up(100 * alpha)} points"


def percent_at_most(part: float) -> str:
    """An error as a part of something else than the records, rounded up."""
    return f"{_rounded_up(100 * part)} %"


def _rounded_up(value: float) -> str:
    """With two digits, or whole where that is more."""
    if value == 0:
        return "0"
    digits = max(0, 1 - math.floor(math.log10(abs(value))))
    # the tiny step down keeps 0.82 from becoming 0.83 by the noise of the multiplication
    shown = math.ceil(value * 10**digits * (1 - 1e-12)) / 10**digits
    return f"{shown:.{digits}f}"


def chance(beta: float) -> str:
    """A probability as a percentage: 0.05 is 5 %."""
    return f"{100 * beta:.3g} %"


def small(value: float) -> str:
    """A tiny probability as a power of ten where it is one: 1e-9 is 10⁻⁹."""
    exponent = round(math.log10(value)) if value > 0 else 0
    if exponent < -3 and math.isclose(value, 10.0**exponent, rel_tol=1e-9):
        return "10" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{value:g}"


def percent(fraction: float) -> str:
    """A share of the table: 0.2034 is 20.34 %."""
    return f"{100 * fraction:.2f} %"


def budget(epsilon: float, delta: float) -> str:
    """A privacy budget in letters."""
    return f"epsilon = {epsilon:g}" + (f", delta = {delta:g}" if delta else "")

"""The report of a release: one HTML file that explains itself, without scripts and without outside files."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from maquette.accounting.affordable import epsilon_for_units, percent_of
from maquette.accounting.unit import UNITS, Unit
from maquette.domain import Attribute
from maquette.domain.attribute import MISSING, OTHER, Kind
from maquette.results import plots, wording
from maquette.results.answering import Estimate, estimate

if TYPE_CHECKING:
    from jinja2 import Template

    from maquette.results.release import Release
    from maquette.results.statements import Account


# The table at a glance: the shares of every attribute, with error bars where an error is proved.

MOST_ATTRIBUTES = 20
MOST_BARS = 12
MOST_CELLS = 2**16
"""An attribute with more is not looked at cell by cell."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One attribute: its bars, drawn, and what the whiskers mean."""

    name: str
    svg: str
    proved: bool
    """Whether some of the bars carry proved intervals."""
    bare: bool
    """Whether some of them carry none."""
    alone: bool = False
    """Whether some of these intervals hold for its own bar alone."""


def panels(release: Release) -> list[Panel]:
    """One panel per attribute that the release says something about, up to twenty."""
    result: list[Panel] = []
    for attribute in [release.domain[name] for name in release.measured[:MOST_ATTRIBUTES]]:
        shares = list(_shares(release, attribute))
        bars = [_bar(label, share) for label, share in shares]
        if bars:
            values = ", ".join(f"{bar.label} {bar.value:.3g} per cent" for bar in bars)
            svg = plots.marginal(bars, label=f"Shares of {attribute.name}: {values}")
            has_error = [bar.low is not None for bar in bars]
            alone = any(share.alone for _, share in shares)
            result.append(Panel(attribute.name, svg, any(has_error), not all(has_error), alone))
    return result


def _shares(release: Release, attribute: Attribute) -> Iterator[tuple[str, Estimate]]:
    for label, codes in bins(attribute):
        share = _share(release, attribute, codes)
        if share is None:
            return
        yield label, share


def _bar(label: str, share: Estimate) -> plots.Bar:
    if share.error is None:
        return plots.Bar(label, 100 * share.value, None, None)
    low, high = max(share.value - share.error, 0.0), min(share.value + share.error, 1.0)
    return plots.Bar(label, 100 * share.value, 100 * low, 100 * high)


def _share(release: Release, attribute: Attribute, codes: range) -> Estimate | None:
    from maquette.queries import boxes, weights, where
    from maquette.queries.sql_format import runs_text

    if attribute.size > MOST_CELLS:
        run = (codes.start, codes.stop - 1)
        if codes.start < attribute.cells:
            return estimate(release, boxes(release.domain, [{attribute.name: run}]))
        text = runs_text(attribute, (run,))  # boxes are of declared cells only
        return None if text is None else estimate(release, where(release.domain, text))
    mask = np.zeros((1, attribute.size))
    mask[0, codes.start : codes.stop] = 1.0
    return estimate(release, weights(release.domain, mask, attributes=[attribute.name]))


def bins(attribute: Attribute) -> Iterator[tuple[str, range]]:
    """The cells of an attribute in at most a dozen bars of neighbours, then the overflow and null cells."""
    width = -(-attribute.cells // MOST_BARS)
    for start in range(0, attribute.cells, width):
        stop = min(start + width, attribute.cells)
        yield _label(attribute, start, stop - 1), range(start, stop)
    if attribute.overflow_cell is not None:
        yield OTHER, range(attribute.overflow_cell, attribute.overflow_cell + 1)
    if attribute.null_cell is not None:
        yield MISSING, range(attribute.null_cell, attribute.null_cell + 1)


def _label(attribute: Attribute, first: int, last: int) -> str:
    if first == last:
        return attribute.label(first)
    if attribute.kind is Kind.NUMERIC:
        return f"{attribute.edge(first):g} – {attribute.edge(last + 1):g}"
    return f"{attribute.label(first)} … {attribute.label(last)}"


# The templates of pages: every value is escaped, and one that is missing is an error.


@lru_cache(maxsize=4)
def template(name: str) -> Template:
    """A template by its file name."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("maquette.results", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


# The ledger as it stood when the release was finished.


def account_in_words(account: Account, *, delta: float) -> str:
    """Spent, reserved and left in percent, and the epsilon that one more release with this delta could have."""
    total, spent, reserved = (round(x * UNITS) for x in (account.total, account.spent, account.reserved))
    left = 0 if account.left == 0 else total - spent - reserved
    parts = {"spent": spent, "reserved": reserved, "left": left}
    said = ", ".join(f"{percent_of(units, total)} {name}" for name, units in parts.items())
    unit = Unit(account.unit)
    at = 0.0 if unit.is_pure else delta
    return f"{said}; {wording.further(epsilon_for_units(left, unit, delta=at), at)}"


MOST_GROUPS = 16
"""How many groups of queries the plot of errors shows."""

CERTIFIED, GUARANTEED, TYPICAL = "certified", "guaranteed in advance", "typical noise"


@dataclass(frozen=True, slots=True)
class GroupErrors:
    """What is known of the error of one group of queries, as fractions; None where nothing is."""

    name: str
    queries: int
    guaranteed: float | None
    certified: float | None
    typical: float | None

    def statements(self) -> tuple[tuple[str, float | None], ...]:
        return ((CERTIFIED, self.certified), (GUARANTEED, self.guaranteed), (TYPICAL, self.typical))


def render(release: Release) -> str:
    """The whole page as text."""
    groups = group_errors(release)
    page = template("report.html.j2").render(
        release=release,
        words=wording,
        odds=math.exp(min(release.budget.epsilon, 50.0)),
        groups=groups,
        error_plot=_error_plot(groups),
        panels=panels(release),
        payments=_payments(release),
        budget_plot=_budget_plot(release),
        parameters=_flat(release.parameters),
        fingerprint=release.domain.fingerprint,
        workload_hash=_workload_hash(release),
    )
    return page.replace(" %", "\u00a0%")  # a number and its sign stay on one line


def group_errors(release: Release) -> list[GroupErrors]:
    """Every named part of the workload with its three statements; the whole first if there are several parts."""
    certified = {} if release.certificate is None else {g.name: g.alpha for g in release.certificate.groups}
    whole = None if release.certificate is None else release.certificate.alpha
    parts = list(release.workload.groups())[:MOST_GROUPS]
    spans = [(group.name, group.start, group.stop) for group in parts]
    if len(spans) > 1:
        spans.insert(0, ("all queries", 0, release.workload.count))
    return [
        GroupErrors(
            name=name,
            queries=stop - start,
            guaranteed=None if release.guarantee.vacuous else release.guarantee.alpha,
            certified=_least(certified.get(name), whole),
            typical=_typical(release, start, stop),
        )
        for name, start, stop in spans
    ]


def _least(*values: float | None) -> float | None:
    return min((value for value in values if value is not None and value < 1), default=None)


def _typical(release: Release, start: int, stop: int) -> float | None:
    if release.deviations is None or start == stop:
        return None
    return float(np.median(release.deviations[start:stop]))


def _error_plot(groups: list[GroupErrors]) -> str | None:
    marks = [
        plots.Mark(group.name, statement, 100 * value)
        for group in groups
        for statement, value in group.statements()
        if value is not None and value > 0
    ]
    if not marks:
        return None
    shown = [s for s in (CERTIFIED, GUARANTEED, TYPICAL) if any(mark.statement == s for mark in marks)]
    label = "; ".join(f"{mark.group}: {mark.statement} {mark.points:.3g} percentage points" for mark in marks)
    return plots.errors(marks, shown, label=f"Errors per group of queries. {label}")


@dataclass(frozen=True, slots=True)
class Payment:
    """Payments of one kind, added up."""

    label: str
    times: int
    amount: float
    share: float
    """Of what this release spent."""


def _payments(release: Release) -> list[Payment]:
    labels = dict.fromkeys(payment.label for payment in release.spending)
    total = math.fsum(payment.amount for payment in release.spending)
    kinds = []
    for label in labels:
        amounts = [payment.amount for payment in release.spending if payment.label == label]
        amount = math.fsum(amounts)
        kinds.append(Payment(label, len(amounts), amount, amount / total if total else 0.0))
    return kinds


def _budget_plot(release: Release) -> str | None:
    payments = _payments(release)
    pieces = [plots.Piece(p.label, p.amount, tone) for tone, p in enumerate(payments) if p.amount > 0]
    unit = release.budget.unit
    if release.account is not None:
        here = math.fsum(piece.amount for piece in pieces)
        before = max(release.account.spent - here, 0.0)
        unit = release.account.unit
        if before > 1e-12 * release.account.total:
            pieces.insert(0, plots.Piece("spent otherwise", before, len(plots.TONES) - 1))
        if release.account.reserved > 1e-12 * release.account.total:
            pieces.append(plots.Piece("reserved by others", release.account.reserved, len(plots.TONES) - 1))
        if release.account.left > 0:
            pieces.append(plots.Piece("left in the ledger", release.account.left, None))
    if not any(piece.amount > 0 for piece in pieces):
        return None
    label = "; ".join(f"{piece.label} {piece.amount:.4g}" for piece in pieces)
    return plots.budget(pieces, unit, label=f"Budget in {unit}. {label}")


def _flat(parameters: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Parameters as lines of a table; nested ones under the name of the whole, long ones cut."""
    lines: list[tuple[str, str]] = []
    for name, value in parameters.items():
        title = prefix + str(name).replace("_", " ")
        if isinstance(value, dict):
            lines += _flat(value, f"{title}, ")
        else:
            text = f"{value:.6g}" if isinstance(value, float) else str(value)
            lines.append((title, text if len(text) <= 160 else text[:157] + "…"))
    return lines


def _workload_hash(release: Release) -> str:
    from maquette.queries import canonical_hash

    return canonical_hash(release.workload)

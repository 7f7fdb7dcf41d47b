"""The report of a release: one HTML file that explains itself, without scripts and without outside files."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from maquette.release import glance, plots, words
from maquette.release.page import template

if TYPE_CHECKING:
    from maquette.release.release import Release

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

    def told(self) -> tuple[tuple[str, float | None], ...]:
        return ((CERTIFIED, self.certified), (GUARANTEED, self.guaranteed), (TYPICAL, self.typical))


def render(release: Release) -> str:
    """The whole page as text."""
    groups = group_errors(release)
    page = template("report.html.j2").render(
        release=release,
        words=words,
        odds=math.exp(min(release.budget.epsilon, 50.0)),
        groups=groups,
        error_plot=_error_plot(groups),
        panels=glance.panels(release),
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
    known = [value for value in values if value is not None and value < 1]
    return min(known, default=None)


def _typical(release: Release, start: int, stop: int) -> float | None:
    if release.deviations is None or start == stop:
        return None
    return float(np.median(release.deviations[start:stop]))


def _error_plot(groups: list[GroupErrors]) -> str | None:
    marks = [
        plots.Mark(group.name, statement, 100 * value)
        for group in groups
        for statement, value in group.told()
        if value is not None and value > 0
    ]
    if not marks:
        return None
    told = [s for s in (CERTIFIED, GUARANTEED, TYPICAL) if any(mark.statement == s for mark in marks)]
    label = "; ".join(f"{mark.group}: {mark.statement} {mark.points:.3g} percentage points" for mark in marks)
    return plots.errors(marks, told, label=f"Errors per group of queries. {label}")


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
        told = prefix + str(name).replace("_", " ")
        if isinstance(value, dict):
            lines += _flat(value, f"{told}, ")
        else:
            text = f"{value:.6g}" if isinstance(value, float) else str(value)
            lines.append((told, text if len(text) <= 160 else text[:157] + "…"))
    return lines


def _workload_hash(release: Release) -> str:
    from maquette.queries import canonical_hash

    return canonical_hash(release.workload)

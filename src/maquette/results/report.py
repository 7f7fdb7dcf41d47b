"""The report of a release: one HTML file that explains itself, without scripts and without outside files."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from maquette.core.attribute import Kind
from maquette.core.budget import UNITS, Unit, epsilon_for_units, percent_of
from maquette.domain import Attribute
from maquette.queries import condition
from maquette.queries.condition import Leaf
from maquette.queries.predicates import of_condition
from maquette.results import plots, wording
from maquette.results.knowledge import estimate
from maquette.results.pairs import bundles, heat_maps
from maquette.results.statements import CRUMB, Estimate, meaningful, useful

if TYPE_CHECKING:
    from jinja2 import Environment, Template

    from maquette.results.release import Release
    from maquette.results.statements import Account


# The table at a glance: the shares of every attribute, with error bars where an error is proved.

MAX_ATTRIBUTES = 20
MAX_BARS = 12


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
    for attribute in [release.domain[name] for name in release.measured[:MAX_ATTRIBUTES]]:
        shares = list(shares_of(release, attribute))
        bars = [bar_of(label, share) for label, share in shares]
        if bars:
            values = ", ".join(f"{bar.label} {bar.value:.3g} per cent" for bar in bars)
            svg = plots.marginal(bars, label=f"Shares of {attribute.name}: {values}")
            has_error = [bar.low is not None for bar in bars]
            alone = any(share.alone for _, share in shares)
            result.append(Panel(attribute.name, svg, any(has_error), not all(has_error), alone))
    return result


def shares_of(
    release: Release, attribute: Attribute, *, most: int = MAX_BARS
) -> Iterator[tuple[str, Estimate]]:
    """The shares of an attribute in at most so many bars; fewer where the release does not cover one.

    Other and missing values have one bar where an error is stated only for both together, as by prefixes and ranges,
    which count declared cells: both are what those leave.
    """
    for label, codes in _bars(release, attribute, most):
        share = _share(release, attribute, codes)
        if share is None:
            return
        yield label, share


def _bars(release: Release, attribute: Attribute, most: int) -> list[tuple[str, range]]:
    bars = list(bundles(attribute, most))
    outside = range(attribute.cells, attribute.size)
    if len(outside) < 2:
        return bars
    apart, together = (
        _share(release, attribute, one) for one in (range(outside.stop - 1, outside.stop), outside)
    )
    if together is None or together.error is None or (apart is not None and apart.error is not None):
        return bars
    return [*(bar for bar in bars if bar[1].start < attribute.cells), ("(other or missing)", outside)]


def bar_of(label: str, share: Estimate) -> plots.Bar:
    """In per cent, with both ends where an error is stated."""
    if share.lower is None or share.upper is None:
        return plots.Bar(label, 100 * share.value, None, None)
    return plots.Bar(label, 100 * share.value, 100 * share.lower, 100 * share.upper)


def _share(release: Release, attribute: Attribute, codes: range) -> Estimate | None:
    run = Leaf(attribute.name, ((codes.start, codes.stop - 1),))
    return estimate(release, of_condition(release.domain, condition.simplify(release.domain, run)))


# The templates of pages: every value is escaped, and one that is missing is an error.


@lru_cache(maxsize=4)
def template(name: str) -> Template:
    """A template by its file name."""
    return environment("maquette.results").get_template(name)


def environment(package: str) -> Environment:
    """The templates of a package: what is put into them is escaped, and what is missing is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader(package, "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


# The ledger as it stood when the release was finished.


def account_in_words(account: Account, *, delta: float) -> str:
    """Spent, reserved and left in percent, and the epsilon that one more release could have at the total's delta.

    `delta` is that of the release, which is the total's unless the account has another.
    """
    total, spent, reserved = (round(x * UNITS) for x in (account.total, account.spent, account.reserved))
    left = 0 if account.left == 0 else total - spent - reserved
    parts = {"spent": spent, "reserved": reserved, "left": left}
    said = ", ".join(f"{percent_of(units, total)} {name}" for name, units in parts.items())
    unit = Unit(account.unit)
    at = 0.0 if unit.is_pure else delta if account.delta is None else account.delta
    further = wording.further(epsilon_for_units(left, unit, delta=at), at)
    if unit.is_pure and account.delta:
        return f"{said} of its pure part; what the other part can pay for: maquette ledger show"
    return f"{said}; {further}"


MAX_GROUPS = 16
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


def render(release: Release, files: Sequence[tuple[str, str]] = ()) -> str:
    """The whole page as text; `files` lie beside it, each with what it holds, and get a link."""
    quality = meaningful(release.quality)
    page = template("report.html.j2").render(
        release=release,
        words=wording,
        odds=math.exp(min(release.budget.epsilon, 50.0)),
        groups=group_errors(release),
        bars=error_bars(release),
        certificates=[*useful(release.certificates), *(one for one in quality if one.is_about_each)],
        quality=[one for one in quality if not one.is_about_each],
        panels=panels(release),
        maps=heat_maps(release),
        columns=column_entries(release),
        example=_example(release),
        payments=_payments(release),
        pieces=budget_pieces(release),
        files=[(name, quote(name), title) for name, title in files],
        standing=_standing(release),
        parameters=_flat(release.parameters),
        fingerprint=release.domain.fingerprint,
        workload_hash=_workload_hash(release),
    )
    return page.replace(" %", "\u00a0%")  # a number and its sign stay on one line


def _standing(release: Release) -> str | None:
    """The ledger in words, with the delta as a page writes it."""
    if release.account is None:
        return None
    text = account_in_words(release.account, delta=release.budget.delta)
    delta = release.budget.delta if release.account.delta is None else release.account.delta
    return text.replace(f"delta = {delta:g}", f"delta = {wording.small(delta)}") if delta else text


def group_errors(release: Release) -> list[GroupErrors]:
    """Every named part of the workload with its three statements; the whole first if there are several parts."""
    certified = {} if release.certificate is None else {g.name: g.alpha for g in release.certificate.groups}
    whole = None if release.certificate is None else release.certificate.alpha
    parts = list(release.workload.groups())[:MAX_GROUPS]
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


@dataclass(frozen=True, slots=True)
class ErrorBar:
    """One stated error as a bar: for which questions, how much, and how long the bar is."""

    name: str
    statement: str
    error: float
    records: float
    length: float
    """Of the bar, in percent of the longest."""
    typical: float | None
    """Where the typical noise stands on the same scale, if it is known and on it."""


def _statement(group: GroupErrors) -> tuple[str, float]:
    """What is stated for a group: the certificate where there is one, else the guarantee; infinite for neither."""
    if group.certified:
        return CERTIFIED, group.certified
    return GUARANTEED, math.inf if group.guaranteed is None else group.guaranteed


def error_bars(release: Release) -> list[ErrorBar]:
    """Every stated error: those for classes of questions first, smallest first, then those of the workload's groups."""
    rows: list[tuple[str, str, float, float | None]] = [
        (one.says + (" (half of them)" if one.bounds else ""), CERTIFIED, one.typical, None)
        for one in sorted(useful(release.certificates), key=lambda one: one.typical)
    ]
    groups = [(group.name, *_statement(group), group.typical) for group in group_errors(release)]
    if len({error for _, _, error, _ in groups}) == 1 and not any(typical for *_, typical in groups):
        groups = groups[:1]  # the whole workload says it all
    rows += groups
    rows = [one for one in rows if 0 < one[2] < 1]
    longest = max((error for _, _, error, _ in rows), default=1.0)
    return [
        ErrorBar(
            name=name[:1].upper() + name[1:],
            statement=statement,
            error=error,
            records=error * release.size.divisor,
            length=100 * error / longest,
            typical=None if typical is None or typical > longest else 100 * typical / longest,
        )
        for name, statement, error, typical in rows
    ]


def _example(release: Release) -> str:
    """A condition that this release can be asked, in the words of its own columns."""
    from maquette.queries.names import runs_text

    for name in release.measured:
        attribute = release.domain[name]
        last = attribute.cells - 1
        text = runs_text(attribute, ((last // 2 if attribute.kind is Kind.NUMERIC else last, last),))
        if text is not None:
            return text
    return "TRUE"


# The columns, as one would look them up.


@dataclass(frozen=True, slots=True)
class ColumnEntry:
    """One declared column: its kind, its values and whether this release says anything about it."""

    name: str
    kind: str
    values: str
    extra: str
    """The cells for what is not declared or missing."""
    is_measured: bool


def column_entries(release: Release) -> list[ColumnEntry]:
    """The dictionary of columns: what was declared, which is public."""
    return [
        ColumnEntry(a.name, str(a.kind), a.values_in_words, _extra(a), a.name in release.measured)
        for a in release.domain
    ]


def _extra(attribute: Attribute) -> str:
    cells = {"other": attribute.overflow_cell, "missing": attribute.null_cell}
    return ", ".join(name for name, cell in cells.items() if cell is not None)


@dataclass(frozen=True, slots=True)
class Payment:
    """Payments of one kind, added up."""

    label: str
    times: int
    amount: float
    share: float
    """Of what this release spent."""
    of_ledger: str
    """Of the whole ledger, in words."""


def _payments(release: Release) -> list[Payment]:
    labels = dict.fromkeys(payment.label for payment in release.spending)
    total = math.fsum(payment.amount for payment in release.spending)
    whole = total if release.account is None else release.account.total
    kinds = []
    for label in labels:
        amounts = [payment.amount for payment in release.spending if payment.label == label]
        amount = math.fsum(amounts)
        part = percent_of(round(amount * UNITS), round(whole * UNITS))
        kinds.append(Payment(label, len(amounts), amount, amount / total if total else 0.0, part))
    return kinds


@dataclass(frozen=True, slots=True)
class Piece:
    """One piece of the bar of the budget: its length in percent, and a tone; 0 is what is left."""

    label: str
    length: float
    percent: str
    tone: int


def budget_pieces(release: Release) -> list[Piece]:
    """What the ledger was spent on: here, otherwise, reserved, left. Without a ledger, this release alone."""
    amounts = [
        (payment.label, payment.amount, 1 + tone % 5)
        for tone, payment in enumerate(_payments(release))
        if payment.amount > 0
    ]
    here = math.fsum(amount for _, amount, _ in amounts)
    account = release.account
    whole = here if account is None else account.total
    if account is not None:
        before = max(account.spent - here, 0.0)
        if before > CRUMB * account.total:
            amounts.insert(0, ("spent otherwise", before, 6))
        if account.reserved > CRUMB * account.total:
            amounts.append(("reserved by others", account.reserved, 6))
        if account.left > 0:
            amounts.append(("left", account.left, 0))
    return [
        Piece(label, 100 * amount / whole, percent_of(round(amount * UNITS), round(whole * UNITS)), tone)
        for label, amount, tone in amounts
    ]


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

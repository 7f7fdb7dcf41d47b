"""The table at a glance: the shares of every attribute, with error bars where an error is proved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from maquette.domain import Attribute
from maquette.domain.attribute import MISSING, OTHER, Kind
from maquette.release import plots
from maquette.release.answering import Estimate, estimate

if TYPE_CHECKING:
    from maquette.release.release import Release

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
    found: list[Panel] = []
    for attribute in [release.domain[name] for name in release.measured[:MOST_ATTRIBUTES]]:
        shares = list(_shares(release, attribute))
        bars = [_bar(label, share) for label, share in shares]
        if bars:
            told = ", ".join(f"{bar.label} {bar.value:.3g} per cent" for bar in bars)
            svg = plots.marginal(bars, label=f"Shares of {attribute.name}: {told}")
            stated = [bar.low is not None for bar in bars]
            alone = any(share.alone for _, share in shares)
            found.append(Panel(attribute.name, svg, any(stated), not all(stated), alone))
    return found


def _shares(release: Release, attribute: Attribute) -> Iterator[tuple[str, Estimate]]:
    for label, codes in bins(attribute):
        found = _share(release, attribute, codes)
        if found is None:
            return
        yield label, found


def _bar(label: str, found: Estimate) -> plots.Bar:
    if found.error is None:
        return plots.Bar(label, 100 * found.value, None, None)
    low, high = max(found.value - found.error, 0.0), min(found.value + found.error, 1.0)
    return plots.Bar(label, 100 * found.value, 100 * low, 100 * high)


def _share(release: Release, attribute: Attribute, codes: range) -> Estimate | None:
    from maquette.queries import boxes, weights, where
    from maquette.queries.sql import runs_text

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

"""One query answered from what was released, with an error only where one is proved (`results/knowledge.py`).

A predicate that cuts cells is answered from both sides: the records that surely satisfy it, and those that may.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, TypeGuard

from maquette.errors import ReleaseError, WorkloadError
from maquette.models.answers import answer_from
from maquette.queries import condition
from maquette.queries.base import Queries
from maquette.queries.condition import Leaf
from maquette.queries.marginals import Marginals
from maquette.queries.predicates import Predicate
from maquette.queries.rows import Margin
from maquette.queries.typical import LEAST_SHARE, MOST_COLUMNS, QuestionKind, part_in_words
from maquette.results import statements, wording
from maquette.results.covering import as_set, parts_of
from maquette.results.distribution import records
from maquette.results.knowledge import estimate
from maquette.results.statements import Answer, Estimate, Source, meaningful
from maquette.results.wording import listed

if TYPE_CHECKING:
    from maquette.results.release import Release


NAMED_SETS = 8
"""How many covered sets of attributes an error message lists."""


def answer(release: Release, query: str | Queries) -> Answer:
    """Answer one query; see `Release.answer`."""
    single, text, notes = _read(release, query)
    check_attributes(release, single)
    result = _cut(release, single) if _is_cut(single) else estimate(release, single)
    if result is None:
        raise ReleaseError(_not_covered(release, single))
    if result.note is not None:
        notes = (*notes, result.note)
    if release.watermark is not None:
        notes = (f"NOT PRIVATE: {release.watermark}", *notes)
    return Answer(
        query=text,
        value=result.value,
        count=result.value * records(release.size, release.model, beta=release.beta).value,
        error=result.error,
        low=result.lower,
        high=result.upper,
        confidence=None if result.beta is None else 1 - result.beta,
        source=result.source,
        notes=notes,
        holds_for=result.holds_for,
        statement=None if result.error is None else result.statement,
        typical=_typical(release, single, result),
    )


def _typical(release: Release, query: Queries, result: Estimate) -> str | None:
    """How far questions like this one are off typically: where it could have been drawn, and is answered by the rows.

    Nothing where that is no less than what is stated for certain.
    """
    target = as_set(query) if release.quality else None
    product = None if target is None else condition.product(target)
    if not product or release.database is None or len(product) > MOST_COLUMNS:
        return None
    columns = set() if release.distribution is None else set(release.distribution.columns)
    is_drawn = all(leaf.attribute in columns and _is_asked(release, leaf) for leaf in product)
    if not is_drawn or result.value < LEAST_SHARE:
        return None
    of_rows = float(answer_from(release.database, query).fractions[0])
    if not math.isclose(of_rows, result.value, abs_tol=1e-12):
        return None
    bounds = [
        (one, one.kind)
        for one in meaningful(release.quality)
        if isinstance(one.kind, QuestionKind) and one.kind.has(len(product)) and one.alpha < result.width
    ]
    said = [f"{part_in_words(kind.part)} within {wording.points(one.alpha)}" for one, kind in bounds]
    return f"of random questions like it {listed(said)}" if said else None


def _is_asked(release: Release, leaf: Leaf) -> bool:
    """Is it a value, or an interval of declared values in their order?"""
    attribute = release.domain[leaf.attribute]
    ((low, high), *more) = leaf.runs
    return not more and (low == high or (attribute.ordered and high < attribute.cells))


def _is_cut(query: Queries) -> TypeGuard[Predicate]:
    return isinstance(query, Predicate) and not query.exact


def _cut(release: Release, query: Predicate) -> Estimate | None:
    """A predicate that cuts cells, from both sides; each gets half of the chance that a model's interval fails."""
    try:
        both = query.ends()
    except WorkloadError:  # too long to be said
        both = ()
    for end in both:
        check_attributes(release, end)
    sides = [result for end in both if (result := estimate(release, end, beta=release.beta / 2)) is not None]
    if len(sides) < 2:
        return _as_read(estimate(release, query))
    low, high = sides
    joined = statements.join(low.value, low.error, high.value, high.error)
    note = "; ".join(text for text in (joined.note, high.note or low.note) if text is not None)
    source: Source = high.source if low.beta == 0 else low.source
    if joined.error is None:
        return Estimate(joined.value, None, None, None, source, note)
    # bounds of the workload hold for all of its answers at once, a model's maybe for each by itself
    betas = [result.beta or 0.0 for result in sides]
    apart = "model" in (low.source, high.source) and not release.knowledge.is_shared
    beta = sum(betas) if apart else max(betas)
    said = dict.fromkeys(side.statement for side in sides if side.statement is not None)
    return Estimate.around(
        joined.value,
        joined.error,
        beta,
        source,
        note,
        alone=low.alone or high.alone,
        statement="; ".join(said) or None,
    )


def _as_read(result: Estimate | None) -> Estimate | None:
    """Where both sides are not covered: nothing is known of the cells that are cut, so no error can be stated."""
    if result is None:
        return None
    note = "counted up to the nearest border of a cell; how many records this gets wrong is not known"
    note = note if result.note is None else f"{result.note}; {note}"
    return replace(result, lower=None, upper=None, beta=None, note=note)


def check_attributes(release: Release, query: Queries) -> None:
    """Refuse a query about attributes that no measurement of the release looked at."""
    gone = [name for name in query.attributes if name not in release.measured]
    if gone:
        verb = "was" if len(gone) == 1 else "were"
        raise ReleaseError(
            f"{listed(gone)} {verb} not measured by this release, which is about {listed(release.measured)}; a "
            f"release with a marginal of {listed(query.attributes)}, or a session, answers it"
        )


def _read(release: Release, query: str | Queries) -> tuple[Queries, str, tuple[str, ...]]:
    if isinstance(query, str):
        from maquette.queries import where

        predicate = where(release.domain, query, undeclared=True)
        return predicate, query, (*predicate.remarks, *predicate.cuts)
    if query.domain.fingerprint != release.domain.fingerprint:
        raise ReleaseError("this query and the release have different domains")
    if query.count != 1:
        raise ReleaseError(
            f"expected one query, got a class of {query.count:,}; ask them one by one, "
            "or read release.answers if they are the workload"
        )
    return query, query.text(0), query.cuts if isinstance(query, Predicate) else ()


def _not_covered(release: Release, query: Queries) -> str:
    sets = sorted(
        {m for _, part in parts_of(release.workload) for m in _sets(part)}, key=lambda m: (-len(m), m)
    )
    listed = "; ".join(", ".join(margin) for margin in sets[:NAMED_SETS])
    more = f"; and {len(sets) - NAMED_SETS:,} more" if len(sets) > NAMED_SETS else ""
    return (
        f"this release holds answers only and does not cover a query over {', '.join(query.attributes)}; "
        f"covered are queries of the workload and those over one of these sets of attributes: {listed}{more}"
    )


def _sets(part: Queries) -> tuple[Margin, ...]:
    return part.margins if isinstance(part, Marginals) else (part.attributes,)

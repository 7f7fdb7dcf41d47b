"""One query answered from what was released, with an error only where one is proved.

Which source answers depends on public structure alone, so that the stated confidence needs no correction for
having looked at more than one: first the model, then the released answers of the workload, then the rows. Where the
answers are those of rows fitted by sculpt, a query of the workload itself comes first: its error is certified.

Where classes of questions are certified, the smallest error of all statements that cover the query is taken. They hold
together: the chance that one of them fails was divided between the certificates and, for one more part, the model's
interval of the query that is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from maquette.errors import ReleaseError, WorkloadError
from maquette.models.answers import answer_from
from maquette.models.constraints import possible
from maquette.queries import condition
from maquette.queries.base import Margin, Queries
from maquette.queries.condition import MAX_COMPARED_CELLS
from maquette.queries.marginals import Marginals
from maquette.queries.predicates import Predicate
from maquette.results import statements
from maquette.results.covering import Covered, cell_weights, combinations, parts_of
from maquette.results.distribution import records
from maquette.results.statements import Answer, HoldsFor, Source
from maquette.sculpt.model import SculptModel

if TYPE_CHECKING:
    from maquette.results.release import Release


NAMED_SETS = 8
"""How many covered sets of attributes an error message lists."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A share of the records and how far it may be off; `error` is None where nothing is proved."""

    value: float
    error: float | None
    beta: float | None
    source: Source
    note: str | None = None
    alone: bool = False
    """Does the error hold for this query alone, rather than for all answers of the release together?"""
    statement: str | None = None
    """By which statement the error is covered."""

    @property
    def holds_for(self) -> HoldsFor | None:
        if self.error is None:
            return None
        return "this question alone" if self.alone else "all answers of the release together"


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
        confidence=None if result.beta is None else 1 - result.beta,
        source=result.source,
        notes=notes,
        holds_for=result.holds_for,
        statement=None if result.error is None else result.statement,
    )


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
    sides = [result for end in both if (result := _side(release, end)) is not None]
    if len(sides) < 2:
        return _as_read(estimate(release, query))
    low, high = sides
    joined = statements.join(low.value, low.error, high.value, high.error)
    note = "; ".join(text for text in (joined.note, high.note or low.note) if text is not None)
    source: Source = high.source if low.beta == 0 else low.source
    if joined.error is None:
        return Estimate(joined.value, None, None, source, note)
    # bounds of the workload hold for all of its answers at once, a model's maybe for each by itself
    betas = [result.beta or 0.0 for result in sides]
    apart = "model" in (low.source, high.source) and not release.certificates
    beta = sum(betas) if apart else max(betas)
    whole = _estimate(joined.value, joined.error, beta, source, note)
    said = dict.fromkeys(side.statement for side in sides if side.statement is not None)
    return replace(whole, alone=low.alone or high.alone, statement="; ".join(said) or None)


def _side(release: Release, end: Predicate) -> Estimate | None:
    if end.condition in (condition.ALWAYS, condition.NEVER):
        return Estimate(float(end.condition == condition.ALWAYS), 0.0, 0.0, "model")
    return estimate(release, end, beta=release.beta / 2)


def _as_read(result: Estimate | None) -> Estimate | None:
    """Where both sides are not covered: nothing is known of the cells that are cut, so no error can be stated."""
    if result is None:
        return None
    note = "counted up to the nearest border of a cell; how many records this gets wrong is not known"
    return replace(
        result, error=None, beta=None, note=note if result.note is None else f"{result.note}; {note}"
    )


def estimate(release: Release, query: Queries, *, beta: float | None = None) -> Estimate | None:
    """The best supported estimate of one query, or None if the release does not cover it.

    `beta` is the chance that an interval of the model's fails, that of the release if it is not given.
    """
    if not set(query.attributes) <= set(release.measured):
        return None
    allowed = (release.beta if beta is None else beta) * part_of_beta(release)
    result = (
        _by_classes(release, query, allowed)
        or _certified(release, query)
        or _from_model(release, query, allowed)
        or _from_workload(release, query)
        or _from_rows(release, query)
    )
    if result is None or not result.value or not _impossible(query):
        return result
    note = "the constraints of the domain allow no such record"
    if result.error is None:
        return replace(result, value=0.0, note=note)
    corrected = _estimate(0.0, result.error + result.value, result.beta or release.beta, result.source, note)
    return replace(corrected, alone=result.alone, statement=result.statement)


def part_of_beta(release: Release) -> float:
    """The part of the chance to fail that each statement has, and a single interval besides: all without classes."""
    if not release.certificates:
        return 1.0
    return 1 / (len(release.certificates) + (release.certificate is not None) + 1)


def _by_classes(release: Release, query: Queries, beta: float) -> Estimate | None:
    """The smallest error of all statements that hold together; None without certified classes, or outside them all."""
    if release.coverage is None:
        return None
    covered = release.coverage.cover(query)
    able = [
        None if covered is None else _of_class(release, query, covered),
        _from_workload(release, query) if release.certificate is not None else None,
        _from_model(release, query, beta),
    ]
    with_error = [result for result in able if result is not None and result.error is not None]
    if not with_error:
        return None
    return replace(min(with_error, key=_width), beta=release.beta)


def _of_class(release: Release, query: Queries, covered: Covered) -> Estimate:
    source: Source = "workload" if release.certificates[0].of == "answers" else "rows"
    value, error = covered.value, covered.error
    if not covered.inside and release.database is not None:
        rows = float(answer_from(release.database, query).fractions[0])
        value = min(max(rows, covered.value - error), covered.value + error)
        error += abs(value - covered.value)
    note = None if covered.inside else f"{covered.statement}; {hint(query)}"
    return replace(_estimate(value, error, release.beta, source, note), statement=covered.statement)


def hint(query: Queries) -> str:
    """What would cover a query that nothing covers."""
    return f"a workload with the marginal of {_listed(query.attributes)}, or with this question itself, would cover it"


def _impossible(query: Queries) -> bool:
    """Do the declared constraints rule out every record that the query counts?"""
    if not query.domain.constraints or query.domain.cells(query.attributes) > MAX_COMPARED_CELLS:
        return False
    good = possible(query.domain, query.attributes)
    return good is not None and not cell_weights(query, query.attributes)[good].any()


def _certified(release: Release, query: Queries) -> Estimate | None:
    """A query of the workload that rows fitted by sculpt answer: the certificate is about that answer."""
    if release.certificate is None or not isinstance(release.model, SculptModel):
        return None
    return _from_workload(release, query, most=1)


def _from_model(release: Release, query: Queries, beta: float) -> Estimate | None:
    if release.model is None:
        return None
    own = _is_of_workload(release, query)
    result = release.model.estimate(query, beta=beta, among=release.workload.count if own else 1)
    if result is None:
        return None
    value, error = result
    statement = "from the noise that was drawn for the measured tables"
    return replace(_estimate(value, error, beta, "model"), alone=not own, statement=statement)


def _is_of_workload(release: Release, query: Queries) -> bool:
    """Is it one of the workload's queries, or the complement of one? Their errors are stated for all together."""
    return any(
        len(indices) == 1 and abs(float(weights[0])) == 1
        for _, part in parts_of(release.workload)
        for indices, weights, _ in combinations(part, query)
    )


def _from_workload(release: Release, query: Queries, *, most: int | None = None) -> Estimate | None:
    """Out of the released answers, at most so many of them."""
    best: Estimate | None = None
    for offset, part in parts_of(release.workload):
        for indices, weights, constant in combinations(part, query):
            if most is not None and len(indices) > most:
                continue
            result = _combine(release, query, offset + indices, weights, constant)
            if best is None or _width(result) < _width(best):
                best = result
    return best


def _width(result: Estimate) -> float:
    return 1.0 if result.error is None else result.error


def _combine(
    release: Release, query: Queries, indices: NDArray[Any], weights: NDArray[Any], constant: float
) -> Estimate:
    """A weighted sum of released answers. Their common bound holds for all at once, so errors add up."""
    if release.listed:
        numerators = release.answers.numerators[indices.astype(np.int64)]
        value = constant + float((weights * numerators).sum()) / release.answers.denominator
    else:  # every answer is the rows' own, and so is their sum
        assert release.database is not None
        value = float(answer_from(release.database, query).fractions[0])
    alpha, beta = workload_bound(release, indices)
    total = float(np.abs(weights).sum())
    note = None if len(indices) < 2 else f"summed from {len(indices):,} released answers, whose errors add up"
    how = "guaranteed in advance" if release.certificate is None else "certified"
    whole = _estimate(value, total * alpha, beta, "workload", note)
    return replace(whole, statement=f"{how} for every query of the workload")


def _from_rows(release: Release, query: Queries) -> Estimate | None:
    if release.database is None:
        return None
    value = float(answer_from(release.database, query).fractions[0])
    return Estimate(value, None, None, "rows", _of_rows(release, query))


def _of_rows(release: Release, query: Queries) -> str:
    """How an answer of the rows is known: whether a measurement looked at its attributes together."""
    names = {name for name in query.attributes if query.domain[name].size > 1}
    if len(names) > 1 and not any(names <= set(margin) for margin in release.measured_together):
        return (
            f"no measurement of this release looked at {_listed(query.attributes)} together: how they go together in "
            "the synthetic rows is an assumption (that of independence, where nothing else connects them), and no "
            "error is proved for it"
        )
    return f"not in the released workload: read from the synthetic rows, no error is proved for it; {hint(query)}"


def check_attributes(release: Release, query: Queries) -> None:
    """Refuse a query about attributes that no measurement of the release looked at."""
    gone = [name for name in query.attributes if name not in release.measured]
    if gone:
        verb = "was" if len(gone) == 1 else "were"
        raise ReleaseError(
            f"{_listed(gone)} {verb} not measured by this release, which is about {_listed(release.measured)}; a "
            f"release with a marginal of {_listed(query.attributes)}, or a session, answers it"
        )


def _listed(names: Sequence[str]) -> str:
    """Names as a sentence says them; many of them cut short."""
    if len(names) > NAMED_SETS:
        return f"{', '.join(names[:NAMED_SETS])} and {len(names) - NAMED_SETS:,} more"
    if len(names) < 2:
        return "".join(names) or "no attribute"
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _estimate(value: float, error: float, beta: float, source: Source, note: str | None = None) -> Estimate:
    value = min(max(value, 0.0), 1.0)  # the truth lies there too, so this can only lower the error
    if not error < 1:
        return Estimate(value, None, None, source, "the bound on its error is too large to say anything")
    return Estimate(value, error, beta, source, note)


def workload_bound(release: Release, indices: NDArray[Any]) -> tuple[float, float]:
    """The error that holds for all of these answers together, and how likely it is exceeded."""
    if release.certificate is None:
        return release.stated.alpha, release.stated.beta
    certificate = release.certificate
    named = {group.name: group for group in certificate.groups}
    for group in release.workload.groups():
        if (
            group.name in named
            and len(indices)
            and group.start <= indices.min()
            and indices.max() < group.stop
        ):
            return min(named[group.name].alpha, certificate.alpha), certificate.beta
    return certificate.alpha, certificate.beta


def _read(release: Release, query: str | Queries) -> tuple[Queries, str, tuple[str, ...]]:
    if isinstance(query, str):
        from maquette.queries import where

        predicate = where(release.domain, query)
        return predicate, query, predicate.cuts
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

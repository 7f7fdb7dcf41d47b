"""What a mechanism made, brought to the domain's constraints, whatever it knows of them. Post-processing: free."""

from __future__ import annotations

from dataclasses import replace

from maquette.domain import Domain
from maquette.mechanisms.base import Outcome
from maquette.models import constraints, forbidden
from maquette.models.answers import Unlisted
from maquette.models.rows import generator
from maquette.queries.base import Queries


def meeting(outcome: Outcome, queries: Queries, *, key: str) -> Outcome:
    """The same outcome with rows and answers that meet the domain's constraints; `key` seeds the mending of rows."""
    if not queries.domain.constraints:
        return outcome
    return _with_zeros(_with_mended_rows(outcome, queries.domain, key), queries)


def _with_mended_rows(outcome: Outcome, domain: Domain, key: str) -> Outcome:
    if outcome.database is None:
        return outcome
    compiled = constraints.compile(domain, outcome.database.columns)
    rows = compiled.mend(outcome.database, rng=generator(f"{key}/constraints"))
    if rows is outcome.database:
        return outcome
    note = (
        "some rows were changed to meet the constraints of the domain; answers only where they are forbidden"
    )
    return replace(outcome, database=rows, notes=(*outcome.notes, note))


def _with_zeros(outcome: Outcome, queries: Queries) -> Outcome:
    """Zero for the cells of marginals that no record has; the promise grows by how far an answer was moved."""
    if outcome.judged is not None or isinstance(outcome.answers, Unlisted):
        return outcome  # what is judged or read from rows as they are
    answers, moved = forbidden.cleared(outcome.answers, queries)
    promised = outcome.guarantee
    return replace(
        outcome, answers=answers, guarantee=replace(promised, alpha=min(1.0, promised.alpha + moved))
    )

"""From the queries that were asked back to those of the workload: copies, complements and constants too."""

from __future__ import annotations

from dataclasses import replace

from maquette.mechanisms.base import Outcome
from maquette.models.answers import Answers
from maquette.queries.merging import Merged


def expanded(outcome: Outcome, merged: Merged) -> Outcome:
    """The outcome for the whole workload. Post-processing: free.

    Accuracy: that of the outcome. As a share of the records a complement is off by as much as the query itself,
        whatever the number of records is, and a constant is exact.
    """
    if merged.source is None:
        return outcome
    denominator = outcome.answers.denominator
    answers = Answers(merged.expand(outcome.answers.numerators, denominator), denominator)
    deviations = outcome.deviations
    notes = outcome.notes
    if merged.saved:
        told = f"{merged.saved:,} of {len(merged.source):,} queries"
        notes = (
            *notes,
            f"{told} repeat another one, are its complement or count all records or none: not asked again",
        )
    return replace(
        outcome,
        answers=answers,
        deviations=None if deviations is None else merged.expand_errors(deviations),
        notes=notes,
        parameters=outcome.parameters | {"merged": merged.saved},
    )

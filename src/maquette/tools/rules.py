"""`best_rule`: private agnostic learning through a release. Post-processing: it looks at nothing, and is free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from maquette.core._arguments import checks_arguments
from maquette.errors import ParameterError
from maquette.queries.predicates import where
from maquette.results.knowledge import estimate
from maquette.results.release import Release
from maquette.results.statements import Answer


@dataclass(frozen=True, slots=True)
class BestRule:
    """The rule that disagrees with a label least often, by released answers."""

    rule: str
    errors: tuple[Answer, ...]
    """For every rule, in the order given, the share of the records on which it disagrees with the label."""
    index: int
    excess: float | None
    """On the table no rule of these errs less often by more than this; None where no error is stated for one of
    them. Except with the probability beta of the release."""

    @property
    def error(self) -> Answer:
        """How often the rule errs, as released."""
        return self.errors[self.index]

    def __str__(self) -> str:
        within = (
            "no stated error" if self.excess is None else f"none is better by {100 * self.excess:.1f} points"
        )
        return f"{self.rule}: errs on {100 * self.error.value:.1f} % of the records; {within}"


@checks_arguments
def best_rule(release: Release, rules: Sequence[str], *, label: str) -> BestRule:
    """Of several conditions, such as thresholds or conjunctions, the one that predicts a label best, from a release.

    A rule errs where it and the `label` differ, which is a counting query: (rule AND NOT label) OR (NOT rule AND
    label). A record that is null in one of them counts for neither.

    Guarantee: that of the release; nothing more is spent, whatever the number of rules.
    Accuracy: if every answer is within its interval, no rule is better on the table than the chosen one's upper end
        less the smallest lower end; twice the largest error at most. On the population:
        `theory.population.agnostic_error`.
    """
    if not rules:
        raise ParameterError("expected rules to choose from, such as ['age >= 30', 'age >= 40']")
    texts = [_disagreement(rule, label) for rule in rules]
    answers = tuple(release.answer(text) for text in texts)
    index = min(range(len(answers)), key=lambda i: answers[i].value)
    return BestRule(rules[index], answers, index, _excess(release, texts, index))


def _disagreement(rule: str, label: str) -> str:
    return f"(({rule}) AND NOT ({label})) OR (NOT ({rule}) AND ({label}))"


def _excess(release: Release, texts: Sequence[str], index: int) -> float | None:
    """From the ends of intervals that hold together: those of single questions have an equal part of beta each."""
    ends: list[tuple[float, float]] = []
    for text in texts:
        predicate = where(release.domain, text, undeclared=True)
        interval = estimate(release, predicate, beta=release.beta / len(texts)) if predicate.exact else None
        if interval is None or interval.lower is None or interval.upper is None:
            return None
        ends.append((interval.lower, interval.upper))
    high = ends[index][1]
    return max([0.0, *(high - low for i, (low, _) in enumerate(ends) if i != index)])

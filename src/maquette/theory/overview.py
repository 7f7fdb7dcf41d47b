"""Every bound for one setting, side by side; what a target error needs; how each moves with n, epsilon and k."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from maquette.theory import direct, existence, guarantees, search, smalldb, textbook
from maquette.theory.guarantees import Group, Guarantee, Setting

Axis = Literal["n", "epsilon", "queries"]
__all__ = [
    "Axis",
    "Crossover",
    "Line",
    "Needs",
    "Setting",
    "bounds",
    "crossover",
    "curve",
    "mechanisms",
    "needs",
    "records",
]

_FAR = 1e30
"""ln k beyond which the number of queries is called unlimited."""


@dataclass(frozen=True, slots=True)
class Line:
    """One bound on the largest error of all queries, as a fraction of the records."""

    group: Group
    name: str
    alpha: float
    """May exceed 1, where nothing is guaranteed."""
    rows: int | None = None
    """Rows of the small database."""
    remark: str = ""
    in_counts: bool = False
    """The printed form is in counts; `alpha` is then a count too."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What one mechanism needs for a target error, one number at a time, the others as in the setting."""

    records: int | None
    epsilon: float | None
    log_queries: float | None
    """ln of the number of queries that it can answer within the target; infinite if their number does not matter."""


def bounds(setting: Setting) -> list[Line]:
    """Everything that is known about this setting, group by group."""
    return [
        *_smalldb(setting),
        *_proved(setting),
        *_textbook(setting),
        *_mean_square(setting),
        *_rates(setting),
        *_lower(setting),
    ]


def mechanisms(setting: Setting) -> dict[str, float]:
    """The guaranteed error of every mechanism that applies."""
    return {one.name: error for one, error in guarantees.applicable(setting)}


def records(setting: Setting, *, alpha: float) -> dict[str, int | None]:
    """How many records each mechanism needs for the error alpha; the setting's own n is not used."""
    return {one.name: _records(one, setting, alpha) for one, _ in guarantees.applicable(setting)}


def needs(setting: Setting, *, alpha: float) -> dict[str, Needs]:
    """For each mechanism the records, the epsilon and the number of queries at which it reaches alpha."""
    return {one.name: needs_of(one, setting, alpha=alpha) for one, _ in guarantees.applicable(setting)}


def needs_of(one: Guarantee, setting: Setting, *, alpha: float) -> Needs:
    """The same for one mechanism."""
    return Needs(
        _records(one, setting, alpha), _epsilon(one, setting, alpha), _log_queries(one, setting, alpha)
    )


@dataclass(frozen=True, slots=True)
class Crossover:
    """Error against the number of questions asked one at a time, and where PMW overtakes fresh noise."""

    lines: tuple[tuple[int, float, float], ...]
    """(questions, error of private multiplicative weights, error of fresh noise on every question)."""
    questions: int | None
    """From so many on PMW's guarantee is the smaller one; None if it never is, up to 10^12."""


def crossover(setting: Setting) -> Crossover:
    """Sessions planned from public numbers: PMW against fresh noise, for 1 to 10^6 questions of any kind.

    Accuracy: `online.pmw` at its best number of paid answers, in epsilon or rho, whichever is better; against it
        Laplace noise of scale k/epsilon, or with a delta Gaussian noise. Both hold for all questions together.
    """

    def errors(questions: int) -> tuple[float, float]:
        facts = existence.Facts(universe=setting.facts.universe, log_queries=math.log(questions))
        at = replace(setting, facts=facts)
        fresh = [guarantees.guarantee(name).error(at) for name in ("laplace", "gaussian")]
        return guarantees.guarantee("pmw").error(at), min(fresh)

    lines = tuple((k, *errors(k)) for k in (1, 10, 100, 1000, 10**4, 10**5, 10**6))

    def overtaken(questions: int) -> bool:
        ours, fresh = errors(questions)
        return ours < fresh

    return Crossover(lines, search.smallest(overtaken, most=10**12))


def curve(setting: Setting, axis: Axis, *, points: int = 41) -> list[dict[str, float | str]]:
    """Guaranteed errors along one axis, three decades around the setting, the others held fixed."""
    lines: list[dict[str, float | str]] = []
    shown = {one.name for one, _ in guarantees.applicable(setting)}
    for value, changed in _along(setting, axis, points):
        lines += [
            {"axis": axis, "value": value, "mechanism": name, "alpha": alpha}
            for name, alpha in mechanisms(changed).items()
            if name in shown
        ]
    return lines


def _along(setting: Setting, axis: Axis, points: int) -> Iterator[tuple[float, Setting]]:
    for i in range(points):
        factor = 10 ** (3 * (2 * i / (points - 1) - 1))
        if axis == "n":
            n = max(1, round(setting.n * factor))
            yield float(n), replace(setting, n=n)
        elif axis == "epsilon":
            yield setting.epsilon * factor, replace(setting, epsilon=setting.epsilon * factor)
        else:
            log_queries = max(0.0, setting.facts.log_queries + math.log(factor))
            yield math.exp(log_queries), guarantees.with_queries(setting, log_queries)


def _records(one: Guarantee, setting: Setting, alpha: float) -> int | None:
    if one.name == "smalldb":  # exact: minimised over m
        needed = smalldb.records(
            setting.facts,
            alpha=alpha,
            epsilon=setting.epsilon,
            beta=setting.beta,
            only=guarantees.useful_forms(setting),
        )
        return needed.whole
    return search.records(lambda n: one.error(replace(setting, n=n)), alpha=alpha)


def _epsilon(one: Guarantee, setting: Setting, alpha: float) -> float | None:
    """To a relative 1e-6 from above."""

    def enough(epsilon: float) -> bool:
        return one.error(replace(setting, epsilon=epsilon)) <= alpha

    return _border(enough, low=1e-9, high=1e4)


def _border(enough: Callable[[float], bool], *, low: float, high: float) -> float | None:
    """The least value that is enough, between two, for what is enough from some value on; None if none is."""
    if not enough(high):
        return None
    while high / low > 1 + 1e-6:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _log_queries(one: Guarantee, setting: Setting, alpha: float) -> float | None:
    """ln of the largest k, to a relative 1e-6 from below; None if not even one query is within alpha."""

    def fails(log_queries: float) -> bool:
        return not one.error(guarantees.with_queries(setting, log_queries)) <= alpha

    if fails(0.0):
        return None
    if not fails(_FAR):
        return math.inf
    border = _border(fails, low=1e-6, high=_FAR)
    assert border is not None  # it fails at _FAR
    return max(0.0, border / (1 + 1e-6))


def _smalldb(setting: Setting) -> list[Line]:
    best = guarantees.best_smalldb(setting)
    lines = [Line("SmallDB", "best of all forms", best.alpha, best.rows, f"form {best.form}")]
    letters = sorted({form.letter for form in existence.forms(setting.facts)})
    if setting.n_public:
        letters = sorted(
            {*letters, "c", *(form.letter for form in existence.forms(setting.facts, n=setting.n))}
        )
    for letter in letters:
        bound = guarantees.best_smalldb(setting, only=letter)
        lines.append(Line("SmallDB", f"form {letter}", bound.alpha, bound.rows, _WORDS[letter]))
    if math.isfinite(setting.facts.log_queries):
        plain = guarantees.best_smalldb(setting, base="sequences", only="a")
        lines.append(
            Line("SmallDB", "sequences", plain.alpha, plain.rows, "|X|^m instead of multisets, form a")
        )
        lines.append(Line("SmallDB", "closed form", _closed_form(setting), None, "no search over m"))
    roth = guarantees.guarantee("roth")
    return [*lines, Line("SmallDB", roth.name, roth.error(setting), None, roth.remark)]


def _closed_form(setting: Setting) -> float:
    return smalldb.closed_form(
        n=setting.n,
        epsilon=setting.epsilon,
        log_universe=setting.log_universe,
        log_queries=setting.facts.log_queries,
        beta=setting.beta,
        span=setting.facts.span,
    )


def _proved(setting: Setting) -> list[Line]:
    return [
        Line(one.group, one.name, error, None, one.remark)
        for one, error in guarantees.applicable(setting)
        if one.group != "SmallDB"
    ]


def _textbook(setting: Setting) -> list[Line]:
    if not math.isfinite(setting.facts.log_queries):
        return []
    terms = textbook.Setting(
        epsilon=setting.epsilon,
        log_universe=setting.log_universe,
        log_queries=setting.facts.log_queries,
        beta=setting.beta,
    )
    return [
        Line(
            "textbook SmallDB",
            variant.name,
            variant.error(setting.n, terms),
            None,
            f"{variant.status}: {variant.remark}",
            variant.in_counts,
        )
        for variant in textbook.VARIANTS
    ]


def _mean_square(setting: Setting) -> list[Line]:
    """What projected Gaussian answers are off by in the mean over all queries: no bound on the largest."""
    if not setting.delta or not setting.n_public or not setting.log_queries < guarantees.MAX_LOG_HISTOGRAM:
        return []
    error = setting.facts.span * direct.projection_rmse(
        n=setting.n,
        rho=guarantees.rho_of(setting.epsilon, setting.delta),
        queries=math.exp(setting.log_queries),
        log_universe=setting.log_universe,
    )
    remark = (
        "root of the mean square over the queries, in expectation: min(sigma, (ln|X|/rho)^(1/4) / sqrt(2n))"
    )
    return [Line("mean square error", "gaussian, projected", error, None, remark)]


def _rates(setting: Setting) -> list[Line]:
    rate = setting.facts.span * guarantees.hardt_talwar(
        n=setting.n,
        epsilon=setting.epsilon,
        log_universe=setting.log_universe,
        log_queries=setting.log_queries,
    )
    remark = "min(k, sqrt(k ln(|X|/k))) / epsilon for random queries, no constant"
    return [Line("order of magnitude", "Hardt-Talwar", rate, None, remark)] if math.isfinite(rate) else []


def _lower(setting: Setting) -> list[Line]:
    """What no epsilon-private mechanism can beat on this class; for pure epsilon."""
    floor = guarantees.floor_of(setting)
    return [] if floor is None else [Line("lower bound", "shattered set", floor[0], None, floor[1])]


_WORDS = {
    "a": "sampling, sqrt(ln(2k) / 2m)",
    "b": "rounding, |X| / 4m",
    "c": "m = n, the table itself",
    "d": "sampling, behaviours on the support",
    "e": "VC dimension, free of n",
    "f": "quantiles of an ordered domain",
    "g": "a cover of the class",
    "h": "classes on disjoint attributes, each by itself",
}

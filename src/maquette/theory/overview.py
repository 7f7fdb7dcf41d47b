"""Every bound for one setting, side by side, and how each moves with n, epsilon and the number of queries."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from maquette import _check
from maquette.domain import Relation
from maquette.theory import direct, existence, lower, search, smalldb, textbook
from maquette.theory.existence import Facts

Group = Literal["SmallDB", "direct noise", "textbook SmallDB", "lower bound"]
Axis = Literal["n", "epsilon", "queries"]

_LARGEST_HISTOGRAM = 40.0
"""ln |X| beyond which nobody holds a histogram."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The public numbers that all bounds are computed from."""

    facts: Facts
    n: int
    epsilon: float
    delta: float = 0.0
    beta: float = 0.05
    relation: Relation = Relation.REPLACE_ONE

    def __post_init__(self) -> None:
        _check.whole(n=self.n)
        _check.positive(epsilon=self.epsilon)
        _check.fraction(beta=self.beta)
        _check.fraction_or_zero(delta=self.delta)

    @property
    def n_public(self) -> bool:
        return self.relation is Relation.REPLACE_ONE

    @property
    def log_universe(self) -> float:
        return math.log(self.facts.universe)


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


def bounds(setting: Setting) -> list[Line]:
    """Everything that is known about this setting, group by group."""
    return [*_smalldb(setting), *_direct(setting), *_textbook(setting), *_lower(setting)]


def mechanisms(setting: Setting) -> dict[str, float]:
    """The guarantees of the mechanisms at hand: SmallDB and direct noise."""
    return {"smalldb": _best(setting).alpha} | {
        name: error(setting) for name, error in _noises(setting).items()
    }


def records(setting: Setting, *, alpha: float) -> dict[str, int | None]:
    """How many records each mechanism needs for the error alpha; the setting's own n is not used."""
    only = existence.LETTERS if setting.n_public else existence.LETTERS.replace("c", "")
    needed = smalldb.records(
        setting.facts, alpha=alpha, epsilon=setting.epsilon, beta=setting.beta, only=only
    )
    needs: dict[str, int | None] = {"smalldb": needed.whole}
    for name, error in _noises(setting).items():
        needs[name] = search.records(lambda n, error=error: error(replace(setting, n=n)), alpha=alpha)
    return needs


def curve(setting: Setting, axis: Axis, *, points: int = 41) -> list[dict[str, float | str]]:
    """Guaranteed errors along one axis, three decades around the setting, the others held fixed."""
    lines: list[dict[str, float | str]] = []
    for value, changed in _along(setting, axis, points):
        lines += [
            {"axis": axis, "value": value, "mechanism": name, "alpha": alpha}
            for name, alpha in mechanisms(changed).items()
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
            yield (
                math.exp(log_queries),
                replace(setting, facts=replace(setting.facts, log_queries=log_queries)),
            )


def _best(setting: Setting, **chosen: str) -> smalldb.Bound:
    return smalldb.best(
        setting.facts,
        n=setting.n,
        epsilon=setting.epsilon,
        beta=setting.beta,
        n_public=setting.n_public,
        **chosen,  # pyright: ignore[reportArgumentType]
    )


def _smalldb(setting: Setting) -> list[Line]:
    best = _best(setting)
    lines = [Line("SmallDB", "best of all forms", best.alpha, best.rows, f"form {best.form}")]
    letters = sorted({form.letter for form in existence.forms(setting.facts)})
    if setting.n_public:
        letters = sorted(
            {*letters, "c", *(form.letter for form in existence.forms(setting.facts, n=setting.n))}
        )
    for letter in letters:
        bound = _best(setting, only=letter)
        lines.append(Line("SmallDB", f"form {letter}", bound.alpha, bound.rows, _WORDS[letter]))
    if math.isfinite(setting.facts.log_queries):
        plain = _best(setting, base="sequences", only="a")
        lines.append(
            Line("SmallDB", "sequences", plain.alpha, plain.rows, "|X|^m instead of multisets, form a")
        )
        lines.append(Line("SmallDB", "closed form", _closed_form(setting), None, "no search over m"))
    return lines


def _closed_form(setting: Setting) -> float:
    return smalldb.closed_form(
        n=setting.n,
        epsilon=setting.epsilon,
        log_universe=setting.log_universe,
        log_queries=setting.facts.log_queries,
        beta=setting.beta,
    )


def _noises(setting: Setting) -> dict[str, Callable[[Setting], float]]:
    """Direct mechanisms that can run here, by their names in the planner."""
    if not math.isfinite(setting.facts.log_queries):
        return {}
    errors: dict[str, Callable[[Setting], float]] = {}
    if setting.facts.log_queries < _LARGEST_HISTOGRAM:
        errors |= {
            "laplace": lambda s: direct.laplace(**_terms(s)),
            "linf": lambda s: direct.linf(**_terms(s)),
        }
        if setting.delta:
            errors["gaussian"] = lambda s: direct.gaussian_one_shot(delta=s.delta, **_terms(s))
    if setting.log_universe < _LARGEST_HISTOGRAM:
        errors["histogram-laplace"] = lambda s: direct.histogram_laplace(
            universe=s.facts.universe, **_terms(s)
        )
        if setting.delta:
            errors["histogram-gaussian"] = lambda s: direct.histogram_gaussian(
                delta=s.delta, universe=s.facts.universe, **_terms(s)
            )
    return errors


def _terms(setting: Setting) -> dict[str, float]:
    return {
        "n": setting.n,
        "epsilon": setting.epsilon,
        "log_queries": setting.facts.log_queries,
        "beta": setting.beta,
    }


def _direct(setting: Setting) -> list[Line]:
    return [
        Line("direct noise", name, error(setting), None, "replace-one, continuous noise")
        for name, error in _noises(setting).items()
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


def _lower(setting: Setting) -> list[Line]:
    """What no epsilon-private mechanism can beat on this class; for pure epsilon and counting queries."""
    if setting.facts.vc is None or setting.delta:
        return []
    window = lower.from_vc(setting.facts.vc)
    if 2 * setting.n < window.points:
        return []
    floor = lower.fraction(
        window, n=setting.n, epsilon=setting.epsilon, beta=setting.beta, relation=setting.relation
    )
    return [Line("lower bound", "shattered set", floor, None, f"VC dimension {setting.facts.vc}")]


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

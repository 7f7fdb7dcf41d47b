"""SmallDB's bound as textbooks print it, for comparison only. Nothing in the library states these.

Letters: L = ln|X| ln k, b = ln(1/beta). `status` says what each is worth:
exact  true as it stands, for its own choice of m;
loose  true, but with larger constants than needed or a condition that is not printed;
wrong  not a bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from maquette.core import _check

Status = Literal["exact", "loose", "wrong"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What every variant is computed from."""

    epsilon: float
    log_universe: float
    log_queries: float
    beta: float

    def __post_init__(self) -> None:
        _check.positive(epsilon=self.epsilon)
        _check.fraction(beta=self.beta)

    @property
    def product(self) -> float:
        """L = ln|X| ln k."""
        return self.log_universe * self.log_queries

    @property
    def failure(self) -> float:
        """b = ln(1/beta)."""
        return -math.log(self.beta)


@dataclass(frozen=True, slots=True)
class Variant:
    """One printed error bound as a function of n."""

    name: str
    status: Status
    remark: str
    error: Callable[[float, Setting], float]
    """Fraction, or counts if `in_counts`."""
    in_counts: bool = False


def rows(*, alpha: float, log_queries: float) -> int:
    """m = ln k / alpha^2, rounded up: wasteful for k > 2, and 0 at k = 1. Ours is ceil(ln(2k) / (2 alpha^2))."""
    _check.positive(alpha=alpha)
    return math.ceil(log_queries / alpha**2)


def error_at(setting: Setting, *, n: float, alpha: float) -> float:
    """alpha + 2 (L / alpha^2 + b) / (epsilon n), for the m of `rows`.

    Holds when: ln k / alpha^2 is a whole number; rounding it up adds 2 ln|X| / (epsilon n).
    """
    _check.positive(n=n, alpha=alpha)
    return alpha + 2 * (setting.product / alpha**2 + setting.failure) / (setting.epsilon * n)


def error_minimised(n: float, setting: Setting) -> float:
    """`error_at`, minimised over alpha: 1.5 (4L / (epsilon n))^(1/3) + 2b / (epsilon n)."""
    scale = setting.epsilon * n
    return 1.5 * (4 * setting.product / scale) ** (1 / 3) + 2 * setting.failure / scale


def records_exact(setting: Setting, *, alpha: float) -> float:
    """Run at alpha/2: n >= (16 L + 4 alpha^2 b) / (epsilon alpha^3), the exact requirement."""
    _check.positive(alpha=alpha)
    return (16 * setting.product + 4 * alpha**2 * setting.failure) / (setting.epsilon * alpha**3)


def records_printed(setting: Setting, *, alpha: float) -> float:
    """n >= (16 L + 4 b) / (epsilon alpha^3): true and loose for alpha <= 1, silent beyond."""
    _check.positive(alpha=alpha)
    return (16 * setting.product + 4 * setting.failure) / (setting.epsilon * alpha**3)


def error_exact(n: float, setting: Setting) -> float:
    """The alpha at which `records_exact` is n."""
    _check.positive(n=n)
    low, high = 0.0, error_printed(n, setting) + error_minimised(n, setting)
    while records_exact(setting, alpha=high) > n:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (low, middle) if records_exact(setting, alpha=middle) <= n else (middle, high)
    return high


def error_printed(n: float, setting: Setting) -> float:
    """((16 L + 4 b) / (epsilon n))^(1/3): true where it is at most 1, and then loose."""
    return ((16 * setting.product + 4 * setting.failure) / (setting.epsilon * n)) ** (1 / 3)


def counts_printed(n: float, setting: Setting) -> float:
    """n^(2/3) ((16 L + 4 b) / (epsilon n))^(1/3): wrong, it divides by n twice."""
    return n ** (2 / 3) * error_printed(n, setting)


def counts_corrected(n: float, setting: Setting) -> float:
    """n^(2/3) ((16 L + 4 b) / epsilon)^(1/3): n times `error_printed`."""
    return n ** (2 / 3) * ((16 * setting.product + 4 * setting.failure) / setting.epsilon) ** (1 / 3)


def sampling_failure(*, queries: float) -> float:
    """What the union bound leaves at m = ln k / alpha^2: 2k exp(-2 ln k) = 2/k. It proves existence only where k > 2.

    At k = 2 it is 1: a text that asks for k >= 2 needs equality, which `existence.sampling` gets by compactness; at
    k = 1 it says nothing, and ln(2k) / (2 alpha^2) rows do.
    """
    _check.positive(queries=queries)
    return 2 / queries


def records_handwritten(setting: Setting, *, alpha: float) -> float:
    """n >= (6 L + 4 alpha^2 b) / (epsilon alpha^3), as in handwritten notes, where `records_exact` has 16: not proved.

    The best split of alpha needs 13.5 L for these rows (`error_minimised`), and 6.75 ln|X| ln(2k) with half as many
    (`smalldb.closed_form`).
    """
    _check.positive(alpha=alpha)
    return (6 * setting.product + 4 * alpha**2 * setting.failure) / (setting.epsilon * alpha**3)


def boosted_order(n: float, setting: Setting, *, power: float) -> float:
    """n^(-1/2) k^power ln|X|: the order of magnitude of Dwork, Naor, Reingold, Rothblum and Vadhan (2009).

    Without constants, and with a delta; their k^o(1) is `power`, which falls with k. Against ((ln|X| ln k) / (epsilon
    n))^(1/3) it is better in n, so in alpha (1/alpha^2 records instead of 1/alpha^3), and worse in k.
    """
    _check.positive(n=n, power=power)
    return math.exp(power * setting.log_queries) * setting.log_universe / math.sqrt(n)


def rows_weak(*, alpha: float, log_queries: float) -> int:
    """m = 8 ln k / alpha^2, from the weak tail exp(-m alpha^2 / 4)."""
    _check.positive(alpha=alpha)
    return math.ceil(8 * log_queries / alpha**2)


def error_weak(n: float, setting: Setting) -> float:
    """(256 L / (epsilon n))^(1/3) + 8 b / (epsilon n), for the m of `rows_weak`.

    Run at alpha/2 it needs n >= 128 L / (epsilon alpha^3) + 4 b / (epsilon alpha), of which each term gets half.
    """
    scale = setting.epsilon * n
    return (256 * setting.product / scale) ** (1 / 3) + 8 * setting.failure / scale


VARIANTS = (
    Variant(
        "m = ln k / alpha^2, best alpha",
        "exact",
        "for whole m; rounding up adds 2 ln|X| / (epsilon n)",
        error_minimised,
    ),
    Variant("run at alpha/2, exact", "exact", "n >= (16 L + 4 alpha^2 b) / (epsilon alpha^3)", error_exact),
    Variant("run at alpha/2, as printed", "loose", "uses alpha <= 1 and says nothing beyond", error_printed),
    Variant("m = 8 ln k / alpha^2", "loose", "weak tail, about 3.4 times our closed form", error_weak),
    Variant("counts, as printed", "wrong", "divides by n twice", counts_printed, in_counts=True),
    Variant("counts, corrected", "loose", "n times the printed error", counts_corrected, in_counts=True),
)

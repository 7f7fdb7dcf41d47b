"""SmallDB (Blum, Ligett and Roth 2008): how far the answers of the drawn small database are off.

The mechanism draws y of m rows with probability proportional to exp(-epsilon err(x, y) / (2D)), where err is the
largest error in counts. Bounds are fractions unless the name says counts; all come from public inputs, and none is
the textbook's (those are in `textbook`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from maquette.core import _check
from maquette.errors import ParameterError
from maquette.theory import existence, search
from maquette.theory.existence import LETTERS, Facts, Form, log_multisets, log_sequences, log_tree

Base = Literal["multisets", "sequences", "tree"]
"""Which databases weigh the same: multisets, sequences, or none (the Polya tree)."""
WITHOUT_ITSELF = LETTERS.replace("c", "")
"""The forms that hold for every m; form c is about m = n alone."""
_LOG_RANGES = {"multisets": log_multisets, "sequences": log_sequences, "tree": log_tree}


@dataclass(frozen=True, slots=True)
class Bound:
    """B(m) = existence + selection (and what rounding the score adds), for one m."""

    alpha: float
    """May exceed 1: see `vacuous`."""
    rows: int
    form: str
    """The letter of the existence form that was active: a to h."""
    existence: float
    selection: float

    @property
    def vacuous(self) -> bool:
        """Nothing is guaranteed: every fraction is within 1 anyway."""
        return self.alpha >= 1

    @property
    def clipped(self) -> float:
        """What may be stated: never above 1."""
        return min(1.0, self.alpha)


@dataclass(frozen=True, slots=True)
class Records:
    """How many records a target needs, with the rows of the small database that reach it."""

    n: float
    """The exact real threshold; `whole` is the number of records."""
    rows: int
    form: str

    @property
    def whole(self) -> int:
        return math.ceil(self.n)


def selection(*, log_range: float, n: float, epsilon: float, beta: float, span: float = 1.0) -> float:
    """What drawing instead of optimising loses: (2D / (epsilon n)) (ln|R| + ln(1/beta)).

    Accuracy: utility of the exponential mechanism (McSherry and Talwar 2007), except with probability beta.
    Holds when: n >= 1. With a base measure pi other than the uniform one, `log_range` is ln(1/pi(y)) for the small
        database y whose existence is used, or the largest such value.
    """
    _check.positive(n=n, epsilon=epsilon, span=span)
    _check.fraction(beta=beta)
    return 2 * span / (epsilon * n) * (log_range - math.log(beta))


def error(
    facts: Facts,
    *,
    rows: int,
    n: float,
    epsilon: float,
    beta: float,
    n_public: bool = True,
    base: Base = "multisets",
    only: str = LETTERS,
    log_range: float | None = None,
    rounding: float = 0.0,
) -> Bound:
    """B(m): the largest error over all queries with a small database of m rows, except with probability beta.

    Accuracy: the Proposition of our specification, section 4: alpha_m + (2D/(epsilon n)) (ln|R_m| + ln(1/beta)),
        alpha_m the least of the existence forms a to h (or of those named in `only`).
    Holds when: every table with n >= 1 records. If n is not public (add/remove-one), give a lower bound on it and
        n_public=False, which leaves out form c and the use of n in form d. `epsilon` is what was drawn with. A base
        measure of one's own is given by `log_range` (see `selection`); a score that was rounded up by at most
        `rounding` counts adds as many.
    """
    least = _log_range(facts, rows, base) if log_range is None else log_range
    chosen = selection(log_range=least, n=n, epsilon=epsilon, beta=beta, span=facts.span)
    if facts.universe == 1:
        return Bound(0.0, rows, "b", 0.0, 0.0)  # one possible small database: nothing is drawn
    alpha, letter = nearest(facts, rows=rows, n=n if n_public else None, only=only)
    return Bound(alpha + chosen + rounding / n, rows, letter, alpha, chosen)


def nearest(facts: Facts, *, rows: int, n: float | None = None, only: str = LETTERS) -> tuple[float, str]:
    """alpha_m: how near the best small database of m rows is to any table, and the letter of the form that says so.

    Holds when: n is the number of records where it is public, else None.
    """
    _check_letters(only)
    _check.whole(rows=rows)
    exact_n = int(n) if n is not None and float(n).is_integer() and n >= 1 else None
    least = [(form.alpha(rows), form.letter) for form in existence.forms(facts, n=exact_n, only=only)]
    if exact_n is not None and "c" in only:
        least.append((existence.itself(rows=rows, n=exact_n), "c"))
    if not least:
        raise ParameterError(
            f"none of the forms {', '.join(only)} bounds a small database of {rows} rows here"
        )
    return min(least)


def rows_for(facts: Facts, *, alpha: float, n: float | None = None, only: str = LETTERS) -> tuple[int, str]:
    """The fewest rows with a small database within alpha of any table, by any form, and the form's letter.

    Holds when: n is the number of records where it is public, else None. Any alpha from 1 on takes one row.
    """
    _check_letters(only)
    _check.positive(alpha=alpha)
    if alpha >= 1:
        return 1, "a"  # every fraction is within 1
    exact_n = int(n) if n is not None and float(n).is_integer() and n >= 1 else None
    options = [(_rows(form, alpha), form.letter) for form in existence.forms(facts, n=exact_n, only=only)]
    if exact_n is not None and "c" in only:
        options.append((exact_n, "c"))
    reached = [(m, letter) for m, letter in options if m is not None]
    if not reached:
        raise ParameterError(f"no number of rows reaches alpha={alpha!r} by the forms {', '.join(only)}")
    return min(reached)


def _rows(form: Form, alpha: float) -> int | None:
    return search.smallest(lambda m: form.alpha(m) <= alpha, most=2**60)


def records_at(
    *,
    existence: float,
    log_range: float,
    alpha: float,
    epsilon: float,
    beta: float,
    span: float = 1.0,
    rounding: float = 0.0,
) -> float:
    """The smallest n at which m rows give the error alpha; infinity where not even their best database does.

    Accuracy: (2D (ln|R_m| + ln(1/beta)) / epsilon + rounding) / (alpha - alpha_m), `existence` being alpha_m.
    """
    room = alpha - existence
    lost = selection(log_range=log_range, n=1, epsilon=epsilon, beta=beta, span=span) + rounding
    return lost / room if room > 0 else math.inf


def best(
    facts: Facts,
    *,
    n: float,
    epsilon: float,
    beta: float,
    n_public: bool = True,
    base: Base = "multisets",
    only: str = LETTERS,
    most_rows: int = 10**18,
    log_range: search.Curve | None = None,
) -> Bound:
    """The smallest B(m) over all whole m, exactly.

    Accuracy: the least over forms of the least over m. Forms a, b, d, f, g have a single valley (`search.valley`);
        forms e and h, the tree base and a `log_range` of one's own are searched by branch and bound; form c is the
        point m = n.
    Holds when: as for `error`; `log_range` never falls in m.
    """
    _check_letters(only)
    _check.whole(most_rows=most_rows)
    _check.positive(n=n, epsilon=epsilon)
    _check.fraction(beta=beta)
    if facts.universe == 1:
        return Bound(0.0, 1, "b", 0.0, 0.0)
    exact_n = _exact(n) if n_public else None
    price = 2 * facts.span / (epsilon * n)
    candidates = {
        _argmin(facts, form, price, base, most_rows, log_range)
        for form in existence.forms(facts, n=exact_n, only=only)
    }
    if exact_n is not None and exact_n <= most_rows and "c" in only:
        candidates.add(exact_n)
    if not candidates:
        raise ParameterError(f"none of the forms {', '.join(only)} bounds this class; see the letters a to h")
    bounds = [
        error(
            facts,
            rows=m,
            n=n,
            epsilon=epsilon,
            beta=beta,
            n_public=n_public,
            base=base,
            only=only,
            log_range=None if log_range is None else log_range(m),
        )
        for m in sorted(candidates)
    ]
    return min(bounds, key=lambda bound: (bound.alpha, bound.rows))


def records(
    facts: Facts,
    *,
    alpha: float,
    epsilon: float,
    beta: float,
    base: Base = "multisets",
    only: str = LETTERS,
) -> Records:
    """The smallest n at which some m gives the error alpha.

    Accuracy: min over m with alpha_m < alpha of 2D (ln|R_m| + ln(1/beta)) / (epsilon (alpha - alpha_m)); form c, m = n,
        is tried by itself. The fraction is minimised exactly: from any n, the m that minimises B at this n gives a
        smaller n, until it does not (Dinkelbach 1967).
    Holds when: n is public, or is a lower bound on the number of records; form d counts the whole universe, form c
        needs n public (leave it out of `only` otherwise).
    """
    _check_letters(only)
    _check.positive(alpha=alpha, epsilon=epsilon)
    _check.fraction(beta=beta)
    if facts.universe == 1:
        return Records(1.0, 1, "b")
    general = only.replace("c", "")
    options = [
        _records(facts, form, alpha, epsilon, beta, base) for form in existence.forms(facts, only=general)
    ]
    if "c" in only:
        options.append(_records_of_itself(facts, alpha, epsilon, beta, base))
    reached = [r for r in options if r is not None]
    if not reached:
        raise ParameterError(f"no number of records gives alpha={alpha!r} by the forms {', '.join(only)}")
    return min(reached, key=lambda r: (r.n, r.rows))


def closed_form(
    *, n: float, epsilon: float, log_universe: float, log_queries: float, beta: float, span: float = 1.0
) -> float:
    """SmallDB's error in closed form; `best` is never larger.

    Accuracy: D times 1.5 (2 ln|X| ln(2k) / (epsilon n))^(1/3) + 2 (ln|X| + ln(1/beta)) / (epsilon n), from form a,
        |R_m| <= |X|^m and m = ceil(ln(2k) / (2 a^2)), a = (2 ln|X| ln(2k) / (epsilon n))^(1/3).
    Holds when: n >= 1, either relation; `span` is D.
    """
    _check.positive(n=n, epsilon=epsilon, span=span)
    _check.fraction(beta=beta)
    scale = epsilon * n
    leading = 1.5 * (2 * log_universe * (math.log(2) + log_queries) / scale) ** (1 / 3)
    return span * (leading + 2 * (log_universe - math.log(beta)) / scale)


def _log_range(facts: Facts, rows: int, base: Base) -> float:
    return _LOG_RANGES[base](universe=facts.universe, rows=rows)


def _step(facts: Facts, m: int, base: Base) -> float:
    """ln|R_{m+1}| - ln|R_m|, without the cancellation."""
    if base == "sequences":
        return math.log(facts.universe)
    ratio = (facts.universe - 1) / (m + 1) if facts.universe < 2**1000 else math.inf
    return math.log1p(ratio) if ratio < math.inf else math.log(facts.universe + m) - math.log(m + 1)


def _argmin(
    facts: Facts, form: Form, price: float, base: Base, most: int, log_range: search.Curve | None = None
) -> int:
    if log_range is not None:
        return search.lowest(form.alpha, lambda m: price * log_range(m), most=most)
    if form.single_valley and base != "tree":
        return search.valley(form.alpha, lambda m: price * _step(facts, m, base), most=most)
    return search.lowest(form.alpha, lambda m: price * _log_range(facts, m, base), most=most)


def _records(
    facts: Facts, form: Form, alpha: float, epsilon: float, beta: float, base: Base
) -> Records | None:
    """Dinkelbach's iteration for one form, from an n that is large enough."""

    def needed(m: int) -> float:
        return records_at(
            existence=form.alpha(m),
            log_range=_log_range(facts, m, base),
            alpha=alpha,
            epsilon=epsilon,
            beta=beta,
            span=facts.span,
        )

    n = 1.0
    m = _argmin(facts, form, 2 * facts.span / epsilon, base, 10**18)
    while needed(m) > n:
        if n > 1e60:
            return None
        n *= 4
        m = _argmin(facts, form, 2 * facts.span / (epsilon * n), base, 10**18)
    while needed(m) < n:
        n = needed(m)
        m = _argmin(facts, form, 2 * facts.span / (epsilon * n), base, 10**18)
    return Records(n, m, form.letter)


def _records_of_itself(facts: Facts, alpha: float, epsilon: float, beta: float, base: Base) -> Records | None:
    """The smallest whole n = m; its bound falls in n because ln|R_n| is concave and 0 at n = 0."""

    def enough(n: int) -> bool:
        log_range = _log_range(facts, n, base)
        return selection(log_range=log_range, n=n, epsilon=epsilon, beta=beta, span=facts.span) <= alpha

    n = search.smallest(enough, most=2**60)
    return None if n is None else Records(float(n), n, "c")


def _exact(n: float | None) -> int | None:
    return int(n) if n is not None and float(n).is_integer() and n >= 1 else None


def _check_letters(only: str) -> None:
    if not only or any(letter not in LETTERS for letter in only):
        raise ParameterError(f"expected letters of existence forms among {LETTERS}, got only={only!r}")


# Roth's mechanism (2010): SmallDB for real-valued databases and queries.
#
# Databases are non-negative weights x on the cells, neighbours differ by at most 1 in L1 norm, ||x|| is the
# sum of the weights. Translation of the paper: its alpha is our epsilon, its (epsilon, delta)-usefulness
# our (error, beta).
#
# The draw is SmallDB's, P(y) proportional to exp(-epsilon err(x, y) / 2): the score has sensitivity exactly
# 1, so 1/2 is the right constant. The published 1/4 is private too and doubles the selection term; the
# published sensitivity 1 + 1/m is not the right quantity. Scaling the answers by ||x|| is not private: use
# a paid, noisy total.


ROTH_EXPONENT = 0.5
"""The constant in exp(-c epsilon err); valid and best."""


def relative_records(
    facts: Facts,
    *,
    eta: float,
    epsilon: float,
    beta: float,
    only: str = LETTERS,
    exponent: float = ROTH_EXPONENT,
) -> Records:
    """The smallest ||x|| from which on every count is within eta ||x||, except with probability beta.

    Accuracy: relative usefulness (Roth 2010, Theorem 5, corrected): if alpha_m <= eta/2 and
        ||x|| >= (4 / (epsilon eta)) (ln|R_m| + ln(1/beta)), all counts are within eta ||x||. m is the smallest that
        reaches eta/2. `smalldb.records` at alpha = eta splits the error better and never needs more.
    Holds when: the answers are scaled by the true ||x||; scaled by a released total, add its error. Form c does not
        apply. With another exponent c <= 1/2 the requirement is divided by 2c.
    """
    _check.positive(eta=eta, epsilon=epsilon)
    _check.fraction(beta=beta)
    if not 0 < exponent <= ROTH_EXPONENT:
        raise ParameterError(f"expected 0 < exponent <= {ROTH_EXPONENT}, got exponent={exponent!r}")
    rows, letter = rows_for(facts, alpha=eta / 2, only=only)
    needed = records_at(
        existence=eta / 2,
        log_range=log_multisets(universe=facts.universe, rows=rows),
        alpha=eta,
        epsilon=epsilon,
        beta=beta,
        span=facts.span,
    )
    return Records(needed * ROTH_EXPONENT / exponent, rows, letter)


def usefulness(*, eta: float, total: float, size_error: float = 0.0) -> float:
    """The error in counts that relative usefulness states: eta ||x||, plus the error of a released total."""
    _check.positive(eta=eta, total=total)
    return eta * total + size_error

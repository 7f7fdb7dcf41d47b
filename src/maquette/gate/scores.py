"""Errors of released answers on the private table, in whole counts.

The score of a query is |q(x) - n f| for a released fraction f in [0, 1], rounded up. Its sensitivity is 1:
adding a record z moves q(x) - n f by q_z - f, replacing one moves it by a difference of two weights, both
within [-1, 1], and neither the absolute value, the largest of several, nor rounding up makes a gap of at
most 1 wider than 1. Signed scores, q(x) - n f and its negative, each rounded up, move by at most 1 for the same
reasons.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.errors import ParameterError
from maquette.models.answers import Answers
from maquette.questions import bounds


def check_answers(answers: Answers, count: int) -> None:
    """The sensitivity above needs one fraction in [0, 1] per query, in whole numbers."""
    bounds.check_type(answers, Answers, "released answers")
    bounds.check_type(answers.numerators, np.ndarray, "released answers with numerators in an array")
    if answers.numerators.dtype.kind != "i" or answers.numerators.ndim != 1:
        raise ParameterError("expected answers as a list of whole numerators over a positive denominator")
    bounds.check_whole(answers.denominator, least=1, most=bounds.SUMMANDS, what="the answers' denominator")
    if len(answers) != count:
        raise ParameterError(f"expected {count} answers, one per query, got {len(answers)}")
    outside = (answers.numerators < 0) | (answers.numerators > answers.denominator)
    if bool(np.any(outside)):
        raise ParameterError("expected answers between 0 and 1")


def count_errors(exact: NDArray[np.int64], denominator: int, answers: Answers, n: int) -> NDArray[np.int64]:
    """ceil |q(x) - n f| for every query; `exact` are numerators over `denominator`. In whole numbers throughout."""
    gaps, common = _gaps(exact, denominator, answers, n)
    return (-(-np.abs(gaps) // common)).astype(np.int64)


def signed_errors(exact: NDArray[np.int64], denominator: int, answers: Answers, n: int) -> NDArray[np.int64]:
    """ceil(q(x) - n f) for every query, then ceil(n f - q(x)) for every query."""
    gaps, common = _gaps(exact, denominator, answers, n)
    return np.concatenate([-(-gaps // common), -(gaps // common)]).astype(np.int64)


def _gaps(exact: NDArray[Any], denominator: int, answers: Answers, n: int) -> tuple[NDArray[Any], int]:
    """q(x) - n f as whole numerators over a common denominator."""
    common = math.lcm(denominator, answers.denominator)
    left, right = common // denominator, n * (common // answers.denominator)
    released: NDArray[Any] = answers.numerators.astype(np.int64, copy=False)
    # with n = 0 as with n = 1, so that an empty table takes no other way
    if common * max(n, 1) >= bounds.EXACT:
        exact, released = exact.astype(object), released.astype(object)
    return exact * left - released * right, common

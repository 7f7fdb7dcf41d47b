"""Which public arguments the gate takes: none that could carry a private number out of 64 bits.

A private number is computed exactly, or the sensitivity that is charged for it means nothing. With these limits every
number that the gate computes from a table fits into 64 bits with its sign:

- A table has at most RECORDS = 2^32 records; the vault opens no larger one.
- The public factors of a count (the queries' denominator, the grid of weights, the rows of a small database) multiply
  to at most FACTORS = 2^30. So a count times its factors is at most 2^62. Products with more factors are computed in
  Python's own whole numbers (`core/answers.py`, `samplers`).
- What is added to a count or taken from it (a guess, a reference table, a penalty) is at most SUMMANDS = 2^60
  altogether. A score is then at most 2^62 (a guess) or 2^32 + 2^60 + 2^60 (a distance less a penalty).
- Noise is at most WIDEST = 2^55 wide: it passes 2^62 with a chance of at most exp(-128). Where it does, the sampler
  cuts the noisy number off at the ends of the 64 bits, or wraps it: a function of the noisy number alone.

Everything else that is refused here would fail during a look, after the payment: wrong types and shapes, numbers that
are not finite, tables too large to be held. A refusal depends on public arguments only, and comes before payment and
look.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from inspect import isabstract
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from maquette.core.answering import parts_of
from maquette.core.errors import MechanismError, ParameterError, WorkloadError
from maquette.core.events import RESERVED
from maquette.core.forms import MAX_COUNT, Margin, QueryForms, Sensitivity, check_count
from maquette.core.linear_queries import LinearQueries
from maquette.core.neighbours import Relation
from maquette.core.universe import Universe

RECORDS = 2**32
FACTORS = 2**30
SUMMANDS = 2**60
WIDEST = 2**55
EXACT = RECORDS * FACTORS
"""What no private number exceeds before noise."""

LARGEST_PRICE = 2**30
MAX_CHOICES = 2**12
"""Private choices in one payment."""
MAX_WORDS = 2**20
"""Characters of what the ledger is told about a question."""
_LONGEST_RADIUS = 2**23
"""Radii of the L-infinity noise with their weights, held at once."""
_NARROWEST = Fraction(25, 4)
"""V / (V - 9/4) is below pi / 2 from here on."""
_SMALLEST_VARIANCE = Fraction(1, 2**40)
_RESERVED = RESERVED | {"ask", "terms", "query", "guess"}


def check_type(value: object, kind: type | tuple[type, ...], what: str) -> None:
    """An argument of the kind that its annotation promises: nobody checks those at run time.

    Of just that kind where it can be made: one derived from it may answer otherwise each time that it is asked.
    """
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if type(value) not in kinds and not any(isabstract(one) and isinstance(value, one) for one in kinds):
        raise ParameterError(f"expected {what}, got {type(value).__name__}")


def check_list(values: object, kind: type | tuple[type, ...], what: str) -> None:
    """A list or tuple of such arguments; True and False are no whole numbers."""
    check_type(values, (list, tuple), what)
    for value in cast("Sequence[object]", values):
        check_type(value, kind, what)
        if isinstance(value, bool):
            raise ParameterError(f"expected {what}, got bool")


def check_whole(value: object, *, least: int, most: int, what: str) -> None:
    """A whole number within limits; its value is not repeated, it may have millions of digits."""
    check_list([value], int, f"{what} as a whole number")
    if not least <= cast("int", value) <= most:
        raise ParameterError(f"expected {what} as a whole number from {least} to {most}")


def check_price(price: object) -> None:
    """A price that some budget could pay; the least one is checked where it is put on the ledger's grid.

    No float, which could be infinite or not a number.
    """
    check_list([price], (int, Fraction), "a price as int or Fraction")
    if cast("Fraction", price) > LARGEST_PRICE:
        raise ParameterError(f"expected a price of at most {LARGEST_PRICE:,}")


def check_variances(variances: object, count: int, what: str) -> None:
    """One variance of noise per table, neither vanishing nor too wide."""
    check_list(variances, (int, Fraction), f"one variance per {what} as int or Fraction")
    numbers = cast("Sequence[Fraction]", variances)
    if len(numbers) != count or not all(_SMALLEST_VARIANCE <= v <= WIDEST**2 for v in numbers):
        raise ParameterError(f"expected {count} variances > 0, one per {what}, from 2^-40 to 2^110")


def check_width(width: Fraction | float) -> None:
    """Noise that leaves 64 bits to the numbers it is added to."""
    if not width <= WIDEST:
        raise ParameterError(
            "at this price the noise would be wider than 2^55, more than any table has records; "
            "ask for less, or pay more"
        )


def check_wide(variances: Sequence[Fraction]) -> None:
    """Refuse noise planned in rho that a ledger in mu^2 / 2 would have to charge more than pi / 2 times as much."""
    if min(variances, default=_NARROWEST) < _NARROWEST:
        raise MechanismError(
            "this ledger counts Gaussian differential privacy and cannot charge noise of less than 2.5 counts that "
            "was planned in rho; ask for a smaller share, or use a ledger made with accounting 'zcdp'"
        )


def check_sensitivity(sensitivity: Sensitivity) -> None:
    """Answers that some record moves."""
    if not sensitivity.l1:
        raise ParameterError(
            "these answers are the same on all neighbouring tables; no noise can be planned for them"
        )


def check_cube(sensitivity: Sensitivity, denominator: int, epsilon: Fraction, coordinates: int) -> None:
    """Refuse L-infinity noise on anything but whole counts that a record moves by at most 1 each, or too wide."""
    if denominator != 1 or sensitivity.linf > 1:
        raise MechanismError(
            "the integer L-infinity mechanism needs counting queries, weights 0 or 1; "
            "use laplace or gaussian for fractional weights"
        )
    check_radius(epsilon, coordinates)


def check_radius(epsilon: Fraction, coordinates: int) -> None:
    """Refuse L-infinity noise whose radius cannot be held: about k / epsilon, listed to both sides for 80 bits."""
    if (60 + math.isqrt(110 * coordinates)) / epsilon > _LONGEST_RADIUS or coordinates / epsilon > WIDEST:
        raise MechanismError(
            f"the integer L-infinity mechanism cannot list the radii of its noise for {coordinates:,} answers at so "
            "small a price; use laplace"
        )


def check_numbers(array: object, length: int, what: str) -> None:
    """A flat array of so many public whole numbers that together stay within the limit for summands."""
    check_type(array, np.ndarray, f"{length} {what} in an array")
    numbers = cast("NDArray[Any]", array)
    if numbers.dtype.kind != "i" or numbers.shape != (length,):
        raise ParameterError(f"expected {length} {what}, flat")
    largest = max(int(numbers.max(initial=0)), -int(numbers.min(initial=0)))
    if largest * length > SUMMANDS and sum(abs(int(v)) for v in numbers) > SUMMANDS:
        raise ParameterError(f"expected {what} of at most 2^60 altogether")


def forms_of(domain: Universe, queries: object) -> QueryForms:
    """Queries over the table's own domain in the forms that the gate answers, checked; few enough to be answered.

    Whatever a class of queries computes it computes here, from public cells: none of its code runs in a look.
    """
    check_domain(domain, queries)
    query_forms = cast("LinearQueries", queries).to_forms()
    check_forms(domain, query_forms)
    return query_forms


def check_domain(domain: Universe, queries: object) -> None:
    """Queries over the table's own domain, no more than are answered at once."""
    check_type(queries, LinearQueries, "queries")
    queries = cast("LinearQueries", queries)
    if queries.domain is not domain and queries.domain.fingerprint != domain.fingerprint:
        raise ParameterError("expected queries over the table's own domain; build them from table.domain")
    check_count(queries.count)


def check_forms(domain: Universe, query_forms: object) -> None:
    """Forms that can be answered exactly, from tables of few enough cells."""
    check_type(query_forms, QueryForms, "queries in the forms that the gate answers")
    forms = cast("QueryForms", query_forms)
    forms.check(domain.sizes)
    margins = {margin for part in parts_of(forms, domain.sizes) for margin in part.margins}
    check_cells(sum(domain.cells(margin) for margin in margins))


def sensitivity_of(query_forms: QueryForms, domain: Universe, relation: Relation) -> Sensitivity:
    """How far one record moves the answers: of the forms that are answered, whatever the class itself says."""
    if relation is Relation.REPLACE_ONE:
        return query_forms.replaced(domain.sizes)
    return query_forms.added(domain.sizes)


def check_margins(domain: Universe, margins: object) -> None:
    """Tables over attributes of the domain, each named once and in order, few enough cells to be held."""
    check_list(margins, tuple, "a list of margins, each a tuple of names")
    tables = cast("Sequence[Margin]", margins)
    for margin in tables:
        check_list(margin, str, "a margin as a tuple of names")
        if tuple(name for name in domain.names if name in margin) != margin:
            raise WorkloadError("expected the attributes of every margin in the order of the domain")
    check_cells(sum(domain.cells(margin) for margin in tables))


def check_cells(cells: int) -> None:
    """Few enough counts for one question?"""
    if cells > MAX_COUNT:
        raise WorkloadError(f"expected tables of at most {MAX_COUNT:,} cells altogether; ask coarser ones")


def check_projection(sizes: Sequence[int], removed: Sequence[int], sigma: float) -> None:
    """Removing a mean over n cells, in whole numbers, makes a table's largest number at most 2 n - 2 times as large."""
    growth = 1
    for axis in removed:
        growth *= max(2 * sizes[axis] - 2, 1)
    if growth * (RECORDS + 16 * Fraction(sigma)) > EXACT:
        raise ParameterError("expected noise that leaves room for the projection; ask for a smaller variance")


def check_about(about: object) -> None:
    """What the ledger is told about a question: plain data that cannot be taken for what was paid or asked."""
    check_type(about, Mapping, "what is said of a question by name")
    note = cast("Mapping[str, object]", about)
    check_list(list(note), str, "names that are texts")
    replaced = sorted(_RESERVED & set(note))
    if replaced:
        raise ParameterError(
            f"a note cannot replace what the gate writes about a step: {', '.join(replaced)}"
        )
    try:
        length = len(json.dumps(dict(note), allow_nan=False))
    except (TypeError, ValueError, RecursionError, OverflowError):
        raise ParameterError(
            "expected what is said of a question as plain texts, finite numbers, lists and objects"
        ) from None
    if length > MAX_WORDS:
        raise ParameterError(f"expected at most {MAX_WORDS:,} characters about a question")


def described(own: Mapping[str, Any], note: Mapping[str, Any] | None) -> dict[str, Any]:
    """What the ledger says about a step: the gate's own words, and a note that may add to them but not replace any."""
    replaced = sorted(set(own) & set(note or {}))
    if replaced:
        raise ParameterError(
            f"a note cannot replace what the gate writes about a step: {', '.join(replaced)}"
        )
    return dict(own) | dict(note or {})

"""A norm that noise is drawn in: its unit ball is a symmetric polytope, given by whole numbers.

The K-norm mechanism (Hardt and Talwar 2010) adds noise with probabilities that fall with the norm whose unit ball holds
everything that a record can move. Which polytope is chosen decides the accuracy alone: the gate computes exactly how
far a record moves the answers in this norm, and scales the noise by that.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from maquette.core.errors import MechanismError, ParameterError
from maquette.core.forms import QueryForms, Weights
from maquette.core.neighbours import Relation

MAX_DIMENSION, MAX_FACETS = 8, 2**13
LARGEST = 2**24
"""No entry of a facet or of the box is larger, so that what is compared while drawing fits into 64 bits."""
FINENESS = 64
"""Levels of the norm per factor 1/e of the probability: what is lost by rounding levels up is below 1/64 of that."""
LONGEST = 2**18
"""Levels that are listed for a draw."""

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Body:
    """The unit ball: |x_c| <= box_c for every coordinate, |<normal, x>| <= offset for every facet; x are numerators."""

    box: tuple[int, ...]
    normals: tuple[tuple[int, ...], ...] = ()
    offsets: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= len(self.box) <= MAX_DIMENSION or len(self.normals) > MAX_FACETS:
            raise ParameterError(
                f"expected a body of 1 to {MAX_DIMENSION} dimensions and at most {MAX_FACETS:,} facets"
            )
        if len(self.normals) != len(self.offsets) or any(len(n) != len(self.box) for n in self.normals):
            raise ParameterError("expected a normal as long as the box, and an offset, for every facet")
        entries = [*self.box, *self.offsets, *(entry for normal in self.normals for entry in normal)]
        if any(type(entry) is not int for entry in entries):
            raise ParameterError("expected a body in whole numbers")
        if min(*self.box, *self.offsets, 1) < 1 or max(map(abs, (*self.box, *self._entries))) > LARGEST:
            raise ParameterError("expected widths and offsets from 1 on, and entries of at most 2^24")
        if max(self.offsets, default=0) > len(self.box) * LARGEST**2:
            raise ParameterError("expected facets that touch the box")

    @property
    def _entries(self) -> tuple[int, ...]:
        return tuple(entry for normal in self.normals for entry in normal)

    @cached_property
    def rows(self) -> Counts:
        """The normals as a matrix, those of the box first."""
        sides = np.eye(len(self.box), dtype=np.int64)
        return np.vstack([sides, np.array(self.normals, dtype=np.int64).reshape(-1, len(self.box))])

    @cached_property
    def limits(self) -> Counts:
        """What no point of the body exceeds along the rows."""
        return np.array([*self.box, *self.offsets], dtype=np.int64)

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.rows.tobytes() + self.limits.tobytes()).hexdigest()

    @property
    def cell(self) -> float:
        """The norm of no point of the cube of side 1 around 0 is larger."""
        return max(int(np.abs(r).sum()) / (2 * int(b)) for r, b in zip(self.rows, self.limits, strict=True))

    def norm(self, point: Counts) -> Fraction:
        """Of one whole point, exactly."""
        along = np.abs(self.rows.astype(object) @ point.astype(object))
        return max(Fraction(int(a), int(b)) for a, b in zip(along, self.limits, strict=True))

    def shift(self, query_forms: QueryForms, relation: Relation) -> Fraction:
        """The largest norm of what one record moves of the numerators, exactly.

        Guarantee: a norm of this kind is a maximum of |linear functions|; of each the largest value on a column of the
            weights is taken, or the largest difference of two where a record is replaced.
        """
        form = query_forms.parts[0]
        if len(query_forms.parts) > 1 or not isinstance(form, Weights):
            raise MechanismError("noise in a norm is for queries that are given by their weights")
        if len(form.numerators) != len(self.box):
            raise ParameterError(
                f"expected {len(self.box)} queries for this body, got {len(form.numerators)}"
            )
        along = self.rows @ form.numerators.astype(np.int64)  # at most 8 * 2^24 * 2^20
        replaced = relation is Relation.REPLACE_ONE
        far = along.max(axis=1) - along.min(axis=1) if replaced else np.abs(along).max(axis=1)
        return max(Fraction(int(f), int(b)) for f, b in zip(far, self.limits, strict=True))


def resolution_for(price: Fraction, shift: Fraction) -> int:
    """Levels per unit of the norm at this price, where a record moves the answers by so much."""
    return max(1, math.ceil(FINENESS * price / shift))


def levels_for(body: object, shift: Fraction | None, price: Fraction) -> tuple[Body, int, int]:
    """The body, the levels per unit of its norm, and by how many levels a record moves answers that move by `shift`.

    Guarantee: let d be the difference of two neighbours' answers, |d| <= shift. Since |z + d| <= |z| + shift for all z,
        the level ceil(resolution |z|) moves by at most ceil(resolution shift) =: levels. So probabilities proportional
        to decay^level with decay >= exp(-price / levels) change by a factor of at most exp(price): sums over all z
        are the same for both, since d is a whole vector.
    """
    if type(body) is not Body or shift is None:
        raise ParameterError("expected K-norm noise with its body")
    if not shift:
        raise ParameterError(
            "these answers are the same on all neighbouring tables; no noise can be planned for them"
        )
    resolution = resolution_for(price, shift)
    levels = math.ceil(resolution * shift)
    if (len(body.box) + 80) * levels / price > LONGEST:
        least = (len(body.box) + 80) * max(shift, 1) / LONGEST
        raise MechanismError(
            f"K-norm noise cannot list its levels at a price below about {float(least):.1g}; use laplace"
        )
    return body, resolution, levels

"""What one record can move of a table without its means, and what integer noise costs after the projection.

A residual is a margin's table with the mean over some of its axes removed. The gate adds exact discrete
Gaussian noise of variance parameter s to the integer table and removes the means in whole numbers
(multiplied by the axis sizes), so what leaves is a function of the projected lattice point only.

Why the projection may be charged for. Let L be the integer lattice projected along the axes T. If the noise
on L had exactly the law P(y) ~ exp(-|y|^2 / 2s), a shift by the lattice vector a would cost |a|^2 / 2s in
zCDP (the sum of exp(-|y - c|^2 / 2s) over a lattice is largest at c in L). The noise that is really drawn,
on Z^N and then projected, has this law times a ripple. Remove one axis t after the other: the points over
one fibre of the later axes are n_t vectors from the lattice M of the axes removed before, and the kernel of
the step is {(l, .., l) : l in M}. By Poisson summation the sum over the kernel is a constant times 1 +
(terms bounded by the sum over the non-zero vectors xi of the dual of M of exp(-2 pi^2 s |xi|^2 / n_t)). The
dual consists of integer vectors of dimension D = product of the sizes removed before, so the sum is at most
(1 + 2q/(1-q))^D - 1 with q = exp(-2 pi^2 s / n_t). The step happens once for every fibre of the remaining
axes: N / (n_t D) times. With x = 2 D q/(1-q) <= 0.01 each step's factor lies within exp(+-2.1 x), and
altogether the probabilities lie within exp(+-kappa), kappa = 4.3 * sum over t of (N / n_t) q_t: so does the
total variation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from maquette.core.neighbours import Relation

NEGLIGIBLE = Fraction(1, 10**24)
"""An axis is projected out before release only if its ripple is at most this."""
MAX_DENOMINATOR = 2**22
"""Projected tables are whole numbers over the product of the removed sizes; this keeps them inside 64 bits."""


def shift_squared(sizes: Sequence[int], relation: Relation, axes: Sequence[int]) -> Fraction:
    """Squared length by which neighbouring tables move a margin after removing the means over `axes`.

    Under replace-one two cells u, v lie apart by 2 p - 2 prod c_i, where c_i is 1 - 1/n_i or -1/n_i on the removed
    axes and 1 or 0 on the others; the largest value is reached by a pair that differs on one axis only.
    """
    length = math.prod((1 - Fraction(1, sizes[i]) for i in axes), start=Fraction(1))
    if relation is Relation.ADD_REMOVE:
        return length
    apart = [2 * length for i, size in enumerate(sizes) if i not in axes and size > 1]
    for axis in axes:
        if sizes[axis] > 1:
            apart.append(2 * length / (1 - Fraction(1, sizes[axis])))
    return max(apart, default=Fraction(0))


def ripple(sizes: Sequence[int], variance: Fraction, axes: Sequence[int]) -> Fraction:
    """Total variation between projected integer noise and the lattice Gaussian, at most (see above). 1 if unknown."""
    total = Fraction(0)
    cells = math.prod(sizes)
    for axis in axes:
        # 19.739 < 2 pi^2; the factor 1.001 covers the rounding of exp
        q = math.exp(-19.739 * float(variance) / sizes[axis]) * 1.001
        if cells / sizes[axis] * 2 * q / (1 - min(q, 0.5)) > 0.01:
            return Fraction(1)
        total += Fraction(43, 10) * (cells // sizes[axis]) * max(Fraction(q), Fraction(1, 10**60))
    return total


def projected_axes(sizes: Sequence[int], variance: Fraction) -> tuple[int, ...]:
    """The axes whose means are removed before release: those whose ripple is negligible. Public inputs only.

    The smallest axes come first, since they save most, as far as the whole-number arithmetic reaches.
    """
    chosen: list[int] = []
    for axis in sorted(range(len(sizes)), key=lambda i: sizes[i]):
        within_reach = math.prod(sizes[i] for i in [*chosen, axis]) <= MAX_DENOMINATOR
        if within_reach and ripple(sizes, variance, (axis,)) <= NEGLIGIBLE:
            chosen.append(axis)
    return tuple(sorted(chosen))

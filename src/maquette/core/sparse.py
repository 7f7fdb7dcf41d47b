"""Terms of a sparse vector: are public guesses far from the table's answers, by a secret noisy threshold?

The score of a guess is |q(x) - guess| in counts. The guess is a public whole number over the query's denominator,
so the score moves by at most 1 between neighbours, under both relations: q(x) does, and the absolute value does
not widen a gap. An epoch draws one noise for its threshold; every test draws fresh noise for its score. The
noise of the threshold is a whole number of counts, that of a test a whole number over the denominator: the shifts
of the proof, by 1 count and by 2 counts, are steps of both grids.

    far  iff  score + Lap(2 cap / e2) >= threshold + Lap(1 / e1)

Guarantee: e1 + e2 for the threshold and any number of tests, at most `cap` of them far (Lyu, Su and Li 2017); the
    values of far guesses carry fresh noise and are charged beside it, `cap` times.

The noisy threshold is secret. It is stored in the ledger with its charge, in one transaction, with a random blind:
the chain's hashes are given out as receipts, and a small whole number could be guessed from its hash.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.core import bounds
from maquette.core.errors import LedgerError, ParameterError
from maquette.core.forms import QueryForms
from maquette.core.laws import Gaussian, Laplace, sqrt_up
from maquette.core.linear_queries import LinearQueries
from maquette.core.measurement import Epoch, EpochTerms, Verdict
from maquette.core.universe import Universe

_LARGEST = 2**40
"""Thresholds beyond this many records are a mistake, and could overflow."""
BLIND_WORDS = 2
"""128 random bits."""


def score(exact: int, guess: int) -> int:
    """How far a guess is off, in steps of the query's denominator."""
    return abs(exact - guess)


def is_far(noisy_score: int, *, threshold: int, shift: int, denominator: int) -> bool:
    """The comparison; `shift` is the secret noise of the threshold, in counts."""
    return noisy_score >= (threshold + shift) * denominator


def within_reach(shift: int, denominator: int) -> int:
    """The noise of a threshold, cut off where the threshold would pass 62 bits.

    The sampler cuts noisy scores off at 64 bits. A threshold out there would let that cut decide; with this one the
    shifts of the proof hold for every value of the noise.
    """
    most = bounds.EXACT // denominator - _LARGEST
    return max(-most, min(shift, most))


def check_widths(epoch: Epoch, denominator: int) -> None:
    """Noise of an epoch, stretched to a query's denominator, must leave 64 bits to the scores and values."""
    widths = [epoch.threshold_scale, epoch.test_scale]
    match epoch.answer_noise:
        case Laplace(scale=scale):
            widths.append(scale)
        case Gaussian(sigma_squared=variance):
            widths.append(Fraction(sqrt_up(variance)))
        case None:
            pass
    bounds.check_width(max(widths) * denominator)


def seal(shift: int, blind: NDArray[np.uint64]) -> list[NDArray[np.int64]]:
    """The secret of an epoch as the ledger stores it."""
    return [np.array([shift], dtype=np.int64), blind.view(np.int64).copy()]


def unseal(arrays: Sequence[NDArray[np.int64]]) -> int:
    """The noise of the threshold out of what `seal` made."""
    return int(arrays[0][0])


def terms_to_dict(terms: EpochTerms) -> dict[str, Any]:
    """The public terms, for the ledger."""
    return {
        "threshold": terms.threshold,
        "cap": terms.cap,
        "prices": [None if p is None else str(p) for p in _prices(terms)],
    }


def terms_from_dict(data: dict[str, Any]) -> EpochTerms:
    """The terms of `terms_to_dict`."""
    first, second, third = (None if p is None else Fraction(p) for p in data["prices"])
    if first is None or second is None:
        raise ParameterError("expected the prices of an epoch's threshold and tests")
    return EpochTerms(int(data["threshold"]), int(data["cap"]), first, second, third)


def _prices(terms: EpochTerms) -> tuple[Fraction, Fraction, Fraction | None]:
    return terms.threshold_price, terms.test_price, terms.answer_price


def check_terms(terms: EpochTerms) -> None:
    """A cap and a threshold that leave 64 bits to the scores."""
    bounds.check_type(terms, EpochTerms, "the terms of an epoch")
    bounds.check_whole(terms.cap, least=1, most=2**20, what="an epoch's cap")
    bounds.check_whole(terms.threshold, least=-_LARGEST, most=_LARGEST, what="a threshold in records")


# Guesses that are tested one after the other. Public throughout.


@dataclass(frozen=True, slots=True)
class Guess:
    """A guess of one query's answer, a whole number over its denominator, and what the ledger says about it."""

    queries: LinearQueries
    guess: int
    about: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def body(self, query: str) -> dict[str, Any]:
        """What the ledger says about it; `query` is the name of the query."""
        return bounds.described({"query": query, "guess": self.guess}, self.about)


def check_guess(domain: Universe, guess: Guess, epoch: Epoch) -> QueryForms:
    """One query over the table's own domain, and numbers that leave 64 bits to its score: what the gate answers."""
    query_forms = bounds.forms_of(domain, guess.queries)
    if query_forms.count(domain.sizes) != 1:
        raise ParameterError(f"expected one query to test, got {guess.queries.count}")
    most = bounds.SUMMANDS
    bounds.check_whole(guess.guess, least=-most, most=most, what="a guess")
    check_widths(epoch, query_forms.top)
    bounds.check_about(guess.about)
    return query_forms


# An epoch that still tests. Its secret stays in the gate and in the ledger.


@dataclass(frozen=True, slots=True)
class OpenEpoch:
    """An epoch with its secret, and how many guesses were far."""

    epoch: Epoch
    shift: int
    far: int

    def __repr__(self) -> str:
        return f"an open epoch, {self.far} of {self.epoch.terms.cap} far"


def after(current: OpenEpoch | None, verdict: int) -> OpenEpoch | None:
    """The epoch after a test: closed by the last of its far guesses, of which a lost one may have been one."""
    if verdict == Verdict.VOID:
        return current
    if current is None:
        raise LedgerError("the ledger holds a test outside of every epoch")
    far = current.far + (verdict in (Verdict.FAR, Verdict.LOST))
    return replace(current, far=far) if far < current.epoch.terms.cap else None

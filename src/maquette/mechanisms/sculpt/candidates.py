"""Which triples of attributes are looked at where there are more than can be. From public and released values."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from maquette.mechanisms.sculpt.interests import Weighted

Triples = list[tuple[int, ...]]


def looked_at(
    wanted: Weighted,
    names: Sequence[str],
    *,
    most: int,
    scores: Mapping[tuple[int, ...], float] | None = None,
) -> Triples:
    """At most so many triples: the most often asked, and of those asked equally often no favourites of position.

    Half of the places go to triples whose pairs were found to depend most on each other (`scores`). The other half is
    spread over all attributes by a fixed mixing of their names, since three attributes can depend on each other where
    no two of them do. Neither depends on the order in which attributes are declared.
    """
    if len(wanted) <= most:
        return list(wanted)
    triples = list(wanted)
    weights = np.array(list(wanted.values()))
    weights = np.round(weights / weights.max(), 9)
    border = np.partition(weights, len(triples) - most)[len(triples) - most]
    above, level = np.flatnonzero(weights > border), np.flatnonzero(weights == border)
    room = most - len(above)
    mixed = mix(names, [triples[i] for i in level])
    strong = level[:0]
    if scores is not None:
        strength = [_strength(scores, triples[i]) for i in level]
        strong = level[np.lexsort((mixed, -np.array(strength)))[: room // 2]]
    spread = level[np.argsort(mixed)]
    spread = spread[~np.isin(spread, strong)][: room - len(strong)]
    return [triples[i] for i in np.sort(np.concatenate([above, strong, spread]))]


def mix(names: Sequence[str], sets: Sequence[tuple[int, ...]]) -> NDArray[np.uint64]:
    """A fixed number for every set of attributes that looks random, whatever their order; no key, no secret."""
    digests = [hashlib.sha256(name.encode()).digest()[:8] for name in names]
    numbers = np.array([int.from_bytes(digest, "big") for digest in digests], dtype=np.uint64)
    state = numbers[np.array(sets, dtype=np.int64)].sum(axis=1, dtype=np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        state = (state ^ (state >> np.uint64(shift))) * np.uint64(factor)
    return state ^ (state >> np.uint64(31))


def _strength(scores: Mapping[tuple[int, ...], float], triple: tuple[int, ...]) -> float:
    a, b, c = triple
    return scores[a, b] + scores[a, c] + scores[b, c]

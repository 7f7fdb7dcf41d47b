"""Reproducible noise for tests, and a curator that draws it: types of their own, never part of what is installed.

Whoever knows the seed can take the noise off again, so that everything they touch carries a watermark.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.accounting.ledger import Ledger
from maquette.core.curator import Curator
from maquette.core.noise import WIDE, Counts, Noise, Selection, TableNoise
from maquette.owner import Table
from maquette.samplers.draw import EXACT_DRAWS


class SeededBits:
    """A reproducible stream for tests. Whoever knows the seed knows the noise: nothing drawn with it is private."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Generator(np.random.PCG64(seed))

    def words(self, count: int) -> NDArray[np.uint64]:
        return self._generator.integers(0, 2**64, size=count, dtype=np.uint64, endpoint=False)


class SeededNoise(TableNoise):
    """Reproducible noise for tests. Not private: whoever knows the seed can take it off again."""

    watermark: str | None = "seeded test run: the noise is reproducible, nothing here is private"

    def __init__(self, seed: int) -> None:
        super().__init__(SeededBits(seed))
        self._generator = np.random.Generator(np.random.PCG64([seed, 1]))

    def gaussian(self, exact: Counts, *, sigma: float) -> Counts:
        if sigma <= WIDE:
            return super().gaussian(exact, sigma=sigma)
        # rounded is close enough at this width, where nothing is private anyway
        return exact + np.rint(self._generator.normal(scale=sigma, size=len(exact))).astype(np.int64)

    def select(self, scores: Counts, *, scale: float, method: Selection) -> int:
        lifted = scores / scale
        if method == "exponential":
            return int(np.argmax(lifted + self._generator.gumbel(size=len(scores))))
        return int(np.argmax(lifted + self._generator.exponential(size=len(scores))))


class SeededCurator(Curator):
    """The production curator with reproducible noise, and nothing else changed."""

    def __init__(self, table: Table, ledger: Ledger, *, seed: int, **options: Any) -> None:
        self._seed = seed
        super().__init__(table, ledger, **({"draws": EXACT_DRAWS} | options))

    def _source(self) -> Noise:
        return SeededNoise(self._seed)

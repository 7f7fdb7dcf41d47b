"""Noise that is a function of the test: a run of the suite that passed passes again.

Production noise has no seed, and some test of thousands fails by chance on some days. Here every test, and every
fixture that several tests share, draws from a stream that its own name seeds. Tests of the kind `privacy`, those of
`samplers` and processes that a test starts draw what production draws.
"""

from __future__ import annotations

import os
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction

from maquette.core import inversion as laws
from maquette.core import noise
from support.seeded import SeededNoise


class Stream:
    """The noise of the test that runs now; production's own where none is set, and in every child process."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._turn = threading.RLock()
        self._source: SeededNoise | None = None

    @contextmanager
    def named(self, name: str | None) -> Iterator[None]:
        """Draw from the stream of a name; None is production's noise."""
        before = self._source
        self._source = None if name is None else SeededNoise(zlib.crc32(name.encode()))
        try:
            yield
        finally:
            self._source = before

    @property
    def source(self) -> SeededNoise | None:
        return self._source if os.getpid() == self._process else None

    def install(self) -> None:
        """Put the stream where production asks the operating system and opendp."""
        words, laplace = laws.SystemBits.words, noise._opendp_laplace
        gaussian, select = noise._opendp_gaussian, noise._opendp_select

        def seeded_words(bits, count):
            with self._turn:
                return words(bits, count) if self.source is None else self.source.bits.words(count)

        def seeded_laplace(exact, scale):
            with self._turn:
                if self.source is None:
                    return laplace(exact, scale)
                return self.source.laplace(exact, scale=Fraction(scale))

        def seeded_gaussian(exact, sigma):
            with self._turn:
                if self.source is None:
                    return gaussian(exact, sigma)
                return self.source.gaussian(exact, sigma=sigma)

        def seeded_select(scores, scale, method):
            with self._turn:
                if self.source is None:
                    return select(scores, scale, method)
                return self.source.select(scores, scale=scale, method=method)

        laws.SystemBits.words = seeded_words
        noise._opendp_laplace = seeded_laplace
        noise._opendp_gaussian = seeded_gaussian
        noise._opendp_select = seeded_select


STREAM = Stream()
"""The one of this process."""

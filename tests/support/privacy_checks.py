"""The conformance checks in small, ready to be called on a system with a planted bug. Each raises AssertionError."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from maquette.accounting.ledger import Ledger
from maquette.core.budget import Budget
from maquette.core.curator import Curator
from maquette.core.inversion import SystemBits
from maquette.core.laws import NoiseRequest
from maquette.core.noise import SystemNoise
from maquette.domain import Relation
from maquette.errors import LookFailed, MaquetteError
from maquette.owner import Table
from maquette.queries import marginals
from maquette.samplers.draw import EXACT_DRAWS
from support.privacy_cases import MECHANISM_CASES, QUESTION_CASES, mixed
from support.privacy_conformance import TINY, Case, check_exactly
from support.privacy_doubles import LooseEngine, columns_of, histograms, ledger_for, set_aside
from support.privacy_laws import gaussian_pmf, laplace_pmf
from support.privacy_replay import SOURCES, SURVEY, check_replay, neighbours_of, ordinary, release
from support.privacy_statistics import fits_gaussian, fits_laplace

Check = Callable[[], None]

PURE = Budget(1.0)
_FEW = histograms(TINY.size, most=1)


@lru_cache
def exactly(name: str, relation: Relation = Relation.ADD_REMOVE) -> Check:
    """Exact output ratios of a case of the table, on all neighbours of at most one record."""
    case = next(c for c in [*QUESTION_CASES, *MECHANISM_CASES] if c.name == name)
    return of_case(case, relation)


def of_case(case: Case, relation: Relation) -> Check:
    def check() -> None:
        check_exactly(case, relation, _FEW)

    return check


@lru_cache
def replayed(mechanism: str, *, delta: float = 0.0, source: str = "csv") -> Check:
    """Record and replay a whole release on a young table and its neighbours, odd records among them."""

    def check() -> None:
        generator = np.random.default_rng(5)
        rows = [("30", "north", *ordinary(generator)[2:]) for _ in range(12)]
        options = {"mechanism": mechanism, "epsilon": 1.0, "delta": delta}
        queries = marginals(SURVEY, k=1)
        with tempfile.TemporaryDirectory() as folder:
            make = SOURCES[source]
            first = release(make(rows, Path(folder) / "0"), queries, Relation.ADD_REMOVE, None, **options)
            for i, other in enumerate(neighbours_of(rows, generator, Relation.ADD_REMOVE, 8), start=1):
                try:
                    seen = release(
                        make(other, Path(folder) / str(i)),
                        queries,
                        Relation.ADD_REMOVE,
                        first.run.calls,
                        **options,
                    )
                except (MaquetteError, ValueError, ArithmeticError) as error:
                    raise AssertionError(f"a neighbour raised {type(error).__name__}") from None
                check_replay(first, seen, "rho" if delta else "epsilon")

    return check


def samples_fit() -> None:
    """The production sampler has the law that was paid for: many small and some large requests."""
    noise, zeros = SystemNoise(), np.zeros(20_000, dtype=np.int64)
    small = np.concatenate([noise.laplace(zeros[:250], scale=Fraction(4)) for _ in range(80)])
    assert fits_laplace(noise.laplace(zeros, scale=Fraction(4)), laplace_pmf(4.0))
    assert fits_laplace(small, laplace_pmf(4.0))
    assert fits_gaussian(noise.gaussian(zeros, sigma=4.0), gaussian_pmf(4.0))


def noise_is_fresh() -> None:
    """No two draws, sources or curators share their noise, and numpy's seeds have no say."""
    zeros = np.zeros(300, dtype=np.int64)
    for draw in (
        lambda noise: noise.laplace(zeros, scale=Fraction(50)),
        lambda noise: noise.gaussian(zeros, sigma=50.0),
        lambda noise: noise.gaussian(zeros[:100], sigma=50.0),
    ):
        noise = SystemNoise()
        seen = [draw(noise), draw(noise)]
        for _ in range(2):
            np.random.seed(3)  # noqa: NPY002
            seen.append(draw(SystemNoise()))
        assert len({s.tobytes() for s in seen}) == len(seen), "noise was used twice"
    words = {int(w) for _ in range(400) for w in SystemBits().words(2)}
    assert len(words) == 800, "random words repeat"


def releases_differ() -> None:
    """Two curators over one table, with keys of their own, give different values and carry no watermark."""
    seen = []
    for _ in range(2):
        curator, _ = _curator(LooseEngine)
        seen.append(
            curator.measure(mixed(TINY), noise=NoiseRequest("laplace", Fraction(1, 4))).values.tobytes()
        )
        assert curator.watermark is None
    assert seen[0] != seen[1], "the noise can be predicted"


def pays_first() -> None:
    """When the table is looked at, the reservation is in the ledger and the answer is not."""

    class Witness(LooseEngine):
        def answer(self, queries: Any) -> Any:
            reserved = list(book.entries(kind="reserve", parent="release"))
            assert reserved, "the table was looked at before it was paid for"
            return super().answer(queries)

    curator, book = _curator(Witness)
    curator.measure(mixed(TINY), noise=NoiseRequest("laplace", Fraction(1, 4)))


def stays_charged() -> None:
    """An error after the payment gives nothing back."""

    class Breaks(LooseEngine):
        def answer(self, queries: Any) -> Any:
            raise RuntimeError

    curator, book = _curator(Breaks)
    with contextlib.suppress(LookFailed):
        curator.measure(mixed(TINY), noise=NoiseRequest("laplace", Fraction(1, 4)))
    charged = [e.units for e in book.entries(kind="reserve", parent="release")]
    assert charged == [250_000_000_000], "an error was refunded"


def refusals_say_nothing() -> None:
    """The message of a refusal is the same whatever the table."""
    texts = set()
    for rows in (0, 1, 5):
        curator, _ = _curator(LooseEngine, rows=rows)
        try:
            curator.measure(mixed(TINY), noise=NoiseRequest("laplace", Fraction(5)))
        except MaquetteError as error:
            texts.add(str(error))
    assert len(texts) == 1, "a refusal depends on the table"


def same_key_same_answer() -> None:
    """Asking again under the same key returns the stored bytes."""
    curator, book = _curator(LooseEngine)
    again = Curator(_table(LooseEngine, 4), book, key="release", budget=PURE, draws=EXACT_DRAWS)
    first, second = (
        c.measure(mixed(TINY), noise=NoiseRequest("laplace", Fraction(1, 4))).values for c in (curator, again)
    )
    assert np.array_equal(first, second), "a retry drew fresh noise for nothing"


def _table(engine: type, rows: int) -> Table:
    return Table(engine(TINY, columns_of(TINY, (rows, *[0] * 11))), name="tiny", source="test")


def _curator(engine: type, rows: int = 4) -> tuple[Curator, Ledger]:
    book = ledger_for(TINY, budget=PURE, relation=Relation.ADD_REMOVE)
    set_aside(book, "release", PURE)
    return Curator(_table(engine, rows), book, key="release", budget=PURE, draws=EXACT_DRAWS), book

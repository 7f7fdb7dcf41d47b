"""Stand-ins for the sampler and the vault, for tests of the gate and of everything above it."""

# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from maquette.accounting.ledger import Ledger
from maquette.core.budget import Budget
from maquette.core.curator import Curator
from maquette.core.events import PureEvent
from maquette.core.grid import column_of
from maquette.core.rows.engine import MemoryEngine
from maquette.domain import Domain, Persons, Relation
from maquette.owner import Table
from maquette.samplers.draw import EXACT_DRAWS
from support.seeded import SeededNoise


class Divergence(BaseException):
    """Two runs that should look the same from outside did not. The gate takes it for no failure of the machine."""


CAUGHT = (AssertionError, Divergence)
"""How a check says that it found something."""


class Touched(BaseException):
    """A table was looked at that must not be."""


@dataclass(frozen=True, eq=False)
class Call:
    """One draw: what was asked of the sampler, what went in, what came out."""

    method: str
    parameters: tuple[tuple[str, Any], ...]
    exact: np.ndarray
    output: Any

    @property
    def public(self) -> tuple[Any, ...]:
        """Everything but the private input and the output."""
        return self.method, self.parameters, self.exact.shape


class RecordingNoise:
    """Draws reproducible noise and remembers every call with its exact input."""

    watermark: str | None = None

    def __init__(self, seed: int = 1) -> None:
        self._noise = SeededNoise(seed)
        self.calls: list[Call] = []

    @property
    def bits(self) -> Any:
        return self._noise.bits

    def _draw(self, kind: str, exact: np.ndarray, **parameters: Any) -> Any:
        if kind == "draw":
            return self._really()
        return getattr(self._noise, kind)(exact, **parameters)

    def _record(self, kind: str, exact: np.ndarray, **parameters: Any) -> Any:
        copy = np.array(exact, dtype=np.int64)
        output = self._draw(kind, copy, **parameters)
        self.calls.append(Call(kind, tuple(sorted(parameters.items())), copy, output))
        return np.array(output) if isinstance(output, np.ndarray) else output

    def laplace(self, exact: np.ndarray, *, scale: Fraction) -> np.ndarray:
        return self._record("laplace", exact, scale=scale)

    def gaussian(self, exact: np.ndarray, *, sigma: float) -> np.ndarray:
        return self._record("gaussian", exact, sigma=sigma)

    def cube(self, exact: np.ndarray, *, base: Fraction) -> np.ndarray:
        return self._record("cube", exact, base=base)

    def norm(self, exact: np.ndarray, *, body: Any, resolution: int, decay: Fraction) -> np.ndarray:
        return self._record("norm", exact, body=body, resolution=resolution, decay=decay)

    def select(self, scores: np.ndarray, *, scale: float, method: str) -> int:
        return self._record("select", scores, scale=scale, method=method)

    def database(self, levels: np.ndarray, *, base: Fraction, asked: str, really: Callable[[], Any]) -> Any:
        """A small database; its private input are the levels of all of them."""
        self._really = really
        return self._record("draw", levels, base=base, asked=asked)


class ReplayingNoise(RecordingNoise):
    """Returns the outputs of an earlier run, whatever goes in; any other question is a divergence."""

    def __init__(self, tape: Sequence[Call]) -> None:
        super().__init__()
        self._tape = list(tape)

    def _draw(self, kind: str, exact: np.ndarray, **parameters: Any) -> Any:
        if len(self.calls) >= len(self._tape):
            raise Divergence(f"one draw more than before: {kind}")
        expected = self._tape[len(self.calls)]
        asked = (kind, tuple(sorted(parameters.items())), exact.shape)
        if asked != expected.public:
            raise Divergence(f"draw {len(self.calls)} was {expected.public}, now {asked}")
        return expected.output

    def check_finished(self) -> None:
        if len(self.calls) < len(self._tape):
            raise Divergence(f"{len(self._tape) - len(self.calls)} draws fewer than before")


class TapeCurator(Curator):
    """The production curator with another sampler, and nothing else changed."""

    def __init__(self, table: Table, ledger: Ledger, *, noise: Any, **options: Any) -> None:
        self._given = noise
        super().__init__(table, ledger, **({"draws": EXACT_DRAWS} | options))

    def _source(self) -> Any:
        return self._given


class LooseEngine(MemoryEngine):
    """The production engine with one commitment for all tables, so that many tables can share a ledger."""

    def commitment(self, salt: bytes, *, like: str | None = None) -> str:
        return "one for all"


class Untouchable:
    """An engine that fails whatever it is asked, except for what is public."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain

    def commitment(self, salt: bytes, *, like: str | None = None) -> str:
        return "untouchable"

    def __getattr__(self, name: str) -> Any:
        raise Touched(f"the private table was touched: {name}")


def columns_of(domain: Domain, histogram: Sequence[int]) -> dict[str, np.ndarray]:
    """Coded columns of the rows that a histogram over all cells counts; fine cells are those that are declared."""
    cells = np.repeat(np.arange(domain.size), np.asarray(histogram, dtype=np.int64))
    codes = np.unravel_index(cells, domain.shape)
    columns = {name: code.astype(np.uint8) for name, code in zip(domain.names, codes, strict=True)}
    return columns | {column_of(a.name): columns[a.name] for a in domain if a.grid is not None}


def table_of(
    domain: Domain,
    histogram: Sequence[int],
    *,
    engine: type = LooseEngine,
    persons: Persons | None = None,
) -> Table:
    rows = engine(domain, columns_of(domain, histogram))
    return Table(rows, name="tiny", source="histogram", persons=persons)


def ledger_for(
    domain: Domain,
    *,
    budget: Budget,
    relation: Relation,
    location: Any = None,
    persons: Persons | None = None,
) -> Ledger:
    facts: dict[str, Any] = {
        "persons": persons,
        "budget": budget,
        "relation": relation,
        "domain_fingerprint": domain.fingerprint,
        "name": "tiny",
    }
    return Ledger.memory(**facts) if location is None else Ledger.create(location, **facts)


def set_aside(ledger: Ledger, key: str, budget: Budget) -> None:
    """An envelope with the whole of a budget, as a release makes it."""
    from maquette.core.budget import UNITS, Cost

    cost = (
        PureEvent(Fraction(budget.total_units, UNITS), "test").cost(ledger.budget.unit)
        if budget.pure
        else Cost(budget.total_units, budget.slack_units)
    )
    ledger.reserve(key, request="0" * 64, tag="release", cost=cost, body={}, envelope=True)


def histograms(cells: int, *, most: int) -> list[tuple[int, ...]]:
    """Every table of at most `most` records over a universe of `cells` cells."""
    return [
        tuple(np.bincount(np.array(rows, dtype=np.int64), minlength=cells).tolist())
        for n in range(most + 1)
        for rows in itertools.combinations_with_replacement(range(cells), n)
    ]


def neighbours(
    tables: Sequence[tuple[int, ...]], relation: Relation
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Every ordered pair of neighbours among the given tables."""
    known = set(tables)
    for table in tables:
        for other in _moves(table, relation):
            if other in known:
                yield table, other


def persons_apart(
    tables: Sequence[tuple[int, ...]], rows: int
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Every ordered pair among the given tables of which one has one person more, with at most so many records."""
    arrays = np.array(tables)
    for i, table in enumerate(arrays):
        more = arrays - table
        for j in np.flatnonzero((more >= 0).all(axis=1) & (more.sum(axis=1) <= rows)):
            if i != j:
                yield tables[i], tables[j]
                yield tables[j], tables[i]


def _moves(table: tuple[int, ...], relation: Relation) -> Iterator[tuple[int, ...]]:
    cells = range(len(table))
    if relation is Relation.ADD_REMOVE:
        for i, step in itertools.product(cells, (1, -1)):
            if table[i] + step >= 0:
                yield tuple(c + step * (i == j) for j, c in enumerate(table))
        return
    for i, j in itertools.permutations(cells, 2):
        if table[i] > 0:
            yield tuple(c - (i == k) + (j == k) for k, c in enumerate(table))

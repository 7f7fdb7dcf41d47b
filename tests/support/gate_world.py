"""Two curators over neighbouring tables, asked the same: whatever differs outside the private inputs is a leak.

The first table's draws are recorded and given back to the second one. Then the outcome (answered, or refused with which
error and message), the ledger, and everything that is shown must be the same; a refusal must come before the table is
touched and before anything is charged; and no private input may move farther than the sensitivity that was charged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np

from maquette.core.budget import Budget
from maquette.core.curator import OnlineCurator
from maquette.core.inversion import SystemBits
from maquette.core.noise import SystemNoise
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.errors import MaquetteError
from maquette.owner import Table
from maquette.samplers import draw as sampler
from maquette.samplers import structures as public
from maquette.samplers.draw import EXACT_DRAWS, error_of
from support.gate_book import BookDouble
from support.gate_moves import Draw, Outcome, check_moves
from support.privacy_doubles import Divergence, LooseEngine, ledger_for, set_aside

DOMAIN = Domain(
    (
        Attribute("a", Kind.ORDINAL, codes=3, nullable=True),
        Attribute("b", Kind.BOOLEAN, codes=2),
        Attribute("c", Kind.BOOLEAN, codes=2),
        Attribute("d", Kind.NUMERIC, bounds=(0.0, 4.0), bins=4, unit=0.5),
        Attribute("huge", Kind.ORDINAL, codes=2**40),
        Attribute("e", Kind.NUMERIC, bounds=(0.0, 3.0), bins=1, unit=1, nullable=True),
    )
)
OTHER = Domain((*DOMAIN.attributes[:4], Attribute("huge", Kind.ORDINAL, codes=2**41), DOMAIN["e"]))
"""Not the table's domain."""

PURE, RHO, MU = Budget(1000.0), Budget(20.0, 1e-5), Budget(20.0, 1e-5, "gaussian")
SMALL_PURE, SMALL_RHO = Budget(2.0), Budget(1.0, 1e-9)
BUDGETS = ((PURE, PURE), (RHO, RHO), (MU, MU), (RHO, SMALL_PURE), (MU, SMALL_PURE), (MU, SMALL_RHO))
"""What the ledger counts, and what the curator was given: every pair of units that may meet."""

Rows = tuple[tuple[int, ...], ...]


class WatchedEngine(LooseEngine):
    """Counts how often it is looked at."""

    __slots__ = ("touched",)

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.touched = 0


def _watched(name: str) -> Callable[..., Any]:
    def method(self: WatchedEngine, *args: Any) -> Any:
        self.touched += 1
        return getattr(super(WatchedEngine, self), name)(*args)

    return method


WATCHED = ("size", "answer", "margins", "binned", "distinct", "distinct_records", "fold", "in_order")
"""Every public method of an engine but `commitment`, which a ledger is bound by before anything is asked."""
for _name in WATCHED:
    setattr(WatchedEngine, _name, _watched(_name))


class Tape:
    """A sampler that records its inputs. It gives back the outputs of an earlier run, where there is one."""

    watermark: str | None = None
    bits = SystemBits()

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self.calls: list[Draw] = []
        self.given: list[Draw] | None = None

    def start(self, given: list[Draw] | None) -> None:
        self.calls, self.given = [], given

    def _record(self, kind: str, exact: Any, fresh: Callable[[], Any], **parameters: Any) -> Any:
        inputs = [int(v) for v in np.asarray(exact).ravel()]
        output = fresh() if self.given is None else self._next(kind, len(inputs), parameters)
        self.calls.append(Draw(kind, parameters, inputs, output))
        return output

    def _next(self, method: str, length: int, parameters: dict[str, Any]) -> Any:
        assert self.given is not None
        if len(self.calls) >= len(self.given):
            raise Divergence(f"one draw more: {method}")
        before = self.given[len(self.calls)]
        if (before.method, before.parameters, len(before.exact)) != (method, parameters, length):
            raise Divergence(f"another draw: {before.method} {before.parameters}, now {method} {parameters}")
        return before.output

    def _noisy(self, method: str, exact: np.ndarray, **parameters: Any) -> Any:
        assert exact.dtype == np.int64
        return self._record(
            method, exact, lambda: exact + self._rng.integers(-40, 41, exact.shape), **parameters
        )

    def laplace(self, exact: np.ndarray, *, scale: Fraction) -> Any:
        return self._noisy("laplace", exact, scale=scale)

    def gaussian(self, exact: np.ndarray, *, sigma: float) -> Any:
        return self._noisy("gaussian", exact, sigma=sigma)

    def cube(self, exact: np.ndarray, *, base: Fraction) -> Any:
        return self._noisy("cube", exact, base=base)

    def norm(self, exact: np.ndarray, *, body: Any, resolution: int, decay: Fraction) -> Any:
        return self._noisy("norm", exact, body=body, resolution=resolution, decay=decay)

    def select(self, scores: np.ndarray, *, scale: float, method: str) -> int:
        return self._record(
            "select", scores, lambda: int(self._rng.integers(len(scores))), scale=scale, method=method
        )

    def database(self, asked: public.Draw, engine: Any, *, base: Fraction) -> Any:
        """A small database; its private input are the errors of a public sample of them."""
        sample = [
            databases(asked, engine.domain, np.random.default_rng(seed)) for seed in range(asked.m % 3 + 3)
        ]
        scores = [error_of(asked, values, engine) for values in sample]
        return self._record("draw", scores, lambda: sample[0], base=base)


def databases(asked: public.Draw, domain: Domain, rng: np.random.Generator) -> list[np.ndarray]:
    """A random database of the range of a draw."""
    match asked.structure:
        case public.Candidates() as listed:
            return [rng.integers(0, listed.count, 1).astype(np.uint64)]
        case public.Listed() | public.Trellis() as structure:
            return [np.sort(rng.integers(0, structure.atoms.count, asked.m)).astype(np.uint64)]
        case structure:
            return [
                rng.integers(0, domain[name].size, asked.m).astype(np.uint64) for name in structure.attributes
            ]


@contextmanager
def draws_on_tape() -> Iterator[None]:
    """Let the draws of databases go through the tape of the curator that asks for them."""
    real = sampler.run

    def run(asked: public.Draw, engine: Any, **options: Any) -> Any:
        noise = getattr(engine, "tape", None)
        if noise is None:
            return real(asked, engine, **options)
        return noise.database(asked, engine, base=options["decay"])

    sampler.run = run
    try:
        yield
    finally:
        sampler.run = real


class TapedEngine(WatchedEngine):
    """Also knows the tape of its curator."""

    __slots__ = ("tape",)


class TapedCurator(OnlineCurator):
    """The production curator with another sampler."""

    def __init__(self, *args: Any, noise: Any, **options: Any) -> None:
        self._given = noise
        super().__init__(*args, **({"draws": EXACT_DRAWS} | options))

    def _source(self) -> Any:
        return self._given


class Side:
    """One table with its curator and ledger."""

    def __init__(
        self, rows: Rows, relation: Relation, budgets: tuple[Budget, Budget], noise: Any, *, ledger: str
    ) -> None:
        whole, budget = budgets
        columns = {
            name: np.array([row[i] for row in rows], dtype=np.uint64 if name == "huge" else np.uint8)
            for i, name in enumerate(DOMAIN.columns)
        }
        self.engine = TapedEngine(DOMAIN, columns)
        self.noise = noise
        self.ledger: Any = BookDouble(budget=whole, relation=relation)
        if ledger == "real":
            self.ledger = ledger_for(DOMAIN, budget=whole, relation=relation)
        set_aside(self.ledger, "fuzz", budget)
        table = Table(self.engine, name="fuzz", source="test")
        self.curator = TapedCurator(table, self.ledger, key="fuzz", budget=budget, noise=noise)
        self.engine.tape = noise if isinstance(noise, Tape) else None
        self._seen = self.ledger.receipt().seq

    def ask(self, method: str, arguments: dict[str, Any], given: list[Draw] | None) -> Outcome:
        if isinstance(self.noise, Tape):
            self.noise.start(given)
        before = self.engine.touched
        error, result = None, None
        try:
            result = getattr(self.curator, method)(**arguments)
        except Divergence:
            raise
        except Exception as caught:
            error = (type(caught), str(caught))
        entries = list(self.ledger.entries(after=self._seen))
        self._seen = max([self._seen, *(entry.seq for entry in entries)])
        draws = self.noise.calls if isinstance(self.noise, Tape) else []
        return Outcome(error, result, entries, list(draws), self.engine.touched - before)

    @property
    def public(self) -> str:
        """Every public attribute of the curator but the table's domain, which both share."""
        names = [n for n in dir(self.curator) if n[0] != "_" and n != "domain"]
        values = [(n, getattr(self.curator, n)) for n in names]
        assert {"epoch", "left", "relation", "tests_left", "unit"} <= set(names)
        return repr([(n, shown(value)) for n, value in values if not callable(value)]) + repr(self.curator)


class Pair:
    """Two neighbouring tables with the same past."""

    def __init__(self, seed: int, *, real: bool = False, ledger: str = "double") -> None:
        self.rng = np.random.default_rng(seed)
        self.relation = list(Relation)[int(self.rng.integers(2))]
        budgets = BUDGETS[int(self.rng.integers(len(BUDGETS)))]
        self.real = real
        self.sides = [
            Side(rows, self.relation, budgets, SystemNoise() if real else Tape(self.rng), ledger=ledger)
            for rows in neighbouring_rows(self.rng, self.relation)
        ]

    @property
    def curator(self) -> OnlineCurator:
        return self.sides[0].curator

    @property
    def parted(self) -> bool:
        """Did fresh noise let a guess be near on one side and far on the other? Then their pasts differ, publicly."""
        return self.real and len({side.curator.tests_left for side in self.sides}) > 1

    def ask(self, method: str, arguments: dict[str, Any]) -> Outcome:
        """The same question to both; AssertionError where they differ in anything but the private inputs."""
        first, second = self.sides
        one = first.ask(method, arguments, None)
        other = second.ask(method, arguments, one.draws)
        self._check(method, arguments, one, other)
        return one

    def _check(self, method: str, arguments: dict[str, Any], one: Outcome, other: Outcome) -> None:
        if one.error != other.error:
            raise Divergence(f"{method}: {one} on one table, {other} on its neighbour")
        if one.error is not None and not issubclass(one.error[0], MaquetteError):
            raise AssertionError(f"{method} ended in {one}, which is not an error of this package")
        if one.error is not None and (one.entries or other.entries or one.touched or other.touched):
            raise AssertionError(f"{method} was refused ({one}) after the payment or a look")
        if self.real:
            if method not in ("test", "test_all"):  # near or far is noisy
                self._same([(e["tag"], e["units"]) for e in one.charged], other.charged)
            return
        # the threshold of an epoch is stored with random bits
        stored = method == "open_epoch" or one.stored == other.stored
        if one.charged != other.charged or not stored:
            raise Divergence(f"{method}: the ledger depends on the table beyond the draws")
        if shown(one.result) != shown(other.result) or self.sides[0].public != self.sides[1].public:
            raise Divergence(f"{method}: something is shown that depends on the table beyond the draws")
        if len(one.draws) != len(other.draws):
            raise Divergence(
                f"{method}: {len(one.draws)} draws on one table, {len(other.draws)} on the other"
            )
        if one.error is None:
            check_moves(method, arguments, one, other)

    def _same(self, one: list[tuple[str, int]], charged: list[Any]) -> None:
        if one != [(e["tag"], e["units"]) for e in charged]:
            raise Divergence("the price depends on the table")


def shown(value: Any) -> str:
    """Everything public in a result, arrays in full, receipts and times left out."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}{value.tolist()}"
    if isinstance(value, dict):
        return str({k: shown(v) for k, v in value.items()})
    if isinstance(value, (list, tuple)):
        return str([shown(v) for v in value])
    names = getattr(value, "__dataclass_fields__", None)
    if names is not None:
        kept = [n for n in names if n not in ("receipt", "created", "domain", "queries")]
        return type(value).__name__ + str([shown(getattr(value, n)) for n in kept])
    return repr(value)


def neighbouring_rows(rng: np.random.Generator, relation: Relation) -> tuple[Rows, Rows]:
    """A small table, often a tiny one, and a neighbour of it."""
    sizes = list(DOMAIN.columns.values())

    def record() -> tuple[int, ...]:
        return tuple(int(rng.integers(size)) for size in sizes)

    count = int(rng.choice([0, 1, 2, 3, 8, 40]))
    if relation is Relation.REPLACE_ONE:
        count = max(count, 1)
    rows = tuple(record() for _ in range(count))
    place = int(rng.integers(len(rows))) if rows else 0
    if relation is Relation.REPLACE_ONE:
        return rows, (*rows[:place], record(), *rows[place + 1 :])
    if rows and rng.integers(2):
        return rows, (*rows[:place], *rows[place + 1 :])
    return rows, (*rows, record())

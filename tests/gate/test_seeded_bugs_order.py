"""Planted privacy bugs: what is charged, in which order, with which randomness, and what else depends on the table."""

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest

from maquette import api
from maquette.core import curator as gate
from maquette.core import prices
from maquette.core.budget import Cost
from maquette.core.curator import Curator
from maquette.core.events import LaplaceEvent
from maquette.core.inversion import SystemBits
from maquette.core.measurement import Measurement, NoisyCounts, Receipt, Size
from maquette.core.noise import SystemNoise
from maquette.core.rows import engine as vault
from maquette.core.rows import loading
from maquette.core.rows.engine import MemoryEngine
from maquette.domain import Relation
from maquette.errors import LookFailed
from maquette.releasing import plan
from maquette.theory.quantiles import law_at
from support import privacy_checks as checks
from support.planted_bugs import Catalogue, changed
from support.privacy_cases import pairs
from support.privacy_conformance import mechanism_case
from support.privacy_doubles import CAUGHT
from support.seeded import SeededNoise

pytestmark = pytest.mark.privacy

AR, REP = Relation.ADD_REMOVE, Relation.REPLACE_ONE


CATALOGUE = Catalogue()
bug = CATALOGUE.bug


# --- what is drawn and what is charged -------------------------------------------------------------------------


@bug("one charge for two draws", checks.exactly("laplace"))
def _(patch):
    def make(real):
        def ask(self, event, request, look, **more):
            return real(
                self, event, request, lambda: [(a + b) // 2 for a, b in zip(look(), look(), strict=True)]
            )

        return ask

    changed(patch, Curator, "_ask", make)


@bug("an event that costs nothing", checks.exactly("size, pure"))
def _(patch):
    patch.setattr(LaplaceEvent, "cost", lambda self, unit: Cost(0))


@bug(
    "parts of a budget rounded up, and no one counts",
    checks.of_case(mechanism_case("laplace", queries=pairs), AR),
)
def _(patch):
    def split(units, shares):
        return [math.ceil(units * share) + 1 for share in shares]

    patch.setattr(plan, "split", split)
    patch.setattr(Curator, "_spent_with", lambda self, cost: self._spent)


@bug("the certificate without noise", checks.exactly("largest error, pure"))
def _(patch):
    def largest_error(self, queries, answers, *, groups=None, price):
        errors = vault.errors_of(self._engine, queries.to_forms(), answers)
        return NoisyCounts(np.array([errors.max()]), law_at(price, unit=self.unit), Receipt(1, "0" * 64))

    patch.setattr(Curator, "largest_error", largest_error)


@bug("residuals charged as projected and released as they are", checks.exactly("residuals, all axes"))
@bug("residuals in bins released as they are", checks.exactly("residuals in bins, all axes"))
def _(patch):
    def project(table, axes):
        scale = math.prod(table.shape[a] for a in axes)
        return table * scale, scale

    patch.setattr(gate, "project", project)


@bug("axes projected whose ripple is not negligible", checks.exactly("residuals, no axes"))
@bug("axes of bins projected whose ripple is not negligible", checks.exactly("residuals in bins, no axes"))
def _(patch):
    patch.setattr(prices, "projected_axes", lambda sizes, variance: tuple(range(len(sizes))))
    patch.setattr(prices, "ripple", lambda sizes, variance, axes: Fraction(0))


@bug("the sampler's gap is not charged to delta", checks.exactly("residuals, all axes"))
@bug("the sampler's gap is not charged for bins", checks.exactly("residuals in bins, all axes"))
def _(patch):
    patch.setattr(prices, "ripple", lambda sizes, variance, axes: Fraction(0))


@bug("noise of another table's answer reused from a cache", checks.exactly("laplace"))
def _(patch):
    cache: dict[str, object] = {}

    def make(real):
        def ask(self, event, request, look, **more):
            name = str(sorted(request.items()))
            if name not in cache:
                cache[name] = real(self, event, request, look)
            return cache[name]

        return ask

    changed(patch, Curator, "_ask", make)


# --- the order of things ---------------------------------------------------------------------------------------


@bug("the charge comes after the look", checks.pays_first)
def _(patch):
    def make(real):
        def ask(self, event, request, look, **more):
            seen = look()
            return real(self, event, request, lambda: seen)

        return ask

    changed(patch, Curator, "_ask", make)


@bug("an error is refunded", checks.stays_charged)
def _(patch):
    def make(real):
        def ask(self, event, request, look, **more):
            try:
                return real(self, event, request, look, **more)
            except LookFailed:
                _forget_last(self._ledger)
                raise

        return ask

    changed(patch, Curator, "_ask", make)


def _forget_last(ledger) -> None:
    with ledger._store.writing() as connection:
        triggers = connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'trigger'").all()
        for (name,) in triggers:
            connection.exec_driver_sql(f'DROP TRIGGER "{name}"')
        connection.exec_driver_sql("DELETE FROM entry WHERE parent IS NOT NULL")


@bug("a retry draws fresh noise", checks.same_key_same_answer)
def _(patch):
    def make(real):
        def ask(self, event, request, look, **more):
            _, receipt = real(self, event, request, look)
            return look(), receipt

        return ask

    changed(patch, Curator, "_ask", make)


# --- randomness ------------------------------------------------------------------------------------------------


@bug("noise shared by two calls", checks.noise_is_fresh)
def _(patch):
    kept: dict[tuple[int, float], np.ndarray] = {}

    def make(real):
        def gaussian(self, exact, *, sigma):
            noise = kept.setdefault((len(exact), sigma), real(self, np.zeros_like(exact), sigma=sigma))
            return exact + noise

        return gaussian

    changed(patch, SystemNoise, "gaussian", make)


@bug("numpy's floating-point Laplace", checks.noise_is_fresh)
def _(patch):
    def laplace(self, exact, *, scale):
        return exact + np.random.laplace(scale=float(scale), size=len(exact)).astype(np.int64)  # noqa: NPY002

    patch.setattr(SystemNoise, "laplace", laplace)


@bug("a seeded generator in production", checks.releases_differ)
def _(patch):
    def source(self):
        noise = SeededNoise(0)
        noise.watermark = None
        return noise

    patch.setattr(Curator, "_source", source)


@bug("a generator with little entropy", checks.noise_is_fresh)
def _(patch):
    def words(self, count):
        seed = int.from_bytes(__import__("os").urandom(1), "little")
        return np.random.default_rng(seed).integers(0, 2**64, size=count, dtype=np.uint64, endpoint=False)

    patch.setattr(SystemBits, "words", words)


# --- what else depends on the table ----------------------------------------------------------------------------


@bug("the number of records taken for public under add/remove-one", checks.exactly("size, pure"))
def _(patch):
    patch.setattr(Curator, "size", lambda self, *, price: Size(self._engine.size(), None, None))


@bug("the release states the true number of records", checks.replayed("laplace"))
def _(patch):
    patch.setattr(Curator, "size", lambda self, *, price: Size(self._engine.size(), None, None))


@bug("an early exit for the empty table", checks.exactly("laplace"))
def _(patch):
    def make(real):
        def measure(self, queries, *, noise):
            if self._engine.size() == 0:
                return Measurement(queries, np.zeros(queries.count, np.int64), noise, Receipt(1, "0" * 64))
            return real(self, queries, noise=noise)

        return measure

    changed(patch, Curator, "measure", make)


@bug("an error message with a true count", checks.refusals_say_nothing)
def _(patch):
    def make(real):
        def spent_with(self, cost):
            try:
                return real(self, cost)
            except Exception as error:
                error.args = (f"{error} (the table has {self._engine.size()} rows)",)
                raise

        return spent_with

    changed(patch, Curator, "_spent_with", make)


@bug("bounds inferred from the data", checks.replayed("gaussian", delta=1e-6))
def _(patch):
    def make(real):
        def init(self, domain, columns, **room):
            top = max(int(columns["age"].max(initial=0)), 1) if "age" in columns else 1
            age = columns.get("age")
            scaled = (
                columns if age is None else columns | {"age": (age.astype(int) * 5 // top).astype(np.uint8)}
            )
            real(self, domain, scaled, **room)

        return init

    changed(patch, MemoryEngine, "__init__", make)


@bug("an odd record raises", checks.replayed("laplace", source="pandas"))
def _(patch):
    def make(real):
        def init(self, domain, columns, **room):
            if "region" in columns and int(columns["region"].max(initial=0)) > 2:
                raise ValueError("unknown category")
            real(self, domain, columns, **room)

        return init

    changed(patch, MemoryEngine, "__init__", make)


@bug("a warning that counts records", checks.replayed("laplace", source="arrow"))
def _(patch):
    def make(real):
        def init(self, domain, columns, **room):
            missing = int((columns["age"] > 5).sum()) if "age" in columns else 0
            warnings.warn(f"{missing} missing values were replaced", stacklevel=2)
            real(self, domain, columns, **room)

        return init

    changed(patch, MemoryEngine, "__init__", make)


@bug("progress in steps of records", checks.replayed("laplace"))
def _(patch):
    def make(real):
        def load(source, domain, *, memory_limit, progress):
            engine = real(source, domain, memory_limit=memory_limit, progress=progress)
            for i in range(engine.size()):
                progress(i)
            return engine

        return load

    changed(patch, loading, "load", make)
    patch.setattr("maquette.vault.readers.load", loading.load)


@bug("the release compares itself with the true answers", checks.replayed("histogram-laplace"))
def _(patch):
    def make(real):
        def run(curator, choice, *, key, **options):
            done = real(curator, choice, key=key, **options)
            exact = curator._engine.answer(choice.request.queries.to_forms())
            done.outcome.parameters["true error"] = float(np.abs(exact).max())
            return done

        return run

    changed(patch, api, "run", make)


def test_the_catalogue_is_long_enough():
    assert len(CATALOGUE) == len({planted.name for planted in CATALOGUE}) >= 24


@pytest.mark.parametrize("planted", CATALOGUE, ids=lambda b: b.name)
def test_the_bug_is_caught(planted, monkeypatch):
    planted.plant(monkeypatch)
    with pytest.raises(CAUGHT):
        planted.check()


@pytest.mark.parametrize("check", CATALOGUE.checks, ids=CATALOGUE.checks.get)
def test_the_check_passes_without_the_bug(check):
    check()

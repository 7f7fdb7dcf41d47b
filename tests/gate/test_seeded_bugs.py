"""A catalogue of privacy bugs, each one made somewhere by somebody. Planted here, each must be caught.

A bug is planted by changing production code for one test; the check is one of the conformance checks, in small. The
same check passes without the bug.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

from maquette import api
from maquette.accounting.budget import Cost
from maquette.accounting.events import LaplaceEvent, SelectionEvent
from maquette.domain import Relation
from maquette.errors import ParameterError
from maquette.gate import barrier, prices
from maquette.gate import curator as gate
from maquette.gate.curator import Curator
from maquette.models.answers import Answers
from maquette.queries import marginals, weights
from maquette.queries.marginals import Marginals
from maquette.queries.weights import Weights
from maquette.questions import answers, class_errors
from maquette.questions.answers import ChoiceQuestion
from maquette.questions.class_errors import ReleasedTables
from maquette.questions.measurement import Measurement, NoisyCounts, Receipt, Size
from maquette.questions.noise import Laplace, NoiseRequest, law_at
from maquette.questions.norms import Body
from maquette.releasing import request
from maquette.samplers.laws import SystemBits
from maquette.samplers.noise import SystemNoise
from maquette.vault import engine as vault
from maquette.vault import loading
from maquette.vault.engine import MemoryEngine
from support import privacy_checks as checks
from support.privacy_cases import CONCENTRATED, PURE, pairs
from support.privacy_conformance import Case, mechanism_case
from support.seeded import SeededNoise

pytestmark = pytest.mark.privacy

AR, REP = Relation.ADD_REMOVE, Relation.REPLACE_ONE
Plant = Callable[[pytest.MonkeyPatch], None]


def _opposed(curator):
    """Two candidates; replacing a record moves one score up and the other down."""
    queries = marginals(curator.domain, attributes=[["b"]])
    return curator.select(queries, Answers(np.array([1, 1]), 1), price=Fraction(1, 100))


OPPOSED = checks.of_case(Case("opposed", CONCENTRATED, _opposed), REP)
MARGINALS = checks.of_case(
    Case(
        "marginals",
        CONCENTRATED,
        lambda c: c.measure(pairs(c.domain), noise=NoiseRequest("gaussian", Fraction(1, 70))),
    ),
    REP,
)


@dataclass(frozen=True)
class Bug:
    name: str
    plant: Plant
    check: checks.Check


CATALOGUE: list[Bug] = []


def bug(name: str, check: checks.Check) -> Callable[[Plant], Plant]:
    def add(plant: Plant) -> Plant:
        CATALOGUE.append(Bug(name, plant, check))
        return plant

    return add


def changed(patch: pytest.MonkeyPatch, place: object, name: str, make: Callable) -> None:
    """Replace a function by one that is made from the original."""
    patch.setattr(place, name, make(getattr(place, name)))


# --- noise too small -------------------------------------------------------------------------------------------


@bug("Laplace scale halved, event unchanged", checks.exactly("laplace"))
def _(patch):
    def make(real):
        def laplace(*args, **options):
            plan = real(*args, **options)
            return replace(plan, law=replace(plan.law, scale=plan.law.scale / 2))

        return laplace

    changed(patch, prices, "laplace", make)


@bug("sigma 20 % too small, event unchanged", checks.exactly("gaussian"))
def _(patch):
    def make(real):
        def gaussian(*args, **options):
            plan = real(*args, **options)
            return replace(
                plan, law=replace(plan.law, sigma_squared=plan.law.sigma_squared * Fraction(16, 25))
            )

        return gaussian

    changed(patch, prices, "gaussian", make)


@bug("scale rounded to the nearest double instead of up", checks.exactly("laplace"))
def _(patch):
    def laplace(sensitivity, *, epsilon, denominator):
        ideal = sensitivity.l1 * denominator / prices.on_grid(epsilon)
        drawn = Fraction(math.nextafter(prices.float_up(ideal), 0))
        event = LaplaceEvent(scale=ideal / denominator, l1=sensitivity.l1)
        return prices.NoisePlan(Laplace(epsilon, drawn / denominator), event)

    patch.setattr(prices, "laplace", laplace)


@bug("L2 sensitivity where L1 is needed", checks.exactly("laplace"))
def _(patch):
    def make(real):
        def laplace(sensitivity, **options):
            l2 = Fraction(math.sqrt(sensitivity.l2_squared))
            return real(replace(sensitivity, l1=l2), **options)

        return laplace

    changed(patch, prices, "laplace", make)


@bug("L-infinity base rounded below exp(-epsilon)", checks.exactly("cube"))
def _(patch):
    def make(real):
        def cube(*, epsilon):
            plan = real(epsilon=epsilon)
            base = Fraction(math.floor(plan.law.base * 2**20), 2**20)
            return replace(plan, law=replace(plan.law, base=base))

        return cube

    changed(patch, prices, "cube", make)


@bug("K-norm decay rounded below its exponential", checks.exactly("norm"))
def _(patch):
    changed(
        patch, prices, "_decay", lambda real: lambda rate: Fraction(math.floor(real(rate) * 2**20), 2**20)
    )


@bug("K-norm levels that a record moves rounded down", checks.exactly("norm"))
def _(patch):
    def make(real):
        def levels_for(body, moved, price):
            body, resolution, _ = real(body, moved, price)
            return body, resolution, math.floor(resolution * moved)

        return levels_for

    changed(patch, prices, "levels_for", make)


@bug(
    "the norm of a column where that of a difference of two is needed",
    checks.exactly("norm", Relation.REPLACE_ONE),
)
def _(patch):
    real = Body.shift
    patch.setattr(Body, "shift", lambda self, queries, relation: real(self, queries, Relation.ADD_REMOVE))


@bug("the body is taken for one that holds every move", checks.exactly("norm"))
def _(patch):
    patch.setattr(Body, "shift", lambda self, queries, relation: Fraction(1))


@bug("the sampler draws with 0.9 times the scale", checks.samples_fit)
def _(patch):
    def make(real):
        def laplace(self, exact, *, scale):
            return real(self, exact, scale=scale * Fraction(9, 10))

        return laplace

    changed(patch, SystemNoise, "laplace", make)


# --- sensitivity -----------------------------------------------------------------------------------------------


@bug("add/remove sensitivity of marginals under replace-one", MARGINALS)
def _(patch):
    changed(patch, Marginals, "sensitivity", lambda real: lambda self, relation: real(self, AR))


@bug("add/remove shift of residuals under replace-one", checks.exactly("residuals, some axes", REP))
def _(patch):
    changed(patch, prices, "shift_squared", lambda real: lambda sizes, relation, axes: real(sizes, AR, axes))


@bug("the curator asks for the wrong relation", MARGINALS)
def _(patch):
    patch.setattr(Curator, "relation", property(lambda self: AR))


@bug("weights beyond 1 reach the sum", checks.exactly("weights, pure"))
def _(patch):
    changed(patch, Weights, "from_margins", lambda real: lambda self, tables: 2 * real(self, tables))


@bug("sensitivity of weights taken from their mean", checks.exactly("weights, rho"))
def _(patch):
    def make(real):
        def sensitivity(self, relation):
            found = real(self, relation)
            return replace(found, l1=found.l1 / 2, l2_squared=found.l2_squared / 4)

        return sensitivity

    changed(patch, Weights, "sensitivity", make)


def _wild(curator):
    queries = pairs(curator.domain)
    answers = Answers(np.full(queries.count, 3 * 2**30), 2**30)
    return curator.largest_error(queries, answers, price=Fraction(1, 3))


@bug(
    "answers outside [0, 1] enter the score", lambda: checks.of_case(Case("wild", PURE, _tame_or_wild), AR)()
)
def _(patch):
    patch.setattr(gate, "check_answers", lambda answers, count: None)


def _tame_or_wild(curator):
    """Refused where answers are checked; asked where they are not."""
    from maquette.errors import ParameterError

    try:
        return _wild(curator)
    except ParameterError:
        return "refused"


@bug("a score of sensitivity 2 charged as 1", checks.exactly("largest error by group, pure"))
def _(patch):
    changed(patch, vault, "count_errors", lambda real: lambda *args: 2 * real(*args))


@bug("groups charged as one largest error", checks.exactly("largest error by group, rho"))
def _(patch):
    changed(patch, barrier, "one_each", lambda real: lambda numbers: real(1))


@bug("classes of questions charged as one", checks.exactly("class errors, pure"))
def _(patch):
    changed(patch, barrier, "one_each", lambda real: lambda numbers: real(1))


@bug("the error over a class by the records of another table", checks.exactly("class errors, rho"))
def _(patch):
    def wrong(counts, released, denominator):
        return denominator * counts - 3 * int(counts.sum()) * released

    patch.setattr(vault, "gaps", wrong)


@bug("the error over a class with a doubled weight", checks.exactly("class errors, pure"))
def _(patch):
    changed(patch, vault, "largest_error", lambda real: lambda *args: 2 * real(*args))


@bug("weights of errors above 1", checks.exactly("weighted class errors, pure"))
def _(patch):
    changed(
        patch,
        vault,
        "weigh",
        lambda real: lambda error, weight, whole: real(2 * error, weight, whole=whole),
    )


@bug("weights turned over", checks.exactly("weighted class errors, rho"))
def _(patch):
    changed(patch, vault, "weigh", lambda real: lambda error, weight, whole: real(error, whole, whole=weight))


def _shares_above_one(curator):
    tables = {(name,): np.full(curator.domain[name].size, 5) for name in curator.domain.names}
    given = ReleasedTables(tuple((name,) for name in curator.domain.names), tables, 5)
    try:
        return curator.class_errors(["one attribute"], given, price=Fraction(1, 3))
    except ParameterError:
        return "refused"


@bug(
    "shares above 1 enter the error over a class",
    lambda: checks.of_case(Case("shares", PURE, _shares_above_one), AR)(),
)
def _(patch):
    patch.setattr(class_errors, "_table", lambda domain, margin, given: given.tables[margin])


# --- private choice --------------------------------------------------------------------------------------------


@bug("counts move the same way under replace-one too", checks.exactly("choose counts, pure", REP))
def _(patch):
    patch.setattr(ChoiceQuestion, "is_monotone", lambda self, relation: self.goal == "count")


@bug("distances of candidates move the same way", checks.exactly("choose nearest, rho", REP))
def _(patch):
    patch.setattr(ChoiceQuestion, "is_monotone", lambda self, relation: True)


@bug("the errors of a candidate's answers are added up", checks.exactly("choose database, pure"))
def _(patch):
    def scores(self, exact, n):
        errors = [answers.count_errors(exact, self.queries.denominator, one, n) for one in self.answers]
        return -np.array([e.sum() for e in errors])

    patch.setattr(ChoiceQuestion, "scores", scores)


@bug("exponential mechanism without the factor 2", checks.exactly("select, pure", REP))
def _(patch):
    def selection(*, price, unit):
        scale = prices.float_up(1 / price)
        return prices.SelectionPlan(scale, SelectionEvent(epsilon=price, method="permute-and-flip"))

    patch.setattr(prices, "selection", selection)


@bug("permute-and-flip charged like the exponential mechanism in rho", OPPOSED)
def _(patch):
    def make(real):
        def selection(*, price, unit):
            plan = real(price=price, unit=unit)
            return replace(plan, event=replace(plan.event, method="permute-and-flip"))

        return selection

    def cost(self, unit):
        return Cost(math.ceil(Fraction(self.epsilon) ** 2 / 8 * 10**12))

    changed(patch, prices, "selection", make)
    patch.setattr(SelectionEvent, "cost", cost)


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

    patch.setattr(request, "split", split)
    patch.setattr(Curator, "_spent_with", lambda self, cost: self._spent)


@bug("the certificate without noise", checks.exactly("largest error, pure"))
def _(patch):
    def largest_error(self, queries, answers, *, groups=None, price):
        errors = vault.errors_of(self._engine, queries, answers)
        return NoisyCounts(np.array([errors.max()]), law_at(price, unit=self.unit), Receipt(1, "0" * 64))

    patch.setattr(Curator, "largest_error", largest_error)


@bug("residuals charged as projected and released as they are", checks.exactly("residuals, all axes"))
def _(patch):
    def project(table, axes):
        scale = math.prod(table.shape[a] for a in axes)
        return table * scale, scale

    patch.setattr(gate, "project", project)


@bug("axes projected whose ripple is not negligible", checks.exactly("residuals, no axes"))
def _(patch):
    patch.setattr(prices, "projected_axes", lambda sizes, variance: tuple(range(len(sizes))))
    patch.setattr(prices, "ripple", lambda sizes, variance, axes: Fraction(0))


@bug("the sampler's gap is not charged to delta", checks.exactly("residuals, all axes"))
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
            except RuntimeError:
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
            exact = curator._engine.answer(choice.request.queries)
            done.outcome.parameters["true error"] = float(np.abs(exact).max())
            return done

        return run

    changed(patch, api, "run", make)


def test_the_catalogue_is_long_enough():
    names = [planted.name for planted in CATALOGUE]
    assert len(names) == len(set(names))
    assert len(names) >= 30


@pytest.mark.parametrize("planted", CATALOGUE, ids=lambda b: b.name)
def test_the_bug_is_caught(planted, monkeypatch):
    planted.plant(monkeypatch)
    with pytest.raises(AssertionError):
        planted.check()


@pytest.mark.parametrize(
    "check", {b.check: b.name for b in CATALOGUE}, ids={b.check: b.name for b in CATALOGUE}.get
)
def test_the_check_passes_without_the_bug(check):
    check()


def test_weights_outside_the_unit_interval_never_become_queries():
    from maquette.errors import WorkloadError
    from support.privacy_conformance import TINY

    for value in (-0.1, 1.1, float("nan"), float("inf")):
        with pytest.raises(WorkloadError):
            weights(TINY, np.full((1, TINY.size), value))

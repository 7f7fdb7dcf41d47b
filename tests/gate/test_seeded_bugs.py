"""A catalogue of privacy bugs, each one made somewhere by somebody. Planted here, each must be caught.

Here are those of noise, of sensitivities and of private choices; `test_seeded_bugs_order.py` has the others. A bug is
planted by changing production code for one test; the check is one of the conformance checks, in small. The same check
passes without the bug.
"""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from maquette.core import answers, any_order, barrier, class_errors, forms, prices
from maquette.core import curator as gate
from maquette.core.answers import ChoiceQuestion
from maquette.core.bodies import Body
from maquette.core.budget import Cost
from maquette.core.class_errors import ReleasedTables
from maquette.core.curator import Curator
from maquette.core.events import LaplaceEvent, SelectionEvent
from maquette.core.fine_sums import SumsQuestion, SumsTask, grid_of
from maquette.core.grid import column_of
from maquette.core.laws import Laplace, NoiseRequest
from maquette.core.noise import SystemNoise
from maquette.core.rows import engine as vault
from maquette.domain import Relation
from maquette.errors import ParameterError
from maquette.models.answers import Answers
from maquette.queries import marginals, weights
from maquette.queries.classes import class_sets
from support import privacy_checks as checks
from support.planted_bugs import Catalogue, changed
from support.privacy_cases import CONCENTRATED, PURE, pairs
from support.privacy_conformance import Case
from support.privacy_doubles import CAUGHT

pytestmark = pytest.mark.privacy

AR, REP = Relation.ADD_REMOVE, Relation.REPLACE_ONE


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


CATALOGUE = Catalogue()
bug = CATALOGUE.bug


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
    patch.setattr(forms.Tables, "replaced", forms.Tables.added)


@bug(
    "add/remove sensitivity of sums under replace-one",
    checks.exactly("sums without missing values, pure", REP),
)
def _(patch):
    changed(patch, SumsQuestion, "sensitivity", lambda real: lambda self, relation: real(self, AR))


@bug("the count beside a sum is not charged", checks.exactly("sums by groups, pure"))
def _(patch):
    def alone(real):
        half = Fraction(1, 2)
        return lambda self, relation: replace(real(self, relation), l1=half, l2_squared=half**2)

    changed(patch, SumsQuestion, "sensitivity", alone)


@bug("a sum from the lower end is charged as one about the middle", checks.exactly("sums, pure"))
def _(patch):
    def uncentred(real):
        def add(self, sums, batch):
            real(self, sums, batch)
            sums[0] += sums[1] * grid_of(self.domain, self.name).steps

        return add

    changed(patch, SumsTask, "add", uncentred)


@bug("what is not declared is summed as if it lay beyond the bounds", checks.exactly("sums by groups, rho"))
def _(patch):
    def add(self, sums, batch):
        codes = batch[column_of(self.name)].astype(np.int64)
        steps = grid_of(self.domain, self.name).steps
        np.add.at(sums[0], batch["g"], 2 * codes - steps)
        np.add.at(sums[1], batch["g"], 1)

    patch.setattr(SumsTask, "add", add)


@bug("add/remove shift of residuals under replace-one", checks.exactly("residuals, some axes", REP))
def _(patch):
    changed(patch, prices, "shift_squared", lambda real: lambda sizes, relation, axes: real(sizes, AR, axes))


@bug(
    "add/remove shift of residuals in bins under replace-one",
    checks.exactly("residuals in bins, all axes", REP),
)
def _(patch):
    changed(patch, prices, "shift_squared", lambda real: lambda sizes, relation, axes: real(sizes, AR, axes))


@bug("a record is counted in its bin and in the next", checks.exactly("residuals in bins, all axes"))
def _(patch):
    def twice(real):
        return lambda self, tables: [table + np.roll(table, 1) for table in real(self, tables)]

    changed(patch, vault.MemoryEngine, "binned", twice)


@bug("the curator asks for the wrong relation", MARGINALS)
def _(patch):
    patch.setattr(Curator, "relation", property(lambda self: AR))


@bug("weights beyond 1 reach the sum", checks.exactly("weights, pure"))
def _(patch):
    changed(patch, forms.Weights, "from_tables", lambda real: lambda self, tables: 2 * real(self, tables))


@bug("sensitivity of weights taken from their mean", checks.exactly("weights, rho"))
def _(patch):
    def make(real):
        def halved(self, sizes):
            found = real(self, sizes)
            return replace(found, l1=found.l1 / 2, l2_squared=found.l2_squared / 4)

        return halved

    changed(patch, forms.Weights, "added", make)
    changed(patch, forms.Weights, "replaced", make)


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
    given, sets = ReleasedTables(tables, 5), class_sets(curator.domain, ["one attribute"], list(tables))
    try:
        return curator.class_errors(sets, given, price=Fraction(1, 3))
    except ParameterError:
        return "refused"


@bug(
    "shares above 1 enter the error over a class",
    lambda: checks.of_case(Case("shares", PURE, _shares_above_one), AR)(),
)
def _(patch):
    patch.setattr(class_errors, "_table", lambda domain, margin, given: given.tables[margin])


@bug("the error over combinations with a doubled weight", checks.exactly("combination errors, pure"))
def _(patch):
    def doubled(real):
        return lambda *args, **options: [2 * error for error in real(*args, **options)]

    changed(patch, any_order, "largest_errors", doubled)


@bug(
    "a record counts twice in combinations",
    checks.exactly("combination errors, rho"),
)
def _(patch):
    changed(
        patch,
        any_order,
        "largest_errors",
        lambda real: lambda *args, times: real(*args, times=2 * times),
    )


@bug(
    "the search over combinations is left out on tables of few records",
    checks.exactly("combination errors from a floor, pure"),
)
def _(patch):
    def by_size(real):
        return lambda axes, records, rows, statistics, times: (
            [5 for _ in statistics] if times.sum() < 1 else real(axes, records, rows, statistics, times=times)
        )

    changed(patch, any_order, "largest_errors", by_size)


@bug("families of combinations are charged as one", checks.exactly("combination errors, pure"))
def _(patch):
    changed(patch, barrier, "one_each", lambda real: lambda count: real(1))


# --- private choice --------------------------------------------------------------------------------------------


@bug("counts move the same way under replace-one too", checks.exactly("choose counts, pure", REP))
def _(patch):
    patch.setattr(ChoiceQuestion, "is_monotone", lambda self, relation: self.goal == "count")


@bug("distances of candidates move the same way", checks.exactly("choose nearest, rho", REP))
def _(patch):
    patch.setattr(ChoiceQuestion, "is_monotone", lambda self, relation: True)


@bug("the errors of a candidate's answers are added up", checks.exactly("choose database, pure"))
def _(patch):
    def scores(self, exact, denominator, n):
        errors = [answers.count_errors(exact, denominator, one, n) for one in self.answers]
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


def test_the_catalogue_is_long_enough():
    assert len(CATALOGUE) == len({planted.name for planted in CATALOGUE}) >= 29


@pytest.mark.parametrize("planted", CATALOGUE, ids=lambda b: b.name)
def test_the_bug_is_caught(planted, monkeypatch):
    planted.plant(monkeypatch)
    with pytest.raises(CAUGHT):
        planted.check()


@pytest.mark.parametrize("check", CATALOGUE.checks, ids=CATALOGUE.checks.get)
def test_the_check_passes_without_the_bug(check):
    check()


def test_weights_outside_the_unit_interval_never_become_queries():
    from maquette.errors import WorkloadError
    from support.privacy_conformance import TINY

    for value in (-0.1, 1.1, float("nan"), float("inf")):
        with pytest.raises(WorkloadError):
            weights(TINY, np.full((1, TINY.size), value))

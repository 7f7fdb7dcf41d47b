"""The conformance table: one line per mechanism and per question of the gate. A new mechanism adds its line here."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from maquette.core import class_errors
from maquette.core.answers import ChoiceQuestion
from maquette.core.any_order import Family, Statistic
from maquette.core.binned import Binned
from maquette.core.bodies import Body
from maquette.core.budget import Budget, Unit
from maquette.core.class_errors import ReleasedTables
from maquette.core.combinations import ReleasedRows, axes_of
from maquette.core.drawing import DrawnDatabase
from maquette.core.group_means import GroupMeans
from maquette.core.laws import NoiseRequest
from maquette.core.linear_queries import Group
from maquette.core.measurement import Receipt
from maquette.core.typical import Conjunctions, Distance, Quantile
from maquette.domain import Attribute, Domain, Kind
from maquette.mechanisms.weights import MultiplicativeWeights, Mwem
from maquette.models.answers import Answers
from maquette.queries import boxes, marginals, prefixes, ranges, union, weights
from maquette.queries.base import Queries
from maquette.queries.classes import CLASSES, class_sets
from maquette.samplers.structures import (
    Base,
    Blocks,
    Draw,
    Forest,
    Intervals,
    Listed,
    Nested,
    Structure,
    Thresholds,
)
from support.privacy_conformance import TINY, Case, mechanism_case

DELTA = 1e-6


def pairs(domain: Domain) -> Queries:
    return marginals(domain, k=2)


def mixed(domain: Domain) -> Queries:
    return union(marginals(domain, k=[1, 2]), prefixes(domain, "a"))


def steps(domain: Domain) -> Queries:
    return prefixes(domain, "a")


def singles(domain: Domain) -> Queries:
    return marginals(domain, k=1)


def intervals(domain: Domain) -> Queries:
    return ranges(domain, "a")


def lone(domain: Domain) -> Queries:
    return marginals(domain, attributes=[["a", "b"]])


def apart(domain: Domain) -> Queries:
    """One-way marginals that leave attribute "a" to weigh the records."""
    return marginals(domain, attributes=[["b"], ["c"]])


def triple(domain: Domain) -> Queries:
    return marginals(domain, k=3)


def crossed(domain: Domain) -> Queries:
    """A marginal, and boxes that are measured in their own terms."""
    return union(
        marginals(domain, k=2), boxes(domain, [{"a": (0, 1), "b": (1, 1)}, {"a": (1, 2), "c": (0, 0)}])
    )


def fractional(domain: Domain) -> Queries:
    matrix = np.random.default_rng(3).random((5, domain.size))
    return weights(domain, matrix)


def narrow(domain: Domain) -> Queries:
    """Fractional weights on attribute "a" of which no record moves one by more than a quarter."""
    cells = np.linspace(0.25, 0.5, domain["a"].size)
    return weights(domain, np.array([cells, 1 - cells[::-1] / 2]), attributes=["a"])


MECHANISM_CASES = [
    mechanism_case("laplace", queries=mixed),
    mechanism_case("linf", queries=mixed),
    mechanism_case("gaussian", queries=mixed, delta=DELTA),
    mechanism_case("histogram-laplace", queries=mixed),
    mechanism_case("histogram-gaussian", queries=mixed, delta=DELTA),
    mechanism_case("residual", queries=pairs, delta=DELTA),
    mechanism_case("residual-cells", queries=pairs, delta=DELTA),
    mechanism_case("smalldb", queries=steps, rows=3),
    mechanism_case("roth", queries=apart, rows=3, weight="a"),
    mechanism_case("tree", queries=steps),
    mechanism_case("square-root", queries=steps, delta=DELTA),
    mechanism_case("factorisation", queries=steps),
    mechanism_case("knorm", queries=steps),
    mechanism_case("product", queries=mixed, delta=DELTA),
    mechanism_case("mw", queries=steps),
    mechanism_case("mwem", queries=steps, delta=DELTA),
    mechanism_case("sculpt", queries=mixed, delta=DELTA, rows=30),
]
"""Every registered mechanism, by name."""

MORE_CASES = [
    mechanism_case("laplace", queries=mixed, delta=DELTA),
    mechanism_case("linf", queries=mixed, delta=DELTA),
    mechanism_case("laplace", queries=fractional),
    mechanism_case("gaussian", queries=fractional, delta=DELTA),
    mechanism_case("residual", queries=pairs, delta=DELTA, epsilon=8.0),
    mechanism_case("smalldb", queries=steps, rows=2, delta=DELTA),
    mechanism_case("smalldb", queries=lone, rows=2, epsilon=2.5),
    mechanism_case("smalldb", queries=singles, rows=2),
    mechanism_case("smalldb", queries=intervals, rows=2),
    mechanism_case("smalldb", queries=narrow, rows=2),
    mechanism_case("roth", queries=apart, rows=2, weight="a", delta=DELTA),
    mechanism_case("tree", queries=intervals, delta=DELTA),
    mechanism_case("mw", queries=steps, using=MultiplicativeWeights(fixed=3)),
    mechanism_case("mw", queries=mixed, delta=DELTA, using=MultiplicativeWeights(fixed=4)),
    mechanism_case("mwem", queries=steps, using=Mwem(fixed=3)),
    mechanism_case("sculpt", queries=pairs, rows=30),
    mechanism_case("sculpt", queries=triple, delta=DELTA, rows=30),
    mechanism_case("sculpt", queries=crossed, rows=30, epsilon=4.0),
    mechanism_case("mwem", queries=fractional, delta=DELTA, using=Mwem(fixed=4)),
    mechanism_case("knorm", queries=fractional),
    mechanism_case("knorm", queries=singles, delta=DELTA),
]
"""The same with another budget or workload: pure noise on a ledger in rho, fractional weights, axes kept."""

PURE, CONCENTRATED = Budget(1.0), Budget(1.0, DELTA)
BY_GAUSS = Budget(1.0, DELTA, "gaussian")
_PRICE = {Unit.EPSILON: Fraction(1, 2), Unit.RHO: Fraction(1, 100), Unit.HALF_MU_SQUARED: Fraction(1, 100)}


def _price(curator: Any) -> Fraction:
    return _PRICE[curator.unit]


def _in_norm(curator: Any, price: Fraction) -> Any:
    """A norm in which a record moves the answers by more than 1, and not by a whole number of levels."""
    asked = weights(curator.domain, np.array([[1, 1, 0], [0, 1, 1]]), attributes=["a"])
    return curator.measure(asked, noise=NoiseRequest("norm", price, Body((2, 3), ((1, -2), (3, 1)), (2, 3))))


def _guess(queries: Queries) -> Answers:
    """Public answers that are off: some too large, some too small, some impossible for any table."""
    return Answers.from_fractions(np.linspace(0, 1, queries.count) ** 2)


def _few(curator: Any) -> Queries:
    return union(marginals(curator.domain, attributes=[["b"]]), prefixes(curator.domain, "a"))


def _largest(curator: Any, groups: list[Group] | None = None) -> Any:
    queries = mixed(curator.domain)
    return curator.largest_error(queries, _guess(queries), groups=groups, price=_price(curator))


def _grouped(curator: Any) -> Any:
    return _largest(curator, [Group("first", 0, 4), Group("rest", 4, 10), Group("all", 0, 10)])


def _select(curator: Any) -> Any:
    queries = _few(curator)
    return curator.select(queries, _guess(queries), price=_price(curator))


def _select_signed(curator: Any) -> Any:
    queries = prefixes(curator.domain, "a")
    return curator.select(queries, _guess(queries), price=_price(curator), signed=True)


def _counts(curator: Any) -> Any:
    # no round number, as below
    return curator.choose(ChoiceQuestion("count", _few(curator)), price=_price(curator) * Fraction(6, 7))


def _weighed(curator: Any) -> Any:
    asked = ChoiceQuestion("count", fractional(curator.domain))
    return curator.choose(asked, price=_price(curator), method="exponential")


def _nearest(curator: Any) -> Any:
    queries = _few(curator)
    extremes = Answers.from_fractions(np.arange(queries.count) % 2)  # rounding hides what moves between them
    asked = ChoiceQuestion("nearest", queries, (extremes,))
    return curator.choose(asked, price=_price(curator))


def _database(curator: Any) -> Any:
    queries = mixed(curator.domain)
    places = np.arange(queries.count)
    lists = tuple(Answers.from_fractions(one) for one in (places % 2, (places + 1) % 2, places * 0.0))
    return curator.choose(ChoiceQuestion("database", queries, lists), price=_price(curator))


def _judged(structure: Structure, base: Base, *values: list[int]) -> Callable[[Any], Any]:
    """The largest error of a given database over its class."""

    def run(curator: Any) -> Any:
        drawn = DrawnDatabase(
            Draw(structure, base, len(values[0])),
            [np.array(column) for column in values],
            Fraction(1),
            Fraction(1, 2),
            Receipt(1, "0" * 64),
        )
        return curator.score_of(drawn, price=_price(curator))

    return run


def _class_errors(*classes: str, weighted: bool = False) -> Callable[[Any], Any]:
    """The errors of an odd distribution over classes of questions, on all attributes together.

    With weights of all sizes, on every second table.
    """

    def run(curator: Any) -> Any:
        domain = curator.domain
        whole = (np.arange(domain.size) ** 2 % 5).reshape(domain.shape)
        tables = {
            margin: whole.sum(
                axis=tuple(i for i, name in enumerate(domain.names) if name not in margin)
            ).ravel()
            for length in (1, 2, 3)
            for margin in combinations(domain.names, length)
        }
        weights = {
            name: {
                margin: max(1, class_errors.WHOLE * (i % 5) // 4)
                for i, margin in enumerate(tables)
                if i % 2
                and any(margin == table.margin for table in CLASSES[name].tables(domain, [domain.names]))
            }
            for name in (classes if weighted else ())
        }
        released = ReleasedTables(tables, int(whole.sum()), weights)
        return curator.class_errors(
            class_sets(domain, classes, [domain.names]), released, price=_price(curator)
        )

    return run


def _combination_errors(*statistics: Statistic) -> Callable[[Any], Any]:
    """The errors of three rows over combinations of all columns."""

    def run(curator: Any) -> Any:
        sizes = [axis.size for axis in axes_of(curator.domain, curator.domain.names)]
        rows = np.array([[0] * len(sizes), [0] * len(sizes), [size - 1 for size in sizes]], dtype=np.uint16)
        released = ReleasedRows(curator.domain.names, rows)
        return curator.combination_errors(released, statistics, price=_price(curator))

    return run


def _typical_errors(curator: Any) -> Any:
    """Quantiles of the errors of three rows on four questions, and how far their tables are off on average."""
    domain = curator.domain
    last = [axis.size - 1 for axis in axes_of(domain, domain.names)]
    rows = np.array([[0] * len(last), [0] * len(last), last], dtype=np.uint16)
    columns = np.array([[0, 1], [1, 2], [2, 0], [0, 0]], dtype=np.uint16)
    questions = Conjunctions(columns, np.zeros_like(columns), columns % 2)
    asked = [
        *(Quantile(questions, rank) for rank in (1, 3, 4)),
        Distance(tuple(combinations(domain.names, 2))),
    ]
    return curator.typical_errors(ReleasedRows(domain.names, rows), asked, price=_price(curator))


def _group_mean_errors(curator: Any) -> Any:
    """The errors of three rows over the means of two columns in all groups."""
    domain = curator.domain
    axes = axes_of(domain, domain.names)
    rows = np.array([[0] * len(axes), [0] * len(axes), [axis.size - 1 for axis in axes]], dtype=np.uint16)
    numbers = tuple(tuple(range(axis.declared)) if i < 2 else () for i, axis in enumerate(axes))
    return curator.group_mean_errors(
        ReleasedRows(domain.names, rows), GroupMeans(numbers, 3), price=_price(curator)
    )


EVERY_COMBINATION = [Statistic(family, order) for family in Family for order in (1, 3)]

HALVES = Binned(("a", "b"), ((0, 2), (0, 1)))
WHOLE = Binned(("b", "c"), ((0, 1), (0, 1)))
LINE = Binned(("a",), ((0, 1, 2),))
TABLES = [HALVES, WHOLE, LINE]
THREE_BY_TWO = Binned(("a", "c"), ((0, 1, 2), (0, 1)))


def _tables(curator: Any) -> Any:
    return curator.measure_tables(TABLES, variances=[Fraction(300), Fraction(800), Fraction(2001, 2)])


def _references() -> list[Any]:
    """Public counts: one far too large, one even, one odd."""
    return [np.array([9, 0, 0, 0]), np.array([1, 1, 1, 1]), np.array([0, 3, 0])]


def _distances(curator: Any) -> Any:
    return curator.distances(TABLES, _references(), price=_price(curator))


def _select_tables(curator: Any, *, related: bool = False) -> Any:
    penalties = np.array([2, 0, -1])
    # no round number: a loss that equals its charge would drown in the last digit of its logarithm
    price = _price(curator) * Fraction(6, 7)
    return curator.select_tables(TABLES, _references(), penalties, count=2, price=price, related=related)


VALUES = Domain(
    (
        Attribute("g", Kind.CATEGORICAL, codes=2),
        Attribute("x", Kind.NUMERIC, bounds=(-2, 2), unit=1, nullable=True),
    )
)
"""12 cells, as many as the other universe; every cell of x but the missing one is one fine cell."""
PRESENT = Domain((VALUES["g"], Attribute("x", Kind.NUMERIC, bounds=(0, 5), integer=True)))
"""The same without missing values."""


def _sums(*by: str, price: Fraction = Fraction(1)) -> Callable[[Any], Any]:
    return lambda curator: curator.sums("x", by, price=price * _price(curator))


QUESTION_CASES = [
    Case("sums, pure", PURE, _sums(), VALUES),
    Case("sums by groups, pure", PURE, _sums("g"), VALUES),
    Case("sums by groups, rho", CONCENTRATED, _sums("g", price=Fraction(6, 7)), VALUES),
    Case("sums by their own cells, rho", CONCENTRATED, _sums("x"), VALUES),
    Case("sums without missing values, pure", PURE, _sums(), PRESENT),
    Case("sums without missing values, rho", CONCENTRATED, _sums(price=Fraction(6, 7)), PRESENT),
    Case("tables, pure", PURE, _tables),
    Case("tables, rho", CONCENTRATED, _tables),
    Case("distances, pure", PURE, _distances),
    Case("distances, rho", CONCENTRATED, _distances),
    Case("select tables, pure", PURE, _select_tables),
    Case("select tables, rho", CONCENTRATED, _select_tables),
    Case("select related tables, rho", CONCENTRATED, partial(_select_tables, related=True)),
    Case("judge thresholds, pure", PURE, _judged(Thresholds("a"), "tree", [0, 1, 1])),
    Case("judge intervals, rho", CONCENTRATED, _judged(Intervals("a"), "tree", [0, 2])),
    Case(
        "judge a forest, pure", PURE, _judged(Forest(("b", "c"), (("b", "c"),)), "sequence", [0, 1], [1, 1])
    ),
    Case(
        "judge blocks, pure",
        PURE,
        _judged(
            Blocks(((Thresholds("a"), "tree"), (Nested("b", ((0, 0),), 2), "flat"))),
            "product",
            [0, 2],
            [1, 0],
        ),
    ),
    Case("judge enumerated, pure", PURE, _judged(Listed(lone(TINY)), "flat", [0, 3, 5])),
    Case("size, pure", PURE, lambda c: c.size(price=Fraction(1, 3))),
    Case("size, rho", CONCENTRATED, lambda c: c.size(price=Fraction(1, 90))),
    Case(
        "laplace", PURE, lambda c: c.measure(mixed(c.domain), noise=NoiseRequest("laplace", Fraction(1, 3)))
    ),
    Case(
        "laplace, rho",
        CONCENTRATED,
        lambda c: c.measure(mixed(c.domain), noise=NoiseRequest("laplace", Fraction(1, 7))),
    ),
    Case(
        "gaussian",
        CONCENTRATED,
        lambda c: c.measure(mixed(c.domain), noise=NoiseRequest("gaussian", Fraction(1, 70))),
    ),
    Case("norm", PURE, lambda c: _in_norm(c, Fraction(1, 3))),
    Case("norm, rho", CONCENTRATED, lambda c: _in_norm(c, Fraction(1, 7))),
    Case("cube", PURE, lambda c: c.measure(mixed(c.domain), noise=NoiseRequest("cube", Fraction(1, 3)))),
    Case(
        "weights, pure",
        PURE,
        lambda c: c.measure(fractional(c.domain), noise=NoiseRequest("laplace", Fraction(1, 3))),
    ),
    Case(
        "weights, rho",
        CONCENTRATED,
        lambda c: c.measure(fractional(c.domain), noise=NoiseRequest("gaussian", Fraction(1, 70))),
    ),
    Case(
        "residuals, all axes",
        CONCENTRATED,
        lambda c: c.measure_residuals([(), ("a",), ("a", "b")], variances=[Fraction(400)] * 3),
    ),
    Case(
        "residuals, some axes",
        CONCENTRATED,
        lambda c: c.measure_residuals([("a", "b"), ("a", "b", "c")], variances=[Fraction(80), Fraction(60)]),
    ),
    Case(
        "residuals, no axes",
        Budget(30.0, DELTA),
        lambda c: c.measure_residuals([("a",), ("b", "c")], variances=[Fraction(1), Fraction(3, 2)]),
    ),
    Case(
        "residuals in bins, all axes",
        CONCENTRATED,
        lambda c: c.measure_binned_residuals(TABLES, variances=[Fraction(400)] * 3),
    ),
    Case(
        "residuals in bins, some axes",
        Budget(6.0, DELTA),
        lambda c: c.measure_binned_residuals([HALVES, THREE_BY_TWO], variances=[Fraction(80), Fraction(7)]),
    ),
    Case(
        "residuals in bins, no axes",
        Budget(30.0, DELTA),
        lambda c: c.measure_binned_residuals([HALVES, WHOLE], variances=[Fraction(1), Fraction(3, 2)]),
    ),
    Case("select, pure", PURE, _select),
    Case("select, rho", CONCENTRATED, _select),
    Case("select signed, pure", PURE, _select_signed),
    *(
        Case(f"{name}, {unit}", budget, run)
        for name, run in {
            "choose counts": _counts,
            "choose sums": _weighed,
            "choose nearest": _nearest,
            "choose database": _database,
        }.items()
        for unit, budget in {"pure": PURE, "rho": CONCENTRATED}.items()
    ),
    Case("select signed, rho", CONCENTRATED, _select_signed),
    Case("class errors, pure", PURE, _class_errors("one attribute", "two attributes", "three ranges")),
    Case("class errors, rho", CONCENTRATED, _class_errors(*CLASSES)),
    Case("weighted class errors, pure", PURE, _class_errors("relative", "two attributes", weighted=True)),
    Case("weighted class errors, rho", CONCENTRATED, _class_errors("relative", weighted=True)),
    Case("combination errors, pure", PURE, _combination_errors(*EVERY_COMBINATION)),
    Case("combination errors, rho", CONCENTRATED, _combination_errors(*EVERY_COMBINATION)),
    Case("combination errors from a floor, pure", PURE, _combination_errors(Statistic(Family.LIST, 2, 1))),
    Case("typical errors, pure", PURE, _typical_errors),
    Case("typical errors, rho", CONCENTRATED, _typical_errors),
    Case("group mean errors, pure", PURE, _group_mean_errors),
    Case("group mean errors, rho", CONCENTRATED, _group_mean_errors),
    Case("largest error, pure", PURE, _largest),
    Case("largest error, rho", CONCENTRATED, _largest),
    Case("largest error by group, pure", PURE, _grouped),
    Case("largest error by group, rho", CONCENTRATED, _grouped),
]
"""Every question of the gate."""

GAUSSIAN_CASES = [
    *(
        mechanism_case(name, queries=queries, delta=DELTA, accounting="gaussian", **options)
        for name, queries, options in (
            ("laplace", mixed, {}),
            ("linf", mixed, {}),
            ("gaussian", mixed, {}),
            ("gaussian", fractional, {"epsilon": 8.0}),
            ("histogram-laplace", mixed, {}),
            ("histogram-gaussian", mixed, {"epsilon": 8.0}),
            ("residual", pairs, {}),
            ("residual", pairs, {"epsilon": 8.0}),
            ("residual-cells", pairs, {}),
            ("smalldb", steps, {"rows": 3}),
            ("roth", apart, {"rows": 3, "weight": "a"}),
            ("tree", intervals, {}),
            ("square-root", intervals, {}),
            ("factorisation", intervals, {}),
            ("knorm", intervals, {}),
            ("product", crossed, {}),
            ("mw", mixed, {"using": MultiplicativeWeights(fixed=4)}),
            ("mwem", steps, {}),
            ("sculpt", mixed, {"rows": 30}),
        )
    ),
    Case("tables, by Gauss", BY_GAUSS, _tables),
    Case("distances, by Gauss", BY_GAUSS, _distances),
    Case("select tables, by Gauss", BY_GAUSS, _select_tables),
    Case("size, by Gauss", BY_GAUSS, lambda c: c.size(price=Fraction(1, 90))),
    Case(
        "laplace, by Gauss",
        BY_GAUSS,
        lambda c: c.measure(mixed(c.domain), noise=NoiseRequest("laplace", Fraction(1, 9))),
    ),
    Case(
        "cube, by Gauss",
        BY_GAUSS,
        lambda c: c.measure(mixed(c.domain), noise=NoiseRequest("cube", Fraction(1, 9))),
    ),
    Case(
        "gaussian, by Gauss",
        BY_GAUSS,
        lambda c: c.measure(mixed(c.domain), noise=NoiseRequest("gaussian", Fraction(1, 70))),
    ),
    Case(
        "residuals, some axes, by Gauss",
        BY_GAUSS,
        lambda c: c.measure_residuals([("a", "b"), ("a", "b", "c")], variances=[Fraction(80), Fraction(60)]),
    ),
    Case(
        "residuals, no axes, by Gauss",
        Budget(30.0, DELTA, "gaussian"),
        lambda c: c.measure_residuals([("a",), ("b", "c")], variances=[Fraction(1), Fraction(3, 2)]),
    ),
    Case(
        "residuals in bins, all axes, by Gauss",
        BY_GAUSS,
        lambda c: c.measure_binned_residuals(TABLES, variances=[Fraction(400)] * 3),
    ),
    Case(
        "residuals in bins, no axes, by Gauss",
        Budget(30.0, DELTA, "gaussian"),
        lambda c: c.measure_binned_residuals([HALVES, WHOLE], variances=[Fraction(1), Fraction(3, 2)]),
    ),
    Case("select, by Gauss", BY_GAUSS, _select),
    Case("select signed, by Gauss", BY_GAUSS, _select_signed),
    Case("largest error by group, by Gauss", BY_GAUSS, _grouped),
    Case("class errors, by Gauss", BY_GAUSS, _class_errors("two ranges", "three attributes")),
    Case("combination errors, by Gauss", BY_GAUSS, _combination_errors(*EVERY_COMBINATION)),
    Case("typical errors, by Gauss", BY_GAUSS, _typical_errors),
    Case("group mean errors, by Gauss", BY_GAUSS, _group_mean_errors),
]
"""Every mechanism and question on ledgers that count Gaussian differential privacy."""

assert TINY.size == 12

"""Public arguments for every question of the gate: sensible ones, and the same with something odd put in."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from maquette import queries as q
from maquette.core.binned import Binned
from maquette.core.bodies import Body
from maquette.core.drawing import DrawnDatabase
from maquette.core.laws import NoiseRequest
from maquette.core.linear_queries import Group
from maquette.core.measurement import EpochTerms, Receipt
from maquette.core.weighting import Weighting
from maquette.models.answers import Answers
from maquette.queries.classes import CLASSES as QUESTION_CLASSES
from maquette.samplers import structures as public
from support.gate_world import DOMAIN, OTHER, databases

Rng = np.random.Generator
Arguments = dict[str, Any]

BORDERS = [2**e for e in (0, 16, 30, 31, 32, 40, 53, 55, 60, 61, 62, 63, 64)]
ODD: list[Any] = [
    0, -1, 10**30, -(10**400), 10**400, True, 0.5, -0.0, float("nan"), float("inf"), -float("inf"), 1e308,
    Fraction(1, 3), Fraction(10**400), Fraction(-1), Fraction(1, 10**400), Fraction(1, 10**13), "1", "", b"x", None, [],
    (), {}, [None], ["a"], {"a": 1}, object, np.int64(5), np.float64("nan"), np.array(7), 1j,
]  # fmt: skip
LONG_NOTE = {"x": "y" * 2**21}
HUGE = np.broadcast_to(np.int64(1), (2**45,))
"""An array that takes no room."""
ODD_ARRAYS: list[Any] = [
    np.zeros(0, dtype=np.int64), np.zeros((2, 2), dtype=np.int64), np.zeros(3), np.array([np.nan, 1.0, 2.0]),
    np.array([2**63 - 1, 2**63 - 1, 1]), np.array([-(2**63), 0, 0]), np.array([1, 2, 3], dtype=np.uint64),
    np.array([1, 2, 10**30], dtype=object), np.array([True, False]), np.array(["1"]), HUGE, np.array(5),
]  # fmt: skip


def pick(rng: Rng, options: Any) -> Any:
    return options[int(rng.integers(len(options)))]


def whole(rng: Rng) -> int:
    """A number near some border, of either sign, or a small one."""
    if rng.integers(3) == 0:
        return int(rng.integers(-9, 10))
    return int(pick(rng, (-1, 1))) * (pick(rng, BORDERS) + int(rng.integers(-50, 51)))


def odd(rng: Rng) -> Any:
    """Anything at all."""
    return pick(rng, [whole(rng), pick(rng, ODD), pick(rng, ODD_ARRAYS)])


def array(rng: Rng, length: int) -> Any:
    """As many whole numbers as are wanted, some of them at the ends of what is possible."""
    near = rng.integers(-5, 9, length)
    match rng.integers(6):
        case 0:
            return np.array(
                [max(min(whole(rng), 2**63 - 1), -(2**63)) for _ in range(length)], dtype=np.int64
            )
        case 1:
            return near.astype(pick(rng, [np.int8, np.int32, np.uint64, np.float64, object]))
        case 2:
            return pick(rng, ODD_ARRAYS)
        case _:
            return near.astype(np.int64)


def _classes() -> dict[str, list[q.Queries]]:
    fractions = np.random.default_rng(1).random((3, 4))
    good = [
        q.marginals(DOMAIN, attributes=[["a", "b"], ["d"]]),
        q.marginals(DOMAIN, attributes=[[]]),
        q.prefixes(DOMAIN, "a"),
        q.ranges(DOMAIN, "d"),
        q.conjunctions(DOMAIN, 2, literals=True, attributes=["b", "c"]),
        q.boxes(DOMAIN, [{"a": (0, 1), "d": (1, 3)}, {"b": (0, 0)}]),
        q.weights(DOMAIN, fractions, attributes=["d"]),
        q.union(q.marginals(DOMAIN, attributes=[["c"]]), q.weights(DOMAIN, fractions, attributes=["a"])),
        q.where(DOMAIN, "a >= 1 AND b = 1"),
        q.where(DOMAIN, "huge < 1000 OR c = 1"),
        q.halfspaces(DOMAIN, ["a", "d"], [[1, 2], [-1, 1]], [3, 0]),
    ]
    single = [
        q.where(DOMAIN, "d > 2"),
        q.weights(DOMAIN, fractions[:1], attributes=["d"]),
        q.marginals(DOMAIN, attributes=[[]]),
    ]
    bad = [
        q.marginals(DOMAIN, attributes=[["huge"]]),
        q.prefixes(DOMAIN, "huge"),
        q.ranges(DOMAIN, "huge"),
        q.marginals(DOMAIN, k=5),
        q.halfspaces(DOMAIN, ["huge"], [[1]], [5]),
        q.marginals(OTHER, attributes=[["a"]]),
        q.where(OTHER, "a >= 1"),
    ]
    return {"good": good, "single": single, "bad": bad}


CLASSES = _classes()
CLASS_NAMES = list(QUESTION_CLASSES)


def queries(rng: Rng, kind: str = "good") -> Any:
    if rng.integers(12) == 0:
        return pick(rng, [*CLASSES["bad"], None, "a = 1", 5])
    return pick(rng, CLASSES[kind])


def price(rng: Rng) -> Any:
    if rng.integers(8) == 0:
        return odd(rng)
    return pick(
        rng, [Fraction(1, 100), Fraction(1, 1000), Fraction(1, 3), Fraction(1, 10**6), Fraction(1, 10**12), 1]
    )


def variance(rng: Rng) -> Any:
    if rng.integers(10) == 0:
        return odd(rng)
    return pick(
        rng, [Fraction(4000), Fraction(900, 7), Fraction(10**9), Fraction(2**112), Fraction(2**70), 10**4]
    )


def noise(rng: Rng) -> Any:
    if rng.integers(12) == 0:
        return odd(rng)
    kind = pick(rng, ["laplace", "gaussian", "cube", "gaussian", "laplace", "norm"])
    return NoiseRequest(kind, price(rng), *([body(rng)] if kind == "norm" else []))


def body(rng: Rng) -> Any:
    """The unit ball of a norm, mostly a valid one."""
    if rng.integers(6) == 0:
        return odd(rng)
    sides = int(rng.integers(1, 5))
    facets = int(rng.integers(0, 3))
    return Body(
        tuple(int(s) for s in rng.integers(1, 2 ** int(rng.integers(1, 22)), sides)),
        tuple(tuple(int(a) for a in rng.integers(-9, 10, sides)) for _ in range(facets)),
        tuple(int(b) for b in rng.integers(1, 2**20, facets)),
    )


def answers(rng: Rng, asked: Any) -> Any:
    count = asked.count if isinstance(asked, q.Queries) and asked.count < 1000 else 3
    match rng.integers(5):
        case 0:
            return Answers(array(rng, count), pick(rng, [odd(rng), 2**30, 2**60, 7]))
        case 1:
            return odd(rng)
        case _:
            denominator = pick(rng, [1, 7, 2**30, 2**59, 3**37])
            return Answers((rng.random(count) * denominator).astype(np.int64), denominator)


def groups(rng: Rng, asked: Any) -> Any:
    count = asked.count if isinstance(asked, q.Queries) and asked.count < 1000 else 3
    match rng.integers(5):
        case 0:
            return odd(rng)
        case 1:
            return [Group("x", pick(rng, [0, odd(rng)]), pick(rng, [count, odd(rng)]))]
        case 2:
            return [Group("all", 0, count), Group("first", 0, 1)]
        case _:
            return None


TABLES = [
    Binned(("a", "b"), ((0, 2), (0, 1))),
    Binned(("d",), ((0, 1, 2, 3),)),
    Binned(("b", "c"), ((0, 1), (0, 1))),
    Binned(("c", "d"), ((0, 1), (0, 3))),
    Binned((), ()),
    Binned(("huge",), ((0, 1, 2**39),)),
]


def binned(rng: Rng) -> Any:
    if rng.integers(10) == 0:
        return pick(rng, [odd(rng), [odd(rng)], []])
    chosen = [TABLES[int(i)] for i in rng.permutation(5)[: int(rng.integers(1, 4))]]
    if rng.integers(6) == 0:
        change = pick(
            rng,
            [
                {"cuts": ((0, 0.5), (0, 1))},
                {"cuts": ([0, 2], (0, 1))},
                {"cuts": ((0, whole(rng)), (0, 1))},
                {"cuts": odd(rng)},
                {"margin": odd(rng)},
                {"margin": ("a", "a")},
                {"margin": ("huge", "nobody")},
                {"cuts": ((0.0, 2.0), (0, 1))},
                {"cuts": ((False, True), (0, 1))},
            ],
        )
        chosen[0] = dataclasses.replace(TABLES[0], **change)
    return tuple(chosen) if rng.integers(2) else chosen


def references(rng: Rng, tables: Any) -> Any:
    if rng.integers(10) == 0:
        return pick(rng, [odd(rng), [odd(rng)]])
    if not isinstance(tables, (list, tuple)):
        return [array(rng, 4)]
    return [
        array(rng, t.cells if any(t is table for table in TABLES) else 4)
        if isinstance(t, Binned)
        else odd(rng)
        for t in tables
    ]


def weighting(rng: Rng) -> Any:
    if rng.integers(8) == 0:
        return odd(rng)
    grid = pick(rng, [2**10, 1, 2**10, 2**31, 2**63 + 5])
    name = pick(rng, ["a", "d", "d", "huge", "nobody"])
    cells = pick(rng, [4, 4, 4, 3])
    return Weighting(name, tuple(int(v) for v in (rng.random(cells) * grid)), grid, 1.0)


def structure(rng: Rng, m: Any) -> Any:
    rows = m if isinstance(m, int) and 0 < m < 50 else 2
    rows = pick(rng, [rows, rows, rows, 1, 60])
    size = {"a": 4, "b": 2, "c": 2, "d": 4}
    codes = {name: rng.integers(0, size[name], (3, rows)) for name in "ab"}
    if rng.integers(5) == 0:
        codes["b"] = pick(
            rng,
            [codes["b"] + 1, codes["b"] - 1, codes["b"] * 1.0, codes["b"] * 2**62, codes["b"].astype(object)],
        )
    listed = q.marginals(DOMAIN, attributes=[["a", "b"]])
    deep = tuple((0, last) for last in range(4))
    options: list[Callable[[], Any]] = [
        lambda: (public.Thresholds("d"), pick(rng, ["tree", "flat", "sequence"])),
        lambda: (public.Thresholds(pick(rng, ["huge", "nobody", "b"])), "flat"),
        lambda: (public.Intervals("d"), pick(rng, ["tree", "flat"])),
        lambda: (public.Nested("d", deep, pick(rng, [4, 4, 7])), "flat"),
        lambda: (public.Nested("huge", tuple((0, last) for last in range(2000)), 2**40), "flat"),
        lambda: (public.Forest(("b", "c"), (("b", "c"),), pick(rng, [(), ("b",), ("d",)])), "sequence"),
        lambda: (public.Forest(("a", "c"), (("a", "c"),)), "sequence"),
        lambda: (
            public.Blocks(((public.Thresholds("a"), "flat"), (public.Intervals("d"), "tree"))),
            "product",
        ),
        lambda: (public.Listed(listed), "flat"),
        lambda: (public.Listed(q.weights(DOMAIN, rng.random((2, 4)), attributes=["d"])), "sequence"),
        lambda: (public.Listed(q.marginals(OTHER, attributes=[["a"]])), "flat"),
        lambda: (public.Trellis(q.prefixes(DOMAIN, "d")), "flat"),
        lambda: (public.Candidates(listed, codes), "flat"),
        lambda: (public.Candidates(listed, codes), "flat"),
        lambda: (odd(rng), "flat"),
    ]
    return pick(rng, options)()


def draw(rng: Rng) -> Any:
    while True:
        m = pick(rng, [1, 2, 3, 3, 5, pick(rng, [whole(rng), odd(rng), 3000])])
        resolution = pick(rng, [1, 1, 1, 3, 3, 2, 10, pick(rng, [odd(rng), whole(rng)])])
        weight = weighting(rng) if rng.integers(4) == 0 else None
        try:
            asked, base = structure(rng, m)
            return public.Draw(asked, base, m, resolution, weight)
        except Exception:  # the value itself refuses to be made
            if rng.integers(20) == 0:
                return odd(rng)


def drawn(rng: Rng) -> Any:
    asked = draw(rng)
    values: Any = [rng.integers(0, 2, 3)]
    if (
        isinstance(asked, public.Draw)
        and asked.m < 10**4
        and set(asked.structure.attributes) <= set(DOMAIN.names)
    ):
        values = databases(asked, DOMAIN, rng)
    match rng.integers(8):
        case 0:
            values = [np.concatenate([column] * 7) for column in values]
        case 1:
            values = [column[:-1] for column in values]
        case 2:
            values = [odd(rng) for _ in values]
        case 3:
            values = pick(
                rng,
                [
                    odd(rng),
                    values + values,
                    [v.astype(np.int64) - 1 for v in values],
                    [v + np.uint64(9) for v in values],
                ],
            )
        case _:
            pass
    return DrawnDatabase(asked, values, Fraction(1), Fraction(1, 2), Receipt(1, "0" * 64))


def about(rng: Rng) -> Any:
    if rng.integers(3):
        return pick(rng, [{}, {"text": "how many", "errors": [0.1, 2]}, {"size": 5}])
    circle: dict[str, Any] = {}
    circle["again"] = circle
    return pick(
        rng,
        [
            odd(rng), {"x": odd(rng)}, {5: 1}, {"ask": "note"}, {"ask": "epoch", "terms": {}}, {"tag": "pure"},
            {"guess": 1}, {"epsilon": "0"}, circle, LONG_NOTE,
        ],
    )  # fmt: skip


def terms(rng: Rng) -> Any:
    if rng.integers(10) == 0:
        return odd(rng)
    if rng.integers(3):
        return EpochTerms(
            3, int(rng.integers(1, 6)), Fraction(1, 10), Fraction(1, 10), pick(rng, [None, Fraction(1, 100)])
        )
    answer = pick(rng, [None, Fraction(1, 100), price(rng)])
    return EpochTerms(
        pick(rng, [3, 10, 3, whole(rng), odd(rng)]),
        pick(rng, [1, 2, 5, 5, whole(rng), odd(rng)]),
        pick(rng, [Fraction(1, 10), price(rng)]),
        pick(rng, [Fraction(1, 10), price(rng)]),
        answer,
    )


def guess(rng: Rng) -> Any:
    return pick(
        rng, [2, 0, int(rng.integers(0, 2**20)), whole(rng), -(2**63 - 1) + int(rng.integers(9)), odd(rng)]
    )

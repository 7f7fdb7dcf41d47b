"""Arguments for every public method of the curators, mostly sound, sometimes not."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from maquette.core.answers import ChoiceQuestion
from maquette.core.any_order import Family, Statistic
from maquette.core.class_errors import ClassSets, Kind, ReleasedTables
from maquette.core.combinations import ReleasedRows
from maquette.core.curator import OnlineCurator
from maquette.core.group_means import GroupMeans
from maquette.core.sparse import Guess
from maquette.core.typical import Conjunctions, Distance, Quantile
from maquette.errors import ParameterError
from maquette.queries.classes import class_sets
from support.gate_arguments import (
    CLASS_NAMES,
    Arguments,
    Rng,
    about,
    answers,
    array,
    binned,
    draw,
    drawn,
    groups,
    guess,
    noise,
    odd,
    pick,
    price,
    queries,
    references,
    terms,
    variance,
    weighting,
    whole,
)
from support.gate_world import DOMAIN


def _note(rng: Rng) -> Any:
    return about(rng) if rng.integers(3) == 0 else None


def _margins(rng: Rng) -> Any:
    good = [("a", "b"), ("d",), (), ("b", "c", "d")]
    if rng.integers(5):
        return [good[int(i)] for i in rng.permutation(4)[: int(rng.integers(1, 4))]]
    return pick(
        rng, [odd(rng), [odd(rng)], [("huge",)], [("b", "a")], [("a", "a")], [("nobody",)], ["ab"], []]
    )


def _several(rng: Rng, one: Callable[[Rng], Any]) -> Any:
    return odd(rng) if rng.integers(12) == 0 else [one(rng) for _ in range(int(rng.integers(0, 4)))]


def _guess(rng: Rng) -> Any:
    return odd(rng) if rng.integers(12) == 0 else Guess(queries(rng, "single"), guess(rng), about(rng))


def _variances(rng: Rng, tables: Any) -> Any:
    if rng.integers(10) == 0:
        return odd(rng)
    count = len(tables) if isinstance(tables, (list, tuple)) else 2
    return [variance(rng) for _ in range(count + (rng.integers(15) == 0))]


def _measure_residuals(rng: Rng) -> Arguments:
    margins = _margins(rng)
    return {"margins": margins, "variances": _variances(rng, margins)}


def _measure_binned_residuals(rng: Rng) -> Arguments:
    tables = binned(rng)
    return {"binned": tables, "variances": _variances(rng, tables)}


def _measure_tables(rng: Rng) -> Arguments:
    tables = binned(rng)
    return {"binned": tables, "variances": _variances(rng, tables), "note": _note(rng)}


def _distances(rng: Rng) -> Arguments:
    tables = binned(rng)
    return {"binned": tables, "references": references(rng, tables), "price": price(rng)}


def _select_tables(rng: Rng) -> Arguments:
    asked = _distances(rng)
    count = len(asked["binned"]) if isinstance(asked["binned"], (list, tuple)) else 2
    few = pick(rng, [1, 2, 3, odd(rng), whole(rng)])
    return asked | {"penalties": array(rng, count), "count": few, "related": bool(rng.integers(2))}


def _select(rng: Rng) -> Arguments:
    asked = queries(rng)
    return {
        "queries": asked,
        "answers": answers(rng, asked),
        "price": price(rng),
        "signed": bool(rng.integers(2)),
    }


def _choose(rng: Rng) -> Arguments:
    asked = queries(rng)
    goal = pick(rng, ["count", "nearest", "database", odd(rng)])
    lists = pick(rng, [(), (answers(rng, asked),), (answers(rng, asked), answers(rng, asked)), odd(rng)])
    question = ChoiceQuestion(goal, asked, lists) if rng.integers(12) else odd(rng)
    return {"question": question, "price": price(rng), "method": pick(rng, [None, "exponential", odd(rng)])}


def _largest_error(rng: Rng) -> Arguments:
    asked = queries(rng)
    return {
        "queries": asked,
        "answers": answers(rng, asked),
        "groups": groups(rng, asked),
        "price": price(rng),
    }


def _class_errors(rng: Rng) -> Arguments:
    """Classes over tables of the right length or not, of shares that add up to one or not."""
    sets = pick(rng, [(("a", "b", "c"),), (("a", "d"), ("b",)), (("b", "c", "d"),)])
    names = [str(CLASS_NAMES[int(i)]) for i in rng.permutation(len(CLASS_NAMES))[: int(rng.integers(1, 4))]]
    try:
        classes: Any = list(class_sets(DOMAIN, names, sets))
    except ParameterError:  # a class that has no table here
        classes = list(class_sets(DOMAIN, ["one attribute"], sets))
    if rng.integers(6) == 0:
        classes = pick(
            rng,
            [
                odd(rng),
                [odd(rng)],
                classes * 2,
                [],
                ["one attribute"],
                [_odd_class(rng, one) for one in classes],
            ],
        )
    denominator = pick(rng, [1, 7, 1000, 2**30, 1000, pick(rng, [odd(rng), whole(rng)])])
    size = {"a": 4, "b": 2, "c": 2, "d": 4}
    total = denominator if type(denominator) is int and 0 < denominator <= 2**30 else 5
    tables: Any = {}
    for length in (1, 2, 3):
        for margin in itertools.combinations("abcd", length):
            cells = math.prod(size[name] for name in margin)
            tables[margin] = rng.multinomial(total, rng.dirichlet(np.ones(cells)))
            if rng.integers(60) == 0:
                tables[margin] = pick(
                    rng, [array(rng, cells), odd(rng), tables[margin][:-1], tables[margin] * 2]
                )
    if rng.integers(15) == 0:
        tables = odd(rng)
    weights: Any = {}
    if rng.integers(3) == 0:
        usual = [1, 2**15, 2**16]
        weights = {
            name: {margin: pick(rng, [*usual, *usual, *usual, whole(rng), odd(rng)]) for margin in tables}
            for name in names
            if isinstance(tables, dict)
        }
        weights = (
            weights if rng.integers(10) else pick(rng, [odd(rng), {"nothing": {}}, {"relative": odd(rng)}])
        )
    released = ReleasedTables(tables, denominator, weights) if rng.integers(12) else odd(rng)
    return {"classes": classes, "released": released, "price": price(rng)}


def _odd_class(rng: Rng, known: ClassSets) -> ClassSets:
    """A class some of whose numbers are others: walks that leave the table, axes and cells that it does not have."""
    table = pick(rng, known.tables)
    changes: Any = pick(
        rng,
        [
            {"margin": pick(rng, [("d", "a"), ("nobody",), (), odd(rng)])},
            {"inner": pick(rng, [odd(rng), whole(rng), 0, 1])},
            {"kind": pick(rng, [*Kind, odd(rng), 7])},
            {"cells": pick(rng, [odd(rng), whole(rng)])},
            {"extras": pick(rng, [odd(rng), whole(rng)])},
            {
                "walks": pick(
                    rng, [odd(rng), (), *((array(rng, 3),) * n for n in (1, 2, 3)), (np.array([99]),)]
                )
            },
        ],
    )
    one = replace(table, **changes)
    return pick(
        rng, [replace(known, tables=(one,)), replace(known, name=odd(rng)), replace(known, rules=odd(rng))]
    )


def _sums(rng: Rng) -> Arguments:
    """A column with fine cells or without, over groups of some others, each of the right type or not."""
    return {
        "name": pick(rng, ["d", "d", "e", "e", "a", "nobody", odd(rng)]),
        "by": pick(rng, [(), (), ("a",), ("a", "b"), ("e",), ("d",), ("b", "a"), ("huge",), odd(rng)]),
        "price": price(rng),
        "note": _note(rng),
    }


def _combination_errors(rng: Rng) -> Arguments:
    """Rows over some columns, of the right type and codes or not; families with floors, each once or not."""
    size = {"a": 4, "b": 2, "c": 2, "d": 4}
    names: Any = pick(rng, [("a", "b", "c", "d"), ("a", "c"), ("d",), ("d", "a"), ("nobody",), (), odd(rng)])
    known = names if isinstance(names, tuple) and all(name in size for name in names) else ("a", "b")
    n = int(rng.integers(0, 9)) if rng.integers(9) == 0 else 6
    columns = [rng.integers(0, size[name] + (rng.integers(40) == 0), n) for name in known]
    codes: Any = (
        np.array(columns).reshape(len(known), n).T.astype(pick(rng, [*[np.uint16] * 9, np.int64, np.float64]))
    )
    if rng.integers(12) == 0:
        codes = pick(rng, [odd(rng), codes[:, :0], codes.ravel()])
    statistics: Any = [
        Statistic(
            pick(rng, [*Family, *Family, *Family, odd(rng)]),
            pick(rng, [1, 2, 3, 64, 1, 2, whole(rng)]),
            pick(rng, [0, 0, 2, 40, whole(rng), odd(rng)] if rng.integers(4) == 0 else [0, 3]),
        )
        for _ in range(int(rng.integers(0, 4)))
    ]
    if rng.integers(15) == 0:
        statistics = pick(rng, [odd(rng), [odd(rng)]])
    released = ReleasedRows(names, codes) if rng.integers(12) else odd(rng)
    return {"released": released, "statistics": statistics, "price": price(rng)}


def _typical_errors(rng: Rng) -> Arguments:
    """Rows as above; questions whose places, codes and ranks fit or not, tables over columns that are there or not."""
    given = _combination_errors(rng)
    names = given["released"].names if isinstance(given["released"], ReleasedRows) else ("a",)
    known = [name for name in names if name in ("a", "b", "c", "d")] if isinstance(names, tuple) else ["a"]
    number = int(rng.integers(1, 6))
    shape = (number, int(rng.integers(1, max(1, len(known)) + (2 if rng.integers(9) == 0 else 1))))
    arrays: list[Any] = [
        rng.integers(0, most, shape).astype(pick(rng, [*[np.uint16] * 20, np.int64]))
        for most in (max(1, len(known)), 3, 4)
    ]
    if rng.integers(12) == 0:
        arrays[int(rng.integers(3))] = pick(rng, [odd(rng), array(rng, 3), arrays[0][:-1]])
    single: Any = tuple((name,) for name in known)
    tables = pick(rng, [*[single] * 4, (tuple(known),), (("d", "a"),), ((),), (), odd(rng)])
    ranks = [1, 1, number, pick(rng, [number + 1, whole(rng), odd(rng)])]
    statistics: Any = [
        Quantile(Conjunctions(*arrays) if rng.integers(15) else odd(rng), pick(rng, ranks))
        if rng.integers(2)
        else Distance(tables)
        for _ in range(int(rng.integers(1, 3)))
    ]
    if rng.integers(15) == 0:
        statistics = pick(rng, [odd(rng), [odd(rng)], []])
    return {"released": given["released"], "statistics": statistics, "price": given["price"]}


def _group_mean_errors(rng: Rng) -> Arguments:
    """Rows as above; numbers of the declared cells of some columns, or others."""
    given = _combination_errors(rng)
    names = given["released"].names if isinstance(given["released"], ReleasedRows) else ("a", "b")
    cells = {"a": 4, "b": 2, "c": 2, "d": 4}
    known = [name for name in names if name in cells] if isinstance(names, tuple) else ["a"]
    numbers: Any = tuple(
        tuple(range(cells[name] + (rng.integers(20) == 0))) if rng.integers(3) else () for name in known
    )
    if rng.integers(12) == 0:
        numbers = pick(rng, [odd(rng), (odd(rng),), ((0, 2**12 + 1),), list(numbers)])
    order, floor = pick(rng, [1, 2, 3, 64, 1, 2, whole(rng)]), pick(rng, [0, 0, 2, 3, whole(rng)])
    statistic = GroupMeans(numbers, order, floor) if rng.integers(15) else odd(rng)
    return {"released": given["released"], "statistic": statistic, "price": given["price"]}


STRATEGIES: dict[str, Callable[[Rng], Arguments]] = {
    "size": lambda rng: {"price": price(rng), "note": _note(rng)},
    "total": lambda rng: {"weight": weighting(rng), "price": price(rng)},
    "sums": _sums,
    "measure": lambda rng: {"queries": queries(rng), "noise": noise(rng), "note": _note(rng)},
    "select": _select,
    "choose": _choose,
    "draw": lambda rng: {"question": draw(rng), "price": price(rng)},
    "score_of": lambda rng: {"draw": drawn(rng), "price": price(rng)},
    "largest_error": _largest_error,
    "class_errors": _class_errors,
    "combination_errors": _combination_errors,
    "typical_errors": _typical_errors,
    "group_mean_errors": _group_mean_errors,
    "measure_residuals": _measure_residuals,
    "measure_binned_residuals": _measure_binned_residuals,
    "measure_tables": _measure_tables,
    "distances": _distances,
    "select_tables": _select_tables,
    "catch_up": lambda rng: {},
    "open_epoch": lambda rng: {"terms": terms(rng)},
    "test": lambda rng: {"queries": queries(rng, "single"), "guess": guess(rng), "about": about(rng)},
    "test_all": lambda rng: {"guesses": _several(rng, _guess)},
    "note": lambda rng: {"what": about(rng)},
    "note_all": lambda rng: {"what": _several(rng, about)},
}
"""One per public method of the curators."""


def methods() -> set[str]:
    """Every public method of the online curator, those of the other curators among them."""
    return {n for n in dir(OnlineCurator) if not n.startswith("_") and callable(getattr(OnlineCurator, n))}

"""Households and their members: rows that belong together, and answers across tables, against separate releases.

A generated census with known truth: households of 1 to 8 members, couples' ages tied, incomes by region. Distances
are total variations between truth and synthetic rows, the mean over all tables of a kind: pairs of households' columns
(with the number of members), columns of persons, pairs of them, a column of a household beside one of a person, the
number of members beside one of a person, and a column of two members of one household.

    python -m benchmarks several_tables                             # 2,000 and 20,000 households, three runs each
    python -m benchmarks.several_tables --households 20000 --epsilon 3.2 --runs 3
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import maquette as mq
from benchmarks.__main__ import append_each
from maquette.linked.rows import ancestors_columns
from maquette.schema import Schema

Columns = Mapping[str, NDArray[Any]]
HOUSEHOLDS, EPSILON, DELTA, RUNS = (2_000, 20_000), 3.2, 1e-6, 3
AT_MOST = 8
REGIONS, TENURES = ["north", "east", "south", "west"], ["rented", "owned"]
SEXES, WORK = ["f", "m"], ["minor", "employed", "retired", "other"]
SIZE = "number_of_person"
HOUSEHOLD, PERSON = (SIZE, "region", "tenure"), ("age", "sex", "work", "income")


def schema() -> Schema:
    """Households and at most eight members of each; ages and incomes in cells of five."""

    def listed(name: str, categories: list[str]) -> dict[str, Any]:
        return {"name": name, "kind": "categorical", "categories": categories}

    def number(name: str) -> dict[str, Any]:
        return {"name": name, "kind": "numeric", "bounds": [0, 100], "bins": 20, "integer": True}

    household = {"attributes": [listed("region", REGIONS), listed("tenure", TENURES)]}
    person = {"attributes": [number("age"), listed("sex", SEXES), listed("work", WORK), number("income")]}
    link = {"parent": "household", "refers": "household", "at_most": AT_MOST}
    tables = [
        {"name": "household", "key": "id", "domain": household},
        {"name": "person", "domain": person, **link},
    ]
    return Schema.from_dict({"unit": "household", "tables": tables})


def census(households: int, rng: np.random.Generator) -> dict[str, dict[str, NDArray[Any]]]:
    """A made-up census."""
    region = rng.choice(4, households, p=[0.4, 0.3, 0.2, 0.1])
    size = rng.choice(np.arange(1, 9), households, p=[0.3, 0.32, 0.15, 0.13, 0.06, 0.02, 0.01, 0.01])
    tenure = (rng.random(households) < 0.3 + 0.3 * (size > 1) + 0.1 * (region == 0)).astype(np.int64)
    of = np.repeat(np.arange(households), size)
    member = np.concatenate([np.arange(one) for one in size])
    count, first = len(of), rng.integers(20, 85, households)[of]
    alone = (rng.random(households) < 0.1)[of]
    child = np.clip(first - 25 + rng.integers(-8, 9, count), 0, 60)
    partner = np.where(alone, child, np.clip(first + rng.integers(-5, 6, count), 18, 99))
    age = np.where(member == 0, first, np.where(member == 1, partner, child))
    sex = rng.integers(0, 2, households)[of] ^ (member % 2)
    work = np.where(age < 18, 0, np.where(age > 66, 2, np.where(rng.random(count) < 0.75, 1, 3)))
    wage = np.clip(rng.normal(30 + 8 * region[of], 10), 1, 99)
    pension = np.clip(rng.normal(18 + 4 * region[of], 5), 1, 99)
    income = np.select([work == 1, work == 2], [wage, pension], 0).astype(np.int64)
    return {
        "household": {
            "id": np.arange(households),
            "region": np.array(REGIONS)[region],
            "tenure": np.array(TENURES)[tenure],
        },
        "person": {
            "household": of,
            "age": age,
            "sex": np.array(SEXES)[sex],
            "work": np.array(WORK)[work],
            "income": income,
        },
    }


def truth_of(data: Mapping[str, Columns]) -> tuple[Columns, Columns, NDArray[np.int64]]:
    """Households and persons in codes, and whose household each person is of."""
    household, person = data["household"], data["person"]
    of = np.asarray(person["household"]).astype(np.int64)
    lists = {"region": REGIONS, "tenure": TENURES, "sex": SEXES, "work": WORK}

    def codes(name: str, values: NDArray[Any]) -> NDArray[np.int64]:
        return np.array([lists[name].index(v) for v in values]) if name in lists else values // 5

    homes = {name: codes(name, household[name]) for name in ("region", "tenure")}
    homes[SIZE] = np.bincount(of, minlength=len(household["id"]))
    return homes, {name: codes(name, person[name]) for name in PERSON}, of


def distances(
    truth: tuple[Columns, Columns, NDArray[np.int64]], other: tuple[Columns, Columns, NDArray[np.int64]]
) -> dict[str, float]:
    """The mean total variation of every kind of table."""
    both = truth, other

    def mean(pairs: list[tuple[str, ...]], columns: Any) -> float:
        return float(np.mean([variation(*(columns(part, pair) for part in both)) for pair in pairs]))

    def of_person(part: Any, name: str) -> NDArray[np.int64]:
        homes, persons, of = part
        return homes[name][of] if name in homes else persons[name]

    def of_persons(part: Any, names: tuple[str, ...]) -> Any:
        return [of_person(part, name) for name in names], None

    return {
        "household pairs": mean(
            list(combinations(HOUSEHOLD, 2)), lambda part, pair: ([part[0][name] for name in pair], None)
        ),
        "person": mean([(name,) for name in PERSON], of_persons),
        "person pairs": mean(list(combinations(PERSON, 2)), of_persons),
        "household x person": mean([(a, b) for a in HOUSEHOLD[1:] for b in PERSON], of_persons),
        "size x household": mean([(SIZE, b) for b in HOUSEHOLD[1:]], lambda p, pair: ([p[0][n] for n in pair], None)),
        "size x person": mean([(SIZE, b) for b in PERSON], of_persons),
        "two members": mean([(name,) for name in PERSON], members),
    }  # fmt: skip


def members(part: Any, names: tuple[str, ...]) -> Any:
    """Ordered pairs of members of one household, each household of the same weight."""
    _, persons, of = part
    (name,) = names
    order = np.argsort(of, kind="stable")
    home, values = of[order], persons[name][order]
    left, right, weights = [], [], []
    for gap in range(1, AT_MOST):
        same = np.flatnonzero(home[gap:] == home[:-gap])
        degree = np.bincount(home)[home[same]]
        for one, two in ((same, same + gap), (same + gap, same)):
            left.append(values[one])
            right.append(values[two])
            weights.append(1 / (degree * (degree - 1)))
    return [np.concatenate(left), np.concatenate(right)], np.concatenate(weights)


def variation(one: Any, other: Any) -> float:
    """The total variation between two tables of codes, weighted where weights are given."""
    tables: list[dict[int, float]] = []
    for columns, weights in (one, other):
        key = np.zeros(len(columns[0]), dtype=np.int64)
        for column in columns:
            key = key * 1000 + np.asarray(column).astype(np.int64)
        values, place = np.unique(key, return_inverse=True)
        counts = np.bincount(place, weights)
        tables.append(dict(zip(values.tolist(), (counts / counts.sum()).tolist(), strict=True)))
    keys = set(tables[0]) | set(tables[1])
    return 0.5 * sum(abs(tables[0].get(key, 0.0) - tables[1].get(key, 0.0)) for key in keys)


def linked(data: Mapping[str, Columns], epsilon: float) -> tuple[Any, dict[str, Any]]:
    """One release of both tables, and its rows."""
    declared = schema()
    release = mq.release(
        mq.open(data, schema=declared), 2, epsilon=epsilon, delta=DELTA, ledger="memory", mechanism="sculpt"
    )
    homes = ancestors_columns(declared, "household", release.views, release.linked)
    persons = ancestors_columns(declared, "person", release.views, release.linked)
    rows = homes, {name: persons[name] for name in PERSON}, release.linked["person"].parents
    stated = {name: view.stated.alpha for name, view in release.views.items()}
    return rows, {"stated": stated, "epsilons": {n: view.budget.epsilon for n, view in release.views.items()}}


def flat(data: Mapping[str, Columns], epsilon: float) -> tuple[Any, dict[str, Any]]:
    """Persons joined to their households alone, for the whole budget."""
    table = mq.open(data, schema=schema())["person"]
    release = mq.release(
        table,
        mq.marginals(table.domain, 2),
        epsilon=epsilon,
        delta=DELTA,
        ledger="memory",
        mechanism="sculpt",
    )
    assert release.database is not None
    rows = release.database.columns
    return (rows, rows, np.arange(len(rows["age"]))), {"stated": {"person": release.stated.alpha}, "own": 0}


def separate(data: Mapping[str, Columns], epsilon: float) -> tuple[Any, dict[str, Any]]:
    """Households, and persons joined to them, as two releases of half of the budget each: rows without links.

    The join says the number of members; whose member a person is stands in no row, so members of one household are not
    offered.
    """
    declared = schema()
    views = mq.open(data, schema=declared)
    rows: dict[str, Columns] = {}
    stated: dict[str, float] = {}
    for name in declared.names:
        table = views.for_another_ledger()[name]
        release = mq.release(
            table, mq.marginals(table.domain, 2), epsilon=epsilon / 2, delta=DELTA, ledger="memory",
            total_epsilon=epsilon, mechanism="sculpt",
        )  # fmt: skip
        assert release.database is not None
        rows[name], stated[name] = release.database.columns, release.stated.alpha
    count = len(rows["person"]["age"])
    homes = {name: np.concatenate([rows["household"][name], rows["person"][name]]) for name in HOUSEHOLD}
    own = len(rows["household"][SIZE])
    return (homes, rows["person"], own + np.arange(count)), {"stated": stated, "own": own}


def figures(households: int, epsilon: float, runs: int) -> Iterator[dict[str, Any]]:
    for run in range(runs):
        data = census(households, np.random.default_rng(run))
        truth = truth_of(data)
        for what, release in (("linked", linked), ("separate", separate), ("flat", flat)):
            start = time.process_time()
            rows, facts = release(data, epsilon)
            seconds = time.process_time() - start
            found = distances_of(truth, rows, own=facts.pop("own", None))
            yield {
                "what": what,
                "households": households,
                "persons": len(truth[2]),
                "epsilon": epsilon,
                "delta": DELTA,
                "run": run,
                "total variation": {name: round(value, 4) for name, value in found.items()},
                **facts,
                "cpu seconds": round(seconds, 2),
                "command": f"python -m benchmarks.several_tables --households {households} --epsilon {epsilon} "
                f"--runs {runs}",
            }


def distances_of(truth: Any, rows: Any, *, own: int | None) -> dict[str, float]:
    """Of separate releases households are compared by their own rows, and members are not offered."""
    if own is None:
        return distances(truth, rows)
    homes, persons, of = rows
    apart = distances(truth, rows)
    if not own:
        return {
            name: apart[name] for name in ("person", "person pairs", "household x person", "size x person")
        }
    alone = distances(truth, ({name: codes[:own] for name, codes in homes.items()}, persons, of * 0))
    del apart["two members"]
    return apart | {name: alone[name] for name in ("household pairs", "size x household")}


def run(data: Path | None) -> list[dict[str, Any]]:
    del data
    warnings.simplefilter("ignore")
    return [one for households in HOUSEHOLDS for one in figures(households, EPSILON, RUNS)]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.several_tables", description=__doc__)
    parser.add_argument("--households", type=int, default=20_000)
    parser.add_argument("--epsilon", type=float, default=EPSILON)
    parser.add_argument("--runs", type=int, default=RUNS)
    chosen = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    append_each("several_tables", figures(chosen.households, chosen.epsilon, chosen.runs))


if __name__ == "__main__":
    main(sys.argv[1:])

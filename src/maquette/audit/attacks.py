"""Reconstruction: guessing secret bits from answers to many queries.

Everything here is public arithmetic on released answers: a shattered set (the attack behind the lower bound of Roth
2010, Lemma 2) and linear reconstruction by least squares or a linear program (Dinur and Nissim 2003; Dwork, McSherry
and Talwar 2007). On exact answers they succeed; on a private release nobody recovers more than
`theory.lower.recovered` allows.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Domain
from maquette.errors import ParameterError, SourceError, WorkloadError
from maquette.owner import encode
from maquette.queries.base import Queries
from maquette.queries.dimension import Dimension
from maquette.queries.rows import Columns
from maquette.results.release import Release
from maquette.theory import lower

if TYPE_CHECKING:
    from maquette.results.release import Release

import random
import warnings
from collections.abc import Callable
from secrets import SystemRandom

from maquette.audit import attacks
from maquette.core import _check
from maquette.domain import Relation
from maquette.errors import MemoryLedgerWarning
from maquette.queries import weights
from maquette.queries.dimension import vc_dimension

Method = Literal["least squares", "linear program"]
METHODS: tuple[Method, ...] = ("least squares", "linear program")
MAX_POINTS = 16
"""The attack on a shattered set tries every half of it: 12,870 of 16 points."""
MAX_ENTRIES = 2**24


class Half(NamedTuple):
    """Which half of the points the table is guessed to hold, and how far the answers are from such a table."""

    points: tuple[int, ...]
    gap: float
    """v(T): how many records the answer to the query of T lacks. At most the largest error, if T is right."""


@dataclass(frozen=True, slots=True)
class Design:
    """Answers as a linear function of the secret bits: counts = offset + matrix @ bits."""

    matrix: NDArray[np.float64]
    offset: NDArray[np.float64]


def released_counts(release: Release) -> NDArray[np.float64]:
    """The answers of a release as counts, by its released size."""
    return release.answers.fractions * max(float(release.size.value), 0.0)


def halves(weights: NDArray[Any], counts: NDArray[Any]) -> list[Half]:
    """v(T) for every half T of d points, best first: v(T) = q_T(T) - (answer to q_T).

    `weights` has a row per labelling (bit j of its number is the label of point j) and a column per point;
    `counts` are the released answers to these queries.

    Accuracy: if every answer is within a of the truth, the best T differs from the true one in at most 4a/c points,
        c the gap between high and low weights (1 for counting queries).
    """
    d = weights.shape[1]
    if d % 2 or d > MAX_POINTS or weights.shape[0] != 2**d or len(counts) != 2**d:
        raise ParameterError(
            f"expected an even number of points up to {MAX_POINTS} with one query per labelling, got {d} points and "
            f"{weights.shape[0]} queries"
        )
    guesses: list[Half] = []
    for half in combinations(range(d), d // 2):
        query = sum(1 << j for j in half)
        guesses.append(Half(half, float(weights[query, list(half)].sum() - counts[query])))
    return sorted(guesses, key=lambda one: one.gap)


def shattered(
    queries: Queries, dimension: Dimension, counts: NDArray[Any], *, background: Columns | None = None
) -> Half:
    """The half of a shattered set that the answers to the whole class betray (Roth 2010, Lemma 2).

    The table is known to hold one record on each point of some half of the set (the last point is left out if
    their number is odd), besides records that everybody knows.
    """
    even = dimension.value // 2 * 2
    if not 2 <= even <= MAX_POINTS or not dimension.witnesses:
        raise WorkloadError(
            f"the attack needs a shattered set of 2 to {MAX_POINTS} points with its witnesses, got {dimension.value}"
        )
    witnesses = np.array(dimension.witnesses[: 2**even])
    weights = queries.columns_of(rows_of(dimension, range(even)))[witnesses] / queries.denominator
    fixed = (
        np.zeros(queries.count) if background is None else queries.on_rows(background) / queries.denominator
    )
    return halves(weights, np.asarray(counts, dtype=float)[witnesses] - fixed[witnesses])[0]


def rows_of(dimension: Dimension, which: Any) -> dict[str, NDArray[np.int64]]:
    """Some points of a shattered set as coded records."""
    points = [dimension.points[i] for i in which]
    return {
        name: np.array([point[axis] for point in points], dtype=np.int64)
        for axis, name in enumerate(dimension.attributes)
    }


def design(queries: Queries, background: Columns, *, hidden: str) -> Design:
    """How the answers depend on one secret attribute of two cells, when all else about the people is known."""
    if not background:
        raise WorkloadError(
            f"the queries look at '{hidden}' only; reconstruction needs attributes that the attacker knows"
        )
    if queries.domain[hidden].size != 2:
        raise WorkloadError(
            f"reconstruction needs a secret attribute of two cells; '{hidden}' has {queries.domain[hidden].size}"
        )
    people = len(next(iter(background.values())))
    if queries.count * people > MAX_ENTRIES:
        raise WorkloadError(
            f"{queries.count:,} queries on {people:,} people are too many for reconstruction "
            f"(at most {MAX_ENTRIES:,} together); give fewer people"
        )
    zero, one = (
        queries.columns_of({**background, hidden: np.full(people, bit)}) / queries.denominator
        for bit in (0, 1)
    )
    return Design(one - zero, zero.sum(axis=1))


def linear(design: Design, counts: NDArray[Any], *, method: Method) -> NDArray[np.bool_]:
    """The secret bits that explain the answers best: rounded least squares, or the least sum of absolute errors."""
    target = np.asarray(counts, dtype=float) - design.offset
    if method == "least squares":
        return np.linalg.lstsq(design.matrix, target, rcond=None)[0] > 0.5
    if method == "linear program":
        return _least_absolute(design.matrix, target) > 0.5
    raise ParameterError(f"expected a method among {', '.join(METHODS)}, got {method!r}")


def _least_absolute(matrix: NDArray[np.float64], target: NDArray[np.float64]) -> NDArray[np.float64]:
    """min sum |matrix s - target| over 0 <= s <= 1, with one slack variable per answer."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, eye_array, hstack, vstack

    answers, people = matrix.shape
    sparse, slack = csr_array(matrix), eye_array(answers)
    above = vstack([hstack([sparse, -slack]), hstack([-sparse, -slack])])
    solution = linprog(
        np.concatenate([np.zeros(people), np.ones(answers)]),
        A_ub=above,
        b_ub=np.concatenate([target, -target]),
        bounds=[(0.0, 1.0)] * people + [(0.0, None)] * answers,
        method="highs",
    )
    return np.asarray(solution.x[:people])


# What an attack found, next to what privacy allows.


@dataclass(frozen=True, slots=True)
class Finding:
    """How much one attack recovered, over one release or several trials."""

    attack: str
    answers: str
    """`exact`, or the mechanism."""
    people: int
    """Secret bits per trial."""
    queries: int
    trials: int
    recovered: float
    """The share of secret bits guessed right."""
    limit: float | None
    """What no attack exceeds on average if the answers are private; None for exact answers."""
    chance: float = 0.5
    """What guessing the more common value recovers without any answer."""


# Linear reconstruction against a finished release, by someone who knows the people but for one attribute.


def attack(
    release: Release, people: Columns, *, hidden: str, methods: Sequence[Method] = METHODS
) -> list[Finding]:
    """Guess the hidden attribute of everyone from the released answers, and compare with the truth.

    `people` are the records of the private table, coded, with the hidden attribute in place. What this returns
    depends on them without any noise: it is for the owner's eyes.
    """
    queries = release.workload
    if hidden not in queries.attributes:
        raise WorkloadError(
            f"no query of this release looks at '{hidden}'; it looks at {', '.join(queries.attributes)}"
        )
    background = {name: np.asarray(people[name]) for name in queries.attributes if name != hidden}
    truth = np.asarray(people[hidden]) == 1
    system = design(queries, background, hidden=hidden)
    common = float(max(truth.mean(), 1 - truth.mean()))
    limit = lower.recovered(
        epsilon=release.budget.epsilon,
        delta=release.budget.delta,
        steps=lower.hops(release.relation),
        prior=common,
    )
    counts = released_counts(release)
    return [
        Finding(
            method,
            release.mechanism,
            len(truth),
            queries.count,
            1,
            float((linear(system, counts, method=method) == truth).mean()),
            limit,
            common,
        )
        for method in methods
    ]


# What an attacker knows: people with all their attributes, from a text file, coded by the public domain.


def read_people(path: str | Path, domain: Domain, *, delimiter: str = ",") -> dict[str, NDArray[np.int64]]:
    """Coded columns of every declared attribute; the file belongs to the auditor and its values are not secret here."""
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file, delimiter=delimiter))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SourceError(f"cannot read {path}: {error}") from None
    if not rows:
        raise SourceError(f"{path} has a header only; expected at least one person")
    missing = [name for name in domain.names if name not in rows[0]]
    if missing:
        raise SourceError(
            f"{path} lacks the declared column '{missing[0]}'; it needs {', '.join(domain.names)}"
        )
    coded = encode(domain, {name: [row[name] or "" for row in rows] for name in domain.names})
    return {name: codes.astype(np.int64) for name, codes in coded.items()}


# Trials: made-up people with secret bits, answered exactly or by a release, then attacked.
#
# No table of anybody is touched. The secrets are drawn evenly, so that the limit of `theory.lower.recovered` applies
# as it stands.

Attack = Literal["shattered set", "least squares", "linear program"]
ATTACKS: tuple[Attack, ...] = ("shattered set", *attacks.METHODS)
Answering = Callable[[Domain, Queries, dict[str, NDArray[np.int64]]], NDArray[np.float64]]
"""From made-up people to the answers that the attacker sees, in counts."""


def exact(domain: Domain, queries: Queries, people: dict[str, NDArray[np.int64]]) -> NDArray[np.float64]:
    """The true counts: what a curator without privacy would publish."""
    return queries.on_rows(people) / queries.denominator


def releasing(
    *,
    epsilon: float,
    delta: float = 0.0,
    relation: Relation = Relation.ADD_REMOVE,
    mechanism: str = "auto",
) -> Answering:
    """Answers by a release with the whole budget on them, each into a ledger of its own in memory."""
    from maquette import owner as handle
    from maquette.api import release

    def answer(domain: Domain, queries: Queries, people: dict[str, NDArray[np.int64]]) -> NDArray[np.float64]:
        columns = {a.name: a.decode(people[a.name])[0].tolist() for a in domain}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MemoryLedgerWarning)  # nobody is charged: the people are made up
            result = release(
                handle.open(columns, domain=domain, name="made-up people"),
                queries,
                epsilon=epsilon,
                delta=delta,
                relation=relation,
                mechanism=mechanism,
                certificate=0.0,
                ledger="memory",
            )
        return attacks.released_counts(result)

    return answer


def run(
    attack: Attack,
    answering: Answering,
    *,
    people: int,
    queries: int | None = None,
    trials: int = 5,
    name: str = "exact",
    limit: float | None = None,
    rng: random.Random | None = None,
) -> Finding:
    """Attack several made-up tables. For the shattered set `people` is the number of its points, an even one."""
    _check.one_of(ATTACKS, attack=attack)
    _check.whole(people=people, trials=trials)
    random_bits = rng if rng is not None else SystemRandom()
    if attack == "shattered set":
        shares = [_shattered(people, answering, random_bits) for _ in range(trials)]
        queries_per_trial = 2**people
    else:
        queries_per_trial = 4 * people if queries is None else queries
        _check.whole(queries=queries_per_trial)
        shares = [_linear(people, queries_per_trial, attack, answering, random_bits) for _ in range(trials)]
    return Finding(attack, name, people, queries_per_trial, trials, float(np.mean(shares)), limit)


def limit_for(relation: Relation, *, epsilon: float, delta: float = 0.0) -> float:
    """The limit of both kinds of attack: changing a secret replaces one record."""
    return lower.recovered(epsilon=epsilon, delta=delta, steps=lower.hops(relation))


def _shattered(points: int, answering: Answering, rng: random.Random) -> float:
    """All subsets of some cells as queries; the table holds one record on each cell of a secret half."""
    if points % 2 or not 2 <= points <= attacks.MAX_POINTS:
        raise ParameterError(
            f"expected an even number of points from 2 to {attacks.MAX_POINTS}, got {points}"
        )
    domain = Domain.from_dict({"attributes": [_whole("cell", points)]})
    subsets = np.array([[labels >> j & 1 for j in range(points)] for labels in range(2**points)])
    queries = weights(domain, subsets)
    secret = sorted(rng.sample(range(points), points // 2))
    dimension = vc_dimension(queries)
    order = [int(point[0]) for point in dimension.points]
    counts = answering(domain, queries, {"cell": np.array(secret)})
    guess = {order[i] for i in attacks.shattered(queries, dimension, counts).points}
    return len(guess & set(secret)) / len(secret)


def _linear(
    people: int, queries_per_trial: int, method: Any, answering: Answering, rng: random.Random
) -> float:
    """Random groups of people, and how many in each have the secret bit."""
    domain = Domain.from_dict(
        {
            "attributes": [
                _whole("person", people),
                {"name": "secret", "kind": "boolean", "categories": ["no", "yes"], "nullable": False},
            ]
        }
    )
    groups = np.array([[rng.getrandbits(1) for _ in range(people)] for _ in range(queries_per_trial)])
    queries = weights(
        domain, np.stack([np.zeros_like(groups), groups], axis=2).reshape(queries_per_trial, -1)
    )
    bits = np.array([rng.getrandbits(1) for _ in range(people)])
    background = {"person": np.arange(people)}
    counts = answering(domain, queries, background | {"secret": bits})
    guess = attacks.linear(attacks.design(queries, background, hidden="secret"), counts, method=method)
    return float((guess == bits).mean())


def _whole(name: str, size: int) -> dict[str, Any]:
    return {"name": name, "kind": "categorical", "size": size, "nullable": False}

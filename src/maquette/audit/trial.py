"""Trials: made-up people with secret bits, answered exactly or by a release, then attacked.

No table of anybody is touched. The secrets are drawn evenly, so that the limit of `theory.lower.recovered` applies
as it stands.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from secrets import SystemRandom
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from maquette import _check
from maquette.audit import attacks
from maquette.audit.attacks import Finding
from maquette.domain import Domain, Relation
from maquette.errors import MemoryLedgerWarning, ParameterError
from maquette.queries import weights
from maquette.queries.base import Queries
from maquette.queries.dimension import vc_dimension
from maquette.theory import lower

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
    from maquette.api import release
    from maquette.gate import handle

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

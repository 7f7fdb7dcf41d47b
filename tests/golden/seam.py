"""The only place where the golden tests reach behind the public names. When modules move, this file is adapted."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np

import maquette as mq


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Inside, every release and session draws reproducible noise: the draws of one curator follow from the seed."""
    from maquette.core.barrier import Barrier
    from support.seeded import SeededNoise

    def source(_self: Barrier) -> SeededNoise:
        return SeededNoise(seed)

    with mock.patch.object(Barrier, "_source", source):
        yield


def canonical_hash(queries: mq.Queries) -> str:
    from maquette.queries import canonical_hash

    return canonical_hash(queries)


def to_json(queries: mq.Queries) -> str:
    from maquette.queries import to_json

    return to_json(queries)


def predicates(domain: mq.Domain, texts: list[str]) -> mq.Queries:
    from maquette.queries import predicates

    return predicates(domain, texts)


def mechanisms() -> list[str]:
    """Every mechanism of a release, as the planner lists them."""
    domain = mq.Domain.from_dict(
        {"attributes": [{"name": "a", "kind": "boolean", "categories": ["no", "yes"], "nullable": False}]}
    )
    ranked = mq.plan(mq.marginals(domain, k=1), n=1000, epsilon=1.0)
    return sorted(forecast.mechanism for forecast in ranked.forecasts)


def command_line() -> Any:
    """The commands, as typer has them."""
    from maquette.cli.app import app

    return app


def values_of(payload: bytes) -> list[list[int]]:
    """The released whole numbers of one step: arrays in numpy's own file format, one after the other."""
    stream = io.BytesIO(payload)
    found: list[list[int]] = []
    while stream.tell() < len(payload):
        found.append([int(value) for value in np.load(stream, allow_pickle=False).ravel()])
    return found

"""Small declared schemas, and rows for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from maquette.schema import Schema


def schema_of(at_most: int = 3, *, visits: int | None = None) -> Schema:
    """Households and their members; with `visits` also the members' visits, at most so many of each."""
    tables: list[dict[str, Any]] = [
        {"name": "household", "key": "id", "domain": {"attributes": [
            {"name": "region", "kind": "categorical", "categories": ["north", "south"]}]}},
        {"name": "person", "parent": "household", "refers": "household", "at_most": at_most, "domain": {"attributes": [
            {"name": "age", "kind": "categorical", "categories": ["young", "old"]}]}},
    ]  # fmt: skip
    if visits is not None:
        tables[1]["key"] = "number"
        tables.append(
            {"name": "visit", "parent": "person", "refers": "person", "at_most": visits, "domain": {"attributes": [
                {"name": "ward", "kind": "categorical", "categories": ["a", "b"]}]}}
        )  # fmt: skip
    return Schema.from_dict({"unit": "household", "tables": tables})


def people(count: int, seed: int = 1) -> dict[str, dict[str, list[Any]]]:
    """So many households of one to five members, ages tied to the region."""
    generator = np.random.default_rng(seed)
    regions = generator.integers(0, 2, count)
    sizes = generator.integers(1, 6, count)
    of = np.repeat(np.arange(count), sizes)
    old = generator.random(len(of)) < 0.2 + 0.6 * regions[of]
    return {
        "household": {
            "id": [f"h{i}" for i in range(count)],
            "region": [["north", "south"][r] for r in regions],
        },
        "person": {"household": [f"h{i}" for i in of], "age": [["young", "old"][int(one)] for one in old]},
    }

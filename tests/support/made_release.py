"""Releases made by hand: exact public toy numbers in the place of a gate's output."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import numpy as np

from maquette.core.budget import Budget
from maquette.core.laws import Gaussian
from maquette.core.measurement import Receipt, Size
from maquette.domain import Domain, Relation
from maquette.models.answers import Answers, SmallDatabase
from maquette.queries.base import Queries
from maquette.queries.marginals import marginals
from maquette.results import Account, Certificate, GroupCertificate, Guarantee, Release, Spending


def toy_domain() -> Domain:
    return Domain.from_dict(
        {
            "attributes": [
                {
                    "name": "age",
                    "kind": "numeric",
                    "bounds": [0, 90],
                    "bins": 9,
                    "integer": True,
                    "nullable": True,
                },
                {"name": "sex", "kind": "boolean", "categories": ["Female", "Male"], "nullable": False},
                {
                    "name": "region",
                    "kind": "categorical",
                    "categories": ["north", "south", "west"],
                    "overflow": True,
                    "nullable": False,
                },
            ]
        }
    )


def toy_columns(domain: Domain, m: int = 500) -> dict[str, Any]:
    """Coded rows by arithmetic, every cell of every attribute in use."""
    index = np.arange(m)
    return {
        a.name: ((index * (2 * i + 3) + index // 7) % a.size).astype(np.uint8) for i, a in enumerate(domain)
    }


def toy_release(workload: Queries | None = None, *, rows: bool = True, **changes: Any) -> Release:
    workload = workload if workload is not None else marginals(toy_domain(), k=[1, 2])
    database = SmallDatabase(toy_columns(workload.domain))
    groups = tuple(
        GroupCertificate(g.name, g.stop - g.start, 0.01 * (i + 1), 5.0 * (i + 1))
        for i, g in enumerate(workload.groups())
    )
    facts: dict[str, Any] = {
        "workload": workload,
        "answers": Answers.from_fractions(database.answer(workload).fractions),
        "mechanism": "histogram-gaussian",
        "relation": Relation.ADD_REMOVE,
        "budget": Budget(1.0, 1e-6),
        "beta": 0.05,
        "size": Size(500, Gaussian(Fraction(1, 100), Fraction(50)), Receipt(3, "ab" * 32)),
        "guarantee": Guarantee(0.05, 0.05, "Gaussian noise in every cell, union bound"),
        "certificate": Certificate(0.02, 0.05, 10.0, groups),
        "database": database if rows else None,
        "deviations": np.linspace(0.001, 0.004, workload.count),
        "spending": (
            Spending("gaussian", 0.02, "rho", 3, "measure"),
            Spending("gaussian", 0.015, "rho", 4, "measure"),
            Spending("laplace", 0.001, "rho", 5, "largest error"),
        ),
        "account": Account("survey", "rho", 0.1, 0.036),
        "receipts": (Receipt(5, "cd" * 32),),
        "parameters": {"sigma": 3.5, "post": "simplex"},
        "notes": ("the histogram was projected to the simplex",),
        "created": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "version": "0.1.0",
    }
    return Release(**(facts | changes))

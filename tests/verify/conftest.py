"""Ledgers and releases of every kind, made once by the public functions, and copies of them to tamper with."""

from __future__ import annotations

import random
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import maquette as mq
from maquette.domain import Attribute, Kind

DOMAIN = mq.Domain(
    (
        Attribute("sex", Kind.CATEGORICAL, ("f", "m")),
        Attribute("age", Kind.CATEGORICAL, tuple("0123456789")),
        Attribute("town", Kind.CATEGORICAL, ("a", "b", "c")),
    )
)


def _frame(rows: int = 2000) -> pl.DataFrame:
    rng = random.Random(3)
    columns = {
        a.name: [rng.choice(a.categories) for _ in range(rows)] for a in DOMAIN.attributes if a.categories
    }
    return pl.DataFrame({**columns, "who": [str(row // 2) for row in range(rows)]})


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with KIND.ledger and KIND.release of every kind, and sessions."""
    folder = tmp_path_factory.mktemp("made")
    frame = _frame()
    table = mq.open(frame.drop("who"), domain=DOMAIN)
    people = mq.open(frame, domain=DOMAIN, person="who", rows_per_person=2)
    queries = mq.marginals(DOMAIN, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mq.MaquetteWarning)
        options = {
            "pure": {"epsilon": 1},
            "zcdp": {"epsilon": 1, "delta": 1e-6, "accounting": "zcdp"},
            "gaussian": {"epsilon": 1, "delta": 1e-6, "accounting": "gaussian"},
            "replace": {"epsilon": 1, "delta": 1e-6, "relation": "replace-one"},
            "persons": {"epsilon": 1, "delta": 1e-6},
        }
        for kind, terms in options.items():
            of = people if kind == "persons" else table
            mq.release(of.for_another_ledger(), queries, ledger=folder / f"{kind}.ledger", **terms).save(
                folder / f"{kind}.release"
            )
        csv = folder / "table.csv"
        frame.write_csv(csv)
        found = mq.discover(
            csv,
            epsilon=1,
            delta=1e-7,
            ledger=folder / "discovery.ledger",
            total_epsilon=3,
            total_delta=1e-6,
            columns={"who": "drop"},
        )
        release = mq.release(
            mq.open(csv, domain=found.domain),
            mq.marginals(found.domain, 2),
            epsilon=0.5,
            delta=1e-7,
            ledger=folder / "discovery.ledger",
        )
        release.save(folder / "discovery.release")
        for kind, delta in (("session-pure", 0.0), ("session-zcdp", 1e-6)):
            session = mq.session(
                table.for_another_ledger(),
                epsilon=5,
                delta=delta,
                alpha=0.3,
                queries=20,
                mechanism="pmw",
                measure_first=False,
                ledger=folder / f"{kind}.ledger",
                total_epsilon=8,
                total_delta=delta or None,
            )
            session.ask_many(["age = '3'", "sex = 'f'", "sex = 'f' and town = 'a'"])
    return folder


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Callable[[str], Path]:
    """A fresh copy of a ledger with its receipt and its release folder."""

    def copied(kind: str) -> Path:
        for file in made.glob(f"{kind}.*"):
            if file.is_dir():
                shutil.copytree(file, tmp_path / file.name)
            elif not file.name.endswith(".queue"):
                shutil.copyfile(file, tmp_path / file.name)
        return tmp_path / f"{kind}.ledger"

    return copied

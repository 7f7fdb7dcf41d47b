"""Domains that are found privately, beside those that were declared: how much they hold, and what a release loses.

Per table and run: `discover` at epsilon 0.1 for each column, delta 1e-9 for all together. `inside` is the share of
records whose value has a cell of its own (the mean over columns, and the worst column); `values` are the listed texts
of all text columns beside those that occur. Then one release of all pairs with the found and one with the declared
domain, at the same budget, and the mean and largest error of their rows on the same 400 questions: two comparisons
each, values and borders from the declared domain, asked of the raw values. `cells` are the errors that the found cells
make alone, without any noise of a release: every record coded by the found domain and decoded again.

    python -m benchmarks discovery --table flights --runs 1 --data DIR       one table, one run
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import maquette as mq
from maquette.core.rows.coding import coders
from maquette.domain import Domain, Kind
from maquette.models.answers import SmallDatabase, decode
from maquette.releasing.discovery import Discovery
from maquette.vault.readers import open_source

TABLES = {"adult_raw": "adult_raw.csv", "flights": "flights.parquet", "nist_acs": "nist_acs.csv"}
EACH, DELTA = 0.1, 1e-9
RELEASE = {"epsilon": 1.0, "delta": 1e-9}
RUNS, QUESTIONS = 2, 400


def run(data: Path | None = None) -> list[dict[str, Any]]:
    if data is None:
        return []
    return [figure for name in TABLES for figure in one_table(name, data, RUNS)]


def main(arguments: list[str]) -> None:
    """Some of the tables, or another number of runs."""
    from benchmarks.__main__ import append_each

    parser = argparse.ArgumentParser(prog="python -m benchmarks discovery")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--table", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--runs", type=int, default=RUNS)
    chosen = parser.parse_args(arguments)
    for name in chosen.table:
        command = f"python -m benchmarks discovery --table {name} --runs {chosen.runs} --data DIR"
        figures = one_table(name, chosen.data, chosen.runs)
        append_each("discovery", (figure | {"command": command} for figure in figures))


def one_table(name: str, data: Path, runs: int) -> Iterator[dict[str, Any]]:
    source = data / TABLES[name]
    declared = Domain.load(data / f"{name}.domain.json")
    truth = _texts(
        pl.read_parquet(source) if source.suffix == ".parquet" else pl.read_csv(source, infer_schema=False)
    )
    questions = _questions(declared, np.random.default_rng(17))
    exact = [_share(truth, question) for question in questions]
    for number in range(runs):
        with tempfile.TemporaryDirectory() as folder:
            began = time.process_time()
            found = _discover(source, declared, Path(folder) / "ledger")
            seconds = time.process_time() - began
            domains = {"found": found.domain, "declared": declared}
            errors = {
                way: _errors(source, domain, questions, exact, Path(folder) / way)
                for way, domain in domains.items()
            }
        errors["cells"] = _gaps(_recoded(source, found.domain), questions, exact)
        yield (
            {
                "table": name,
                "run": number,
                "epsilon": round(EACH * len(declared), 6),
                "delta": DELTA,
                "cpu_seconds": round(seconds, 2),
                "load average": round(os.getloadavg()[0], 1),
            }
            | _inside(source, found, truth)
            | {f"{way}_{what}": value for way, each in errors.items() for what, value in each.items()}
        )


def _recoded(source: Path, domain: Domain) -> pl.DataFrame:
    """The table as its cells give it back."""
    coding = coders(domain)
    batches = [
        {name: coder.code(raw[name]) for name, coder in coding.items()}
        for raw, _ in open_source(source).batches(domain.names)
    ]
    columns = {name: np.concatenate([batch[name] for batch in batches]) for name in domain.names}
    return _texts(pl.from_arrow(decode(domain, SmallDatabase(columns), rng=np.random.default_rng(3))))


def _discover(source: Path, declared: Domain, ledger: Path) -> Discovery:
    header = (
        pl.scan_parquet(source) if source.suffix == ".parquet" else pl.scan_csv(source, infer_schema=False)
    )
    dropped = {column: "drop" for column in header.collect_schema().names() if column not in declared.names}
    return mq.discover(
        source,
        epsilon=float(Fraction(str(EACH)) * len(declared)),
        delta=DELTA,
        ledger=ledger,
        columns=dropped,
        na_values=declared.na_values,
    )


def _inside(source: Path, found: Discovery, truth: pl.DataFrame) -> dict[str, Any]:
    report = mq.fit_report(source, domain=found.domain)
    shares = [1 - column.undeclared / column.records for column in report.columns]
    lists = [a for a in found.domain if a.categories is not None and a.calendar is None]
    there = sum(truth[a.name].drop_nulls().n_unique() for a in lists)
    return {
        "columns": len(found.domain),
        "dropped": sum(1 for one in found.findings if one.how == "dropped" and one.receipts),
        "inside_mean": round(float(np.mean(shares)), 5),
        "inside_worst": round(min(shares), 5),
        "values_found": sum(a.cells for a in lists),
        "values_there": there,
    }


def _errors(
    source: Path, domain: Domain, questions: list[Any], exact: list[float], ledger: Path
) -> dict[str, float]:
    made = mq.release(
        mq.open(source, domain=domain), mq.marginals(domain, 2), mechanism="sculpt", ledger=ledger, **RELEASE
    )
    return _gaps(_texts(pl.from_arrow(made.decode_rows(rng=np.random.default_rng(3)))), questions, exact)


def _gaps(rows: pl.DataFrame, questions: list[Any], exact: list[float]) -> dict[str, float]:
    gaps = [abs(_share(rows, question) - share) for question, share in zip(questions, exact, strict=True)]
    return {"mean_error": round(float(np.mean(gaps)), 6), "largest_error": round(max(gaps), 6)}


def _questions(declared: Domain, rng: np.random.Generator) -> list[Any]:
    """Pairs of comparisons: a value of a list, or a border of a numeric attribute."""

    def one(name: str) -> tuple[str, Any]:
        attribute = declared[name]
        cell = int(rng.integers(attribute.cells))
        if attribute.kind is Kind.NUMERIC:
            return name, float(attribute.edge(max(cell, 1)))
        return name, str((attribute.categories or tuple(range(attribute.cells)))[cell])

    return [
        tuple(one(name) for name in rng.choice(declared.names, 2, replace=False)) for _ in range(QUESTIONS)
    ]


def _share(rows: pl.DataFrame, question: Any) -> float:
    """The share of rows that pass all comparisons; a column that a domain dropped passes nothing."""
    holds = pl.lit(value=True)
    for name, value in question:
        if name not in rows.columns:
            return 0.0
        column = pl.col(name)
        test = column == value if isinstance(value, str) else column.cast(pl.Float64, strict=False) < value
        holds = holds & test.fill_null(value=False)
    return rows.select(holds.mean()).item() if len(rows) else 0.0


def _texts(frame: pl.DataFrame) -> pl.DataFrame:
    """Every column as trimmed text, whole numbers without a point: what a value is called in any file."""
    return frame.select(
        pl.col(name).cast(pl.String).str.strip_chars().str.replace(r"\.0$", "") for name in frame.columns
    )

"""Coding and counting: all three-way marginals of 14 columns, beside a numpy loop and DuckDB, one thread each.

1. The adult table (48,842 rows, or a generated one of the same shape): processor seconds to read and to count.
2. Ten million rows in Parquet: processor seconds and peak memory of a fresh process, coded in memory and streamed.

`python -m benchmarks.counting --data DIR` prints one JSON line per figure.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from maquette.domain import Attribute, Domain, Kind
from maquette.vault.readers import open_engine

SIZES = (85, 9, 100, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 2)
ROWS = 10**7
ROUNDS = 31


def run(data: Path | None) -> list[dict[str, Any]]:
    """All figures; without a folder the tables are generated."""
    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory() as folder:
        table, domain = adult(data, Path(folder))
        small = beside_peers(table, domain)
        large = Path(folder) / "large.parquet"
        enlarge(table, large)
        domain.save(Path(folder) / "domain.json")
        return [
            small,
            *(in_fresh_process(large, Path(folder) / "domain.json", how) for how in ("memory", "stream")),
        ]


def adult(data: Path | None, folder: Path) -> tuple[Path, Domain]:
    """The adult table, or random rows of the same shape."""
    if data is not None and (data / "adult.csv").exists():
        return data / "adult.csv", Domain.load(data / "adult.domain.json")
    domain = Domain(tuple(Attribute(f"a{i}", Kind.ORDINAL, codes=s) for i, s in enumerate(SIZES)))
    rng = np.random.default_rng(1)
    columns = {a.name: np.minimum(rng.geometric(0.2, 48_842) - 1, a.size - 1) for a in domain}
    pa.csv.write_csv(pa.table(columns), folder / "adult.csv")
    return folder / "adult.csv", domain


def beside_peers(path: Path, domain: Domain) -> dict[str, Any]:
    """Reading and counting, medians over several runs, every result checked against the others."""
    margins = list(itertools.combinations(domain.names, 3))
    engine = open_engine(path, domain)
    tables = engine.margins(margins)
    columns = numpy_columns(path, domain)
    connection = duckdb.connect(config={"threads": "1"})
    connection.execute("SET enable_progress_bar = false")
    connection.execute("CREATE TABLE t AS SELECT * FROM read_csv(?)", [str(path)])
    check(tables, bincounts(domain, columns, margins), grouping_sets(connection, margins))
    reread = "CREATE OR REPLACE TABLE t AS SELECT * FROM read_csv(?)"
    read = in_turn(
        {
            "maquette": lambda: open_engine(path, domain),
            "numpy": lambda: numpy_columns(path, domain),
            "duckdb": lambda: connection.execute(reread, [str(path)]),
        }
    )
    count = in_turn(
        {
            "maquette": lambda: engine.margins(margins),
            "numpy": lambda: bincounts(domain, columns, margins),
        }
    ) | in_turn({"duckdb": lambda: grouping_sets(connection, margins)}, rounds=3)
    return {
        "what": "all three-way marginals of adult, processor seconds, one thread",
        "load average": round(os.getloadavg()[0], 1),
        "rows": len(next(iter(columns.values()))),
        "marginals": len(margins),
        "cells": sum(table.size for table in tables.values()),
        "maquette": {"read and code": read["maquette"], "count": count["maquette"]},
        "numpy bincount loop": {"read": read["numpy"], "count": count["numpy"]},
        "duckdb grouping sets": {"read": read["duckdb"], "count": count["duckdb"]},
        "count: numpy / maquette": times_ours(count, "numpy"),
        "count: duckdb / maquette": times_ours(count, "duckdb"),
    }


def numpy_columns(path: Path, domain: Domain) -> dict[str, np.ndarray]:
    """Plain reading, without any check: whole numbers as they stand."""
    table = pa.csv.read_csv(path)
    return {name: table.column(name).to_numpy().astype(np.int64) for name in domain.names}


def bincounts(
    domain: Domain, columns: dict[str, np.ndarray], margins: list[tuple[str, ...]]
) -> list[np.ndarray]:
    found = []
    for a, b, c in margins:
        flat = (columns[a] * domain[b].size + columns[b]) * domain[c].size + columns[c]
        found.append(np.bincount(flat, minlength=domain.cells((a, b, c))))
    return found


def grouping_sets(connection: duckdb.DuckDBPyConnection, margins: list[tuple[str, ...]]) -> int:
    """How many cells are not empty, by DuckDB."""
    sets = ", ".join("(" + ", ".join(f'"{name}"' for name in margin) + ")" for margin in margins)
    query = f"SELECT count(*) FROM (SELECT count(*) FROM t GROUP BY GROUPING SETS ({sets}))"
    return connection.execute(query).fetchall()[0][0]


def check(tables: dict[tuple[str, ...], np.ndarray], loop: list[np.ndarray], filled: int) -> None:
    assert all((ours.ravel() == theirs).all() for ours, theirs in zip(tables.values(), loop, strict=True))
    assert sum(int(np.count_nonzero(table)) for table in tables.values()) == filled


def in_turn(works: dict[str, Callable[[], object]], rounds: int = ROUNDS) -> dict[str, dict[str, float]]:
    """Median and least processor time of each call. They take turns, so that a busy moment hits all of them."""
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            start = time.process_time()
            work()
            taken[name].append(time.process_time() - start)
    return {
        name: {"median": round(statistics.median(times), 4), "least": round(min(times), 4), "rounds": rounds}
        for name, times in taken.items()
    }


def times_ours(count: dict[str, dict[str, float]], peer: str) -> dict[str, float]:
    """How many times as long as ours a peer takes."""
    return {
        figure: round(count[peer][figure] / count["maquette"][figure], 2) for figure in ("median", "least")
    }


def enlarge(path: Path, target: Path) -> None:
    """Ten million rows drawn with replacement, written a million at a time."""
    table = pa.csv.read_csv(path)
    rng = np.random.default_rng(2)
    with pq.ParquetWriter(target, table.schema) as writer:
        for _ in range(ROWS // 10**6):
            writer.write_table(table.take(pa.array(rng.integers(0, table.num_rows, 10**6))))


def in_fresh_process(path: Path, domain: Path, how: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.counting", "--large", str(path), str(domain), how]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def large(path: Path, domain: Domain, how: str) -> dict[str, Any]:
    """Code and count the large table in this process, which has done nothing else."""
    pa.set_cpu_count(1)
    margins = list(itertools.combinations(domain.names, 3))
    tiny = {name: np.zeros(1, np.int64) for name in domain.names}
    open_engine(tiny, domain).margins(
        margins[:1]
    )  # libraries are loaded and loops compiled before the clock starts
    before = peak_megabytes()
    start = time.process_time()
    engine = open_engine(path, domain, memory_limit=0 if how == "stream" else None)
    opened = time.process_time()
    tables = engine.margins(margins)
    done = time.process_time()
    values = pq.read_metadata(path).num_rows * len(domain)
    assert all(int(table.sum()) * len(domain) == values for table in tables.values())
    return {
        "what": f"10^7 rows x {len(domain)} columns from Parquet, {how}, one thread",
        "open and code, processor seconds": round(opened - start, 2),
        "count all three-way marginals, processor seconds": round(done - opened, 2),
        "peak memory, MB": peak_megabytes(),
        "of which before the table was opened, MB": before,
        "of which the counted tables, MB": round(sum(t.nbytes for t in tables.values()) / 1e6),
        "raw values at 8 bytes, MB": round(values * 8 / 1e6),
        "Parquet file, MB": math.ceil(path.stat().st_size / 1e6),
    }


def peak_megabytes() -> int:
    """The most memory this process has held. Not `getrusage`: its figure begins with the parent's."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return round(next(int(line.split()[1]) for line in status.splitlines() if "VmHWM" in line) * 1024 / 1e6)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.counting", description=__doc__)
    parser.add_argument(
        "--data", type=Path, default=None, help="a folder with adult.csv and adult.domain.json"
    )
    parser.add_argument(
        "--large", nargs=3, metavar=("PARQUET", "DOMAIN", "HOW"), help="one run of the large table"
    )
    chosen = parser.parse_args()
    if chosen.large:
        path, domain, how = chosen.large
        figures = [large(Path(path), Domain.load(domain), how)]
    else:
        figures = run(chosen.data)
    print(*(json.dumps(figure) for figure in figures), sep="\n")


if __name__ == "__main__":
    main()

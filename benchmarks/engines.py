"""Where the rows are: large Parquet files on one machine, PostgreSQL, Spark. Ratios within one run.

    python -m benchmarks engines --data DIR             files of 10^5 to 10^7 rows, and PostgreSQL
    python -m benchmarks engines 100000000 --data DIR   a file of so many rows alone, or several one after the other
    python -m benchmarks engines spark 10000000 --data DIR
    python -m benchmarks engines postgres 1000000 --data DIR

Processor seconds of all processes that work on a figure; wall time is beside them, and says little on a busy machine. A
file is read, coded and counted in a process of its own, one for each figure, so that its peak of memory is its own.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import maquette as mq
from maquette.domain import Domain
from maquette.vault.readers import open_engine, open_source

GROUP = 2**20
RELEASE_LIMIT = 4_100 * 10**6
"""Bytes that the rows and a release of them may take: about the least for which all triples are not refused."""
SMALL_LIMIT = 2**20
"""Bytes of codes that no table here fits into, so that it is read anew on every pass."""


def run(data: Path | None) -> list[dict[str, Any]]:
    """Everything but the largest file and the cluster."""
    sizes = ("100000", "1000000", "10000000")
    files = [figure for size in sizes for figure in part([size], data)]
    return [*files, *part(["postgres", "1000000"], data)]


def main(arguments: list[str]) -> None:
    """One figure by itself."""
    from benchmarks.__main__ import append_each

    parser = argparse.ArgumentParser(prog="python -m benchmarks engines")
    parser.add_argument("words", nargs="+", help="numbers of rows, or postgres or spark and a number of rows")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only", help="one of the two files, adult (whole numbers) or adult_raw (text)")
    parser.add_argument(
        "--looks", nargs="+", choices=LOOKS, help="some of the looks at a file", default=list(LOOKS)
    )
    chosen = parser.parse_args(arguments)
    only = "" if chosen.only is None else f" --only {chosen.only}"
    some = list(LOOKS) != chosen.looks
    looks = f" --looks {' '.join(repr(look) for look in chosen.looks)}" if some else ""
    command = f"python -m benchmarks engines {' '.join(chosen.words)} --data DIR{only}{looks}"
    figures = part(chosen.words, chosen.data, only=chosen.only, looks=chosen.looks)
    append_each("engines", (figure | {"command": command} for figure in figures))


def part(
    words: list[str], data: Path | None, *, only: str | None = None, looks: Sequence[str] | None = None
) -> Iterator[dict[str, Any]]:
    """The figures of a number of rows, of PostgreSQL or of Spark."""
    if data is None:
        raise SystemExit("engines needs --data, a folder with adult_raw.csv and adult_raw.domain.json")
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        if words[0] == "postgres":
            yield postgres(data, where, int(words[1]))
        elif words[0] == "spark":
            yield spark(data, where, int(words[1]))
        else:
            for rows in map(int, words):
                for name in ("adult", "adult_raw") if only is None else (only,):
                    yield large_file(data, where, name, rows, looks or list(LOOKS))


def enlarge(data: Path, name: str, rows: int, path: Path) -> Domain:
    """Records of a table, drawn with replacement, in a Parquet file; eight groups of rows in turn."""
    domain = Domain.load(data / f"{name}.domain.json")
    table = pa.csv.read_csv(data / f"{name}.csv").select(list(domain.names)).combine_chunks()
    rng = np.random.default_rng(1)
    groups = [table.take(pa.array(rng.integers(0, table.num_rows, min(GROUP, rows)))) for _ in range(8)]
    with pq.ParquetWriter(path, table.schema) as writer:
        for i, start in enumerate(range(0, rows, GROUP)):
            writer.write_table(groups[i % 8].slice(0, rows - start), row_group_size=GROUP)
    return domain


# A large file on one machine.


def large_file(data: Path, folder: Path, name: str, rows: int, chosen: Sequence[str]) -> dict[str, Any]:
    path = folder / f"{name}.parquet"
    domain = enlarge(data, name, rows, path)
    domain.save(folder / "domain.json")
    looks = {how: in_fresh_process(how, path, folder / "domain.json") for how in LOOKS if how in chosen}
    read = looks["read alone"]["cpu"] if "read alone" in looks else None
    ratios = {
        "all pairs / read alone": "pairs in memory",
        "all triples / read alone": "triples in memory",
        "release / read alone": "release of all triples",
        "one GROUP BY / read alone": "duckdb: one pair",
    }
    size = path.stat().st_size
    path.unlink()
    return {
        "what": "reading, coding and counting a Parquet file, processor seconds",
        "table": name,
        "rows": rows,
        "columns": len(domain),
        "file MB": round(size / 1e6, 1),
        "load average": round(os.getloadavg()[0], 1),
        **looks,
        **{what: round(looks[how]["cpu"] / read, 2) for what, how in ratios.items() if read and how in looks},
    }


def read_alone(path: Path, domain: Domain) -> None:
    with pq.ParquetFile(path, pre_buffer=False) as file:
        for _ in file.iter_batches(2**17, columns=list(domain.names)):
            pass


def one_pair(path: Path, domain: Domain) -> None:
    connection = duckdb.connect(config={"threads": "1"})
    connection.execute("SET enable_progress_bar = false")
    first, second = (f'"{name}"' for name in domain.names[:2])
    connection.execute(f"SELECT {first}, {second}, count(*) FROM '{path}' GROUP BY ALL").fetchall()


def read_and_code(path: Path, domain: Domain) -> None:
    open_engine(path, domain)


def count(order: int, memory_limit: int | None) -> Callable[[Path, Domain], None]:
    def look(path: Path, domain: Domain) -> None:
        open_engine(path, domain, memory_limit=memory_limit).margins(list(combinations(domain.names, order)))

    return look


def release_all(path: Path, domain: Domain) -> None:
    """Rows for all tables of two and three attributes, with a limit on the memory of the coded rows."""
    with tempfile.TemporaryDirectory() as folder:
        table = mq.open(path, domain=domain, memory_limit=RELEASE_LIMIT)
        mq.release(
            table,
            mq.marginals(domain, 3),
            epsilon=1.0,
            delta=1e-9,
            mechanism="sculpt",
            ledger=Path(folder) / "l",
        )


LOOKS: dict[str, Callable[[Path, Domain], None]] = {
    "read alone": read_alone,
    "duckdb: one pair": one_pair,
    "read and code": read_and_code,
    "pairs in memory": count(2, None),
    "triples in memory": count(3, None),
    "pairs streamed": count(2, SMALL_LIMIT),
    "release of all triples": release_all,
}


def in_fresh_process(how: str, path: Path, domain: Path) -> dict[str, float]:
    """One look, after a small one that loads and compiles everything; seconds, and megabytes above that."""
    words = [sys.executable, "-m", "benchmarks.engines", how, str(path), str(domain)]
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def look_here(how: str, path: Path, domain: Domain) -> dict[str, float]:
    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory() as folder:
        tiny = Path(folder) / "tiny.parquet"
        with pq.ParquetFile(path) as file:
            pq.write_table(pa.Table.from_batches([next(file.iter_batches(5000))]), tiny)
        LOOKS[how](tiny, domain)
    process = psutil.Process()
    before = process.memory_info().rss
    processor, clock = time.process_time(), time.perf_counter()
    LOOKS[how](path, domain)
    peak = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024
    return {
        "cpu": round(time.process_time() - processor, 2),
        "wall": round(time.perf_counter() - clock, 1),
        "peak MB": round((peak - before) / 1e6),
    }


# PostgreSQL: Arrow batches beside the rows of a cursor.


def postgres(data: Path, folder: Path, rows: int) -> dict[str, Any]:
    """Rows per processor second of client and server together."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    import psycopg

    from support.ledger_postgres import server

    running = server()
    url = running.new_database().replace("+psycopg", "")
    path = folder / "t.parquet"
    domain = enlarge(data, "adult_raw", rows, path)
    table = pq.read_table(path)
    with psycopg.connect(url, autocommit=True) as connection:
        types = {
            name: "text" if pa.types.is_string(table.schema.field(name).type) else "bigint"
            for name in domain.names
        }
        columns = ", ".join(f'"{name}" {kind}' for name, kind in types.items())
        connection.execute(f"CREATE TABLE t ({columns})".encode())
        with connection.cursor() as cursor, cursor.copy("COPY t FROM STDIN (FORMAT csv)") as copy:
            for batch in table.to_batches(max_chunksize=2**16):
                buffer = pa.BufferOutputStream()
                pa.csv.write_csv(batch, buffer, pa.csv.WriteOptions(include_header=False))
                copy.write(buffer.getvalue().to_pybytes())
        connection.execute("ANALYZE t")
    names = ", ".join(f'"{name}"' for name in domain.names)

    def cursor(convert: Callable[[list[Any]], object]) -> None:
        with psycopg.connect(url) as connection, connection.cursor("rows") as rows_of:
            rows_of.execute(f"SELECT {names} FROM t".encode())
            while batch := rows_of.fetchmany(2**16):
                convert(batch)

    def to_arrow(batch: list[Any]) -> object:
        columns = zip(domain.names, zip(*batch, strict=True), strict=True)
        return pa.table({name: pa.array(values) for name, values in columns})

    def arrow_batches() -> None:
        for _ in open_source(url, table="t").batches(domain.names):
            pass

    looks: dict[str, Callable[[], object]] = {
        "maquette: Arrow batches": arrow_batches,
        "maquette: read and code": lambda: open_engine(url, domain, table="t"),
        "psycopg cursor: tuples": lambda: cursor(len),
        "psycopg cursor: tuples to Arrow": lambda: cursor(to_arrow),
    }
    figures: dict[str, float] = {}
    for name, look in looks.items():
        before = _cpu(running._process.pid)
        look()
        figures[name] = round(rows / (_cpu(running._process.pid) - before))
    ours, coded, tuples, arrow = figures.values()
    return {
        "what": "rows of a PostgreSQL table per processor second of client and server",
        "rows": rows,
        "columns": len(domain),
        "load average": round(os.getloadavg()[0], 1),
        **figures,
        "Arrow batches / cursor to Arrow": round(ours / arrow, 2),
        "Arrow batches / cursor tuples": round(ours / tuples, 2),
        "read and code / cursor tuples": round(coded / tuples, 2),
    }


def _cpu(*processes: int) -> float:
    """Seconds of this process and of others, with all their children, those that have ended included."""
    total = time.process_time()
    for number in processes:
        for one in (psutil.Process(number), *psutil.Process(number).children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):  # its parent has its seconds then
                times = one.cpu_times()
                total += times.user + times.system + times.children_user + times.children_system
    return total


# Spark: our fold beside GROUPING SETS.


def spark(data: Path, folder: Path, rows: int) -> dict[str, Any]:
    """All one-way and two-way tables and the 100 largest three-way tables; SQL of 14 + 13 tables, extrapolated."""
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "3g").config("spark.ui.showConsoleProgress", "false")
    session = (
        builder.config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    path = folder / "t.parquet"
    domain = enlarge(data, "adult", rows, path)
    small = folder / "small.parquet"
    enlarge(data, "adult", 1000, small)
    margins = [m for k in (1, 2) for m in combinations(domain.names, k)]
    margins += sorted(combinations(domain.names, 3), key=domain.cells)[-100:]
    open_engine(session.read.parquet(str(small)), domain).margins(margins)  # loads and compiles everything
    figures: dict[str, float] = {}

    def timed(name: str, look: Callable[[], Any]) -> Any:
        before = _cpu_of_all()
        result = look()
        figures[name] = round(_cpu_of_all() - before, 1)
        return result

    engine: Any = timed("code and keep", lambda: open_engine(session.read.parquet(str(path)), domain))
    counts = timed("205 tables from kept codes", lambda: engine.margins(margins))
    local = open_engine(path, domain).margins(margins)
    assert all((counts[m] == local[m]).all() for m in margins)
    session.read.parquet(str(path)).createOrReplaceTempView("t")
    one, two = margins[: len(domain)], margins[len(domain) :][: len(domain) - 1]
    timed("sql: 14 one-way", lambda: session.sql(grouping_sets(one)).toArrow())
    timed("sql: 13 two-way", lambda: session.sql(grouping_sets(two)).toArrow())
    each = figures["sql: 13 two-way"] / len(two)
    session.stop()
    whole = round(figures["sql: 14 one-way"] + each * (len(margins) - len(one)))
    ours = figures["code and keep"] + figures["205 tables from kept codes"]
    return {
        "what": "205 tables on Spark, local[2], processor seconds of driver, Java and Python workers",
        "rows": rows,
        "tables": len(margins),
        "load average": round(os.getloadavg()[0], 1),
        **figures,
        "sql: 205 tables, extrapolated": whole,
        "sql / maquette": round(whole / ours, 1),
    }


def grouping_sets(margins: list[tuple[str, ...]]) -> str:
    names = ", ".join(f"`{name}`" for name in dict.fromkeys(name for margin in margins for name in margin))
    sets = ", ".join("(" + ", ".join(f"`{name}`" for name in margin) + ")" for margin in margins)
    return f"SELECT {names}, grouping_id({names}) AS g, count(*) AS n FROM t GROUP BY GROUPING SETS ({sets})"


def _cpu_of_all() -> float:
    return _cpu(*(child.pid for child in psutil.Process().children()))


if __name__ == "__main__":
    print(json.dumps(look_here(sys.argv[1], Path(sys.argv[2]), Domain.load(sys.argv[3]))))

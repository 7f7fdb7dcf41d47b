"""Is today's code as fast as another commit's? Both run the same cases, in turns, a process each, on one machine.

    git worktree add /tmp/before 85336520
    python -m benchmarks against --before /tmp/before --data DIR --turns 3

Processor seconds of the part that a case names, after loops were compiled; best of the turns, and their ratio. What a
case asks is public interface that both commits have. `--case contracts` is today's code alone: what the contracts of
`core/forms.py` cost beside the plain counting.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.__main__ import append_each

ROOT = Path(__file__).parents[1]
ATTRIBUTES, ROWS, ASKED = 14, 10**7, 1000
LIMIT = 1.05
"""Times the processor seconds of before; tested questions, which get one commit more, may take 1.6 times."""


@dataclass
class Clock:
    """Processor seconds of the parts of a case."""

    seconds: dict[str, float] = field(default_factory=dict[str, float])

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        begin = time.process_time()
        yield
        self.seconds[name] = round(time.process_time() - begin, 4)


def counting(clock: Clock, data: Path, rows: int) -> None:
    """Opening a table and counting all pairs of its attributes."""
    import maquette as mq

    domain, place = large_table(Path(tempfile.gettempdir()), rows)
    small = mq.open({name: ["0", "1", "2"] for name in domain.names}, domain=domain)
    pairs = [tuple(pair) for pair in combinations(domain.names, 2)]
    small._engine.margins(pairs)  # pyright: ignore[reportPrivateUsage]  # compiles the loops
    with clock.part(f"opening {rows:,} x {ATTRIBUTES}"):
        table = mq.open(place, domain=domain)
    with clock.part(f"counting all pairs of {rows:,} x {ATTRIBUTES}"):
        table._engine.margins(pairs)  # pyright: ignore[reportPrivateUsage]


def large_table(folder: Path, rows: int) -> tuple[Any, Path]:
    """A Parquet file of small whole numbers, made once."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from maquette.domain import Attribute, Domain, Kind

    sizes = [2 + 3 * (i % 6) for i in range(ATTRIBUTES)]
    domain = Domain(tuple(Attribute(f"x{i}", Kind.ORDINAL, codes=size) for i, size in enumerate(sizes)))
    place = folder / f"large-{rows}.parquet"
    if not place.exists():
        rng = np.random.default_rng(1)
        columns = {f"x{i}": rng.integers(0, size, rows, dtype=np.uint8) for i, size in enumerate(sizes)}
        pq.write_table(pa.table(columns), place, row_group_size=2**20)
    return domain, place


def sculpt(clock: Clock, data: Path, rows: int) -> None:
    """A release of all pairs of adult at epsilon 1."""
    import maquette as mq

    domain = mq.Domain.load(data / "adult.domain.json")
    queries, table = mq.marginals(domain, k=2), mq.open(data / "adult.csv", domain=domain)
    options: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-9, "mechanism": "sculpt", "ledger": "memory"}
    other = mq.open(data / "adult.csv", domain=domain, name="to compile the loops")
    mq.release(other, mq.marginals(domain, attributes=[domain.names[:2]]), **options)
    with clock.part("a sculpt release of adult, two-way, epsilon 1"):
        mq.release(table, queries, **options)


def smalldb(clock: Clock, data: Path, rows: int) -> None:
    """A certified release of all 2^64 thresholds of 10,000 keys."""
    import maquette as mq
    from maquette.domain import Attribute, Domain, Kind

    domain = Domain((Attribute("x", Kind.ORDINAL, codes=2**64),))
    rng = np.random.default_rng(2)
    codes = (rng.normal(0.5, 0.1, 10_000).clip(0, 0.999) * 2**64).astype(np.uint64)
    options: dict[str, Any] = {"mechanism": "smalldb", "certificate": 0.05, "ledger": "memory"}
    few = mq.open({"x": codes[:200]}, domain=domain)
    mq.release(few, mq.prefixes(domain, "x"), epsilon=1.0, typical_rows=200, **options)
    table = mq.open({"x": codes}, domain=domain)
    with clock.part("SmallDB on 2^64 thresholds, certified"):
        mq.release(table, mq.prefixes(domain, "x"), epsilon=1.0, typical_rows=10_000, **options)


def paid(clock: Clock, data: Path, rows: int) -> None:
    """Questions of a session that are each paid for and stored on the disk."""
    _session(clock, f"{ASKED:,} paid questions of a session", mechanism="direct", alpha=0.05)


def tested(clock: Clock, data: Path, rows: int) -> None:
    """Questions of a session that are tested against its hypothesis, almost all of them near."""
    _session(clock, f"{ASKED:,} tested questions", mechanism="pmw", alpha=0.2, measure_first=False)


def _session(clock: Clock, name: str, **options: Any) -> None:
    import maquette as mq
    from benchmarks._online import conjunction, ledger_for, made, open_session

    table, _ = made((12,) * 3, np.random.default_rng(5))
    rng, budget = np.random.default_rng(6), mq.Budget(1000.0)
    with tempfile.TemporaryDirectory(prefix="mq-bench-") as folder:
        ledger = ledger_for(table, budget, Path(folder) / "x.ledger")
        session = open_session(table, budget, ledger=ledger, **options)
        for _ in range(20):
            session.ask(conjunction(table.domain, rng))
        asked = [conjunction(table.domain, rng) for _ in range(ASKED)]
        with clock.part(name):
            for one in asked:
                session.ask(one)


def contracts(clock: Clock, data: Path, rows: int) -> None:
    """The norms, claims and checks of codes beside the counting that they belong to."""
    import maquette as mq
    from maquette.core import forms
    from maquette.core.answering import answers_on
    from maquette.core.tables import count_margins
    from maquette.domain import Attribute, Domain, Kind

    rng, n = np.random.default_rng(3), 50_000
    domain = Domain(tuple(Attribute(f"x{i}", Kind.ORDINAL, codes=20) for i in range(ATTRIBUTES)))
    columns = {name: rng.integers(0, 20, n, dtype=np.uint8) for name in domain.names}
    sizes = domain.sizes
    pairs = [tuple(pair) for pair in combinations(domain.names, 2)]
    count_margins(sizes, columns, pairs[:1])
    with clock.part("all pairs of 50,000 x 14"):
        count_margins(sizes, columns, pairs)
    with clock.part("codes inside the domain, 50,000 x 14"):
        assert all(int(column.max()) < sizes[name] for name, column in columns.items())
    tables = forms.QueryForms((forms.Tables(tuple(pairs)),), "0" * 64)
    with clock.part("norms and check of all pairs"):
        tables.check(sizes)
        tables.added(sizes)
        tables.replaced(sizes)
    for margin in (("x0",), ("x0", "x1"), ("x0", "x1", "x2")):
        cells = 20 ** len(margin)
        matrix = rng.integers(0, 1001, (1000, cells)).astype(np.int32)
        weighed = forms.QueryForms((forms.Weights(margin, matrix, 1000),), "0" * 64)
        with clock.part(f"1,000 weights over {cells:,} cells: check and norms"):
            weighed.check(sizes)
            weighed.added(sizes)
        with clock.part(f"1,000 weights over {cells:,} cells: farthest pair"):
            weighed.replaced(sizes)
        with clock.part(f"1,000 weights over {cells:,} cells: answers of 50,000 records"):
            answers_on(weighed, sizes, columns)
    boxes = [
        {name: tuple(sorted(rng.integers(0, 20, 2).tolist())) for name in rng.choice(domain.names, 3, False)}
        for _ in range(1000)
    ]
    asked = mq.boxes(domain, boxes).to_forms()
    (form,) = asked.parts
    assert isinstance(form, forms.Conditions)
    for claim, words in ((1000, "no claim"), (300, "a claim that is enforced")):
        claimed = forms.QueryForms((forms.Conditions(form.conditions, claim),), "0" * 64)
        with clock.part(f"1,000 predicates on 3 of 14 attributes, {words}"):
            answers_on(claimed, sizes, columns)


Case = Callable[[Clock, Path, int], None]
CASES: dict[str, Case] = {
    "counting": counting,
    "sculpt": sculpt,
    "smalldb": smalldb,
    "paid": paid,
    "tested": tested,
}
ALONE: dict[str, Case] = {"contracts": contracts}


def measure(name: str, source: Path, data: Path, rows: int) -> dict[str, float]:
    """Processor seconds of the parts of a case, in a fresh process on one thread, with the package of one tree."""
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    path = os.pathsep.join([str(source / "src"), str(ROOT)])
    command = [sys.executable, "-m", "benchmarks.against", "--inner", name, str(data), str(rows)]
    environment = os.environ | one_thread | {"PYTHONPATH": path, "MAQUETTE_TREE": str(source)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tempfile.gettempdir())
    if done.returncode:
        raise SystemExit(f"{name} with {source}: {done.stderr.strip().splitlines()[-3:]}")
    return json.loads(done.stdout.splitlines()[-1])


def figures(name: str, before: Path | None, data: Path, *, turns: int, rows: int) -> Iterator[dict[str, Any]]:
    """The parts of one case, both trees in turns."""
    trees = {"now": ROOT} if name in ALONE or before is None else {"before": before, "now": ROOT}
    seconds: dict[str, dict[str, list[float]]] = {}
    for turn in range(turns):
        for tree in list(trees)[:: -1 if turn % 2 else 1]:
            for part, taken in measure(name, trees[tree], data, rows).items():
                seconds.setdefault(part, {}).setdefault(tree, []).append(taken)
    for part, taken in seconds.items():
        best = {tree: min(own) for tree, own in taken.items()}
        figure: dict[str, Any] = {
            "what": f"processor seconds: {part}",
            "case": name,
            "turns": turns,
            "all": taken,
        }
        if len(best) == 2:
            goal = 1.6 if name == "tested" else LIMIT
            figure |= {"before": best["before"], "ratio": round(best["now"] / best["before"], 3)}
            figure |= {"goal": f"at most {goal:g} times"}
        yield figure | {"now": best["now"], "load average": round(os.getloadavg()[0], 1)}


def run(data: Path | None = None) -> list[dict[str, Any]]:
    """What needs no other commit: the contracts beside the plain counting."""
    return list(figures("contracts", None, data or Path(tempfile.gettempdir()), turns=3, rows=ROWS))


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks against")
    parser.add_argument("--before", type=Path, default=None, help="a working tree of the other commit")
    parser.add_argument("--commit", default="85336520", help="what that commit is called")
    parser.add_argument("--data", type=Path, required=True, help="a folder with adult.csv")
    parser.add_argument("--case", nargs="+", choices=[*CASES, *ALONE], default=[*CASES, *ALONE])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--rows", type=int, default=ROWS)
    options = parser.parse_args(words)
    for name in options.case:
        command = f"python -m benchmarks against --before /tmp/before --data DIR --case {name}"
        command += f" --turns {options.turns} --rows {options.rows}"
        found = figures(name, options.before, options.data, turns=options.turns, rows=options.rows)
        append_each(
            "against", ({**one, "commit before": options.commit, "command": command} for one in found)
        )


if __name__ == "__main__":
    _, _, chosen, folder, count = sys.argv
    taken = Clock()
    (CASES | ALONE)[chosen](taken, Path(folder), int(count))
    print(json.dumps(taken.seconds))

"""Certificates of classes of questions: stated against true errors, what they cost, and how often they hold.

Stated against true: one release of all marginals of a table, three-way where that is affordable, with the classes that
are bought by default there. The true largest error of each class is computed from the private table by the kernels of
the gate. A ratio of 1.2 says that the certificate states a fifth more than the worst question of the class is off.

Coverage: many releases of a small generated table, and in each the question of every class that is farthest off,
picked with the private table at hand. Stated is a chance beta that any bound of any class is exceeded.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest

import maquette as mq
from benchmarks import tables
from maquette.core.class_errors import gaps, largest_gap
from maquette.owner import Table
from maquette.queries.classes import CLASSES, ClassTable
from maquette.releasing.certify import default_classes
from maquette.results.statements import ClassCertificate

TABLES = {"chicago_taxi": 2, "adult": 3, "nist_acs": 3, "salary": 3, "titanic": 3}
"""Tables by name, with the order of the marginals that are released."""
EPSILONS = (0.1, 1.0, 10.0)
DELTA = 1e-9
NAMES = ("one attribute", "two attributes", "three attributes", "two ranges")
COVERED = (*NAMES, "two attributes with a small one", "relative")
"""Classes whose coverage is simulated: all that are bought by default somewhere."""
RUNS, RECORDS, BETA = 200, 2000, 0.2
QUESTION = {"adult_raw": "age >= 60 and sex = 'Female'", "adult": "age >= 43 and sex = 0"}
"""The question of the README, in words and in the codes of a table."""
QUESTION_RUNS = 6
_STEP = "measuring the largest error"


def run(data: Path | None = None) -> list[dict[str, Any]]:
    """All tables at all budgets, then the coverage; every figure is kept as it comes."""
    from benchmarks.__main__ import append_each

    append_each("class_certificates", _figures(data))
    return []


def main(arguments: list[str] | None = None) -> None:
    """One table at one budget, which appends its figures."""
    from benchmarks.__main__ import append_each

    parser = argparse.ArgumentParser(prog="python -m benchmarks class_certificates")
    parser.add_argument("--table", choices=list(TABLES), required=True)
    parser.add_argument("--epsilon", type=float, required=True)
    parser.add_argument("--data", type=Path, required=True)
    one = parser.parse_args(arguments)
    command = (
        f"python -m benchmarks class_certificates --table {one.table} --epsilon {one.epsilon:g} --data DIR"
    )
    append_each(
        "class_certificates", (f | {"command": command} for f in stated(one.table, one.epsilon, one.data))
    )


def _figures(data: Path | None) -> Iterator[dict[str, Any]]:
    command = {"command": "python -m benchmarks class_certificates --data DIR"}
    if data is not None:
        for name in TABLES:
            for epsilon in EPSILONS:
                yield from (figure | command for figure in stated(name, epsilon, data))
        for name, text in QUESTION.items():
            yield from (figure | command for figure in question(name, text, data))
    yield coverage("add-remove") | command
    yield coverage("replace-one") | command


def stated(name: str, epsilon: float, data: Path) -> list[dict[str, Any]]:
    """One release with the classes that suit the domain: every bound beside the truth."""
    table = _open(name, data)
    order = TABLES[name]
    queries = mq.marginals(table.domain, k=order)
    names = default_classes(queries)
    at: dict[str, float] = {}

    def follow(step: str, share: float) -> None:
        if step == _STEP:
            at["begin" if share == 0 else "end"] = time.process_time()

    began = time.process_time()
    release = mq.release(
        table.for_another_ledger(),
        queries,
        epsilon=epsilon,
        delta=DELTA,
        mechanism="sculpt",
        certificate=["workload", *names],
        ledger=ledger_of(table, epsilon),
        progress=follow,
    )
    whole = time.process_time() - began
    records = records_of(table)
    common = {"table": name, "records": records, "epsilon": epsilon, "marginals": order}
    figures = [_ratio(release, one, table, records) | common for one in release.certificates]
    cost = {
        "what": f"processor time of all certificates of {name} at epsilon {epsilon:g}",
        "seconds of the release": round(whole, 2),
        "seconds of the certificates": round(at["end"] - at["begin"], 2),
        "share": round((at["end"] - at["begin"]) / whole, 3),
    }
    return [*figures, cost | common]


def _ratio(release: mq.Release, certificate: ClassCertificate, table: Table, records: int) -> dict[str, Any]:
    errors = largest_errors(release, certificate, table)
    true = max(error for _, error, _ in errors)
    own = _by_table(release, certificate, errors, records) if certificate.bounds else {}
    return own | {
        "what": f"stated over true error, {certificate.name}, {release.budget.epsilon:g}",
        "class": certificate.name,
        "stated points": round(100 * certificate.alpha, 3),
        "true points": round(100 * true / records, 3),
        "ratio": round(certificate.alpha * records / max(true, 1e-9), 3),
        "of": certificate.of,
    }


def _by_table(
    release: mq.Release,
    certificate: ClassCertificate,
    errors: list[tuple[ClassTable, float, float]],
    records: int,
) -> dict[str, Any]:
    """A relative certificate: the bound of each table over its true error, and over the one bound of its class."""
    flat = {one.name: one.alpha for one in release.certificates if not one.bounds}
    ratios = [bound * records / max(error, 1.0) for _, error, bound in errors]
    gains = {
        name: [bound / flat[name] for one, _, bound in errors if bool(one.families) == (name == "two ranges")]
        for name in CLASSES[certificate.name].parts
        if name in flat
    }
    return {
        "median stated points": round(100 * certificate.typical, 3),
        "median of stated over true, table by table": round(float(np.median(ratios)), 3),
        "median of own bound over that of the class": {
            name: round(float(np.median(gain)), 3) for name, gain in gains.items() if gain
        },
    }


def largest_errors(
    release: mq.Release, certificate: ClassCertificate, table: Table
) -> list[tuple[ClassTable, float, float]]:
    """Every table of a class with the largest error in records, and the bound that is stated for it."""
    distribution = release.distribution
    assert distribution is not None
    engine = table._engine  # a benchmark may look at the private table
    found: list[tuple[ClassTable, float, float]] = []
    tables_of = CLASSES[certificate.name].tables(table.domain, distribution.sets)
    bounds = certificate.bounds or (certificate.alpha,) * len(tables_of)
    for one, bound in zip(tables_of, bounds, strict=True):
        exact = engine.margins([one.margin])[one.margin]
        shares = distribution.table(one.margin).astype(np.int64).reshape(exact.shape)
        gap = (
            largest_gap(one.sets(), gaps(exact, shares, distribution.denominator)) / distribution.denominator
        )
        found.append((one, gap, bound))
    return found


def question(name: str, text: str, data: Path) -> Iterator[dict[str, Any]]:
    """What releases of all three-way marginals at epsilon 1 state for one question, and how far off they are."""
    table = _open(name, data)
    queries = mq.marginals(table.domain, k=3)
    (exact,) = table._engine.answer(mq.where(table.domain, text).to_forms())
    for _ in range(QUESTION_RUNS):
        release = mq.release(
            table.for_another_ledger(), queries, epsilon=1.0, delta=DELTA, ledger=ledger_of(table, 1.0)
        )
        answer = release.answer(text)
        assert answer.error is not None
        yield {
            "what": f"the question of the README, {name}, three-way marginals at epsilon 1",
            "question": text,
            "stated points": round(100 * answer.error, 3),
            "true points": round(100 * abs(answer.value - int(exact) / records_of(table)), 3),
            "known by": answer.statement,
        }


def coverage(relation: str) -> dict[str, Any]:
    """In how many releases the worst question of some class is farther off than its bound says."""
    made = tables.chain(RECORDS, 5, levels=5)
    table = made.open()
    failed = 0
    for _ in range(RUNS):
        release = mq.release(
            table.for_another_ledger(),
            mq.marginals(table.domain, k=3),
            epsilon=1.0,
            delta=1e-6,
            mechanism="sculpt",
            beta=BETA,
            relation=relation,
            certificate=["workload", *COVERED],
            ledger=ledger_of(table, 1.0, delta=1e-6, relation=relation),
        )
        failed += any(
            error > bound * RECORDS
            for certificate in release.certificates
            for _, error, bound in largest_errors(release, certificate, table)
        )
    low, high = binomtest(failed, RUNS).proportion_ci(0.95, "exact")
    return {
        "what": f"releases with a question beyond its certified class bound, {relation}",
        "beta": BETA,
        "releases": RUNS,
        "failures": failed,
        "interval": [float(f"{low:.3g}"), float(f"{high:.3g}")],
    }


def _open(name: str, data: Path) -> Table:
    place = next(file for file in (data / f"{name}.csv", data / f"{name}.parquet") if file.exists())
    return mq.open(place, domain=mq.Domain.load(data / f"{name}.domain.json"))


def records_of(table: Table) -> int:
    return table._engine.size()


def ledger_of(
    table: Table, epsilon: float, *, delta: float = DELTA, relation: str = "add-remove"
) -> mq.Ledger:
    return mq.Ledger.memory(
        budget=mq.Budget(epsilon, delta, "gaussian"),
        relation=mq.Relation(relation),
        domain_fingerprint=table.domain.fingerprint,
        name="benchmark",
    )

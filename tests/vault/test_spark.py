"""Spark, on a real standalone cluster: the local reader's answers, through a session and through Connect."""

# pyright: reportArgumentType=false

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import maquette as mq
from maquette.core.rows.counting import CountTask
from maquette.discovery.raw import open_raw
from maquette.domain import Attribute, Domain, Kind, Persons
from maquette.errors import SourceError
from maquette.vault import remote, spark
from maquette.vault.readers import open_engine
from support.hostile_tables import all_looks, cut, every_value, tables
from support.spark_cluster import PATHS, Cluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*pandas.*:FutureWarning"),
    pytest.mark.skipif(
        shutil.which("java") is None, reason="Spark needs Java 17: apt-get install openjdk-17-jre"
    ),
]

PEOPLE = Domain(
    (
        Attribute("a", Kind.ORDINAL, codes=5),
        Attribute("b", Kind.ORDINAL, codes=4),
        Attribute("c", Kind.CATEGORICAL, categories=("x", "y", "z"), overflow=True),
    )
)


@pytest.fixture(scope="module")
def cluster():
    running = Cluster()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def session(cluster: Cluster):
    opened = cluster.session()
    yield opened
    opened.stop()


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three files of made-up people, one of them empty."""
    folder = tmp_path_factory.mktemp("people")
    for i, rows in enumerate((1500, 0, 700)):
        pq.write_table(records(rows, seed=i), folder / f"{i}.parquet")
    return folder


def records(rows: int, *, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 5, rows)
    letters = np.array(["x", "y", "z", "w"])
    return pa.table(
        {
            "c": letters[(a + rng.integers(0, 2, rows)) % 4],
            "b": a % 4,
            "a": a,
            "other": rng.random(rows),
            "who": rng.integers(0, 300, rows),
        }
    )


@pytest.mark.parametrize("parts", [1, 7])
def test_it_agrees_with_the_local_reader(session: Any, tmp_path: Path, parts: int):
    domain, table = every_value()
    for i, part in enumerate(cut(table, parts, turned=True)):
        pq.write_table(part, tmp_path / f"{i}.parquet")
    engine = open_engine(session.read.parquet(str(tmp_path)), domain)
    assert isinstance(engine, spark.SparkEngine)
    assert all_looks(engine) == all_looks(open_engine(table, domain))


@given(case=tables(), turned=st.booleans())
@settings(deadline=None, max_examples=2, suppress_health_check=list(HealthCheck))
def test_random_tables_agree_too(session: Any, case: Any, turned: bool):
    domain, table = case
    with tempfile.TemporaryDirectory() as folder:
        for i, part in enumerate(cut(table, 3, turned=turned)):
            pq.write_table(part, Path(folder) / f"{i}.parquet")
        engine = open_engine(session.read.parquet(folder), domain)
        assert all_looks(engine) == all_looks(open_engine(table, domain))


def test_no_rows_at_all(session: Any, people: Path):
    frame = session.read.parquet(str(people)).where("a > 99")
    engine = open_engine(frame, PEOPLE)
    assert all_looks(engine) == all_looks(open_engine(records(0, seed=0), PEOPLE))


MECHANISMS = {
    "sculpt": {"mechanism": "sculpt", "certificate": 0.05},
    "residual": {"mechanism": "residual", "delta": 1e-6},
    "smalldb": {"mechanism": "smalldb"},
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_releases_certificates_and_evaluation(session: Any, people: Path, tmp_path: Path, name: str):
    """The ledger of the local table takes the frame for the same table, and what is paid there is repeated here."""
    workload = mq.prefixes(PEOPLE, "a") if name == "smalldb" else mq.marginals(PEOPLE, k=2)
    local = mq.open(people, domain=PEOPLE)
    remote_table = mq.open(session.read.parquet(str(people)), domain=PEOPLE, name="people")
    ledger = tmp_path / "people.ledger"
    first = mq.release(remote_table, workload, epsilon=2.0, ledger=ledger, **MECHANISMS[name])
    again = mq.release(local, workload, epsilon=2.0, ledger=ledger, **MECHANISMS[name])
    assert again.answers.numerators.tolist() == first.answers.numerators.tolist()
    if name == "sculpt":
        assert first.certificate is not None
    there = mq.evaluate(first, remote_table, ledger=ledger)
    assert there.to_dict() == mq.evaluate(first, local, ledger=ledger).to_dict()


def test_persons_are_bounded_in_the_cluster(session: Any, people: Path, tmp_path: Path):
    """The records that count are those of the local reader, and its ledger takes the frame for the same table."""
    frame, persons = session.read.parquet(str(people)), Persons("who", 2)
    local = open_engine(people, PEOPLE, persons=persons)
    assert local.size() < 2200
    assert all_looks(open_engine(frame, PEOPLE, persons=persons)) == all_looks(local)
    whose = {"domain": PEOPLE, "person": "who", "rows_per_person": 2}
    queries, ledger = mq.marginals(PEOPLE, k=2), tmp_path / "people.ledger"
    first = mq.release(mq.open(frame, **whose), queries, epsilon=1.0, ledger=ledger)
    again = mq.release(mq.open(people, **whose), queries, epsilon=1.0, ledger=ledger)
    assert first.persons == persons
    assert again.answers.numerators.tolist() == first.answers.numerators.tolist()


def test_a_domain_is_found_in_the_cluster(session: Any, people: Path, tmp_path: Path):
    frame, names = session.read.parquet(str(people)), ["a", "c", "other"]
    for persons in (None, Persons("who", 2)):
        there, here = (open_raw(source, names, persons=persons) for source in (frame, people))
        assert there.commitment(b"salt") == here.commitment(b"salt")
        for name in names:
            assert there.kinds(name).tolist() == here.kinds(name).tolist()
            assert (
                there.numbers(name, (0.0, 0.5, 3.0)).tolist() == here.numbers(name, (0.0, 0.5, 3.0)).tolist()
            )
        assert there.spellings("c")[1].tolist() == here.spellings("c")[1].tolist()
    place = tmp_path / "people.ledger"
    settings = {"epsilon": 4.0, "delta": 1e-6, "ledger": place, "columns": {"who": "drop", "other": "drop"}}
    found = mq.discover(frame, total_epsilon=8.0, total_delta=1e-5, **settings)
    assert found.domain["c"].categories == ("w", "x", "y", "z")
    again = mq.discover(people, total_epsilon=8.0, total_delta=1e-5, **settings)
    assert again.domain == found.domain
    made = mq.release(
        mq.open(frame, domain=found.domain),
        mq.marginals(found.domain, 1),
        epsilon=1.0,
        delta=1e-6,
        ledger=place,
    )
    assert made.answers is not None


def test_a_session_counts_a_table_once(session: Any, people: Path, monkeypatch: pytest.MonkeyPatch):
    table = mq.open(session.read.parquet(str(people)), domain=PEOPLE)
    jobs: list[Any] = []
    plain = spark.SparkEngine._run
    monkeypatch.setattr(
        spark.SparkEngine, "_run", lambda self, job, names: jobs.append(job) or plain(self, job, names)
    )
    asking = mq.session(table, epsilon=20.0, ledger="memory")
    answers = [asking.ask(f"a = {i} and b = {i}") for i in range(4)] + [asking.ask("a = 1 and b > 1")]
    assert len(answers) == 5
    counts = [
        job for job in jobs if isinstance(getattr(job, "task", None), CountTask) and job.task.margins != ((),)
    ]
    assert len(counts) == 1


def test_a_frame_that_gives_other_records_is_noticed(session: Any, people: Path, tmp_path: Path):
    """The coded blocks are kept; where they are lost, the same records must come again."""
    copy = tmp_path / "copy"
    shutil.copytree(people, copy)
    engine: Any = open_engine(session.read.parquet(str(copy)), PEOPLE)
    first = engine.margins([("a", "b")])["a", "b"].tolist()
    pq.write_table(records(1500, seed=9), copy / "0.parquet")
    assert engine.distinct("a")[1].sum() == 2200  # the blocks are still there
    assert engine.margins([("b", "a")])["b", "a"].T.tolist() == first
    engine._blocks.unpersist(blocking=True)
    session.catalog.refreshByPath(str(copy))
    with pytest.raises(SourceError, match="no longer holds the records"):
        engine.distinct("b")


def test_rows_never_come_to_this_machine(session: Any, people: Path, monkeypatch: pytest.MonkeyPatch):
    frame = session.read.parquet(str(people))
    for name in ("collect", "toPandas", "toLocalIterator"):
        monkeypatch.setattr(type(frame), name, lambda *_: pytest.fail("collected"))
    assert mq.open(frame, domain=PEOPLE).name == "spark"
    assert mq.fit_report(frame, domain=PEOPLE) == mq.fit_report(people, domain=PEOPLE)
    with pytest.raises(SourceError, match="not collected on this machine"):
        mq.draft(frame)


def test_workers_of_another_version_are_refused(session: Any, people: Path, monkeypatch: pytest.MonkeyPatch):
    others = ("0.0.1", *remote.versions()[1:])
    monkeypatch.setattr(remote, "versions", lambda: others)
    frame = session.read.parquet(str(people))
    for look in (
        lambda: open_engine(frame, PEOPLE),
        lambda: open_engine(frame, PEOPLE, persons=Persons("who", 1)),
        lambda: open_raw(frame, ["a"]).kinds("a"),
    ):
        with pytest.raises(SourceError, match=r"another version of maquette than this machine \(0\.0\.1\)"):
            look()


def test_a_failing_job_says_nothing_of_the_rows(
    session: Any, people: Path, capfd: pytest.CaptureFixture[str]
):
    frame = session.read.parquet(str(people)).selectExpr("assert_true(a < 4) is null as a", "b", "c")
    with pytest.raises(SourceError, match="job failed in the cluster") as refused:
        open_engine(frame, PEOPLE)
    assert refused.value.__context__ is None
    assert refused.value.__cause__ is None
    with pytest.raises(SourceError, match=r"column 'a' .* has type list"):
        open_engine(session.read.parquet(str(people)).selectExpr("array(a) as a", "b", "c"), PEOPLE)


def test_connect_and_the_command_line(cluster: Cluster, people: Path, tmp_path: Path):
    """Every way to name a table: a Connect server, a path that its session reads, the master of a cluster."""
    address = cluster.start_connect()
    PEOPLE.save(tmp_path / "d.json")
    conf = tmp_path / "conf"
    conf.mkdir()
    lines = [f"{name} {value}" for name, value in cluster.settings(cores=1).items()]
    (conf / "spark-defaults.conf").write_text("\n".join(lines))
    own = {"SPARK_CONF_DIR": str(conf), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    python = [sys.executable, "-W", "ignore", "-m", "maquette.cli"]

    def run(*words: str, **settings: str) -> dict[str, Any]:
        environment = os.environ | {"PYTHONPATH": PATHS} | settings
        done = subprocess.run(
            [*python, *words], capture_output=True, text=True, cwd=tmp_path, env=environment
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    chosen = ["-d", "d.json", "--epsilon", "1", "--marginals", "2", "--ledger", "l.ledger", "--json", "-q"]
    query = f"SELECT * FROM parquet.`{people}`"
    made = run("release", address, "--query", query, *chosen, "-o", "r")
    local = mq.release(
        mq.open(people, domain=PEOPLE), mq.marginals(PEOPLE, k=2), epsilon=1.0, ledger=tmp_path / "l.ledger"
    )
    assert made["folder"].endswith("r")
    run("release", f"spark:{people}", *chosen, "-o", "s", SPARK_REMOTE=address)
    run("release", cluster.master, "--query", query, *chosen, "-o", "t", **own)
    for folder in ("r", "s", "t"):
        assert mq.load(tmp_path / folder).answers.numerators.tolist() == local.answers.numerators.tolist()
    whose = ["--person", "who", "--rows-per-person", "2"]
    chosen[chosen.index("l.ledger")] = "p.ledger"
    run("release", address, "--query", query, *chosen, *whose, "-o", "p")
    assert mq.load(tmp_path / "p").persons == Persons("who", 2)


def test_a_killed_worker_changes_nothing(cluster: Cluster, session: Any, people: Path):
    engine: Any = open_engine(session.read.parquet(str(people)), PEOPLE)
    expected = all_looks(open_engine(people, PEOPLE))
    cluster.kill(cluster.workers[0])
    assert all_looks(engine) == expected
    again = open_engine(session.read.parquet(str(people)), PEOPLE)
    assert all_looks(again) == expected

"""A class too large to list: the release holds the small database, answers are read from its rows on demand."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import maquette as mq
from maquette.cli.app import app
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.errors import ReleaseError
from maquette.models.answers import Answers, Unlisted
from maquette.queries import prefixes, ranges
from maquette.results import folder as store

DOMAIN = Domain((Attribute("key", Kind.ORDINAL, codes=2**64), Attribute("sex", Kind.BOOLEAN, codes=2)))
LONG = Domain((Attribute("cell", Kind.ORDINAL, codes=30_000),))


def keys(n: int = 300) -> np.ndarray:
    return np.random.default_rng(2).integers(2**61, 2**63, n, dtype=np.uint64)


def opened() -> mq.Table:
    return mq.open({"key": [str(k) for k in keys()], "sex": ["1"] * 300}, domain=DOMAIN)


def largest_gap(codes: np.ndarray, rows: np.ndarray) -> float:
    """Over all thresholds: the two distribution functions differ most at one of their steps."""
    steps = np.union1d(codes, rows)
    exact = np.searchsorted(np.sort(codes), steps, side="right") / len(codes)
    drawn = np.searchsorted(np.sort(rows), steps, side="right") / len(rows)
    return float(np.abs(exact - drawn).max())


@pytest.fixture(scope="module", params=list(Relation))
def made(request):
    return mq.release(
        opened(),
        prefixes(DOMAIN, "key"),
        epsilon=4.0,
        relation=request.param,
        mechanism="smalldb",
        rows=10,
        beta=1e-8,
        certificate=0.05,
        ledger="memory",
    )


def test_all_2_64_thresholds_are_released_and_certified(made):
    assert made.workload.count == 2**64
    assert not made.listed
    gap = largest_gap(keys(), made.database.columns["key"])
    assert gap <= made.certificate.alpha < 1
    assert "judge" in [s.asked for s in made.spending]
    assert made.facts()["answers"].endswith("read from the rows")


def test_single_thresholds_and_intervals_are_answered_with_their_error(made):
    rows = made.database.columns["key"]
    border = 2**62
    one = made.answer(f"key <= {border}")
    assert one.value == np.mean(rows <= border)
    assert one.error == pytest.approx(made.certificate.alpha)
    two = made.answer(f"key between {border} and {2**63 - 1}")
    assert two.value == np.mean((rows >= border) & (rows < 2**63))
    assert two.error is None or two.error == pytest.approx(2 * made.certificate.alpha)
    with pytest.raises(ReleaseError, match="sex was not measured"):
        made.answer("sex = 1")


def test_the_answers_are_not_to_be_had_as_a_list(made):
    with pytest.raises(ReleaseError, match="too many queries to list"):
        _ = made.answers.fractions
    with pytest.raises(ReleaseError, match="too many to list at once"):
        made.answers_table()


def test_it_is_stored_in_format_2_and_read_back(made, tmp_path):
    folder = made.save(tmp_path / "keys.maquette")
    manifest = json.loads((folder / "release.json").read_text())
    assert manifest["format"] == 2
    assert manifest["answers"]["count"] == 2**64
    assert not (folder / store.ANSWERS).exists()
    assert "10^19" in (folder / store.REPORT).read_text()
    again = mq.load(folder)
    assert not again.listed
    assert again.database.columns["key"].tolist() == made.database.columns["key"].tolist()
    assert again.answer(f"key <= {2**62}") == made.answer(f"key <= {2**62}")
    (folder / store.CODES).unlink()
    with pytest.raises(ReleaseError, match=r"codes\.parquet"):
        mq.load(folder)


def test_a_release_with_listed_answers_stays_in_format_1(tmp_path):
    domain = Domain((Attribute("cell", Kind.ORDINAL, codes=8),))
    table = mq.open({"cell": [1, 2, 3]}, domain=domain)
    small = mq.release(
        table, prefixes(domain, "cell"), epsilon=1.0, mechanism="smalldb", rows=3, ledger="memory"
    )
    folder = small.save(tmp_path / "small.maquette", report=False)
    assert json.loads((folder / "release.json").read_text())["format"] == 1


def test_without_rows_there_is_nothing_to_read_answers_from(made):
    from dataclasses import replace

    with pytest.raises(ReleaseError, match="expected rows"):
        replace(made, database=None)
    with pytest.raises(ReleaseError, match="one answer per query"):
        replace(made, answers=Answers(np.zeros(3, dtype=np.int64), 10))


def test_all_intervals_of_many_cells_are_released_too():
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 30_000, 200)
    table = mq.open({"cell": codes.tolist()}, domain=LONG)
    queries = ranges(LONG, "cell")
    assert queries.count > 2**28
    made = mq.release(
        table, queries, epsilon=4.0, mechanism="smalldb", rows=5, beta=1e-8, certificate=0.05, ledger="memory"
    )
    assert isinstance(made.answers, Unlisted)
    rows = made.database.columns["cell"]
    steps = np.union1d(codes, rows)
    gaps = np.searchsorted(np.sort(codes), steps, side="right") / 200
    gaps = np.append(gaps - np.searchsorted(np.sort(rows), steps, side="right") / 5, 0.0)
    assert gaps.max() - gaps.min() <= made.certificate.alpha
    found = made.answer("cell between 1000 and 20000")
    assert found.value == np.mean((rows >= 1000) & (rows <= 20000))
    assert found.error is None or found.error == pytest.approx(made.certificate.alpha)


def test_on_the_command_line(tmp_path):
    DOMAIN.save(tmp_path / "keys.domain.json")
    lines = ["key,sex", *(f"{k},0" for k in keys(50))]
    (tmp_path / "keys.csv").write_text("\n".join(lines) + "\n")
    place = str(tmp_path / "keys.maquette")
    told = CliRunner().invoke(
        app,
        [
            *("release", str(tmp_path / "keys.csv"), "--domain", str(tmp_path / "keys.domain.json")),
            *("--prefixes", "key", "--mechanism", "smalldb", "--epsilon", "1", "--rows", "4", "-o", place),
        ],
    )
    assert told.exit_code == 0, told.output
    asked = CliRunner().invoke(app, ["answer", place, f"key <= {2**62}"])
    assert asked.exit_code == 0
    assert "%" in asked.output

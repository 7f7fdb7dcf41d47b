"""Every release with rows says how far they lie from its answers, everywhere it is shown or stored."""

from __future__ import annotations

import importlib
import json
import warnings

import numpy as np
import pytest

import maquette as mq
from maquette.domain import Attribute, Domain, Kind
from maquette.models.answers import Answers, Unlisted
from maquette.queries import marginals
from maquette.results import Certificate, Guarantee, RowsDistance
from maquette.results.document import dump
from maquette.results.loading import load
from maquette.results.release import distance, with_distance
from support.made_release import toy_release

DOMAIN = Domain(
    tuple(Attribute(name, Kind.ORDINAL, codes=size) for name, size in zip("abc", (4, 3, 2), strict=True))
)
TWO_WAY = marginals(DOMAIN, k=2)
MECHANISMS = {
    "laplace": 0.0,
    "linf": 0.0,
    "gaussian": 1e-6,
    "histogram-gaussian": 1e-6,
    "residual": 1e-6,
    "mwem": 0.0,
    "sculpt": 1e-6,
}


@pytest.fixture
def table() -> mq.Table:
    rng = np.random.default_rng(3)
    first = rng.integers(0, 4, 900)
    columns = {"a": first, "b": np.minimum(first, 2), "c": rng.integers(0, 2, 900)}
    return mq.open({name: column.astype(np.uint8) for name, column in columns.items()}, domain=DOMAIN)


@pytest.mark.parametrize("mechanism", [*MECHANISMS])
def test_every_mechanism_with_rows_states_their_distance(table, mechanism):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = mq.release(
            table, TWO_WAY, epsilon=1.0, delta=MECHANISMS[mechanism], mechanism=mechanism, ledger="memory"
        )
    gaps = np.abs(made.database.answer(TWO_WAY).fractions - made.answers.fractions)
    assert made.rows_distance.largest == pytest.approx(gaps.max())
    assert made.rows_distance.mean == pytest.approx(gaps.mean())
    assert str(made.rows_distance) in repr(made)


def shifted(by: float, **changes):
    """A release whose answers are those of its rows, but for one that lies further up."""
    release = toy_release(**changes)
    fractions = release.database.answer(release.workload).fractions
    fractions[3] += by
    return with_distance(toy_release(answers=Answers.from_fractions(fractions), **changes))


def test_it_is_printed_stored_read_and_reported(tmp_path):
    made = shifted(0.0125)
    assert made.rows_distance.largest == pytest.approx(0.0125, abs=1e-8)
    assert made.rows_distance.mean == pytest.approx(0.0125 / made.workload.count, abs=1e-8)
    assert "by at most 1.3 points" in made.facts()["rows"]
    assert "1.3 points" in made.report().replace("\n      ", " ")
    folder = made.save(tmp_path / "made.maquette")
    stored = json.loads((folder / "release.json").read_text())
    assert stored["rows_distance"] == {"largest": made.rows_distance.largest, "mean": made.rows_distance.mean}
    assert load(folder).rows_distance == made.rows_distance


def test_rows_that_give_the_answers_say_so():
    made = with_distance(toy_release(answers=toy_release().database.answer(toy_release().workload)))
    assert made.rows_distance == RowsDistance(0.0, 0.0)
    assert "their counts are exactly the answers" in made.facts()["rows"]
    assert "are counts of the rows" in made.report()


def test_a_release_of_answers_only_or_of_an_earlier_version_says_nothing():
    assert with_distance(toy_release(rows=False)).rows_distance is None
    old = toy_release()
    assert old.rows_distance is None
    assert "rows_distance" not in dump(old)
    assert old.facts()["rows"] == "500 synthetic rows"


CERTIFIED = Certificate(0.01, 0.05, 5.0)
VAGUE = Guarantee(1.0, 0.05, "nothing")


@pytest.mark.parametrize(
    ("by", "changes", "warned"),
    [
        (0.005, {"certificate": CERTIFIED}, False),
        (0.03, {"certificate": CERTIFIED}, True),
        (0.03, {"certificate": None, "guarantee": Guarantee(0.02, 0.05, "a theorem")}, True),
        (0.03, {"certificate": None, "guarantee": VAGUE}, False),
        (0.03, {"certificate": Certificate(1.0, 0.05, 500.0), "guarantee": VAGUE}, False),
    ],
)
def test_rows_further_off_than_the_stated_error_are_warned_about(by, changes, warned):
    notes = shifted(by, **changes).notes
    assert any("read the answers, not counts of the rows" in note for note in notes) == warned


def test_long_workloads_are_compared_in_pieces(monkeypatch):
    release = shifted(0.0125)
    whole = distance(release.workload, release.answers, release.database)
    monkeypatch.setattr(importlib.import_module("maquette.queries.marginals"), "MAX_PIECE_QUERIES", 7)
    cut = distance(release.workload, release.answers, release.database)
    assert cut.largest == whole.largest
    assert cut.mean == pytest.approx(whole.mean)
    assert whole.largest > 0


def test_answers_read_from_the_rows_are_no_distance_away():
    release = toy_release()
    assert distance(release.workload, Unlisted(500), release.database) == RowsDistance(0.0, 0.0)

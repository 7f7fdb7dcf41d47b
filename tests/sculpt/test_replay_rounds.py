"""Which tables `sculpt` chooses in rounds with a delta depends on the private table by released values alone."""

import pytest

from maquette.domain import Relation
from maquette.queries import marginals
from maquette.sculpt import rounds
from support.privacy_doubles import CAUGHT
from support.privacy_replay import SURVEY, replay_neighbours

pytestmark = pytest.mark.privacy

OPTIONS = {"mechanism": "sculpt", "epsilon": 0.5, "delta": 1e-6, "rows": 40}
QUERIES = marginals(SURVEY, k=2)


def replays(relation, folder, *, before=lambda rows: None):
    replay_neighbours(QUERIES, relation, folder, seed=6, before=before, **OPTIONS)


@pytest.fixture
def asked(monkeypatch):
    """Two rounds of two tables each, whatever the noise; the plans, and what each round compares."""
    monkeypatch.setattr(rounds, "_MIN_PER_ATTRIBUTE", 0.0)
    monkeypatch.setattr(rounds, "_FEW_OF_MANY", 0.0)
    monkeypatch.setattr(rounds, "_MAX_NOISE", 1e-9)
    monkeypatch.setattr(rounds, "_TABLES_PER_ROUND", 2)
    monkeypatch.setattr(rounds, "_GAUSSIAN_PER_ATTRIBUTE", 1.0)
    found = []
    plain = rounds.measure_worst

    def noted(curator, table_noise, measurements, candidates, predict, **options):
        found.append((tuple(candidates), options["price"], options["count"], len(measurements.tables)))
        return plain(curator, table_noise, measurements, candidates, predict, **options)

    monkeypatch.setattr(rounds, "measure_worst", noted)
    return found


@pytest.mark.parametrize("relation", list(Relation))
def test_rounds_follow_from_released_values(relation, asked, tmp_path):
    replays(relation, tmp_path)
    by_round = {}
    for candidates, price, count, measured in asked:
        by_round.setdefault(measured, set()).add((candidates, price, count))
    assert len(by_round) >= 2
    assert all(len(questions) == 1 for questions in by_round.values())


def test_rounds_by_the_private_table_are_seen(asked, tmp_path, monkeypatch):
    rows = []
    plain = rounds.candidate_sets

    def leaking(pairs, triples, cells):
        found = plain(pairs, triples, cells)
        return found if len(rows[-1]) == 60 else found[1:]

    monkeypatch.setattr(rounds, "candidate_sets", leaking)
    with pytest.raises(CAUGHT):
        replays(Relation.ADD_REMOVE, tmp_path, before=rows.append)
    assert asked

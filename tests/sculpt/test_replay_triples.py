"""Which triples `sculpt` compares, where there are too many, must not depend on the private table."""

import pytest

from maquette.domain import Relation
from maquette.queries import marginals
from maquette.sculpt import mechanism, rounds
from support.privacy_doubles import CAUGHT
from support.privacy_replay import SURVEY, replay_neighbours

pytestmark = pytest.mark.privacy

OPTIONS = {"mechanism": "sculpt", "epsilon": 0.5, "delta": 1e-6, "rows": 40}
QUERIES = marginals(SURVEY, k=3)


def replays(relation, folder, *, before=lambda rows: None):
    replay_neighbours(QUERIES, relation, folder, seed=4, before=before, **OPTIONS)


@pytest.fixture
def asked(monkeypatch):
    """Two of the four triples are compared; the lists of what was."""
    monkeypatch.setattr(mechanism, "MAX_COMPARED", 2)
    found = []
    plain = rounds.candidate_triples

    def noted(weights, names, *, limit, scores=None):
        found.append((limit, scores is not None, tuple(plain(weights, names, limit=limit, scores=scores))))
        return list(found[-1][2])

    monkeypatch.setattr(rounds, "candidate_triples", noted)
    return found


@pytest.mark.parametrize("relation", list(Relation))
def test_the_triples_compared_follow_from_released_values(relation, asked, tmp_path):
    replays(relation, tmp_path)
    compared = {triples for limit, scored, triples in asked if limit == 2 and scored}
    assert len(compared) == 1
    assert len(compared.pop()) == 2


def test_a_choice_by_the_private_table_is_seen(asked, tmp_path, monkeypatch):
    rows = []
    noted = rounds.candidate_triples

    def leaking(weights, names, *, limit, scores=None):
        chosen = noted(weights, names, limit=limit, scores=scores)
        return chosen if len(rows[-1]) == 60 else chosen[:-1]

    monkeypatch.setattr(rounds, "candidate_triples", leaking)
    with pytest.raises(CAUGHT, match=r"draw \d+ was"):
        replays(Relation.ADD_REMOVE, tmp_path, before=rows.append)
    assert asked


@pytest.fixture
def decided(monkeypatch):
    """Triples are scored however few records there are; whether all of them are measured then."""
    monkeypatch.setattr(rounds, "_SCORED_SIGNAL", 0.0)
    found = []
    plain = rounds.measure_triples

    def noted(*arguments, **options):
        found.append(plain(*arguments, **options))
        return found[-1]

    monkeypatch.setattr(rounds, "measure_triples", noted)
    return found


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("least", [-1e9, 1e9], ids=["all", "rounds"])
def test_whether_all_triples_are_measured_follows_from_released_values(
    relation, least, decided, tmp_path, monkeypatch
):
    monkeypatch.setattr(rounds, "_BROAD", least)
    replays(relation, tmp_path)
    assert set(decided) == {least < 0}


def test_a_decision_by_the_private_table_is_seen(decided, tmp_path, monkeypatch):
    rows = []
    noted = rounds.measure_triples

    def leaking(*arguments, **options):
        monkeypatch.setattr(rounds, "_BROAD", -1e9 if len(rows[-1]) == 60 else 1e9)
        return noted(*arguments, **options)

    monkeypatch.setattr(rounds, "measure_triples", leaking)
    with pytest.raises(CAUGHT, match=r"draw \d+ was"):
        replays(Relation.ADD_REMOVE, tmp_path, before=rows.append)
    assert len(set(decided)) == 2

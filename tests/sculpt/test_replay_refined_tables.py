"""Which cells of a two-way table `sculpt` cuts must not depend on the private table."""

import pytest

from maquette.domain import Relation
from maquette.queries import marginals
from maquette.sculpt import stages
from support.privacy_replay import SURVEY, replay_neighbours

pytestmark = pytest.mark.privacy

OPTIONS = {"mechanism": "sculpt", "epsilon": 0.5, "delta": 1e-6, "rows": 40}
QUERIES = marginals(SURVEY, k=2)


def replays(relation, folder, *, before=lambda rows: None):
    replay_neighbours(QUERIES, relation, folder, seed=5, before=before, **OPTIONS)


@pytest.fixture
def cut(monkeypatch):
    """Few bins at first and a low bar: cells are cut; the tables that were."""
    monkeypatch.setattr(stages, "FIRST_BINS", 1e-3)
    monkeypatch.setattr(stages, "FEW_BINS", 1)
    monkeypatch.setattr(stages, "HEAVY", 1e-3)
    found = []
    plain = stages.refine

    def noted(hierarchy, shape, masses, one_way, *, max_mass):
        made = plain(hierarchy, shape, masses, one_way, max_mass=max_mass)
        found.append((shape, None if made is None else tuple(made.groups.tolist())))
        return made

    monkeypatch.setattr(stages, "refine", noted)
    return found


@pytest.mark.parametrize("relation", list(Relation))
def test_the_cells_cut_follow_from_released_values(relation, cut, tmp_path):
    replays(relation, tmp_path)
    each = {}
    for shape, groups in cut:
        each.setdefault(shape, set()).add(groups)
    assert any(groups != {None} for groups in each.values())
    assert all(len(groups) == 1 for groups in each.values())


def test_cuts_by_the_private_table_are_seen(cut, tmp_path, monkeypatch):
    rows = []
    noted = stages.refine

    def leaking(hierarchy, shape, masses, one_way, *, max_mass):
        return noted(hierarchy, shape, masses, one_way, max_mass=max_mass if len(rows[-1]) == 60 else 1e9)

    monkeypatch.setattr(stages, "refine", leaking)
    with pytest.raises(AssertionError):
        replays(Relation.ADD_REMOVE, tmp_path, before=rows.append)
    assert cut

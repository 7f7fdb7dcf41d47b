"""More triples than can be looked at: which ones are, and that late-declared ones are found."""

from itertools import combinations

import numpy as np
import pytest

import maquette as mq
from maquette.domain import Attribute, Domain, Kind
from maquette.models.answers import generator
from maquette.sculpt import mechanism as running
from maquette.sculpt.rounds import candidate_triples, hash_sets

WIDE = 30
NAMES = tuple(f"column {i}" for i in range(WIDE))
TRIPLES = dict.fromkeys(combinations(range(WIDE), 3), 1.0)
PAIRS = list(combinations(range(WIDE), 2))
MOST = 600


def flat_scores():
    return dict.fromkeys(PAIRS, 1.0)


def times(triples):
    return np.bincount(np.array(triples).ravel(), minlength=WIDE)


def test_few_triples_are_all_candidates():
    assert candidate_triples(TRIPLES, NAMES, limit=len(TRIPLES), scores=flat_scores()) == list(TRIPLES)
    assert candidate_triples({}, NAMES, limit=5) == []


@pytest.mark.parametrize("scores", [None, flat_scores()])
def test_no_attribute_is_left_out_for_its_place(scores):
    chosen = candidate_triples(TRIPLES, NAMES, limit=MOST, scores=scores)
    assert len(set(chosen)) == MOST
    expected = 3 * MOST / WIDE
    assert times(chosen).min() > expected / 2
    assert times(chosen).max() < expected * 2
    # what the order of declaration would give
    assert times(list(TRIPLES)[:MOST]).max() > expected * 2


def test_half_of_the_places_go_to_triples_whose_pairs_depend():
    scores = flat_scores()
    strong = set(combinations(range(20, WIDE), 2))
    scores |= dict.fromkeys(strong, 50.0)
    chosen = candidate_triples(TRIPLES, NAMES, limit=MOST, scores=scores)
    late = set(combinations(range(20, WIDE), 3))
    assert late <= set(chosen)
    assert not late <= set(candidate_triples(TRIPLES, NAMES, limit=MOST, scores=flat_scores()))
    assert times(chosen)[:20].min() > 15


def test_what_is_asked_more_often_comes_first():
    heavy = [(0, 1, 2), (27, 28, 29), (3, 14, 29)]
    weights = TRIPLES | dict.fromkeys(heavy, 0.3 - 0.1 + 1.0)
    chosen = candidate_triples(weights, NAMES, limit=4, scores=flat_scores())
    assert set(heavy) <= set(chosen)
    assert len(chosen) == 4


def test_the_order_of_declaration_does_not_matter():
    rng = generator("scores")
    scores = {pair: float(rng.integers(1, 9)) for pair in PAIRS}
    turned = [int(i) for i in rng.permutation(WIDE)]
    names = [NAMES[i] for i in turned]
    again = {pair: scores[tuple(sorted(turned[i] for i in pair))] for pair in PAIRS}

    def named(chosen, labels):
        return {frozenset(labels[a] for a in triple) for triple in chosen}

    first = candidate_triples(TRIPLES, NAMES, limit=MOST, scores=scores)
    second = candidate_triples(TRIPLES, names, limit=MOST, scores=again)
    assert named(first, NAMES) == named(second, names)
    other = candidate_triples(TRIPLES, [f"{name}!" for name in NAMES], limit=MOST, scores=scores)
    assert named(first, NAMES) != named(other, NAMES)


def test_the_hash_is_fixed():
    """A ledger that was interrupted goes on only if a later version asks the same."""
    assert hash_sets(("a", "b", "c", "d"), [(0, 1, 2), (1, 2, 3)]).tolist() == HASHES
    assert hash_sets(("c", "a", "b"), [(0, 1, 2)]).tolist() == HASHES[:1]


HASHES = [15842136031785456326, 17022584371489052835]
COLUMNS = 9
DOMAIN = Domain(tuple(Attribute(f"x{i}", Kind.CATEGORICAL, codes=4) for i in range(COLUMNS)))
PLACES = 20


def test_fewer_triples_are_compared_where_many_records_are_counted():
    assert running._comparable(50_000.0) == running.MAX_COMPARED
    assert running._comparable(1e6) == 10_000
    assert running._comparable(1e9) == running.MAX_MEASURED_TRIPLES


def wide_columns(late):
    """Nothing depends on anything, but the three late columns together."""
    rng = generator("wide")
    columns = {f"x{i}": rng.integers(0, 4, 8000) for i in range(COLUMNS)}
    a, b, c = (f"x{i}" for i in late)
    columns[c] = (columns[a] + columns[b]) % 4
    return columns


def asked_tables(monkeypatch):
    """The margins of the tables among which is chosen."""
    asked = []
    plain = running.stages.measure_worst

    def noted(curator, table_noise, measurements, candidates, predict, **how):
        asked.append(list(candidates))
        return plain(curator, table_noise, measurements, candidates, predict, **how)

    monkeypatch.setattr(running.stages, "measure_worst", noted)
    return asked


def late_triple():
    """The last triple that the hash has among the first; in the order of declaration it is not."""
    every = dict.fromkeys(combinations(range(COLUMNS), 3), 1.0)
    late = candidate_triples(every, DOMAIN.names, limit=PLACES // 2)[-1]
    assert late not in list(every)[:PLACES]
    return late


@pytest.mark.slow
def test_structure_of_late_columns_is_found(monkeypatch):
    monkeypatch.setattr(running, "MAX_COMPARED", PLACES)
    asked = asked_tables(monkeypatch)
    late = late_triple()
    table = mq.open(wide_columns(late), domain=DOMAIN)
    made = mq.release(
        table, mq.marginals(DOMAIN, k=3), epsilon=0.5, delta=1e-9, mechanism="sculpt", ledger="memory"
    )
    assert sum(len(candidate) == 3 for candidate in asked[0]) == PLACES
    assert late in asked[0]
    a, b, c = (made.database.columns[f"x{i}"].astype(int) for i in late)
    # one in four by chance, and by what pairs say
    assert np.mean((a + b) % 4 == c) > 0.5


@pytest.mark.slow
def test_a_replay_asks_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "MAX_COMPARED", PLACES)
    asked = asked_tables(monkeypatch)
    queries = mq.marginals(DOMAIN, k=3)

    def released():
        table = mq.open(wide_columns(late_triple()), domain=DOMAIN)
        return mq.release(
            table,
            queries,
            epsilon=0.5,
            delta=1e-9,
            mechanism="sculpt",
            ledger=tmp_path / "wide.ledger",
            key="wide",
        )

    first = released()
    rounds = len(asked)
    assert rounds
    second = released()
    assert asked[:rounds] == asked[rounds:]
    assert all(
        np.array_equal(first.database.columns[name], second.database.columns[name]) for name in DOMAIN.names
    )

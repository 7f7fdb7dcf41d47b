"""SmallDB row by row: every step is a paid choice, and with a large budget the rows come near to the table."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import maquette as mq
from maquette.core.budget import UNITS, Budget
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.errors import ParameterError
from maquette.queries import conjunctions, marginals
from maquette.tools import envelope, grow
from support import privacy_loss
from support.privacy_conformance import TINY
from support.privacy_doubles import RecordingNoise, ReplayingNoise, TapeCurator, ledger_for, table_of

BITS = Domain(tuple(Attribute(f"b{i}", Kind.CATEGORICAL, codes=2) for i in range(8)))
TABLES = [(3, 0, 2, 0, 0, 1, 0, 0, 4, 0, 0, 2), (0,) * 12]


def bits(n=3000):
    rng = np.random.default_rng(4)
    rows = (rng.random((n, 8)) < 0.2 + 0.6 * rng.random((n, 1))).astype(np.uint8)
    return {f"b{i}": rows[:, i] for i in range(8)}


@pytest.mark.privacy
@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_neighbouring_tables_lose_no_more_than_was_charged(relation, delta, monkeypatch):
    queries = marginals(TINY, 1)

    def run(histogram, noise):
        ledger = ledger_for(TINY, budget=Budget(0.9, delta), relation=relation)
        monkeypatch.setattr(envelope, "Curator", lambda *a, **o: TapeCurator(*a, noise=noise, **o))
        grown = mq.grow(
            table_of(TINY, histogram), queries, rows=3, epsilon=0.9, delta=delta, relation=relation, ledger=ledger
        )  # fmt: skip
        entries = [(e.key, e.tag, e.units, e.request) for e in ledger.entries(kind="reserve")]
        return grown.answers.numerators.tolist(), entries, ledger.balance().charged_units

    worst = Fraction(0)
    for table in TABLES:
        for other in _neighbours(table, relation):
            tape = RecordingNoise()
            first = run(table, tape)
            replay = ReplayingNoise(tape.calls)
            assert run(other, replay) == first
            replay.check_finished()
            assert len(tape.calls) == 3
            loss = sum(
                (privacy_loss.rho if delta else privacy_loss.pure)(call, again)
                for call, again in zip(tape.calls, replay.calls, strict=True)
            )
            assert loss <= Fraction(first[2], UNITS)
            worst = max(worst, loss)
    assert worst > 0


def _neighbours(table, relation):
    more = [tuple(c + (i == j) for j, c in enumerate(table)) for i in range(0, 12, 3)]
    if relation is Relation.ADD_REMOVE:
        return more
    moved = [(i, (i + 5) % 12) for i in range(12) if table[i]]
    return [tuple(c - (i == k) + (j == k) for k, c in enumerate(table)) for i, j in moved]


def test_rows_come_near_to_the_table_for_conjunctions_beyond_six_bits():
    columns = bits()
    workload = conjunctions(BITS, 2)
    table = mq.open({name: codes.tolist() for name, codes in columns.items()}, domain=BITS)
    grown = mq.grow(table, workload, rows=16, epsilon=40.0, ledger="memory")
    truth = workload.columns_of(columns).mean(axis=1)
    near = np.abs(grown.answers.fractions - truth).max()
    assert grown.database.m == 16
    rng = np.random.default_rng(1)
    random = [
        np.abs(
            workload.columns_of({n: c[rng.choice(3000, 16)] for n, c in columns.items()}).mean(axis=1) - truth
        ).max()
        for _ in range(40)
    ]
    assert near < min(random)


def test_rows_of_a_release_where_the_cells_are_too_many():
    wide = Domain(tuple(Attribute(f"b{i}", Kind.CATEGORICAL, codes=2) for i in range(13)))
    table = mq.open({f"b{i}": [0, 1, 1] for i in range(13)}, domain=wide)
    with pytest.raises(ParameterError, match="give source="):
        mq.grow(table, conjunctions(wide, 13), rows=2, epsilon=1.0, ledger="memory")
    small = mq.open({name: codes.tolist() for name, codes in bits(200).items()}, domain=BITS)
    ledger = ledger_for(BITS, budget=Budget(9.0), relation=Relation.ADD_REMOVE)
    earlier = mq.release(small, marginals(BITS, 1), epsilon=4.0, ledger=ledger, certificate=0.0)
    grown = mq.grow(small, marginals(BITS, 1), rows=4, epsilon=4.0, source=earlier, ledger=ledger)
    released = {
        tuple(int(c[i]) for c in earlier.database.columns.values()) for i in range(earlier.database.m)
    }
    chosen = {tuple(int(c[i]) for c in grown.database.columns.values()) for i in range(4)}
    assert chosen <= released
    with pytest.raises(ParameterError, match="another domain"):
        mq.grow(table, marginals(wide, 1), rows=2, epsilon=1.0, source=earlier, ledger="memory")


def test_herded_rows_are_nearer_than_random_ones():
    columns, workload = bits(4000), conjunctions(BITS, 2)
    weights = workload.columns_of(columns).astype(np.float32)
    gaps = weights - weights.mean(axis=1, keepdims=True)
    rng = np.random.default_rng(2)
    for size in (20, 100):
        picked = grow.herd(gaps[:, :1000], size)
        assert len(set(picked.tolist())) == size
        ours = np.abs(gaps[:, picked].mean(axis=1)).max()
        others = [np.abs(gaps[:, rng.choice(4000, size)].mean(axis=1)).max() for _ in range(64)]
        assert ours < 0.7 * min(others)

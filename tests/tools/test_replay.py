"""Tools on neighbouring tables, the second with the first one's draws: nothing public differs, no loss is unpaid."""

from __future__ import annotations

from fractions import Fraction

import pytest

import maquette as mq
from maquette.core.budget import UNITS, Budget
from maquette.domain import Relation
from maquette.tools import envelope
from maquette.tools import sparse_vector as streaming
from support import privacy_loss
from support.online_tape import Player, Recorder, TapedOnline
from support.privacy_conformance import TINY
from support.privacy_doubles import (
    RecordingNoise,
    ReplayingNoise,
    TapeCurator,
    ledger_for,
    table_of,
)

pytestmark = pytest.mark.privacy
TABLES = [(3, 0, 2, 0, 0, 1, 0, 0, 4, 0, 0, 2), (0,) * 12, (1,) + (0,) * 11]


def pairs(relation: Relation):
    """The tables above with all their neighbours of one record more, or of one record replaced."""
    for table in TABLES:
        yield from ((table, other) for other in _moves(table, relation))


def _moves(table, relation):
    cells = range(len(table))
    if relation is Relation.ADD_REMOVE:
        return [tuple(c + (i == j) for j, c in enumerate(table)) for i in cells]
    return [
        tuple(c - (i == k) + (j == k) for k, c in enumerate(table))
        for i in cells
        for j in cells
        if i != j and table[i]
    ]


SCORES = {
    "count": {"candidates": mq.points(TINY, ["a", "b"])},
    "quantile": {"candidates": "a", "quantile": 0.3},
    "nearest": {"candidates": mq.points(TINY, ["a"]), "answers": [0.0, 1.0, 0.5]},
    "error": {"candidates": mq.points(TINY, ["a"]), "answers": [0.0, 1.0, 0.5]},
}


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_choices_on_neighbouring_tables(score, relation, delta, monkeypatch):
    budget = Budget(0.7, delta)

    def run(histogram, noise):
        ledger = ledger_for(TINY, budget=budget, relation=relation)
        monkeypatch.setattr(envelope, "Curator", lambda *a, **o: TapeCurator(*a, noise=noise, **o))
        chosen = mq.choose(
            table_of(TINY, histogram),
            SCORES[score]["candidates"],
            score=score,
            epsilon=0.7,
            delta=delta,
            relation=relation,
            ledger=ledger,
            **{k: v for k, v in SCORES[score].items() if k != "candidates"},
        )
        entries = [
            (e.key, e.tag, e.units, e.request, {k: v for k, v in e.body.items() if k != "blind"})
            for e in ledger.entries(kind="reserve")
        ]
        return chosen, entries, ledger.balance().charged_units

    worst = Fraction(0)
    for one, other in pairs(relation):
        tape = RecordingNoise()
        first = run(one, tape)
        replay = ReplayingNoise(tape.calls)
        assert run(other, replay) == first
        replay.check_finished()
        (call,), (again,) = tape.calls, replay.calls
        loss = (privacy_loss.rho if delta else privacy_loss.pure)(call, again)
        assert loss <= Fraction(first[2], UNITS)
        worst = max(worst, loss)
    assert worst > 0  # the candidates are told apart


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_streams_on_neighbouring_tables(relation, delta, monkeypatch):
    monkeypatch.setattr(streaming, "OnlineCurator", TapedOnline)

    def run(histogram, tape):
        monkeypatch.setattr(TapedOnline, "tape", tape, raising=False)
        ledger = ledger_for(TINY, budget=Budget(2.0, delta), relation=relation)
        stream = mq.above_threshold(
            table_of(TINY, histogram),
            threshold=3,
            epsilon=2.0,
            delta=delta,
            positives=2,
            values=True,
            relation=relation,
            ledger=ledger,
        )
        outcomes = []
        for text in ("a = 1", "b = 0", "a < 2 or c = 0", "c = 1") * 2:
            if stream.positives_left:
                outcomes.append(stream.ask(text))
        stream.close()
        entries = [(e.key, e.tag, e.units) for e in ledger.entries(kind="reserve")]
        return outcomes, entries, stream.accuracy

    for one, other in list(pairs(relation))[:12]:
        tape = Recorder()
        first = run(one, tape)
        replay = Player(tape.calls)
        assert run(other, replay) == first
        replay.check_finished()
        for call, again in zip(tape.calls, replay.calls, strict=True):
            scale = getattr(call, "parameters", ())
            assert dict(scale) == dict(again.parameters)
            assert abs(int(call.exact[0]) - int(again.exact[0])) <= dict(scale).get("denominator", 1)

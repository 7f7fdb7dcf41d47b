"""Sessions on a tape: a second run on a neighbouring table gets the first one's draws and outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maquette.accounting.ledger import Ledger
from maquette.core.budget import Budget
from maquette.core.curator import OnlineCurator
from maquette.owner import Table
from maquette.sessions import opening
from support.privacy_doubles import Call, Divergence, RecordingNoise, ReplayingNoise
from support.seeded import SeededNoise

TEST = "test"


class Recorder(RecordingNoise):
    """Also records tests: the score goes in, near or far comes out; the comparison itself is the gate's."""

    def _draw(self, kind: str, exact: np.ndarray, **parameters: Any) -> Any:
        return self._judge() if kind == TEST else super()._draw(kind, exact, **parameters)

    def test(self, score: int, *, really: Any, **parameters: Any) -> bool:
        self._judge = really
        return bool(self._record(TEST, np.array([score]), **parameters))


class Player(ReplayingNoise, Recorder):
    """Gives back what the tape says."""


class TapedOnline(OnlineCurator):
    """The production curator on a tape."""

    tape: Recorder

    def _source(self) -> Any:
        return type(self).tape

    def _far(self, score: int, held: Any, denominator: int) -> bool:
        aside = SeededNoise(len(self._noise.calls) + 7)

        def really() -> bool:
            tape, self._noise = self._noise, aside
            try:
                return super(TapedOnline, self)._far(score, held, denominator)
            finally:
                self._noise = tape

        return self._noise.test(
            score,
            really=really,
            scale=held.epoch.test_scale * denominator,
            threshold=held.epoch.terms.threshold,
            denominator=denominator,
        )


def taped(monkeypatch: Any, tape: Sequence[Call] | None, table: Table, ledger: Ledger, **options: Any) -> Any:
    noise = Recorder() if tape is None else Player(tape)
    monkeypatch.setattr(opening, "OnlineCurator", type("Taped", (TapedOnline,), {"tape": noise}))
    return opening.session(table, ledger=ledger, **options), noise


def check_inputs(one: Sequence[Call], other: Sequence[Call]) -> float:
    """Every private input moved by at most one record; returns how far the farthest moved."""
    if len(one) != len(other):
        raise Divergence("another number of draws")
    worst = 0.0
    for a, b in zip(one, other, strict=True):
        step = dict(a.parameters).get("denominator", 1)
        moved = float(np.abs(a.exact - b.exact).max()) / step
        if moved > 1:
            raise Divergence(f"the input of a {a.method} moved by {moved:g} records")
        worst = max(worst, moved)
    return worst


def charges(ledger: Ledger) -> list[tuple[str, int, int]]:
    return [(e.tag, e.units, e.slack) for e in ledger.entries(kind="reserve")]


__all__ = ["Budget", "Player", "Recorder", "charges", "check_inputs", "taped"]

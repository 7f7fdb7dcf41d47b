"""What workers and jobs say besides answers is stored or shown: nothing of it may depend on the table."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

import maquette as mq
from maquette.domain import Attribute, Domain, Kind
from maquette.sessions.question import Past
from maquette.web import jobs
from maquette.web.holder import Holder

DOMAIN = Domain((Attribute("x", Kind.ORDINAL, codes=16),))


def released(codes: list[int], progress) -> None:
    table = mq.open({"x": np.array(codes)}, domain=DOMAIN, name="people", allow_unreviewed=True)
    queries = mq.prefixes(DOMAIN, "x")
    mq.release(table, queries, epsilon=1.0, mechanism="smalldb", ledger="memory", progress=progress)


@pytest.mark.parametrize("codes", [[0] * 40, list(range(16)) * 2])
def test_the_levels_of_a_draw_are_for_the_holder_and_not_for_the_service(codes, capsys):
    released(codes, jobs._Stages())
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert said == [{"stage": "drawing a small database", "share": share} for share in (0, 1000)]
    heard: list[str] = []
    released(codes, lambda what, share: heard.append(what))
    assert any("levels counted" in what for what in heard)  # who holds the table follows the draw


def test_a_history_says_no_time_that_is_finer_than_the_tick(monkeypatch):
    """A step is dated after its look: milliseconds would say how long the look took."""
    past = [
        Past(number, f"2026-11-17T18:59:{second}+00:00", "age < 3", 0.5, 0.1, "paid", 0.1)
        for number, second in ((7, "05.123"), (8, "05.999"), (9, "06.001"))
    ]
    holder = Holder.__new__(Holder)
    monkeypatch.setattr(holder, "_session", lambda who: SimpleNamespace(history=lambda: past), raising=False)
    page = holder.history("anna", after=7)
    assert [one["when"] for one in page["items"]] == [
        f"2026-11-17T18:59:{second}+00:00" for second in ("05", "06")
    ]

"""What a job says while it runs is stored by the service: nothing of it may depend on the table."""

from __future__ import annotations

import json

import numpy as np
import pytest

import maquette as mq
from maquette.domain import Attribute, Domain, Kind
from maquette.web import job

DOMAIN = Domain((Attribute("x", Kind.ORDINAL, codes=16),))


def released(codes: list[int], progress) -> None:
    table = mq.open({"x": np.array(codes)}, domain=DOMAIN, name="people", allow_unreviewed=True)
    queries = mq.prefixes(DOMAIN, "x")
    mq.release(table, queries, epsilon=1.0, mechanism="smalldb", ledger="memory", progress=progress)


@pytest.mark.parametrize("codes", [[0] * 40, list(range(16)) * 2])
def test_the_levels_of_a_draw_are_for_the_holder_and_not_for_the_service(codes, capsys):
    released(codes, job._Stages())
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert said == [{"stage": "drawing a small database", "share": share} for share in (0, 1000)]
    heard: list[str] = []
    released(codes, lambda what, share: heard.append(what))
    assert any("levels counted" in what for what in heard)  # who holds the table follows the draw

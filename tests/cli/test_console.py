"""Progress: a line for every stage, and a remaining time only where one was seen coming."""

from __future__ import annotations

import pytest

from maquette.cli import console
from maquette.cli.console import Stage


def test_the_rest_is_said_at_the_speed_that_was_seen():
    stage = Stage(0.0)
    stage.reach(0.0, 0.0)
    assert stage.remaining(5.0) is None  # nothing was done yet
    stage.reach(0.5, 10.0)
    assert stage.remaining(10.0) == pytest.approx(10.0)
    assert stage.remaining(14.0) == pytest.approx(6.0)
    assert stage.remaining(60.0) == 0.0
    stage.reach(1.0, 20.0)
    assert stage.remaining(20.0) is None


def test_a_stage_that_starts_at_a_half_is_not_taken_for_a_fast_one():
    stage = Stage(0.0)
    stage.reach(0.5, 1.0)
    assert stage.remaining(9.0) is None
    stage.reach(0.6, 11.0)
    assert stage.remaining(11.0) == pytest.approx(40.0)


def test_no_time_is_said_in_the_first_moments():
    stage = Stage(0.0)
    stage.reach(0.1, 0.5)
    stage.reach(0.2, 1.0)
    assert stage.remaining(1.0) is None


def test_lines_come_when_a_stage_begins_and_every_ten_seconds(capsys):
    now = [0.0]
    tell = console._lines(clock=lambda: now[0])
    for second, what, share in [
        (0, "reading the table", 0.0),
        (5, "reading the table", 0.2),
        (10, "reading the table", 0.4),
        (12, "reading the table", 1.0),
        (13, "drawing: 3 levels counted", 0.1),
        (30, "drawing: 9 levels counted", 0.2),
        (31, "drawing: 10 levels counted", 0.2),
    ]:
        now[0] = float(second)
        tell(what, share)
    assert capsys.readouterr().err.splitlines() == [
        "reading the table ...",
        "reading the table: 40 %, about 15 s left",
        "drawing ...",
        "drawing: 9 levels counted, about 2 min left",
    ]


def test_durations_in_words():
    assert [console.duration(s) for s in (0.2, 8, 99, 100, 5999, 9000)] == [
        "1 s",
        "8 s",
        "99 s",
        "2 min",
        "100 min",
        "2.5 h",
    ]


def test_the_bars_of_a_terminal_finish_what_went_before(monkeypatch):
    from rich.progress import Progress

    finished = []
    update = Progress.update
    monkeypatch.setattr(
        Progress,
        "update",
        lambda bars, task, **to: (finished.append((task, to)), update(bars, task, **to))[1],
    )
    with console._live() as tell:
        tell("reading the table", 0.0)
        tell("measuring", 0.0)
        tell("measuring", 0.5)
    assert (1, {"total": 1.0, "completed": 1.0, "rest": "done"}) in finished
    assert finished[-2] == (2, {"total": 1.0, "completed": 0.5, "rest": ""})
    assert finished[0][1]["total"] is None  # it moves although nothing is known of its share

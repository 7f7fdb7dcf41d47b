"""Progress: a line for every stage, and a remaining time only where one was seen coming."""

from __future__ import annotations

import numpy as np
import pytest

import maquette as mq
from maquette.cli import console
from maquette.cli.console import RunningStage, Schedule
from maquette.domain import Attribute, Domain, Kind
from maquette.mechanisms.base import MECHANISMS
from maquette.progress import Progress, Stage
from maquette.queries import marginals
from support.online_cases import PEOPLE, people


def test_the_rest_is_said_at_the_speed_that_was_seen():
    stage = RunningStage(0.0)
    stage.reach(0.0, 0.0)
    assert stage.remaining(5.0) is None  # nothing was done yet
    stage.reach(0.5, 10.0)
    assert stage.remaining(10.0) == pytest.approx(10.0)
    assert stage.remaining(14.0) == pytest.approx(6.0)
    assert stage.remaining(60.0) == 0.0
    stage.reach(1.0, 20.0)
    assert stage.remaining(20.0) is None


def test_a_stage_that_starts_at_a_half_is_not_taken_for_a_fast_one():
    stage = RunningStage(0.0)
    stage.reach(0.5, 1.0)
    assert stage.remaining(9.0) is None
    stage.reach(0.6, 11.0)
    assert stage.remaining(11.0) == pytest.approx(40.0)


def test_no_time_is_said_in_the_first_moments():
    stage = RunningStage(0.0)
    stage.reach(0.1, 0.5)
    stage.reach(0.2, 1.0)
    assert stage.remaining(1.0) is None


def test_lines_come_when_a_stage_begins_and_every_ten_seconds(capsys):
    now = [0.0]
    tell = console._Lines(clock=lambda: now[0])
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


STAGES = [Stage("reading", 2.0), Stage("fitting", 10.0), Stage("writing", 4.0)]


def test_the_rest_of_the_whole_run_is_predicted_and_corrected_by_what_was_seen():
    schedule = Schedule()
    assert schedule.remaining(0.0) is None
    schedule.expect(STAGES)
    schedule.reach("reading", 0.0, 0.0)
    assert schedule.place("reading") == (1, 3)
    assert schedule.remaining(0.0) == pytest.approx(16.0)
    schedule.reach("reading", 1.0, 4.0)
    schedule.reach("fitting", 0.0, 4.0)
    assert schedule.pace == pytest.approx(7 / 5)  # reading took twice as long as predicted, and was short
    assert schedule.remaining(4.0) == pytest.approx(14.0 * 7 / 5)
    schedule.reach("fitting", 0.5, 9.0)  # its own speed counts once it was seen
    assert schedule.remaining(9.0) == pytest.approx(5.0 + 4.0 * 7 / 5)
    schedule.reach("something else", 0.0, 14.0)
    assert schedule.place("something else") is None
    assert schedule.remaining(14.0) is None


def test_lines_say_which_stage_of_how_many(capsys):
    now = [0.0]
    tell = console._Lines(clock=lambda: now[0])
    tell.expect(STAGES)
    tell("fitting", 0.0)
    now[0] = 12.0
    tell("fitting", 0.5)
    assert capsys.readouterr().err.splitlines() == [
        "[2/3] fitting ... (about 14 s for all that is left)",
        "[2/3] fitting: 50 %, about 12 s left (about 16 s for all that is left)",
    ]


class Listener(Progress):
    """Keeps what is announced and what is reported."""

    def __init__(self):
        self.announced, self.seen = [], []

    def expect(self, stages):
        self.announced.extend(stages)

    def __call__(self, what, share):
        self.seen.append(what.partition(": ")[0])


OF_ONE_COLUMN = ("square-root", "tree", "product", "factorisation")
"""Mechanisms that are asked for prefixes instead of marginals, as `knorm` is for two of them."""
ONLY_SOMETIMES = {
    "choosing three-way tables",
    "making more synthetic rows",
    "averaging the synthetic rows",
    "repairing the synthetic rows",
}
"""Stages that released numbers decide about."""
PLACES = Domain((Attribute("x", Kind.ORDINAL, codes=8), Attribute("y", Kind.NUMERIC, bounds=(0, 4), bins=4)))


def listened_to(mechanism, **options):
    watcher, rng = Listener(), np.random.default_rng(3)
    codes = {"x": rng.integers(0, 8, 500), "y": rng.integers(0, 4, 500)}
    table = mq.open(codes, domain=PLACES, allow_unreviewed=True)
    one_column = mechanism in OF_ONE_COLUMN or "weight" in options
    queries = mq.prefixes(PLACES, "x") if one_column else marginals(PLACES, k=2)
    if mechanism == "knorm":
        queries = mq.union(mq.where(PLACES, "x < 3"), mq.where(PLACES, "x < 5"))
    mq.release(table, queries, mechanism=mechanism, ledger="memory", progress=watcher, **options)
    return watcher


@pytest.mark.parametrize("mechanism", sorted(MECHANISMS))
def test_a_run_comes_through_the_stages_that_its_mechanism_announced(mechanism):
    traits = MECHANISMS[mechanism].traits
    weight = {"weight": "y", "relation": "replace-one"} if traits.weighs_records else {}
    watcher = listened_to(mechanism, epsilon=2.0, delta=1e-6 if traits.needs_delta else 0.0, **weight)
    names = [stage.name for stage in watcher.announced]
    seen = list(dict.fromkeys(watcher.seen))
    assert names
    assert seen == [name for name in names if name in seen]
    assert set(names) - set(seen) <= ONLY_SOMETIMES
    assert all(stage.seconds > 0 for stage in watcher.announced)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_sculpt_announces_what_its_workload_comes_through(k):
    watcher = Listener()
    queries = marginals(PEOPLE, k=k)
    mq.release(
        people(2000),
        queries,
        epsilon=0.5,
        delta=1e-6,
        mechanism="sculpt",
        certificate=0,
        typical_rows=2000,
        ledger="memory",
        progress=watcher,
    )
    assert set(watcher.seen) <= {stage.name for stage in watcher.announced}


def test_a_function_hears_reports_and_is_announced_nothing():
    heard = []
    mq.release(
        people(200),
        marginals(PEOPLE, k=1),
        epsilon=1.0,
        mechanism="laplace",
        ledger="memory",
        progress=lambda what, share: heard.append(what),
    )
    assert "measuring the workload" in heard


def test_places_do_not_go_back_where_a_stage_comes_later_than_announced():
    schedule = Schedule()
    schedule.expect([Stage(name, 1.0) for name in ("one", "two", "three", "four")])
    places = []
    for now, name in enumerate(("one", "three", "two", "four")):
        schedule.reach(name, 0.0, float(now))
        places.append(schedule.place(name)[0])
    assert places == [1, 3, 3, 4]

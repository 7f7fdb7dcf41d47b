"""Traces of online mechanisms keep to their theorems, and can be drawn and animated."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import pairwise

import numpy as np
import pytest

from maquette import lessons
from maquette.cli.learn import TOURS
from maquette.errors import ParameterError
from maquette.lessons.traces import _laplace
from maquette.theory import online
from support.cli_files import call, refused

TABLE = tuple(4000 * share for share in (30, 10, 4, 4, 2, 2, 1, 1, 20, 8, 8, 4, 2, 2, 1, 1))
QUERIES = np.random.default_rng(5).integers(0, 2, (60, 16)).tolist()


def test_pmw_keeps_its_error_and_learns_where_it_pays():
    plan = lessons.pmw_plan(TABLE, QUERIES, epsilon=1.0, beta=0.05)
    outside = 0
    for seed in range(60):
        trace = lessons.private_multiplicative_weights(TABLE, QUERIES, seed=seed)
        outside += max(abs(q.answer - q.truth) for q in trace) > plan.error
        assert trace[-1].paid == sum(q.is_paid for q in trace) <= plan.c
        for one, following in pairwise(trace):
            assert (one.potential != following.potential) == one.is_paid
            assert one.is_paid or one.answer == one.guess
        assert trace[-1].potential < trace[0].potential
    assert outside <= 60 * 0.05 + 6
    assert 5 < trace[-1].paid < 40


def test_pmw_at_a_smaller_budget_exceeds_that_error():
    """The check above can fail: a trace at a hundredth of the budget, against the error of the whole."""
    plan = lessons.pmw_plan(TABLE, QUERIES, epsilon=1.0, beta=0.05)
    traces = [
        lessons.private_multiplicative_weights(TABLE, QUERIES, epsilon=0.01, seed=seed) for seed in range(5)
    ]
    assert all(max(abs(q.answer - q.truth) for q in trace) > plan.error for trace in traces)


def test_a_sparse_vector_run_keeps_its_width_and_its_cap():
    counts = np.random.default_rng(2).integers(0, 400, 50).tolist()
    width = online.sparse_width(threshold_scale=2.0, test_scale=12.0, epochs=1, k=50, beta=0.05)
    wrong = 0
    for seed in range(200):
        trace = lessons.sparse_vector_run(counts, threshold=200, cap=3, seed=seed)
        assert sum(t.above for t in trace) <= 3
        assert trace[-1].left == 3 - sum(t.above for t in trace)
        assert len({t.threshold for t in trace}) == 1
        assert all(t.above == (t.noisy >= t.threshold) for t in trace)
        wrong += any((t.count < 200 - width) if t.above else (t.count > 200 + width) for t in trace)
    assert wrong <= 200 * 0.05 + 8


def test_the_noise_of_a_trace_has_the_scale_that_it_says():
    rng = np.random.default_rng(0)
    drawn = np.array([_laplace(rng, 12.0) for _ in range(20_000)])
    assert abs(drawn.mean()) < 0.6
    assert drawn.std() == pytest.approx(12 * 2**0.5, rel=0.05)


@pytest.mark.parametrize(
    "trace",
    [
        lessons.sparse_vector_run([3, 50, 70], threshold=40, cap=2),
        lessons.private_multiplicative_weights(TABLE, QUERIES),
        lessons.multiplicative_weights([7, 2, 1, 0], [[1, 1, 0, 0], [1, 0, 1, 0]], gap=0.05),
    ],
    ids=["sparse vector", "pmw", "mw"],
)
def test_a_trace_is_a_picture_and_an_animation(trace):
    assert lessons.picture(trace, title="t")["hconcat"]
    drawn = lessons.animation(trace, title="<b>")
    tree = ET.fromstring(drawn)
    assert "<b>" not in drawn
    steps = {len(one.get("values", "").split(";")) for one in tree.iter() if one.tag.endswith("animate")}
    assert steps == {len(trace)}


def test_an_animation_marks_the_table_and_refuses_what_it_cannot_show():
    trace = lessons.multiplicative_weights([7, 2, 1, 0], [[1, 1, 0, 0], [1, 0, 1, 0]], gap=0.05)
    plain, marked = lessons.animation(trace), lessons.animation(trace, table=[7, 2, 1, 0])
    assert marked.count("<line") == plain.count("<line") + 4
    with pytest.raises(ParameterError, match="1 to 200 steps"):
        lessons.animation([])
    with pytest.raises(ParameterError, match="two cells"):
        lessons.private_multiplicative_weights([5], [[1]])


@pytest.mark.slow
def test_the_command_animates_runs_only(tmp_path):
    place = tmp_path / "run.svg"
    assert call("learn", "sparse-vector-run", "--animate", place).code == 0
    ET.parse(place)
    refused(call("learn", "smalldb", "--animate", place), "for one of the topics")
    refused(call("learn", "sparse-vector-run", "--animate", tmp_path / "run.gif"), "ends in .svg")
    missing = call("learn", "sparse-vector-run", "--animate", tmp_path / "no" / "run.svg")
    assert missing.code == 2
    assert "cannot write" in missing.err


@pytest.mark.slow
@pytest.mark.parametrize("topic", TOURS)
def test_every_riddle_has_a_right_answer_and_says_why(topic):
    riddle = TOURS[topic].riddle
    assert 1 <= riddle.right <= len(riddle.answers)
    told = call("learn", topic, "--ask", text=f"x\n9\n{riddle.right}\n")
    assert "please type a number" in told.out
    assert f"Right. {riddle.why}" in told.out
    if len(riddle.answers) > 1:
        other = riddle.right % len(riddle.answers) + 1
        assert f"It is {riddle.right}." in call("learn", topic, "--ask", text=f"{other}\n").out
    assert riddle.why not in call("learn", topic).out

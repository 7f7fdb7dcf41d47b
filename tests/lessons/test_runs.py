"""Runs that one can watch keep to their theorems; pictures can be drawn; the command shows every tour."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import numpy as np
import pytest

from maquette import lessons
from maquette.cli.learn import TOURS
from maquette.errors import ParameterError
from maquette.theory import multiplicative
from support.cli_files import call, refused


def test_multiplicative_weights_end_in_time_and_lower_the_potential():
    rng = np.random.default_rng(1)
    for _ in range(10):
        table, queries = rng.integers(0, 9, 16) + 1, rng.integers(0, 2, (30, 16))
        trace = lessons.multiplicative_weights(table, queries, gap=0.05)
        assert len(trace) <= multiplicative.updates(log_universe=math.log(16), gap=0.05)
        for one, following in pairwise(trace):
            drop = multiplicative.entropy_drop(step=0.2, gap=one.gap)
            assert one.potential - following.potential >= drop - 1e-12
        final = np.array(trace[-1].hypothesis) if trace else np.full(16, 1 / 16)
        assert np.abs(queries @ (table / table.sum() - final)).max() <= 0.05


def test_sampling_keeps_the_union_bound():
    queries = np.tril(np.ones((30, 30)))[:-1]
    run = lessons.sampling(np.arange(1, 31), queries, rows=200, trials=400)
    for alpha in (0.05, 0.1, 0.15):
        assert run.share_within(alpha) >= run.promised_within(alpha, 29) - 0.05
    assert run.share_within(run.bound) > 0.5
    assert run.share_within(0.001) < 0.5  # the check can fail


def test_noise_stops_the_reconstruction():
    found = lessons.reconstruction(noises=(0, 1, 30))
    assert found[0].recovered == 1.0
    assert found[1].recovered > 0.9
    assert found[2].recovered < 0.75


@pytest.mark.slow
@pytest.mark.parametrize("topic", TOURS)
def test_every_tour_runs_and_can_be_drawn(topic, tmp_path):
    place = tmp_path / "picture.json"
    ended = call("learn", topic, "--plot", place)
    assert ended.code == 0
    assert ended.out.startswith(TOURS[topic].about)
    assert json.loads(place.read_text())["hconcat"]


@pytest.mark.slow
def test_the_list_of_tours_and_refusals():
    assert "sparse-vector" in call("learn").out
    assert "NOT PRIVATE" in call("learn", "sparse-vector").out
    refused(call("learn", "everything"), "one of exponential")
    with pytest.raises(ParameterError, match="to draw"):
        lessons.picture([])


def test_pictures_say_what_their_lines_are():
    """Every line across a panel has words beside it; both tables of a law are named."""
    law = lessons.picture(lessons.exponential([2, 1], [1, 1], epsilon=0.7))
    names = {line["table"] for line in law["hconcat"][0]["data"]["values"]}
    assert names == {"this table", "a neighbour"}
    rules = {
        r["data"]["values"][0]["words"]: r["data"]["values"][0]["place"]
        for r in law["hconcat"][1]["layer"][1:]
    }
    assert rules == {"epsilon": 0.7, "-epsilon": -0.7}
    run = lessons.sampling([3, 1], [[1, 0]], rows=10, trials=5)
    bound = lessons.picture(run)["hconcat"][0]["layer"][1]["data"]["values"][0]
    assert bound == {"place": run.bound, "words": "bound"}
    wrong = lessons.sparse_vector([0, 1], [1, 0], variant="shows the compared value")
    assert "layer" not in lessons.picture(wrong)["hconcat"][1]  # no epsilon bounds these

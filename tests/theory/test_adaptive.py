"""Shares of questions that are chosen after the number of records was seen: bounds on both draws together."""

import math

import numpy as np
import pytest

from maquette.errors import ParameterError
from maquette.theory.adaptive import SharedGap, failure, least_room, shared_gap
from maquette.theory.ratios import share_between

SHAPES = ("sum", "root", "max")


@pytest.mark.parametrize("shape", SHAPES)
def test_the_least_room_is_that_of_the_worst_share(shape):
    gap, z = SharedGap(5.0, 12.0, shape), np.linspace(0, 40, 81)
    shares = np.linspace(0, 1, 4001)
    worst = (gap(shares)[:, None] - shares[:, None] * z).min(axis=0)
    assert least_room(gap, z) == pytest.approx(worst, abs=0.01)
    assert (least_room(gap, z) <= worst + 1e-9).all()


@pytest.mark.parametrize("pure", [True, False])
@pytest.mark.parametrize("k", [1, 20])
def test_who_knows_the_noise_of_the_size_is_still_answered_within_the_gap(pure, k):
    """The worst share for every draw of the size; the same gap four fifths as wide fails too often."""
    scale, size_scale, beta = 8.0 * math.sqrt(k), 20.0, 0.05
    gap = shared_gap(pure=pure, scale=scale, size_scale=size_scale, k=k, beta=beta)
    rng = np.random.default_rng(1)
    draw = rng.laplace if pure else rng.normal
    count, size = draw(0, scale, (20_000, k)), draw(0, size_scale, 20_000)
    shares = np.linspace(0, 1, 41)

    def missed(width: float) -> float:
        off = np.abs(count[:, :, None] - shares * size[:, None, None])
        return float((off > width * gap(shares)).any(axis=(1, 2)).mean())

    assert missed(1.0) <= beta + 3 * math.sqrt(beta / 20_000)
    assert missed(0.8) > beta


@pytest.mark.parametrize("pure", [True, False])
def test_the_gap_fails_with_what_is_asked_for(pure):
    facts = {"pure": pure, "scale": 30.0, "size_scale": 12.0, "k": 7}
    found = shared_gap(**facts, beta=0.01)
    assert failure(found, **facts) <= 0.01
    wider = shared_gap(**facts, beta=0.001)
    assert all(wider.at(p) > found.at(p) for p in (0.0, 0.25))
    bold = SharedGap(found.count / 2, found.size / 2, found.shape)
    assert failure(bold, **facts) > 0.05
    assert failure(SharedGap(0.0, 0.0), **facts) == pytest.approx(1.0)


def test_a_public_number_of_records_needs_no_room():
    found = shared_gap(pure=True, scale=10.0, size_scale=0.0, k=20, beta=0.05)
    assert found.size == 0
    assert found.count == pytest.approx(10 * math.log(2 / (1 + math.exp(-0.1)) * 20 / 0.05))


@pytest.mark.parametrize("shape", SHAPES)
def test_the_error_of_an_answer_holds_the_true_share(shape):
    gap, n = SharedGap(40.0, 300.0, shape), 1000
    for share in (0.0, 0.01, 0.22, 0.5, 0.97, 1.0):
        for off in (-1.0, 0.0, 1.0):
            released = share + off * gap.at(share) / n
            error = gap.error(released, n)
            value = min(max(released, 0.0), 1.0)
            assert abs(share - value) <= error + 1e-9
            assert error <= gap.largest_error(n) + 1e-9
    assert gap.error(0.05, n) < gap.error(0.5, n) / 1.5 or shape != "sum"


def test_a_lucky_draw_states_no_less_than_the_noise():
    gap = SharedGap(40.0, 0.0)
    assert gap.error(-0.04, 1000) == pytest.approx(0.04)
    assert gap.error(1.04, 1000) == pytest.approx(0.04)


def test_a_gap_is_stored_and_read_again():
    gap = SharedGap(1.5, 2.5, "root")
    assert SharedGap.from_json(gap.to_json()) == gap


@pytest.mark.parametrize("wrong", [{"scale": 0.0}, {"size_scale": -1.0}, {"k": 0}, {"beta": 1.0}])
def test_wrong_numbers_are_refused(wrong):
    with pytest.raises(ParameterError):
        shared_gap(**{"pure": True, "scale": 1.0, "size_scale": 1.0, "k": 1, "beta": 0.05} | wrong)


@pytest.mark.parametrize("shape", ["sum", "root", "max"])
@pytest.mark.parametrize(("count", "size"), [(40.0, 0.0), (40.0, 25.0), (3.0, 990.0), (2000.0, 1.0)])
def test_one_answer_has_the_interval_of_many(shape, count, size):
    """In plain numbers, for a session; beside the arrays that a release asks for."""
    gap, n = SharedGap(count, size, shape), 1000.0
    for share in (-0.2, 0.0, 0.013, 0.4, 0.97, 1.0, 1.3):
        low, high = (float(end[0]) for end in share_between(share * n, n, gap=gap))
        value = min(max(share, 0.0), 1.0)
        assert gap.error(share, n) == pytest.approx(max(high - value, value - low), rel=1e-12, abs=1e-15)
    assert SharedGap(count, size, shape).error(0.4, 0.0) == 0.6

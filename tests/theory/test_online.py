"""Parameters of the online mechanisms: the specification's figures, and searches that only improve on them."""

import math
from dataclasses import asdict

import pytest

from maquette.errors import ParameterError
from maquette.theory import online

SETTING = {"n": 1e5, "log_universe": math.log(256), "k": 1000, "beta": 0.05}
RHO = 0.0243559704
PURE = {"unit": "epsilon", "price": 1.0} | SETTING
CONCENTRATED = {"unit": "rho", "price": RHO} | SETTING


def test_pure_figures_of_the_specification():
    found = online.pmw(**PURE, c=138, split=(0.05, 0.85, 0.10))
    assert found.gap == pytest.approx(0.1417435100, abs=1e-10)
    assert found.width == pytest.approx(0.0365433343, abs=1e-10)
    assert found.answer_width == pytest.approx(0.1244980558, abs=1e-10)
    assert found.threshold == pytest.approx(0.1782868443, abs=1e-10)
    assert found.error == pytest.approx(0.2148301786, abs=1e-10)
    assert found.step == 4 * found.gap
    assert found.certain
    assert (found.threshold_scale, found.answer_scale) == pytest.approx((20.0, 1380.0))


def test_concentrated_figures_of_the_specification():
    found = online.pmw(**CONCENTRATED, c=273, split=(0.4, 0.05))
    assert found.epoch_epsilon == pytest.approx(0.0130196166, abs=1e-10)
    assert found.gap == pytest.approx(0.1007769946, abs=1e-10)
    assert found.width == pytest.approx(0.0468010763, abs=1e-10)
    assert found.answer_scale / found.n == pytest.approx(0.0033479472, abs=1e-10)
    assert found.answer_width == pytest.approx(0.0134209660, abs=1e-10)
    assert found.threshold == pytest.approx(0.1475780709, abs=1e-10)
    assert found.error == pytest.approx(0.1943791472, abs=1e-10)


def test_median_figures_of_the_specification():
    found = online.median(
        unit="epsilon", price=1, n=20000, universe=4, k=50, beta=0.05, rows=39, split=(0.1, 0.7, 0.2)
    )
    assert math.exp(found.log_range) == pytest.approx(11480)
    assert found.run.c == 13
    assert found.best == pytest.approx(0.0256410256, abs=1e-10)
    assert found.run.width == pytest.approx(0.0169161406, abs=1e-10)
    assert found.run.answer_width == pytest.approx(0.0216427052, abs=1e-10)
    assert found.run.error == pytest.approx(0.0594733069, abs=1e-9)
    assert found.run.gap > max(found.best, found.run.answer_width)


def test_sparse_vector_figures():
    # AboveThreshold at epsilon 1: Lap(2) on the threshold, Lap(4) on every test
    wide = online.svt_accuracy(first=0.5, second=0.5, c=1, k=10, beta=0.05)
    assert wide == pytest.approx(2 * math.log(40) + 4 * math.log(400))
    assert online.svt_split(4) == pytest.approx((0.2, 0.8))
    assert online.svt_split(8, monotone=True) == pytest.approx((0.2, 0.8))


@pytest.mark.parametrize("refit", [False, True])
@pytest.mark.parametrize("grid", [0.0, 1.0])
def test_the_search_is_no_worse_than_the_neighbours_of_its_choice(refit, grid):
    for setting in (PURE, CONCENTRATED):
        best = online.pmw(**setting, refit=refit, grid=grid)
        assert best.certain
        for c in (best.c // 2, best.c - 1, best.c + 1, 2 * best.c):
            other = online.pmw(**setting, refit=refit, grid=grid, c=c)
            assert not other.certain or best.error <= other.error * (1 + 1e-6)
        assert best.error < online.pmw(**setting, refit=refit, grid=grid, c=4 * best.c).error


def test_the_searched_split_beats_the_specifications():
    assert online.pmw(**PURE).error < 0.2148301786
    assert online.pmw(**CONCENTRATED).error < 0.1943791472
    split = {"unit": "epsilon", "price": 1, "n": 20000, "universe": 4, "k": 50, "beta": 0.05}
    assert online.median(**split).run.error < 0.0594733069
    with pytest.raises(ParameterError, match="shares"):
        online.pmw(**PURE, split=(0.5, 0.6, 0.1))


def test_shares_are_what_the_noise_costs():
    pure = online.pmw(**PURE, refit=True)
    cost = 1 / pure.threshold_scale + 2 * pure.c / pure.query_scale + pure.c / pure.answer_scale
    assert cost == pytest.approx(1.0)
    assert pure.epoch_epsilon == pytest.approx(1 - pure.f3)
    epochs = online.pmw(**CONCENTRATED, refit=True)
    per_epoch = 1 / epochs.threshold_scale + 2 / epochs.query_scale
    assert per_epoch == pytest.approx(epochs.epoch_epsilon)
    total = epochs.c * (epochs.epoch_epsilon**2 / 2 + 1 / (2 * epochs.answer_scale**2))
    assert total == pytest.approx(RHO)


def test_refit_asks_for_twice_the_width_more():
    found = online.pmw(**PURE, refit=True)
    assert found.gap == pytest.approx(2 * found.answer_width + math.sqrt(math.log(256) / (2 * found.c)))


def test_a_private_size_moves_threshold_and_error():
    exact = online.pmw(**PURE, c=100)
    drifting = online.pmw(**PURE, c=100, size_error=0.01)
    assert drifting.threshold == pytest.approx(exact.threshold + 0.01)
    assert drifting.error == pytest.approx(exact.error + 0.02)


@pytest.mark.parametrize("setting", [PURE, CONCENTRATED])
def test_a_target_is_kept_with_as_many_positives_as_fit(setting):
    found = online.pmw(**setting, alpha=0.05, grid=1.0, size_error=0.001)
    assert found.error == 0.05
    assert found.threshold + found.width + found.size_error == pytest.approx(0.05)
    assert found.answer_width + found.size_error <= 0.05 / 3
    more = online.pmw(**setting, alpha=0.05, grid=1.0, size_error=0.001, c=found.c + 1)
    assert max(more.width, more.answer_width) + 0.001 > 0.05 / 3
    assert not found.certain
    with pytest.raises(ParameterError, match="alpha above"):
        online.pmw(**setting, alpha=1e-6)


@pytest.mark.parametrize("name", ["n", "price", "beta"])
def test_bounds_fall_where_they_should(name):
    lower = {"n": 1e4, "price": 0.5, "beta": 0.01}[name]
    worse = online.pmw(**(PURE | {name: lower}))
    assert worse.error > online.pmw(**PURE).error


def test_tiny_tables_are_vacuous_not_an_error():
    found = online.pmw(**(PURE | {"n": 1.0}))
    assert found.vacuous
    assert not found.certain or found.error >= 1
    assert online.median(unit="rho", price=RHO, n=1.0, universe=16, k=10, beta=0.05).run.vacuous


@pytest.mark.parametrize(
    "wrong",
    [
        {"n": 0.0},
        {"price": -1.0},
        {"unit": "delta"},
        {"k": 0},
        {"beta": 1.0},
        {"size_error": -0.1},
        {"alpha": 0.0},
    ],
)
def test_impossible_numbers_are_refused(wrong):
    with pytest.raises(ParameterError):
        online.pmw(**(PURE | wrong))


def test_every_parameter_is_a_plain_number():
    for value in asdict(online.pmw(**CONCENTRATED)).values():
        assert isinstance(value, (int, float, bool, str))

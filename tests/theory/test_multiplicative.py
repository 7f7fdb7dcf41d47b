"""The bounds of multiplicative weights, against the specification's figures."""

import math

import pytest

from maquette.errors import ParameterError
from maquette.theory import multiplicative as mw

SETTING = {"n": 1e5, "log_universe": math.log(256), "log_queries": math.log(1000), "beta": 0.05}


def test_signed_selection():
    assert mw.mw_pure(**SETTING, epsilon=1, rounds=200) == pytest.approx(0.1813208107, abs=1e-10)
    assert mw.mw_zcdp(**SETTING, rho=0.0243559704, rounds=2000) == pytest.approx(0.0741060950, abs=1e-10)


def test_mwem():
    assert mw.mwem_pure(**SETTING, epsilon=1, share=0.6, rounds=88) == pytest.approx(0.2576495743, abs=1e-10)
    rho, rounds, share = 0.0243559704, 500, 0.3
    sigma = math.sqrt(rounds / (2 * 0.7 * rho))
    parts = (
        math.sqrt(math.log(256) / (2 * rounds))
        + math.sqrt(rounds / (2 * share * rho)) * math.log(2 * rounds * 1000 / 0.05) / 1e5
        + 2 * sigma * 4.05562698 / 1e5  # Phi^-1(1 - 0.05/2000)
    )
    assert mw.mwem_zcdp(**SETTING, rho=rho, share=share, rounds=rounds) == pytest.approx(parts, rel=1e-6)


def test_learning():
    assert mw.updates(log_universe=math.log(256), gap=0.1) == math.floor(math.log(256) / 0.02)
    # at step 4 g the drop is 2 g^2
    assert mw.entropy_drop(step=0.4, gap=0.1) == pytest.approx(0.02)
    with pytest.raises(ParameterError):
        mw.updates(log_universe=1.0, gap=0.0)


def test_the_best_rounds_are_no_worse_than_others():
    def error(rounds):
        return mw.mw_pure(**SETTING, epsilon=1, rounds=rounds)

    best = mw.best_rounds(error, most=10_000)
    assert best.error == error(best.rounds)
    assert all(best.error <= error(t) * 1.01 for t in range(1, 1000))
    assert mw.best_rounds(error, most=7).rounds == 7
    assert mw.best_rounds(error, most=1).rounds == 1

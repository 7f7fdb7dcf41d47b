"""The checks that mutants run through: each has a name, and says a leak apart from a package that does not run."""

from __future__ import annotations

from collections import Counter

import pytest

from maquette.core import curator as gate
from maquette.core.answers import one_each
from maquette.errors import MaquetteError
from support import privacy_battery as battery
from support.privacy_doubles import Divergence

pytestmark = pytest.mark.privacy


def test_every_check_has_a_name_of_its_own():
    times = Counter(name for name, _ in battery.checks())
    assert len(times) > 100
    assert set(times.values()) == {1}


def _raises(error: BaseException) -> battery.Check:
    def check() -> None:
        raise error

    return check


@pytest.mark.parametrize(
    ("error", "how"),
    [
        (Divergence("another price"), "leak"),
        (AssertionError("the private input moved by 2, charged 1"), "leak"),
        (AssertionError("it ended in TypeError, which is not an error of this package"), "broken"),
        (MaquetteError("no"), "broken"),
        (TypeError("no"), "broken"),
    ],
)
def test_how_a_check_ends(error, how):
    assert battery.ended(_raises(error))[0] == how


def test_a_planted_leak_is_told_from_a_package_that_does_not_run(monkeypatch):
    names = ["gate fuzz"]
    assert {ended for ended, _ in battery.run(names).values()} == {"holds"}
    with monkeypatch.context() as patch:
        patch.setattr(gate.bounds, "check_price", lambda price: None)
        assert battery.run(names)["gate fuzz"][0] in ("leak", "broken")
    with monkeypatch.context() as patch:
        patch.setattr(gate, "check_answers", None)
        ended, words = battery.run(names)["gate fuzz"]
        assert ended == "broken"
        assert "TypeError" in words
    with monkeypatch.context() as patch:
        patch.setattr(gate, "distance_sensitivity", lambda tables, relation: one_each(1))
        found = battery.run([name for name, _ in battery.checks() if "distances" in name])
        assert "leak" in {how for how, _ in found.values()}

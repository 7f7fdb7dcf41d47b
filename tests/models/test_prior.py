"""A start from released rows: a mixture with the uniform distribution, the same in every form of a hypothesis."""

import math

import numpy as np
import pytest

from maquette.errors import ParameterError
from maquette.models.answers import SmallDatabase
from maquette.models.dense import Target
from maquette.models.hypothesis import LOG_MIXING, MIXING, Prior, Released
from maquette.models.start import hypothesis_for
from maquette.models.version_space import VersionSpace, lower_median, version_space_for
from maquette.queries import where
from support.online_universe import universe

DOMAIN = universe(4, 3, 2)
HUGE = universe(*[8] * 12)


def rows(domain, m=500, names=None, seed=0):
    rng = np.random.default_rng(seed)
    return SmallDatabase(
        {
            name: np.minimum(rng.poisson(0.7, m), domain[name].size - 1).astype(np.uint8)
            for name in names or domain.names
        }
    )


@pytest.mark.parametrize("names", [("x0", "x1", "x2"), ("x0", "x2"), ("x1",)])
def test_the_start_is_the_rows_mixed_with_uniform(names):
    database = rows(DOMAIN, names=names)
    table = Prior.of(DOMAIN, database).table(DOMAIN.names)
    assert table.sum() == pytest.approx(1)
    assert table.min() >= MIXING / DOMAIN.size * (1 - 1e-12)
    away = tuple(i for i, name in enumerate(DOMAIN.names) if name not in names)
    shape = tuple(DOMAIN[name].size for name in names)
    counts = np.zeros(shape)
    np.add.at(counts, tuple(database.columns[name] for name in names), 1)
    expected = (1 - MIXING) * counts / database.m + MIXING / counts.size
    assert table.sum(axis=away) == pytest.approx(expected)


def test_no_table_is_farther_from_the_start_than_stated():
    table = Prior.of(DOMAIN, rows(DOMAIN)).table(DOMAIN.names)
    farthest = max(-math.log(weight) for weight in table.ravel())  # of a table with all records in one cell
    assert farthest <= math.log(DOMAIN.size) + LOG_MIXING + 1e-9


@pytest.mark.parametrize("kind", ["dense", "rows"])
def test_guesses_start_at_the_released_answers_and_learn_from_there(kind):
    database = rows(DOMAIN)
    start = hypothesis_for(DOMAIN, kind=kind, prior=Prior.of(DOMAIN, database))
    question = where(DOMAIN, "x0 = 1 and x2 = 0")
    released = float(database.answer(question).fractions[0])
    assert start.answer(question)[0] == pytest.approx(released, abs=MIXING)
    learned = start.refit([Released(question, 0.9, 0.001)])
    assert learned.answer(question)[0] == pytest.approx(0.9, abs=0.01)
    other = where(DOMAIN, "x1 = 0")
    again = learned.refit([Released(other, 0.5, 0.001)])  # another list: from the start, not from uniform
    assert again.answer(question)[0] == pytest.approx(start.answer(question)[0], abs=0.12)
    assert again.digest() == start.refit([Released(other, 0.5, 0.001)]).digest()
    assert again.digest() != hypothesis_for(DOMAIN, kind=kind).refit([Released(other, 0.5, 0.001)]).digest()


def test_a_step_and_a_projection_keep_the_start():
    start = hypothesis_for(DOMAIN, prior=Prior.of(DOMAIN, rows(DOMAIN)))
    question = where(DOMAIN, "x0 = 1")
    for moved in (start.step(question, 1.0, step=0.2), start.project([Target(question, 0.9)])):
        assert moved.refit([]).digest() == start.digest()


def test_rows_of_a_huge_universe_start_from_the_release():
    database = rows(HUGE, 100_000)
    start = hypothesis_for(HUGE, prior=Prior.of(HUGE, database))
    question = where(HUGE, "x3 >= 1 and x7 = 0")
    released = float(database.answer(question).fractions[0])
    assert start.answer(question)[0] == pytest.approx(released, abs=0.01)
    learned = start.refit([Released(where(HUGE, "x11 = 7 and x10 = 7"), 0.2, 0.001)])
    assert learned.answer(where(HUGE, "x11 = 7 and x10 = 7"))[0] == pytest.approx(0.2, abs=0.01)


@pytest.mark.parametrize("kind", ["exact", "sampled"])
def test_the_median_starts_at_the_release(kind):
    small = universe(2, 2)
    database = SmallDatabase({"x0": np.array([0] * 80 + [1] * 20, np.uint8), "x1": np.zeros(100, np.uint8)})
    found = version_space_for(small, rows=12, kind=kind, prior=Prior.of(small, database))
    assert found.answer(where(small, "x0 = 0"))[0] == pytest.approx(0.8, abs=0.1)
    assert found.answer(where(small, "x1 = 0"))[0] == pytest.approx(1, abs=0.05)
    uniform = version_space_for(small, rows=12, kind=kind)
    assert uniform.answer(where(small, "x1 = 0"))[0] < 0.7
    pruned = found.refit([Released(where(small, "x1 = 0"), 0.4, 0.01)])
    assert pruned.answer(where(small, "x1 = 0"))[0] < 1
    assert pruned.refit([]).digest() == found.digest()
    assert found.synthetic(50, key="a").m == 50


def test_every_prune_halves_the_weight_and_no_weight_starts_too_small():
    small = universe(2, 2)
    found = VersionSpace.whole(small, small.names, 8, Prior.of(small, rows(small)))
    assert found.weights.sum() == pytest.approx(1)
    assert found.weights.min() >= MIXING / found.size * (1 - 1e-12)
    for text, value in [("x0 = 0", 0.1), ("x1 = 1", 0.9), ("x0 = 1 and x1 = 1", 0.2)]:
        pruned = found.refit([Released(where(small, text), value, 0.01)])
        assert pruned.weights.sum() <= found.weights.sum() / 2 * (1 + 1e-12)


def test_a_median_by_weight():
    fractions = np.array([0.1, 0.2, 0.3, 0.4])
    assert lower_median(fractions, np.ones(4)) == lower_median(fractions) == 0.2
    assert lower_median(fractions, np.array([1.0, 1.0, 1.0, 5.0])) == 0.4
    assert lower_median(fractions[::-1].copy(), np.array([5.0, 1.0, 1.0, 1.0])) == 0.4


def test_the_digest_names_rows_and_domain():
    first = Prior.of(DOMAIN, rows(DOMAIN)).digest
    assert first == Prior.of(DOMAIN, rows(DOMAIN)).digest
    assert first != Prior.of(DOMAIN, rows(DOMAIN, seed=1)).digest
    assert first != Prior.of(DOMAIN, rows(DOMAIN, names=("x0", "x1"))).digest
    with pytest.raises(ParameterError, match="no row"):
        Prior.of(DOMAIN, rows(DOMAIN, m=0))

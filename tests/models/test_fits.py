"""Projections, fits and rows: published vectors, brute force, and what must stay true of every result."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maquette.domain import Attribute, Domain, Kind
from maquette.errors import ParameterError
from maquette.models.answers import database, generator, largest_remainder, systematic
from maquette.models.fits import (
    answer_histogram,
    can_map,
    cell_weights,
    fit_entropic,
    fit_largest,
    fit_squares,
    histogram_map,
    pass_length,
    project_simplex,
    simplex_shift,
)
from maquette.queries import marginals, points, prefixes, ranges, union


def domain_of(*sizes: int) -> Domain:
    names = "abcdefgh"
    return Domain(tuple(Attribute(names[i], Kind.ORDINAL, codes=size) for i, size in enumerate(sizes)))


numbers = st.lists(st.floats(-50, 50, allow_nan=False), min_size=1, max_size=40)


# --- simplex ---


def test_the_published_projection():
    assert project_simplex(np.array([0.5, 0.4, -0.1, 0.6])) == pytest.approx(
        [1 / 3, 0.7 / 3, 0, 1.3 / 3], abs=1e-8
    )


def by_sorting(values: np.ndarray, total: float) -> np.ndarray:
    ordered = np.sort(values)[::-1]
    thetas = (np.cumsum(ordered) - total) / np.arange(1, len(values) + 1)
    return np.maximum(values - thetas[np.flatnonzero(ordered > thetas)[-1]], 0)


@given(numbers, st.floats(0.01, 100))
def test_projection_agrees_with_the_textbook_sort(values, total):
    array = np.array(values)
    projected = project_simplex(array, total=total)
    assert projected == pytest.approx(by_sorting(array, total), abs=1e-9)
    assert projected.sum() == pytest.approx(total)
    assert (projected >= 0).all()


@given(st.lists(st.integers(0, 30), min_size=1, max_size=20), st.data())
def test_the_shift_is_bounded_by_the_noise_and_the_drift(cells, data):
    """The proof behind the stated error of projected marginals: |theta| <= e + t, and 2e + t in all."""
    truth = np.array(cells, dtype=float)
    n = max(truth.sum(), 1.0)
    truth = truth if truth.sum() else np.eye(len(cells))[0]
    noise = np.array(data.draw(st.lists(st.floats(-8, 8), min_size=len(cells), max_size=len(cells))))
    released = max(1.0, n + data.draw(st.floats(-6, 6)))
    e, t = np.abs(noise).max(), abs(released - n)
    theta = simplex_shift(truth + noise, total=released)
    assert abs(theta) <= e + t + 1e-9
    shares = project_simplex(truth + noise, total=released) / released
    assert np.abs(shares - truth / n).max() * released <= 2 * e + t + 1e-9


# --- maps ---

WORKLOADS = [
    lambda d: marginals(d, k=2),
    lambda d: points(d),
    lambda d: prefixes(d, "a"),
    lambda d: ranges(d, "a", "c"),
    lambda d: union(marginals(d, k=1), prefixes(d, "b"), ranges(d, "c")),
    lambda d: marginals(d, attributes=[("a", "c")]),
    lambda d: marginals(d, k=0),
]


@pytest.mark.parametrize("make", WORKLOADS)
def test_map_agrees_with_the_queries_and_with_its_transpose(make):
    rng = np.random.default_rng(1)
    domain = domain_of(4, 1, 3)
    queries = make(domain)
    assert can_map(queries)
    mapped = histogram_map(queries)
    histogram = rng.integers(0, 9, domain.shape)
    kept = tuple(i for i, name in enumerate(domain.names) if name not in queries.attributes)
    own = histogram.sum(axis=kept).astype(float)
    expected = queries.on_histogram(histogram) / queries.denominator
    assert mapped.forward(own) == pytest.approx(expected)
    assert answer_histogram(queries, own) == pytest.approx(expected)
    assert mapped.matrix() @ own.ravel() == pytest.approx(expected)
    values = rng.normal(size=queries.count)
    assert (mapped.forward(own) * values).sum() == pytest.approx((own * mapped.transpose(values)).sum())
    before = values.copy()
    mapped.transpose(values)
    assert (values == before).all()


def test_shared_sums_pass_over_less_than_one_pass_per_margin():
    domain = domain_of(5, 4, 6, 3, 5)
    queries = marginals(domain, k=2)
    assert pass_length(queries) < len(queries.margins) * domain.size / 2


def test_a_class_too_large_for_its_matrix_is_not_mapped():
    domain = domain_of(300, 300)
    assert not can_map(ranges(domain, "a", "b"))
    assert histogram_map(ranges(domain, "a", "b")) is None


def test_weights_of_a_query_without_attributes():
    assert cell_weights(marginals(domain_of(3, 2), k=0)).tolist() == [[1.0]]


# --- fits ---


def test_the_published_linear_program():
    queries = prefixes(domain_of(3), "a")
    mapped = histogram_map(queries)
    answers = np.array([3.4, 3.1, 4.0])[: queries.count]
    found, deviation = fit_largest(mapped, answers, total=4.0)
    assert deviation == pytest.approx(0.15)
    assert found == pytest.approx([3.25, 0, 0.75], abs=1e-9)


def test_linear_program_stays_within_the_noise():
    rng = np.random.default_rng(2)
    domain = domain_of(6, 5)
    mapped = histogram_map(ranges(domain, "a", "b"))
    truth = rng.integers(0, 20, domain.shape).astype(float)
    noise = rng.uniform(-4, 4, mapped.count)
    found, deviation = fit_largest(mapped, mapped.forward(truth) + noise, total=truth.sum())
    assert deviation <= np.abs(noise).max() + 1e-7
    assert np.abs(mapped.forward(found) - mapped.forward(truth)).max() <= 2 * np.abs(noise).max() + 1e-6


@pytest.mark.parametrize("fit", [fit_squares, fit_entropic])
@pytest.mark.parametrize("make", [lambda d: marginals(d, k=2), lambda d: prefixes(d, "a")])
def test_fits_are_histograms_that_explain_exact_answers(fit, make):
    rng = np.random.default_rng(3)
    domain = domain_of(4, 3, 2)
    mapped = histogram_map(make(domain))
    truth = rng.integers(1, 30, mapped.shape).astype(float)
    found = fit(mapped, mapped.forward(truth), total=truth.sum(), rounds=3000)
    assert found.sum() == pytest.approx(truth.sum())
    assert (found >= 0).all()
    assert np.abs(mapped.forward(found) - mapped.forward(truth)).max() < 0.02 * truth.sum()


def test_least_squares_is_the_projection():
    """The optimum of a convex problem: no feasible direction goes down (and a nudged point is worse)."""
    rng = np.random.default_rng(4)
    domain = domain_of(4, 4)
    mapped = histogram_map(ranges(domain, "a", "b"))
    truth = rng.integers(0, 9, domain.shape).astype(float)
    answers = mapped.forward(truth) + rng.normal(0, 5, mapped.count)
    found = fit_squares(mapped, answers, total=truth.sum(), rounds=5000)
    slope = mapped.transpose(mapped.forward(found) - answers)
    steepest = slope.min()
    assert ((slope - steepest) * found).sum() <= 1e-3 * np.abs(slope).max() * truth.sum()
    distance = np.square(mapped.forward(found) - answers).sum()
    assert distance <= np.square(mapped.forward(truth) - answers).sum()
    worse = project_simplex(found + rng.normal(0, 1, found.shape), total=truth.sum())
    assert distance < np.square(mapped.forward(worse) - answers).sum()


def test_weights_draw_the_fit_to_the_answers_that_matter():
    mapped = histogram_map(union(points(domain_of(2)), points(domain_of(2))))
    answers = np.array([10.0, 0.0, 0.0, 10.0])
    first = fit_squares(mapped, answers, total=10.0, weights=np.array([9.0, 9.0, 1.0, 1.0]))
    assert first == pytest.approx([9.0, 1.0], abs=1e-4)


# --- rows ---


@given(st.lists(st.floats(0, 10), min_size=1, max_size=30), st.integers(1, 200))
def test_rounding_adds_up_and_stays_close(weights, m):
    array = np.array(weights)
    for counts in (largest_remainder(array, m), systematic(array, m)):
        assert counts.sum() == m
        assert (counts >= 0).all()
        if array.sum() > 0:
            assert np.abs(counts - array / array.sum() * m).max() < 1 + 1e-6


@given(st.lists(st.floats(0.01, 10), min_size=2, max_size=12), st.integers(1, 60))
def test_largest_remainders_stay_within_a_total_variation_of_n_over_4m(weights, m):
    array = np.array(weights) / sum(weights)
    gap = largest_remainder(array, m) / m - array
    n = len(array)
    assert gap[gap > 0].sum() <= (n // 2) * ((n + 1) // 2) / (n * m) + 1e-9


@given(st.lists(st.floats(0.01, 10), min_size=2, max_size=30), st.integers(1, 100))
def test_systematic_rounding_keeps_every_run_of_cells(weights, m):
    array = np.array(weights) / sum(weights)
    apart = np.cumsum(systematic(array, m)) - np.cumsum(array) * m
    assert np.abs(apart).max() <= 0.5 + 1e-6


def test_systematic_rounding_does_not_starve_light_cells():
    weights = np.concatenate([np.full(100, 10.4), np.full(400, 0.25)])
    assert largest_remainder(weights, 1140)[100:].sum() == 40
    assert abs(systematic(weights, 1140)[100:].sum() - 100) <= 1


def test_rows_have_the_counts_they_were_made_from():
    domain = domain_of(3, 300, 2)
    counts = np.zeros((3, 2), dtype=np.int64)
    counts[0, 1], counts[2, 0] = 2, 1
    made = database(domain, ("a", "c"), counts)
    assert made.m == 3
    assert made.columns["a"].tolist() == [0, 0, 2]
    assert made.columns["c"].tolist() == [1, 1, 0]
    assert made.columns["a"].dtype == np.uint8
    wide = database(domain, ("b",), np.ones(300, dtype=np.int64))
    assert wide.columns["b"].dtype == np.uint16
    assert wide.columns["b"].tolist() == list(range(300))


def test_the_same_key_gives_the_same_rows():
    assert generator("k").integers(1 << 60) == generator("k").integers(1 << 60)
    assert generator("k").integers(1 << 60) != generator("other").integers(1 << 60)


@pytest.mark.parametrize("make", [largest_remainder, systematic])
def test_rows_need_a_number(make):
    with pytest.raises(ParameterError, match="m"):
        make(np.ones(3), 0)
    assert make(np.zeros(4), 6).sum() == 6


@settings(max_examples=30)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 10**6))
def test_projection_of_a_table_is_never_farther_from_any_feasible_table(rows, columns, seed):
    rng = np.random.default_rng(seed)
    noisy = rng.normal(3, 5, (rows, columns))
    other = project_simplex(rng.normal(0, 5, (rows, columns)), total=7.0)
    assert (
        math.dist(project_simplex(noisy, total=7.0).ravel(), noisy.ravel())
        <= math.dist(other.ravel(), noisy.ravel()) + 1e-9
    )

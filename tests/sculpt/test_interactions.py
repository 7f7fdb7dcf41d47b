"""Two-way tables smoothed along their bins: by the algebra of Gaussian processes, and never at the price of a cell."""

import numpy as np
import pytest

from maquette.models.answers import generator
from maquette.sculpt import interactions
from maquette.sculpt.interactions import departures, has_neighbours
from maquette.sculpt.measurements import prior_variances, shrink

DEVIATION = 30.0


def product(rows, columns, total=20_000.0):
    rng = generator(f"margins {rows} {columns}")
    return total * np.outer(rng.dirichlet(np.full(rows, 5.0)), rng.dirichlet(np.full(columns, 5.0)))


def smooth_departure(rows, columns):
    down, across = np.linspace(-1, 1, rows), np.linspace(-1, 1, columns)
    return 0.6 * np.outer(down, across)


def noisy_table(truth, seed):
    return truth + generator(f"noise {seed}").normal(0, DEVIATION, truth.shape)


def posterior(found, prior):
    signal = found.prior_variance * np.outer(prior.sum(axis=1), prior.sum(axis=0)) ** 2 / prior.sum() ** 2
    return prior + signal / (signal + found.variances) * (found.counts - prior)


def by_algebra(noisy, prior, variance):
    """The posterior mean over all cells at once, averaged over the same parameters."""
    rows, columns = prior.shape
    scale = prior.ravel()
    gaps = (noisy - prior).ravel()
    means, logs = [], []
    for down in interactions._LENGTHS:
        for across in interactions._LENGTHS:
            alike = [
                np.exp(-np.abs(np.subtract.outer(range(k), range(k))) / length) if length else np.eye(k)
                for k, length in ((rows, down), (columns, across))
            ]
            covariance = np.kron(*alike) * np.outer(scale, scale)
            for tau in interactions._DEVIATIONS:
                whole = tau**2 * covariance + variance * np.eye(len(gaps))
                weighted = np.linalg.solve(whole, gaps)
                means.append(tau**2 * covariance @ weighted)
                logs.append(np.log(tau) - 0.5 * (np.linalg.slogdet(whole)[1] + gaps @ weighted))
    weights = np.exp(np.array(logs) - max(logs))
    return prior + (np.average(means, axis=0, weights=weights)).reshape(prior.shape)


def test_with_a_prior_of_its_own_for_every_cell_it_is_the_posterior_mean_of_the_process():
    prior = product(5, 4)
    table = noisy_table(prior * (1 + smooth_departure(5, 4)), 1)
    found = departures(table, prior, variance=DEVIATION**2)
    assert not found.outliers.any()
    assert posterior(found, prior) == pytest.approx(by_algebra(table, prior, DEVIATION**2), abs=1.0)


def errors(truth, prior, runs=6):
    smoothed = plain = 0.0
    for seed in range(runs):
        table = noisy_table(truth, seed)
        found = departures(table, prior, variance=DEVIATION**2)
        smoothed += np.abs(posterior(found, prior) - truth).sum()
        flat, expected = table.ravel(), prior.ravel()
        taus = prior_variances(flat, expected, variance=DEVIATION**2)
        plain += np.abs(shrink(flat, expected, taus, variance=DEVIATION**2) - truth.ravel()).sum()
    return smoothed / plain


def test_neighbours_help_where_departures_are_smooth_and_do_no_harm_where_they_are_not():
    prior = product(12, 12)
    departure = smooth_departure(12, 12)
    assert errors(prior * (1 + departure), prior) < 0.75
    rng = generator("order")
    mixed = departure[rng.permutation(12)][:, rng.permutation(12)]
    assert errors(prior * (1 + mixed), prior) < 1.05


def test_a_cell_that_stands_out_speaks_for_itself():
    prior = product(8, 8)
    truth = prior * (1 + smooth_departure(8, 8))
    truth[3, 4] += 20 * DEVIATION
    table = noisy_table(truth, 2)
    found = departures(table, prior, variance=DEVIATION**2)
    assert found.outliers[3, 4]
    assert found.outliers.sum() <= 2
    assert found.counts[3, 4] == table[3, 4]
    assert found.variances[3, 4] == DEVIATION**2


def test_bins_without_records_are_no_trouble():
    prior = product(6, 5)
    prior[2] = 0.0
    found = departures(noisy_table(prior, 3), prior, variance=DEVIATION**2)
    assert np.isfinite(found.counts).all()
    assert (found.variances > 0).all()


def test_tables_that_are_small_huge_or_of_three_attributes_are_left_alone():
    assert has_neighbours((4, 2))
    assert not has_neighbours((3, 3))
    assert not has_neighbours((512, 512))
    assert not has_neighbours((8, 8, 8))

# type: ignore  (annotations of tests are not checked)
"""Relative certificates: every table by a bound of its own, from one number whose weights are public."""

import json
from fractions import Fraction

import numpy as np
import pytest

import maquette as mq
from maquette.core.class_errors import WHOLE, gaps, largest_gap
from maquette.queries.classes import CLASSES
from maquette.releasing.certify import share_of_beta
from maquette.results.covering import Coverage
from maquette.results.distribution import LEAST, weights_of
from maquette.results.statements import ClassCertificate
from maquette.theory import quantiles
from maquette.theory.quantiles import law_at

SIZES = {"name": 60, "age": 30, "sex": 2, "member": 2}
DOMAIN = mq.Domain.from_dict(
    {
        "attributes": [
            {"name": "name", "kind": "categorical", "size": 60},
            {"name": "age", "kind": "ordinal", "size": 30},
            {"name": "sex", "kind": "categorical", "size": 2},
            {"name": "member", "kind": "boolean", "size": 2},
        ]
    }
)
PAIRS = mq.marginals(DOMAIN, k=2)


def columns(n, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.binomial(29, 0.3 + 0.4 * rng.random(n))
    return {
        "name": rng.integers(0, 60, n),
        "age": age,
        "sex": rng.integers(0, 2, n),
        "member": (rng.random(n) < 0.2 + 0.02 * age).astype(int),
    }


def made(n=10_000, *, relation="add-remove", **options):
    book = mq.Ledger.memory(
        budget=mq.Budget(1.0, 1e-6, "gaussian"),
        relation=mq.Relation(relation),
        domain_fingerprint=DOMAIN.fingerprint,
        name="test",
    )
    table = mq.open(columns(n), domain=DOMAIN, name="people")
    given = {"epsilon": 1.0, "delta": 1e-6, "mechanism": "sculpt"} | options
    return mq.release(table, PAIRS, ledger=book, relation=relation, **given)


@pytest.fixture(scope="module")
def release():
    return made()


def relative_of(release):
    return next(one for one in release.certificates if one.name == "relative")


def true_errors(release, n):
    """The largest error of every table of the relative certificate, as a share of the records."""
    coded, distribution = columns(n), release.distribution
    for table in CLASSES["relative"].tables(DOMAIN, distribution.sets):
        exact = np.zeros([SIZES[name] for name in table.margin], dtype=np.int64)
        np.add.at(exact, tuple(coded[name] for name in table.margin), 1)
        shares = distribution.table(table.margin).astype(np.int64).reshape(exact.shape)
        gap = largest_gap(table.sets(), gaps(exact, shares, distribution.denominator))
        yield gap / distribution.denominator / n


def test_it_is_bought_by_default_and_never_wider_than_the_bounds_of_all(release):
    flat = {one.name: one.alpha for one in release.certificates}
    relative = relative_of(release)
    assert len(relative.bounds) == 4 + 6
    assert relative.alpha == max(relative.bounds) <= max(flat["one attribute"], flat["two ranges"])
    assert relative.typical <= relative.alpha
    assert "half of these within" in release.facts()["also certified"]
    assert "half of these" not in release.headline  # long enough without
    by_table = dict(
        zip(
            [t.margin for t in CLASSES["relative"].tables(DOMAIN, [DOMAIN.names])],
            relative.bounds,
            strict=True,
        )
    )
    assert by_table["sex",] <= by_table["name",]


def test_a_question_has_the_bound_of_its_own_table(release):
    coverage = Coverage(release.distribution, (relative_of(release),))
    answer = coverage.cover(mq.where(DOMAIN, "age between 5 and 9 and sex = 0"))
    tables = [t.margin for t in CLASSES["relative"].tables(DOMAIN, release.distribution.sets)]
    own = relative_of(release).bounds[tables.index(("age", "sex"))]
    assert answer.error == own
    assert "each with a bound of its own" in answer.statement


@pytest.mark.accuracy
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_no_table_exceeds_its_bound(relation):
    """With a chance to fail that is as good as none; alone, so that no other bound helps."""
    n = 4_000
    release = made(n, certificate=["workload", "relative"], beta=1e-9, relation=relation)
    certificate = relative_of(release)
    true = list(true_errors(release, n))
    assert all(error <= bound for error, bound in zip(true, certificate.bounds, strict=True))
    payment = next(one for one in release.spending if one.asked == "class errors")
    law = law_at(Fraction(payment.amount), unit=release.budget.unit)
    margin = 2 * quantiles.lower_quantile(law, beta=share_of_beta(1e-9, 2) * 0.95)
    worst = max(error / bound for error, bound in zip(true, certificate.bounds, strict=True))
    least = min(certificate.bounds) * n
    assert worst >= 1 - 1.1 * (margin + 2) / least  # some table is as near as the noise of the number allows


def test_bounds_follow_from_weights_and_one_number():
    """A bound times its weight is the same for all tables, but for digits."""
    release = made(certificate="relative")
    relative, distribution = relative_of(release), release.distribution
    payment = next(one for one in release.spending if one.asked == "class errors")
    deviation = law_at(Fraction(payment.amount), unit=release.budget.unit).deviation
    tables = CLASSES["relative"].tables(DOMAIN, distribution.sets)
    weights = weights_of(distribution, tables, n=10_000, deviation=deviation)
    inside = [
        bound * weights[table.margin] / WHOLE
        for table, bound in zip(tables, relative.bounds, strict=True)
        if bound < 1
    ]
    assert max(inside) <= min(inside) * 1.03  # the number of records is noisy


def test_weights_are_largest_for_the_smallest_scale_and_never_above_one(release):
    distribution = release.distribution
    tables = CLASSES["relative"].tables(DOMAIN, distribution.sets)
    for deviation in (0.5, 20.0, 5_000.0):
        weights = weights_of(distribution, tables, n=10_000, deviation=deviation)
        assert max(weights.values()) == WHOLE
        assert min(weights.values()) >= 1
        assert weights["sex",] >= weights["name",]
        assert weights["sex", "member"] >= weights["name", "age"]
    alike = weights_of(distribution, tables, n=5_000, deviation=1e6)
    assert alike["sex",] == alike["name",] == WHOLE  # all below the least scale
    assert LEAST > 0


def test_folders_keep_the_bounds(release, tmp_path):
    place = release.save(tmp_path / "one", report=True)
    again = mq.load(place)
    assert again.certificates == release.certificates
    stored = json.loads((place / "release.json").read_text())["certificates"]
    assert [len(one.get("bounds", ())) for one in stored] == [0] * (len(stored) - 1) + [10]
    assert "half of these within" in (place / "report.html").read_text()
    stored[-1]["bounds"] = stored[-1]["bounds"][:-1]
    bad = ClassCertificate("relative", 0.1, 0.05, 1.0, "answers", bounds=(0.1,))
    with pytest.raises(mq.MaquetteError, match="1 bounds for 10 tables"):
        Coverage(release.distribution, (bad,)).cover(mq.where(DOMAIN, "age >= 4"))

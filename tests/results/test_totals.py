"""The number of records as well as it is known: for counts, and for what certificates divide by."""

from fractions import Fraction

import numpy as np
import pytest

import maquette as mq
from maquette.core.binned import Binned
from maquette.core.laws import Gaussian
from maquette.core.measurement import Receipt, Size
from maquette.domain import Attribute, Domain, Kind
from maquette.mechanisms import sizing
from maquette.releasing.certify import beta_for_noise
from maquette.results.distribution import records
from maquette.results.figures import Grouping
from maquette.sculpt.model import MeasuredTable, SculptModel
from maquette.theory import ratios
from maquette.theory.quantiles import law_at

DOMAIN = Domain((Attribute("a", Kind.ORDINAL, codes=3), Attribute("b", Kind.ORDINAL, codes=2)))
COUNTS = {"a": np.array([200, 700, 600]), "b": np.array([1000, 500])}
N = 1500
RUNS, BETA = 1000, 0.8


def noisy(rng):
    """A released size that is far off, and tables of one attribute that know the number of records better."""
    size = Size(int(N + rng.normal(0, 100)), Gaussian(Fraction(1), Fraction(100**2)), Receipt(1, "0" * 64))
    tables = tuple(
        MeasuredTable(
            Binned((name,), (tuple(range(len(counts))),)),
            counts + np.rint(rng.normal(0, 8, len(counts))),
            counts / N,
            64.0,
        )
        for name, counts in COUNTS.items()
    )
    return size, SculptModel(DOMAIN, tables, size, False, 1)


def test_the_number_of_records_is_between_its_ends_as_often_as_stated():
    """Out of a tenth of beta, and closer than by the size alone."""
    rng = np.random.default_rng(2)
    failed = 0
    for _ in range(RUNS):
        size, model = noisy(rng)
        least, value, most = records(size, model, beta=BETA)
        alone = records(size, None, beta=BETA)
        failed += not least <= N <= most
        assert least <= value <= most
        assert most - least < (alone.most - alone.least) / 4
        assert alone.value == size.divisor
        assert alone.most - alone.value == sizing.size_error(size, BETA)
    assert failed <= BETA * sizing.SIZE_BETA * RUNS


def test_a_public_number_has_no_error():
    _, model = noisy(np.random.default_rng(3))
    public = Size(N, None, None)
    assert records(public, None, beta=0.05) == (N, N, N)
    assert records(public, SculptModel(DOMAIN, model.tables, public, False, 1), beta=0.05) == (N, N, N)


@pytest.mark.parametrize("certificates", [1, 2, 5, 7])
def test_all_certificates_together_fail_no_more_often_than_stated(certificates):
    """The event of the number of records is one for all of them, those of the noise are one each."""
    beta = 0.01
    noise = beta_for_noise(beta, certificates, public=False)
    assert certificates * noise + sizing.SIZE_BETA * beta == pytest.approx(certificates * beta)
    assert beta_for_noise(beta, certificates, public=True) == beta


def test_counts_and_bounds_of_a_release_go_by_it():
    rng = np.random.default_rng(4)
    a = rng.binomial(2, 0.4, N)
    table = mq.open({"a": a, "b": (a + rng.integers(0, 2, N)) % 2}, domain=DOMAIN, name="people")
    book = mq.Ledger.memory(
        budget=mq.Budget(0.5, 1e-6, "gaussian"),
        relation=mq.Relation.ADD_REMOVE,
        domain_fingerprint=DOMAIN.fingerprint,
        name="test",
    )
    release = mq.release(
        table, mq.marginals(DOMAIN, k=2), epsilon=0.5, delta=1e-6, mechanism="sculpt", ledger=book,
        certificate=["workload", "one attribute"],
    )  # fmt: skip
    best = records(release.size, release.model, beta=release.beta / 3)
    answer = release.answer("a = 1")
    assert answer.count == pytest.approx(answer.value * best.value)
    assert release.certificate is not None
    assert release.size.noise is not None
    paid = {one.asked: Fraction(one.amount) for one in release.spending}
    share = beta_for_noise(release.beta / 3, 2, public=False)
    for asked, one in zip(
        ("largest error", "class errors"), (release.certificate, *release.certificates), strict=True
    ):
        assert one.counts / best.most < one.alpha < one.counts / best.least
        noise = law_at(paid[asked], unit=release.budget.unit)
        gap = ratios.dependent_gap(
            deviation=noise.deviation, size_deviation=release.size.noise.deviation, beta=share
        )  # what is stated is where the measured error and the gap meet a share of the number
        hidden, at_alpha = gap(np.array([0.0, one.alpha]))
        assert one.alpha * best.value == pytest.approx(one.counts - hidden + at_alpha, rel=1e-3)
    shares = Grouping.of(release, ["a"], None).share()
    counts = Grouping.of(release, ["a"], None).count()
    assert counts.value.tolist() == pytest.approx((shares.value * best.value).tolist())
    assert counts.upper.tolist() == pytest.approx((shares.upper * best.most).tolist())
    assert counts.lower.tolist() == pytest.approx((shares.lower * best.least).tolist())

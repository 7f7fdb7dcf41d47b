# type: ignore  (annotations of tests are not checked)
"""Certificates of classes of questions: what is bought, what is stated, and that it holds for the worst questions."""

import itertools
import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import maquette as mq
from maquette.core.budget import UNITS
from maquette.core.class_errors import gaps, largest_gap
from maquette.queries.classes import CLASSES
from maquette.releasing import certify
from maquette.releasing.certify import share_of_beta
from maquette.releasing.plan import decided as plan_on
from maquette.releasing.planning import plan_of
from maquette.releasing.request import Request, read_certificate
from maquette.results.distribution import records
from maquette.theory import quantiles
from maquette.theory.quantiles import law_at
from support.class_cases import FAMILY, ORDER, cell_sets

DOMAIN = mq.Domain.from_dict(
    {
        "attributes": [
            {"name": "age", "kind": "ordinal", "size": 9},
            {"name": "region", "kind": "categorical", "size": 4},
            {"name": "member", "kind": "boolean", "size": 2},
            {"name": "score", "kind": "ordinal", "size": 5, "nullable": True},
        ]
    }
)
PAIRS = mq.marginals(DOMAIN, k=2)
DEFAULT = ("one attribute", "two attributes", "two ranges")
"""What is bought where records stay where they are."""
USUAL = ("any combination", "any combination and a range", "any combination and a list", "two ranges")


def columns(n, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.binomial(8, 0.3 + 0.4 * rng.random(n))
    region = (age // 3 + rng.integers(0, 2, n)) % 4
    score = np.where(rng.random(n) < 0.1, -1, (age // 2 + rng.integers(0, 2, n)) % 5)
    member = (rng.random(n) < 0.2 + 0.08 * age).astype(int)
    return {
        "age": age,
        "region": region,
        "member": member,
        "score": [None if s < 0 else int(s) for s in score],
    }


def ledger(epsilon=1.0, delta=1e-6, relation="add-remove"):
    return mq.Ledger.memory(
        budget=mq.Budget(epsilon, delta, "gaussian"),
        relation=mq.Relation(relation),
        domain_fingerprint=DOMAIN.fingerprint,
        name="test",
    )


def made(n=2_000, *, queries=PAIRS, book=None, relation="add-remove", **options):
    table = mq.open(columns(n), domain=DOMAIN, name="people")
    given = {"epsilon": 1.0, "delta": 1e-6, "mechanism": "sculpt"} | options
    return mq.release(
        table, queries, ledger=book or ledger(given["epsilon"], relation=relation), relation=relation, **given
    )


@pytest.fixture(scope="module")
def release():
    return made(certificate=["workload", *DEFAULT])


def universe(n):
    coded = columns(n)
    counts = np.zeros(DOMAIN.shape, dtype=np.int64)
    score = [5 if s is None else s for s in coded["score"]]
    np.add.at(counts, (coded["age"], coded["region"], coded["member"], score), 1)
    return counts


# --- what is bought -------------------------------------------------------------------------------------------------


def test_classes_are_bought_by_name(release):
    assert tuple(one.name for one in release.certificates) == DEFAULT
    assert {one.of for one in release.certificates} == {"answers"}
    assert release.certificate is not None
    assert {one.beta for one in release.certificates} == {0.05} == {release.certificate.beta}
    spent = {one.asked: one.amount for one in release.spending}
    total = mq.Budget(1.0, 1e-6, "gaussian").total_units / UNITS
    assert spent["class errors"] == pytest.approx(0.05 * total, rel=0.01)
    assert spent["largest error"] == pytest.approx(0.05 * total, rel=0.01)


def decided(n, *, epsilon=1.0, queries=PAIRS, **options):
    given = {
        "certificate": None,
        "groups": False,
        "rows": None,
        "post": "auto",
        "typical_rows": n,
        "beta": 0.05,
    }
    request = Request(queries=queries, epsilon=epsilon, delta=1e-6, mechanism="sculpt", **(given | options))
    return plan_on(plan_of(request), n=n)


def test_the_released_number_of_records_decides_again():
    small = made(150)
    assert small.certificates == ()
    assert any("not certified: any combination" in note for note in small.notes)
    assert "class errors" not in {one.asked for one in small.spending}
    by_name = made(150, certificate=("workload", "two attributes"))
    assert [one.name for one in by_name.certificates] == ["two attributes"]


def test_public_numbers_decide():
    assert decided(20_000).certificate.classes == (*USUAL, "average pair")
    assert decided(20_000, lists_records=False).certificate.classes == DEFAULT
    assert decided(100).certificate.classes == ()
    assert decided(20_000, epsilon=0.01).certificate.classes == ()
    assert decided(20_000, rows=500).certificate.classes == ()
    assert decided(20_000, certificate=0.05).certificate.classes == ()
    assert decided(20_000, queries=mq.marginals(DOMAIN, k=1)).certificate.classes == ("one attribute",)
    assert decided(20_000, queries=mq.marginals(DOMAIN, k=3)).certificate.classes == (*USUAL, "average pair")
    assert decided(20_000, queries=mq.marginals(DOMAIN, k=3), lists_records=False).certificate.classes == (
        "one attribute", "two attributes", "three attributes", "two ranges",
    )  # fmt: skip
    apart = mq.marginals(DOMAIN, attributes=[["age", "region"], ["member", "score"]])
    assert (
        decided(20_000, queries=apart).certificate.classes == DEFAULT
    )  # nobody looked at age and member together
    assert decided(20_000, queries=mq.prefixes(DOMAIN, "age")).certificate.classes == ()


def test_words_name_what_is_certified():
    assert read_certificate(None) == (None, None)
    assert read_certificate(0.1) == (0.1, ())
    assert read_certificate("two ranges") == (0.0, ("two ranges",))
    assert read_certificate(["two ranges", "workload", "one attribute"]) == (
        0.05,
        ("one attribute", "two ranges"),
    )
    for wrong in ("pairs", ["workload", 1], {"workload": 1}):
        with pytest.raises(mq.MaquetteError, match="workload"):
            read_certificate(wrong)
    with pytest.raises(mq.MaquetteError, match="weight"):
        Request(
            queries=PAIRS, epsilon=1.0, certificate="one attribute", weight="age", mechanism="roth", beta=0.05,
            groups=False, rows=None, post="auto", typical_rows=100,
        )  # fmt: skip


def test_requests_without_classes_keep_their_digest():
    plain = decided(20_000, certificate=0.05).request
    assert decided(20_000, certificate=["workload"]).request.digest == plain.digest
    assert decided(20_000, certificate=["workload", "two ranges"]).request.digest != plain.digest
    whole = sum(decided(20_000).prices)
    assert 0 <= decided(20_000).budget.total_units - whole * UNITS < 2


def test_classes_without_the_workload():
    only = made(3_000, certificate="one attribute")
    assert only.certificate is None
    assert [one.name for one in only.certificates] == ["one attribute"]
    assert {one.asked for one in only.spending} >= {"class errors"}
    assert "largest error" not in {one.asked for one in only.spending}


@pytest.mark.parametrize("bought_before", [True, False])
def test_a_request_in_the_ledger_repeats_as_it_was(monkeypatch, bought_before):
    """The stored number of records decides the same again; a version that decides otherwise is refused, unpaid.

    What classes cost is missing from the price of every table, so that none of the stored values would fit another
    decision: there is nothing that could be returned for it. The version that made it still repeats it afterwards.
    """
    usual, book = certify.SAYS_ENOUGH, ledger()

    def version(*, buys: bool) -> None:
        monkeypatch.setattr(certify, "SAYS_ENOUGH", usual if buys else 0.0)

    version(buys=bought_before)
    first = made(5_000, book=book)
    assert bool(first.certificates) == bought_before
    entries, spent = len(list(book.entries())), book.balance().charged_units
    version(buys=not bought_before)
    with pytest.raises(mq.KeyReused, match="another mechanism, certificate or share"):
        made(5_000, book=book)
    version(buys=bought_before)
    again = made(5_000, book=book)
    assert again.certificates == first.certificates
    assert again.answers.numerators.tolist() == first.answers.numerators.tolist()
    assert (len(list(book.entries())), book.balance().charged_units) == (entries, spent)


# --- what is stated -------------------------------------------------------------------------------------------------


def test_answers_come_from_the_tables_that_were_certified(release):
    """Every condition of the classes has the released share of its table, and the bound of the smallest class."""
    whole = {one.name: one for one in release.certificates}
    for text, name in {
        "age >= 4 and member = 1": "two attributes",
        "age between 2 and 5 and region in (0, 2)": "two ranges",
        "age in (1, 3, 5)": "one attribute",
    }.items():
        query = mq.where(DOMAIN, text)
        covered = release.coverage.cover(query)
        assert covered.error <= whole[name].alpha
        assert covered.statement.startswith("certified for")
        shares = release.distribution.table(query.attributes) / release.distribution.denominator
        inside = query.columns_of(_cells(query.attributes))[0].astype(bool)
        assert covered.value == pytest.approx(shares[inside].sum())
        answer = release.answer(text)  # this, or an interval of the measured tables that is narrower
        assert answer.error <= covered.error * (1 + 1e-9)
        assert answer.confidence == pytest.approx(0.95)
        assert answer.source == "model" or answer.value == pytest.approx(covered.value)


def _cells(margin):
    shape = [DOMAIN[name].size for name in margin]
    return {name: codes.ravel() for name, codes in zip(margin, np.indices(shape), strict=True)}


def test_parts_unions_and_negations_add_up(release):
    def cover(text):
        return release.coverage.cover(mq.where(DOMAIN, text))

    one, other = cover("age >= 4 and member = 1"), cover("not (age >= 4 and member = 1)")
    assert other.error == pytest.approx(one.error)
    assert other.value == pytest.approx(1 - one.value)
    assert cover("age >= 4 or member = 1").error == pytest.approx(
        one.error
    )  # what neither has is one conjunction
    assert cover("age in (1, 3) and member = 1 or age = 5 and region = 2").error > one.error
    outside = release.answer("age >= 4 and member = 1 and region = 2")
    assert outside.error is not None
    assert "outside every certified class" in outside.statement
    assert "would cover it" in " ".join(outside.notes)


def test_folders_keep_certificates_and_old_folders_have_none(release, tmp_path):
    place = release.save(tmp_path / "one", report=True)
    again = mq.load(place)
    assert again.certificates == release.certificates
    assert again.answer("age >= 4 and member = 1") == release.answer("age >= 4 and member = 1")
    assert "any comparisons on two attributes together" in (place / "report.html").read_text()
    stored = json.loads((place / "release.json").read_text())
    assert [one["name"] for one in stored["certificates"]] == list(DEFAULT)
    without = replace(release, certificates=()).save(tmp_path / "two", report=False)
    assert "certificates" not in json.loads((without / "release.json").read_text())
    assert mq.load(without).certificates == ()


def test_the_headline_names_the_classes(release):
    assert "any condition on one attribute within" in release.headline
    assert "any comparisons on two attributes together within" in release.headline


# --- and holds ------------------------------------------------------------------------------------------------------


def worst_excess(release, counts):
    """The largest error of any question of a class over the bound stated for its table, by the worst question."""
    worst = 0.0
    n = int(counts.sum())
    distribution = release.distribution
    for certificate in release.certificates:
        for table in CLASSES[certificate.name].tables(DOMAIN, distribution.sets):
            axes = tuple(i for i, name in enumerate(DOMAIN.names) if name not in table.margin)
            exact = counts.sum(axis=axes)
            shares = distribution.table(table.margin).astype(np.int64).reshape(exact.shape)
            error = (
                largest_gap(table.sets(), gaps(exact, shares, distribution.denominator))
                / distribution.denominator
                / n
            )
            worst = max(worst, error / max(certificate.alpha, 1e-12))
    return worst


@pytest.mark.slow
@pytest.mark.accuracy
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_no_question_of_a_class_exceeds_its_bound_more_often_than_stated(relation):
    """Over many releases, with the question picked afterwards that is farthest off; beta as large as half."""
    runs, beta = 40, 0.5
    counts = universe(2_000)
    failed = sum(
        worst_excess(made(2_000, beta=beta, relation=relation, certificate=["workload", *DEFAULT]), counts)
        > 1
        for _ in range(runs)
    )
    each = share_of_beta(beta, 4) * 3  # the chance that one of the three classes fails
    assert failed <= runs * each + 3 * np.sqrt(runs * each)


@pytest.mark.accuracy
@pytest.mark.parametrize("name", ["one attribute", "two attributes", "two ranges"])
def test_every_condition_of_a_class_is_within_the_stated_error(name):
    """By enumeration of the conditions in words: none exceeds the bound, and the worst is as near as the noise allows.

    The chance to fail is as good as none, and so is the chance that the bound lies farther above the worst condition
    than twice the quantile of its noise, at the fewest records that there can be.
    """
    beta = 1e-9
    release = made(4_000, certificate=["workload", name], beta=beta)
    (certificate,) = release.certificates
    counts = universe(4_000)
    n = int(counts.sum())
    worst = max(abs(true - stated) for true, stated in enumerated(release, counts, name))
    assert worst <= certificate.alpha
    least = records(release.size, release.model, beta=share_of_beta(beta, 2)).least
    payment = next(one for one in release.spending if one.asked == "class errors")
    law = law_at(Fraction(payment.amount), unit=release.budget.unit)
    margin = quantiles.lower_quantile(law, beta=share_of_beta(beta, 2) * 0.95)
    assert certificate.alpha <= (worst * n + 1 + 2 * margin) / least
    assert certificate.counts <= worst * n + 1 + 2 * margin


def enumerated(release, counts, name):
    """Every condition of a class: the true share and that of the certified tables."""
    distribution = release.distribution
    for names in itertools.combinations(DOMAIN.names, ORDER[name]):
        axes = tuple(i for i, other in enumerate(DOMAIN.names) if other not in names)
        exact = counts.sum(axis=axes)
        shares = distribution.table(names).reshape(exact.shape) / distribution.denominator
        sets = [cell_sets(FAMILY[name], DOMAIN[one]) for one in names]
        masks = [
            np.array([[i in s for i in range(DOMAIN[one].size)] for s in some])
            for one, some in zip(names, sets, strict=True)
        ]
        true, stated = exact / counts.sum(), shares
        for axis, mask in enumerate(masks):
            true = np.moveaxis(np.tensordot(mask, true, axes=(1, axis)), 0, axis)
            stated = np.moveaxis(np.tensordot(mask, stated, axes=(1, axis)), 0, axis)
        yield from zip(true.ravel().tolist(), stated.ravel().tolist(), strict=True)

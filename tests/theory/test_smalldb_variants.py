"""VC forms, Roth's theorem and the textbook's variants: their vectors and how they relate to ours."""

import math

import pytest

from maquette.errors import ParameterError
from maquette.theory import existence, lower, smalldb, textbook
from maquette.theory import smalldb as roth
from maquette.theory.existence import Facts


def setting(
    universe: int = 256, queries: float = 1000, epsilon: float = 1, beta: float = 0.05
) -> textbook.Setting:
    return textbook.Setting(
        epsilon=epsilon, log_universe=math.log(universe), log_queries=math.log(queries), beta=beta
    )


# --- VC dimension ------------------------------------------------------------------------------------------------


def test_growth():
    assert lower.growth(vc=2, points=10) == 56
    assert lower.growth(vc=0, points=10) == 1
    assert lower.growth(vc=7, points=5) == 32
    for d in range(6):
        for s in range(9):
            assert lower.growth(vc=d, points=s) == sum(math.comb(s, i) for i in range(d + 1))
    assert lower.growth(vc=3, points=40) <= (math.e * 40 / 3) ** 3
    assert lower.log_growth(vc=10**15, points=10**12) == 10**12 * math.log(2)


@pytest.mark.parametrize(
    ("d", "n", "alpha", "rows"), [(1, 10**4, 0.1, 496), (2, 10**6, 0.1, 1382), (10, 10**6, 0.05, 24749)]
)
def test_rows_by_the_support_form(d, n, alpha, rows):
    assert (
        lower.support_error(rows=rows, vc=d, points=n)
        <= alpha
        < lower.support_error(rows=rows - 1, vc=d, points=n)
    )


@pytest.mark.parametrize(
    ("d", "m", "error"), [(1, 100, 0.32583025), (2, 1000, 0.16623184), (10, 10000, 0.12465042)]
)
def test_the_form_free_of_n(d, m, error):
    assert lower.free_error(rows=m, vc=d) == pytest.approx(error, abs=5e-9)


@pytest.mark.parametrize(("d", "rows"), [(1, 1617), (2, 3233), (3, 4876)])
def test_rows_by_the_form_free_of_n(d, rows):
    assert lower.free_rows(alpha=0.1, vc=d) == rows
    assert lower.free_error(rows=rows - 1, vc=d) > 0.1


def test_the_form_free_of_n_falls_in_m():
    for d in (0, 1, 2, 5, 20):
        errors = [lower.free_error(rows=m, vc=d) for m in range(1, 200)]
        assert errors == sorted(errors, reverse=True)


def test_vc_beats_the_union_bound_for_astronomically_many_queries_only():
    rows = lower.free_rows(alpha=0.1, vc=1)

    def union(queries: float) -> int:
        return existence.sampling_rows(alpha=0.1, log_queries=math.log(queries))

    assert union(5.4e13) <= rows < union(5.7e13)


def test_form_d_uses_n_only_where_it_is_public():
    known = Facts(universe=2**40, log_queries=200.0, vc=2)
    public = smalldb.best(known, n=10**5, epsilon=1, beta=0.05, only="ad")
    private = smalldb.best(known, n=10**5, epsilon=1, beta=0.05, only="ad", n_public=False)
    assert public.form == private.form == "d"
    assert public.alpha < private.alpha
    assert public.existence == lower.support_error(rows=public.rows, vc=2, points=10**5)
    assert private.existence == lower.support_error(rows=private.rows, vc=2, points=2**40)


def test_the_cover_form():
    known = Facts(universe=2**40, log_queries=math.inf, covers=((0.01, 5.0), (0.001, 9.0)))
    found = smalldb.best(known, n=10**7, epsilon=1, beta=0.05)
    assert found.form == "g"
    assert found.existence == min(
        existence.cover(rows=found.rows, radius=r, log_cover=log_size) for r, log_size in known.covers
    )
    assert existence.cover(rows=200, radius=0.01, log_cover=5.0) == pytest.approx(
        0.02 + math.sqrt((math.log(2) + 5) / 400)
    )


# --- Roth 2010 ---------------------------------------------------------------------------------------------------


def test_relative_usefulness_by_its_formula():
    known = Facts(universe=256, log_queries=math.log(1000))
    found = roth.relative_records(known, eta=0.2, epsilon=1, beta=0.05, only="a")
    assert found.rows == existence.sampling_rows(alpha=0.1, log_queries=math.log(1000)) == 381
    log_range = math.lgamma(256 + 381) - math.lgamma(382) - math.lgamma(256)
    assert found.n == pytest.approx(4 / 0.2 * (log_range + math.log(20)))


def test_relative_usefulness_follows_from_the_proposition():
    known = Facts(universe=256, log_queries=math.log(1000))
    for eta in (0.05, 0.1, 0.3, 0.9):
        found = roth.relative_records(known, eta=eta, epsilon=0.7, beta=0.05)
        bound = smalldb.error(
            known, rows=found.rows, n=found.n, epsilon=0.7, beta=0.05, n_public=False, only="abdefg"
        )
        assert bound.alpha <= eta * (1 + 1e-12)
        better = smalldb.records(known, alpha=eta, epsilon=0.7, beta=0.05, only="abdefg")
        assert better.n <= found.n * (1 + 1e-12)


def test_the_published_exponent_doubles_the_requirement():
    known = Facts(universe=64, log_queries=3.0)
    ours = roth.relative_records(known, eta=0.1, epsilon=1, beta=0.05)
    published = roth.relative_records(known, eta=0.1, epsilon=1, beta=0.05, exponent=0.25)
    assert published.n == pytest.approx(2 * ours.n)
    with pytest.raises(ParameterError, match="exponent"):
        roth.relative_records(known, eta=0.1, epsilon=1, beta=0.05, exponent=1.0)


def test_a_released_total_adds_its_error():
    assert roth.usefulness(eta=0.1, total=1000) == 100
    assert roth.usefulness(eta=0.1, total=1000, size_error=7) == 107


def test_rows_for_a_target():
    known = Facts(universe=1024, log_queries=math.log(1023), shape="thresholds")
    assert roth.rows_for(known, alpha=0.1) == (5, "f")
    assert roth.rows_for(known, alpha=1.0)[0] == 1
    endless = Facts(universe=1024, log_queries=math.inf, covers=((0.2, 1.0),))
    with pytest.raises(ParameterError, match="no number of rows"):
        roth.rows_for(endless, alpha=0.3, only="g")


# --- textbook variants -------------------------------------------------------------------------------------------


def test_records_of_the_textbook_variants():
    terms = setting()
    assert textbook.records_exact(terms, alpha=0.1) == pytest.approx(612995.489531, abs=1e-5)
    assert textbook.records_printed(terms, alpha=0.1) == pytest.approx(624858.589334, abs=1e-5)


def test_the_textbook_error_at_a_tenth():
    assert textbook.error_at(setting(16, 100), n=1e5, alpha=0.1) == pytest.approx(0.1255964005, abs=5e-11)


def test_the_minimised_form_is_the_least_over_alpha():
    terms = setting(16, 100)
    least = min(textbook.error_at(terms, n=1e5, alpha=i / 10_000) for i in range(1, 10_000))
    assert textbook.error_minimised(1e5, terms) == pytest.approx(least, rel=1e-6)
    assert textbook.error_minimised(1e5, terms) <= least


def test_each_error_inverts_its_records():
    terms = setting()
    assert textbook.error_exact(612995.489531, terms) == pytest.approx(0.1, rel=1e-9)
    assert textbook.error_printed(624858.589334, terms) == pytest.approx(0.1, rel=1e-9)
    assert textbook.error_weak(4903125.111210, terms) >= 0.1  # halves are not the best split


def test_the_printed_form_holds_below_one_and_says_nothing_above():
    terms = setting()
    assert textbook.error_printed(1e5, terms) >= textbook.error_exact(1e5, terms)
    assert textbook.error_printed(10, terms) > 1
    assert textbook.error_printed(10, terms) < textbook.error_exact(
        10, terms
    )  # below the exact one: no bound


def test_the_printed_counts_are_wrong_and_the_corrected_are_n_times_the_fraction():
    terms = setting()
    n = 1e6
    assert textbook.counts_corrected(n, terms) == pytest.approx(n * textbook.error_printed(n, terms))
    assert textbook.counts_printed(n, terms) == pytest.approx(
        textbook.counts_corrected(n, terms) / n ** (1 / 3)
    )
    achievable = n * smalldb.closed_form(
        n=n, epsilon=1, log_universe=terms.log_universe, log_queries=terms.log_queries, beta=terms.beta
    )
    assert textbook.counts_printed(n, terms) < achievable / 10
    assert [v.name for v in textbook.VARIANTS if v.status == "wrong"] == ["counts, as printed"]


def test_rows_of_the_textbook():
    assert textbook.rows(alpha=0.1, log_queries=math.log(1000)) == 691
    assert textbook.rows(alpha=0.1, log_queries=0.0) == 0  # k = 1: no rows at all
    assert textbook.rows_weak(alpha=0.1, log_queries=math.log(1000)) == 5527
    ours = existence.sampling_rows(alpha=0.1, log_queries=math.log(1000))
    assert ours < 0.6 * textbook.rows(alpha=0.1, log_queries=math.log(1000))


def test_the_weak_variant_is_about_three_and_a_half_times_ours():
    terms = setting(2**20, 10**6)
    n = 1e9
    ours = smalldb.closed_form(
        n=n, epsilon=1, log_universe=terms.log_universe, log_queries=terms.log_queries, beta=terms.beta
    )
    assert textbook.error_weak(n, terms) / ours == pytest.approx(3.36, abs=0.1)


@pytest.mark.parametrize("variant", [v for v in textbook.VARIANTS if not v.in_counts], ids=lambda v: v.name)
def test_no_textbook_variant_beats_ours(variant):
    for universe, queries, n in ((16, 100, 1e5), (256, 1000, 1e6), (65536, 10**6, 1e7)):
        known = Facts(universe=universe, log_queries=math.log(queries))
        ours = smalldb.best(known, n=n, epsilon=1, beta=0.05).alpha
        assert ours < variant.error(n, setting(universe, queries))


def test_a_setting_is_checked():
    with pytest.raises(ParameterError, match="beta"):
        setting(beta=1.5)
    with pytest.raises(ParameterError, match="epsilon"):
        setting(epsilon=0)

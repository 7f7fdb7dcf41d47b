"""SmallDB's bounds: every vector of the specification, section 4, and the exactness of the search over m."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maquette.errors import ParameterError
from maquette.theory import existence, search, smalldb
from maquette.theory.existence import Facts


def facts(universe: int, queries: float, **known) -> Facts:
    return Facts(universe=universe, log_queries=math.log(queries), **known)


def close(value: float, printed: float, digits: int = 10) -> bool:
    return abs(value - printed) <= 0.5000001 * 10**-digits


# --- B(m) --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("universe", "queries", "n", "beta", "rows", "printed"),
    [
        (16, 100, 1e5, 0.05, 60, 0.2108924810),
        (256, 1000, 1e6, 0.05, 200, 0.1384722037),
        (4, 3, 100, 0.1, 5, 0.5498505345),
        (16, 100, 1e5, 0.05, 265, 0.1011688580),
    ],
)
def test_the_bound_for_given_rows(universe, queries, n, beta, rows, printed):
    bound = smalldb.error(facts(universe, queries), rows=rows, n=n, epsilon=1, beta=beta, only="a")
    assert close(bound.alpha, printed)
    assert bound.alpha == bound.existence + bound.selection


def test_rounding_makes_the_bound_of_265_rows_six_times_smaller():
    bound = smalldb.error(facts(16, 100), rows=265, n=1e5, epsilon=1, beta=0.05, only="ab")
    assert close(bound.alpha, 0.0162790728)
    assert bound.form == "b"


CASES = [
    (16, 100, 1e4, 1, 0.05, 1341, 0.0196234820, 129, 0.2154362056),
    (256, 1000, 1e4, 1, 0.05, 544, 0.1835535928, 92, 0.3058771888),
    (256, 1000, 1e5, 1, 0.05, 12675, 0.0301078155, 426, 0.1417571796),
    (65536, 1e6, 1e6, 1, 0.05, 3767, 0.0731453316, 1545, 0.1027978740),
    (1024, 1e4, 1e5, 0.5, 0.01, 1340, 0.1254725973, 253, 0.2102310581),
    (2, 1, 100, 1, 0.05, 26, 0.1450621520, 8, 0.3789568472),
]


@pytest.mark.parametrize(("universe", "queries", "n", "epsilon", "beta", "m", "b", "m_seq", "b_seq"), CASES)
def test_the_best_rows(universe, queries, n, epsilon, beta, m, b, m_seq, b_seq):
    found = smalldb.best(facts(universe, queries), n=n, epsilon=epsilon, beta=beta, only="abc")
    assert found.rows == m
    assert close(found.alpha, b)
    plain = smalldb.best(
        facts(universe, queries), n=n, epsilon=epsilon, beta=beta, base="sequences", only="a"
    )
    assert plain.rows == m_seq
    assert close(plain.alpha, b_seq)


def test_the_table_as_its_own_small_database():
    bound = smalldb.error(facts(16, 100), rows=10_000, n=10_000, epsilon=1, beta=0.05)
    assert bound.form == "c"
    assert close(bound.alpha, 0.0226527121)
    private = smalldb.error(facts(16, 100), rows=10_000, n=10_000, epsilon=1, beta=0.05, n_public=False)
    assert private.form == "b"
    assert private.alpha > bound.alpha


@pytest.mark.parametrize(
    ("universe", "n", "m", "printed"), [(1024, 1e4, 26, 0.0436841848), (65536, 1e5, 60, 0.0179296504)]
)
def test_thresholds_need_few_rows(universe, n, m, printed):
    found = smalldb.best(facts(universe, universe - 1, shape="thresholds"), n=n, epsilon=1, beta=0.05)
    assert (found.rows, found.form) == (m, "f")
    assert close(found.alpha, printed)


def test_thresholds_against_the_general_form():
    general = smalldb.best(facts(65536, 65536), n=1e5, epsilon=1, beta=0.05)
    assert general.alpha == pytest.approx(0.17, abs=0.005)


@pytest.mark.parametrize(
    ("n", "universe", "queries", "printed"),
    [
        (1e4, 2**24, 1e3, 0.4127),
        (1e4, 2**24, 1e5, 0.4813),
        (1e4, 2**24, 1e7, 0.5339),
        (1e3, 2**16, 1e5, 0.9147),
    ],
)
def test_the_guaranteed_errors_of_the_planner(n, universe, queries, printed):
    assert close(smalldb.best(facts(universe, queries), n=n, epsilon=1, beta=0.05).alpha, printed, 4)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 40),
    st.integers(1, 500),
    st.integers(1, 200),
    st.floats(0.1, 3),
    st.sampled_from(["multisets", "sequences", "tree"]),
    st.booleans(),
    st.sampled_from([None, 0, 1, 3]),
    st.sampled_from([None, "thresholds", "intervals"]),
    st.sampled_from([(), ((0.05, 1.0),)]),
)
def test_the_search_finds_the_exact_minimum(universe, queries, n, epsilon, base, public, vc, shape, covers):
    known = facts(universe, queries, vc=vc, shape=shape, covers=covers)
    terms = {"n": n, "epsilon": epsilon, "beta": 0.05, "n_public": public, "base": base}
    found = smalldb.best(known, **terms)
    brute = min(smalldb.error(known, rows=m, **terms).alpha for m in range(1, 1201))
    assert found == smalldb.error(known, rows=found.rows, **terms)
    assert found.alpha <= brute * (1 + 1e-13)
    if found.rows <= 1200:
        assert found.alpha == pytest.approx(brute, rel=1e-13)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(0, 5), min_size=1, max_size=60),
    st.lists(st.floats(0, 1), min_size=1, max_size=60),
)
def test_branch_and_bound_is_exact_for_any_monotone_parts(falls, rises):
    fall = sorted(falls, reverse=True)
    price = sorted(rises)
    most = min(len(fall), len(price))
    at = search.lowest(lambda m: fall[m - 1], lambda m: price[m - 1], most=most)
    assert fall[at - 1] + price[at - 1] == min(fall[m] + price[m] for m in range(most))


def test_bisection_needs_a_single_valley():
    """What `valley` assumes is really needed: on two valleys it can stop in the wrong one."""
    values = [5.0, 4.0, 6.0, 1.0, 7.0, 8.0, 9.0]
    at = search.valley(lambda m: values[min(m, 7) - 1], lambda m: 0.0 if m < 7 else 1.0)
    assert values[at - 1] > min(values)


def test_a_search_among_ten_million_rows_is_short():
    calls = 0

    def alpha(m: int) -> float:
        nonlocal calls
        calls += 1
        return existence.sampling(rows=m, log_queries=20.0)

    at = search.valley(alpha, lambda m: 1e-10 * math.log1p(999 / (m + 1)))
    assert at > 10**7
    assert calls < 300


@given(st.integers(2, 10**6), st.integers(1, 10**6), st.floats(10, 1e7), st.floats(0.01, 5))
def test_the_bound_falls_in_n_epsilon_and_beta(universe, queries, n, epsilon):
    known = facts(universe, queries)

    def bound(**changed: float) -> float:
        terms = {"n": n, "epsilon": epsilon, "beta": 0.05} | changed
        return smalldb.best(known, **terms, n_public=False).alpha

    here = bound()
    assert bound(n=1.5 * n) < here
    assert bound(epsilon=1.5 * epsilon) < here
    assert bound(beta=0.1) < here
    logs = {"log_universe": math.log(universe), "log_queries": math.log(queries)}
    assert smalldb.closed_form(n=n, epsilon=epsilon, beta=0.05, **logs) >= here


def test_one_cell_is_no_choice():
    assert smalldb.best(facts(1, 5), n=10, epsilon=1, beta=0.05).alpha == 0
    assert smalldb.error(facts(1, 5), rows=3, n=10, epsilon=1, beta=0.05).alpha == 0
    assert smalldb.records(facts(1, 5), alpha=0.1, epsilon=1, beta=0.05).whole == 1


def test_a_bound_above_one_is_called_vacuous():
    bound = smalldb.best(facts(2**64, 1e9), n=100, epsilon=0.1, beta=0.05)
    assert bound.vacuous
    assert bound.clipped == 1.0
    assert bound.alpha > 1


def test_most_rows_limits_the_search():
    free = smalldb.best(facts(256, 1000), n=1e5, epsilon=1, beta=0.05)
    capped = smalldb.best(facts(256, 1000), n=1e5, epsilon=1, beta=0.05, most_rows=100)
    assert free.rows > 100 >= capped.rows
    assert capped.alpha > free.alpha


def test_a_class_without_end_is_bounded_by_its_dimension():
    endless = Facts(universe=2**64, log_queries=math.inf, vc=2)
    found = smalldb.best(endless, n=1e9, epsilon=1, beta=0.05, n_public=False)
    assert found.form in "de"
    assert found.alpha < 0.1


def test_a_smaller_span_pays_less_for_the_draw():
    wide = smalldb.error(facts(16, 100), rows=60, n=1e5, epsilon=1, beta=0.05)
    narrow = smalldb.error(facts(16, 100, span=0.25), rows=60, n=1e5, epsilon=1, beta=0.05)
    assert narrow.selection == pytest.approx(wide.selection / 4)


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 0},
        {"epsilon": -1},
        {"epsilon": math.nan},
        {"beta": 0},
        {"beta": 1},
        {"n": 0},
        {"only": "xyz"},
        {"only": ""},
        {"only": "f"},
    ],
)
def test_parameters_are_checked(wrong):
    given_terms = {"n": 100, "epsilon": 1, "beta": 0.05} | wrong
    with pytest.raises(ParameterError):
        smalldb.best(facts(16, 100), **given_terms)
    with pytest.raises(ParameterError):
        smalldb.error(facts(16, 100), rows=4, **given_terms)


# --- records needed, counts --------------------------------------------------------------------------------------


def test_records_for_an_error_of_a_tenth():
    ours = smalldb.records(facts(256, 1000), alpha=0.1, epsilon=1, beta=0.05)
    assert close(ours.n, 22715.583198, 6)
    assert (ours.rows, ours.form, ours.whole) == (2972, "b", 22716)
    plain = smalldb.records(facts(256, 1000), alpha=0.1, epsilon=1, beta=0.05, base="sequences", only="a")
    assert close(plain.n, 284681.150206, 6)
    assert plain.rows == 855


PLANNER = [  # log2 N, k, SDBseq, SDB for error .05; found there by a bisection that stops a little above
    (8, 1e2, 1.59e6, 5.41e4),
    (8, 1e6, 4.35e6, 5.41e4),
    (16, 1e2, 3.18e6, 1.22e6),
    (16, 1e4, 5.94e6, 1.94e6),
    (24, 1e4, 8.90e6, 4.92e6),
    (24, 1e6, 1.30e7, 6.91e6),
    (24, 1e9, 1.93e7, 9.75e6),
    (32, 1e4, 1.19e7, 7.89e6),
    (32, 1e9, 2.57e7, 1.62e7),
]


@pytest.mark.parametrize(("bits", "queries", "sequences", "multisets"), PLANNER)
def test_the_columns_of_the_planner_table(bits, queries, sequences, multisets):
    known = facts(2**bits, queries)
    plain = smalldb.records(known, alpha=0.05, epsilon=1, beta=0.05, base="sequences", only="a").n
    ours = smalldb.records(known, alpha=0.05, epsilon=1, beta=0.05).n
    assert plain == pytest.approx(sequences, rel=0.0052)
    assert ours == pytest.approx(multisets, rel=0.0052)
    assert ours < plain


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    st.integers(2, 30),
    st.integers(1, 200),
    st.floats(0.1, 0.9),
    st.floats(0.2, 3),
    st.sampled_from([None, 1, 2]),
    st.sampled_from([None, "thresholds", "intervals"]),
)
def test_records_are_the_smallest_that_reach_the_target(universe, queries, alpha, epsilon, vc, shape):
    known = facts(universe, queries, vc=vc, shape=shape)
    found = smalldb.records(known, alpha=alpha, epsilon=epsilon, beta=0.05)
    terms = {"epsilon": epsilon, "beta": 0.05, "n_public": found.form == "c"}
    assert smalldb.error(known, rows=found.rows, n=found.n, **terms).alpha <= alpha * (1 + 1e-12)
    if found.form != "c":
        less = smalldb.best(known, n=found.n * (1 - 1e-9), epsilon=epsilon, beta=0.05, n_public=False)
        assert less.alpha > alpha * (1 - 1e-12)


def test_a_target_that_no_form_reaches_is_refused():
    known = Facts(universe=2**64, log_queries=math.inf, covers=((0.2, 3.0),))
    with pytest.raises(ParameterError, match="no number of records"):
        smalldb.records(known, alpha=0.3, epsilon=1, beta=0.05, only="g")


def test_the_closed_form():
    terms = {"epsilon": 1, "log_universe": math.log(256), "log_queries": math.log(1000), "beta": 0.05}
    assert close(smalldb.closed_form(n=1e6, **terms), 0.0657871250)
    leading = 1.5 * 1e6 ** (2 / 3) * (2 * math.log(256) * math.log(2000)) ** (1 / 3)
    extra = 2 * (math.log(256) + math.log(20))
    assert 1e6 * smalldb.closed_form(n=1e6, **terms) == pytest.approx(leading + extra)

"""Remarks and open questions of the founding texts, each with the example that is computed for it (docs/texts.md)."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import maquette as mq
from maquette import lessons
from maquette.domain import Relation
from maquette.errors import ParameterError
from maquette.theory import existence, guarantees, lower, multiplicative, online, smalldb, textbook

SETTING = textbook.Setting(epsilon=1.0, log_universe=math.log(256), log_queries=math.log(1000), beta=0.05)


def test_laplace_is_an_exponential_mechanism_at_the_whole_rate_and_twice_the_noise_at_half():
    whole = lessons.laplace(5, 6, epsilon=1.0)
    half = lessons.laplace(5, 6, epsilon=1.0, rate="epsilon/2")
    assert whole.worst == pytest.approx(1.0)
    assert half.worst == pytest.approx(0.5)  # half of what is paid for is not used
    assert [sum(whole.here), sum(half.here)] == pytest.approx([1.0, 1.0])
    # the same law as the exponential mechanism's weights, normalised over a long list of candidates
    candidates = range(-60, 72)
    scores = [-abs(r - 5) for r in candidates]
    listed = lessons.exponential(scores, scores, epsilon=2.0)
    assert listed.here[65] == pytest.approx(whole.here[whole.outcomes.index("5")])

    def spread(law: lessons.Law) -> float:
        return sum(p * abs(int(r) - 5) for r, p in zip(law.outcomes[1:-1], law.here[1:-1], strict=True))

    wide = [lessons.laplace(5, 6, epsilon=1.0, rate=rate, reach=80) for rate in ("epsilon", "epsilon/2")]
    assert spread(wide[1]) / spread(wide[0]) == pytest.approx(2.0, rel=0.15)


def test_without_its_minus_the_score_prefers_what_is_far_off():
    scores = [abs(r - 5) for r in range(11)]
    law = lessons.exponential(scores, scores, epsilon=2.0)
    assert law.here[5] == min(law.here)


def test_drawing_finds_the_rows_that_the_probabilistic_method_promises():
    prefixes = [[1] * i + [0] * (20 - i) for i in range(1, 20)]
    found = lessons.witness(range(1, 21), prefixes, alpha=0.1)
    assert sum(found.counts) == existence.sampling_rows(alpha=0.1, log_queries=math.log(19))
    truth = np.arange(1, 21) / 210
    rows = np.array(found.counts) / sum(found.counts)
    assert np.abs(np.array(prefixes) @ (rows - truth)).max() == pytest.approx(found.error)
    assert found.error <= 0.1
    with pytest.raises(ParameterError, match="take more rows"):
        lessons.witness(range(1, 21), prefixes, alpha=0.01, rows=2)


def test_the_union_bound_at_two_queries_is_one():
    """m = ln k / alpha^2: a text asks for k > 2, another for k >= 2."""
    for k in (1, 2, 3, 1000):
        rows = math.log(k) / 0.1**2
        left = 2 * k * math.exp(-2 * rows * 0.1**2)
        assert textbook.sampling_failure(queries=k) == pytest.approx(left)
    assert textbook.sampling_failure(queries=2) == 1.0 > textbook.sampling_failure(queries=3)


def test_the_constant_six_is_below_what_the_proof_needs():
    """At the records that it asks for, the same proof at the best split gives more than alpha; with 16 it does not."""
    for alpha in (0.02, 0.05, 0.1):
        six, sixteen = (
            textbook.records_handwritten(SETTING, alpha=alpha),
            textbook.records_exact(SETTING, alpha=alpha),
        )
        assert textbook.error_minimised(six, SETTING) > alpha
        assert textbook.error_minimised(sixteen, SETTING) <= alpha
        at = {"n": six, "epsilon": 1.0, "log_universe": SETTING.log_universe, "beta": 0.05}
        assert smalldb.closed_form(log_queries=SETTING.log_queries, **at) > alpha


def test_hardt_and_talwars_rate_is_overtaken_at_four_thirds():
    n = 10**6
    crossing = guarantees.hardt_talwar_crossing(n=n)
    assert crossing == pytest.approx(10**8)
    assert math.sqrt(crossing) == pytest.approx(n ** (2 / 3))
    # with the logarithms: SmallDB's rate in counts against the published one, at |X| = 2^100
    log_universe = 100 * math.log(2)

    def counts(k: float) -> tuple[float, float]:
        log_queries = math.log(k)
        talwar = (
            guarantees.hardt_talwar(n=n, epsilon=1.0, log_universe=log_universe, log_queries=log_queries) * n
        )
        return talwar, n ** (2 / 3) * (log_universe * log_queries) ** (1 / 3)

    assert counts(crossing / 1000)[0] < counts(crossing / 1000)[1]
    assert counts(crossing * 1000)[0] > counts(crossing * 1000)[1]


def test_the_upper_bound_of_2009_is_better_in_alpha_and_worse_in_k():
    fewer, more = (
        textbook.boosted_order(10**6, SETTING, power=0.1),
        textbook.boosted_order(10**8, SETTING, power=0.1),
    )
    assert fewer / more == pytest.approx(10.0)  # 1/sqrt(n), against
    assert textbook.error_minimised(10**6, SETTING) / textbook.error_minimised(
        10**8, SETTING
    ) == pytest.approx(100 ** (1 / 3), rel=0.01)
    large = textbook.Setting(epsilon=1.0, log_universe=SETTING.log_universe, log_queries=100.0, beta=0.05)
    assert textbook.boosted_order(10**6, large, power=0.1) > 1000 * fewer
    assert textbook.error_minimised(10**6, large) < 3 * textbook.error_minimised(10**6, SETTING)


def test_pmws_error_falls_like_one_over_the_root_of_n():
    def error(n: float, unit: str, price: float) -> float:
        return online.pmw(unit=unit, price=price, n=n, log_universe=math.log(2**16), k=10**6, beta=0.05).error

    rho = guarantees.rho_of(1.0, 1e-6)
    # a hundred times as many records: ten times, or 100^(1/3) = 4.6 times, less a logarithm of the number of updates
    assert 8 < error(1e8, "rho", rho) / error(1e10, "rho", rho) < 10
    assert 4 < error(1e8, "epsilon", 1.0) / error(1e10, "epsilon", 1.0) < 5
    # and sampling alone leaves as much: no answer can be nearer to the population
    assert mq.theory.population.sampling_share(
        n=1e8, log_queries=0.0, beta=0.05
    ) / mq.theory.population.sampling_share(n=1e10, log_queries=0.0, beta=0.05) == pytest.approx(10.0)


def test_an_answer_that_follows_from_earlier_ones_is_free():
    """Musicals, tragedies, then "musicals or tragedies": the hypothesis of a session knows the sum."""
    genres = {"musicals": 15_000, "tragedies": 12_500, "comedies": 1_500, "none": 1_000}
    declared = {"name": "likes", "kind": "categorical", "categories": list(genres), "nullable": False}
    domain = mq.Domain.from_dict({"attributes": [declared]})
    table = mq.open(
        {"likes": [genre for genre, count in genres.items() for _ in range(count)]}, domain=domain
    )
    ledger = mq.Ledger.memory(
        budget=mq.Budget(1.0),
        relation=Relation.ADD_REMOVE,
        domain_fingerprint=domain.fingerprint,
        name="people",
    )
    session = mq.session(table, epsilon=1.0, mechanism="pmw", measure_first=False, queries=100, ledger=ledger)
    asked = ("likes = 'musicals'", "likes = 'tragedies'", "likes IN ('musicals', 'tragedies')")
    answers = [session.ask(question) for question in asked]
    assert [answer.kind for answer in answers] == ["paid", "paid", "free"]
    assert answers[2].value == pytest.approx(27.5 / 30, abs=answers[2].error)


def test_the_wrong_sign_of_an_update_moves_away():
    truth, hypothesis = np.array([0.7, 0.2, 0.1, 0.0]), np.full(4, 0.25)
    query = np.array([1.0, 1.0, 0.0, 0.0])
    gap = float(query @ (truth - hypothesis))

    def potential(sign: float) -> float:
        moved = hypothesis * np.exp(sign * 4 * 0.05 * np.sign(gap) * query)
        moved /= moved.sum()
        inside = truth > 0
        return float((truth[inside] * np.log(truth[inside] / moved[inside])).sum())

    start = potential(0.0)
    assert potential(+1.0) < start - multiplicative.entropy_drop(step=0.2, gap=gap) + 1e-12
    assert potential(-1.0) > start


def test_private_except_with_probability_delta_asks_for_more_than_epsilon_and_delta():
    law = lessons.randomised_response(10, 11, people=20, epsilon=1.0)
    for epsilon in (0.1, 0.3, 0.6):
        assert 0 < law.delta(epsilon) < law.beyond(epsilon)
    assert law.delta(1.1) == law.beyond(1.1) == 0.0
    # three cases: below the threshold for all at once, above it one by one, and what the noise leaves out
    right = lessons.sparse_vector([0] * 6, [1] * 6, cap=1)
    assert right.worst <= 1.0


def test_bounded_weights_are_rescaled_and_back():
    rng = np.random.default_rng(2)
    low, high = -3.0, 5.0
    values, counts = rng.uniform(low, high, 8), rng.integers(0, 50, 8)
    domain = mq.Domain.from_dict(
        {"attributes": [{"name": "v", "kind": "ordinal", "size": 8, "nullable": False}]}
    )
    queries = mq.weights(domain, [((values - low) / (high - low)).tolist()])
    scaled = queries.from_margins({("v",): counts})[0] / queries.denominator
    n = counts.sum()
    assert low * n + (high - low) * scaled == pytest.approx(
        float(values @ counts), abs=n * (high - low) / 2**20
    )
    with pytest.raises(mq.WorkloadError, match="rescale"):
        mq.weights(domain, [values.tolist()])


def test_local_and_global_sensitivity_of_a_counting_query_are_equal_on_every_table():
    """Why smooth sensitivity is not needed for linear queries; over all small tables of three cells."""
    domain = mq.Domain.from_dict(
        {"attributes": [{"name": "v", "kind": "ordinal", "size": 3, "nullable": False}]}
    )
    query = mq.where(domain, "v = 0 OR v = 2")
    assert [int(query.on_histogram(np.array(one))[0]) for one in ([1, 0, 0], [0, 1, 0])] == [1, 0]
    for table in itertools.product(range(5), repeat=3):
        neighbours = [tuple(c + (i == j) for j, c in enumerate(table)) for i in range(3)]
        here = int(query.on_histogram(np.array(table))[0])
        local = max(abs(int(query.on_histogram(np.array(other))[0]) - here) for other in neighbours)
        assert local == 1 == query.sensitivity(Relation.ADD_REMOVE).linf


def test_point_functions_need_the_logarithm_of_the_universe():
    """VC dimension 1 for every |X|, and still more records for a larger |X|; SmallDB's exact law keeps to the bound."""
    needed = [
        lower.packing_records(
            log_universe=b * math.log(2), epsilon=1.0, beta=0.05, relation=Relation.REPLACE_ONE
        )
        for b in (10, 20, 40)
    ]
    assert needed[1] - needed[0] == pytest.approx(10 * math.log(2), rel=1e-3)
    assert needed[2] - needed[1] == pytest.approx(20 * math.log(2), rel=1e-3)
    points = np.eye(4).tolist()
    assert mq.vc_dimension(np.eye(4, dtype=int).tolist()).value == 1
    for n in (1, 2, 4, 8):
        law = lessons.smalldb([n, 0, 0, 0], [0, n, 0, 0], points, rows=1, epsilon=1.0)
        missed = 1 - law.here[law.outcomes.index((1, 0, 0, 0))]
        least = lower.packing_records(
            log_universe=math.log(4), epsilon=1.0, beta=missed, relation=Relation.REPLACE_ONE
        )
        assert n >= least
    assert lower.packing_records(
        log_universe=math.log(4), epsilon=1.0, beta=0.05, relation=Relation.ADD_REMOVE
    ) == pytest.approx(math.log(3 * 19) / 2)


def test_rows_that_pass_a_check_are_slow_to_make():
    made = lessons.puzzles((0, 4, 8, 12), seed=1)
    assert made[0].tries == 1
    assert [one.share for one in made] == [1, 2**-4, 2**-8, 2**-12]
    mean = sum(lessons.puzzles((6,), seed=seed)[0].tries for seed in range(200)) / 200
    assert mean == pytest.approx(64, rel=0.25)
    with pytest.raises(ParameterError, match="0 to 16"):
        lessons.puzzles((60,))


def test_the_tables_of_the_lower_bound_are_as_small_as_gamma_times_the_dimension():
    for dimension, gamma in ((100, Fraction(1, 10)), (1000, Fraction(1, 20)), (64, Fraction(1, 4))):
        window = lower.from_fat_shattering(dimension, gamma)
        assert gamma * dimension / 2 - 1 <= window.records <= gamma * dimension + 1
    assert lower.from_vc(11).records == 5


def test_real_weights_have_a_form_free_of_the_universe():
    """Rows by the fat-shattering dimension alone; at dimension F they grow like F times a power of a logarithm."""
    rows = [lower.free_fat_rows(alpha=0.2, dimension=d, gamma=Fraction(1, 100)) for d in (1, 2, 4)]
    assert rows == sorted(rows)
    for d, m in zip((1, 2, 4), rows, strict=True):
        assert lower.free_fat_error(rows=m, dimension=d, gamma=Fraction(1, 100)) <= 0.2
    assert rows[2] < 6 * rows[0]
    with pytest.raises(ParameterError, match="8 gamma < alpha"):
        lower.free_fat_rows(alpha=0.2, dimension=1, gamma=0.05)


def test_a_sample_is_as_near_as_the_form_free_of_the_universe_says():
    """Ramps on 60 cells, many samples: the mean largest error is within the bound, which is far from sharp."""
    rng, cells, rows = np.random.default_rng(1), 60, 4000
    ramps = np.clip((np.arange(cells)[None, :] - np.arange(-20, 60)[:, None]) / 20, 0, 1)
    dimension = mq.fat_shattering_dimension(ramps[::20, ::6].round(2).tolist(), "1/100").value
    truth = rng.dirichlet(np.ones(cells))
    errors = [np.abs(ramps @ (rng.multinomial(rows, truth) / rows - truth)).max() for _ in range(50)]
    assert np.mean(errors) <= lower.free_fat_error(rows=rows, dimension=max(dimension, 1), gamma=0.01)


def test_no_four_points_are_shattered_by_half_planes():
    """Three are. A fourth may lie outside, inside the triangle (the case that a lecture leaves out) or on a line."""
    corners = [(0, 0), (6, 0), (0, 6)]
    assert lessons.half_planes(corners).shattered
    outside = lessons.half_planes([*corners, (6, 6)])
    inside = lessons.half_planes([*corners, (1, 1)])
    line = lessons.half_planes([(0, 0), (1, 0), (2, 0), (5, 0)])
    assert outside.missing == ((0, 3), (1, 2))
    assert inside.missing == ((3,), (0, 1, 2))
    assert (1,) in line.missing
    everywhere = [(x, y) for x in range(3) for y in range(3)]
    assert not any(lessons.half_planes(four).shattered for four in itertools.combinations(everywhere, 4))
    grid = lessons.half_planes(everywhere)
    assert len(grid.labellings) == 58
    assert mq.vc_dimension(grid.matrix()).value == 3
    assert len(mq.shatters(lessons.half_planes(corners).matrix(), [0, 1, 2])) == 8
    assert mq.shatters(inside.matrix(), [0, 1, 2, 3]) == ()
    with pytest.raises(ParameterError, match="distinct points"):
        lessons.half_planes([(0, 0), (0, 0)])


def test_noise_grows_with_k_and_with_its_root():
    """Basic composition: k ln k. With a delta: sqrt(k), and a logarithm."""
    at = {"n": 1e9, "epsilon": 1.0, "beta": 0.05}

    def basic(k: float) -> float:
        return mq.theory.direct.laplace(log_queries=math.log(k), **at)

    def advanced(k: float) -> float:
        return guarantees.composed_laplace(delta=1e-6, log_queries=math.log(k), **at)

    assert basic(10**6) / basic(10**4) == pytest.approx(100 * math.log(2e7) / math.log(2e5), rel=0.1)
    assert advanced(10**6) / advanced(10**4) == pytest.approx(10 * math.log(2e7) / math.log(2e5), rel=0.1)


def test_the_logarithm_of_the_number_of_queries_grows_like_n():
    """k <= exp(O(alpha^3 epsilon n / ln|X|)): twice as many records answer the square of the number of queries."""

    def log_queries(n: int, log2_universe: int) -> float:
        facts = existence.Facts(universe=2**log2_universe, log_queries=math.log(100))
        setting = guarantees.Setting(facts=facts, n=n, epsilon=1.0)
        found = mq.theory.needs(setting, alpha=0.1)["smalldb"].log_queries
        assert found is not None
        return found

    few, many = log_queries(2 * 10**7, 100), log_queries(4 * 10**7, 100)
    assert many / few == pytest.approx(2.0, rel=0.1)
    assert log_queries(4 * 10**7, 200) / few == pytest.approx(1.0, rel=0.1)


def test_all_conjunctions_need_records_like_the_square_of_the_bits():
    """|X| = |Q| = 2^d: n over d^2 settles, by our bound and by the printed one."""

    def ours(d: int) -> float:
        facts = existence.Facts(universe=2**d, log_queries=d * math.log(2))
        return smalldb.records(facts, alpha=0.1, epsilon=1.0, beta=0.05).n / d**2

    def printed(d: int) -> float:
        log = d * math.log(2)
        setting = textbook.Setting(epsilon=1.0, log_universe=log, log_queries=log, beta=0.05)
        return textbook.records_exact(setting, alpha=0.1) / d**2

    assert ours(320) == pytest.approx(ours(160), rel=0.05)
    assert printed(320) == pytest.approx(16 * math.log(2) ** 2 / 0.1**3, rel=0.01)
    assert ours(320) < printed(320) / 2


def test_answers_from_one_small_database_are_dependent_and_consistent():
    """Every outcome is a database, so prefixes rise in all of them; two errors of one draw are not independent."""
    queries = np.array([[1, 0, 0], [1, 1, 0]])
    law = lessons.smalldb([3, 1, 0], [2, 1, 1], queries.tolist(), rows=2, epsilon=1.0)
    answers = np.array([queries @ np.array(y) / 2 for y in law.outcomes])
    assert (answers[:, 0] <= answers[:, 1]).all()
    chances = np.array(law.here)
    mean = chances @ answers
    assert abs(chances @ np.prod(answers - mean, axis=1)) > 0.01


def test_no_dimension_exceeds_the_logarithm_of_the_number_of_queries():
    rng = np.random.default_rng(3)
    for _ in range(20):
        matrix = np.unique(rng.integers(0, 2, (rng.integers(1, 20), 7)), axis=0)
        assert mq.vc_dimension(matrix.tolist()).value <= math.log2(len(matrix))
    cube = list(itertools.product((0, 1), repeat=3))
    assert mq.vc_dimension(cube).value == math.log2(len(cube)) == 3


def test_some_window_of_levels_holds_its_share_of_the_points():
    """Lemma 1 of Roth (2010): levels lie in [gamma, 1 - gamma], which few windows of width gamma cover."""
    rng = np.random.default_rng(4)
    for gamma in (Fraction(1, 3), Fraction(1, 10), Fraction(3, 20)):
        for _ in range(50):
            levels = sorted(rng.uniform(float(gamma), 1 - float(gamma), 30))
            fullest = max(sum(low <= other <= low + float(gamma) for other in levels) for low in levels)
            window = lower.from_fat_shattering(30, gamma)
            assert fullest >= window.points
            inside = [Fraction(level).limit_denominator(10**6) for level in levels[:2]]
            if inside[1] - inside[0] < 2 * gamma:
                assert lower.from_levels(inside, gamma).gap == pytest.approx(
                    float(2 * gamma - (inside[1] - inside[0]))
                )


def test_a_threshold_without_noise_is_not_pure():
    """Private multiplicative weights as printed for (epsilon, 0) compares with a threshold that has no noise."""
    losses = [
        lessons.sparse_vector([0] * k, [1] * k, cap=1, variant="no noise on the threshold").worst
        for k in (2, 6, 12)
    ]
    assert losses[0] < 1.0 < losses[1] < losses[2]
    assert losses[2] == pytest.approx(6 * losses[0], rel=0.01)  # every answer below adds the same
    assert lessons.sparse_vector([0] * 12, [1] * 12, cap=1).worst <= 1.0


def test_a_hypothesis_has_a_weight_for_every_cell():
    """So an update takes time in proportion to |X|, and a query on some cells still rescales all of them."""
    trace = lessons.multiplicative_weights([7, 2, 1, 0, 0, 0], [[1, 1, 0, 0, 0, 0]], gap=0.05)
    assert all(len(one.hypothesis) == 6 for one in trace)
    assert trace[0].hypothesis[5] < 1 / 6 < trace[0].hypothesis[0]


def test_histogram_queries_are_linear_queries():
    domain = mq.Domain.from_dict(
        {"attributes": [{"name": "v", "kind": "ordinal", "size": 5, "nullable": False}]}
    )
    counts = {("v",): np.array([3, 0, 7, 1, 4])}
    unit = mq.weights(domain, np.eye(5).tolist())
    points = mq.points(domain, ["v"])
    assert (points.from_margins(counts) / points.denominator).tolist() == [3, 0, 7, 1, 4]
    assert (unit.from_margins(counts) / unit.denominator).tolist() == [3, 0, 7, 1, 4]
    assert points.sensitivity(Relation.ADD_REMOVE).l1 == 1


def test_what_is_shattered_cannot_be_learned_from_few_records():
    """On d shattered points with labels that agree with some rule, whoever saw half of them errs on a quarter."""
    points = 6
    rules = list(itertools.product((0, 1), repeat=points))
    assert mq.fat_shattering_dimension([list(rule) for rule in rules], "1/2").value == points
    seen = points // 2
    errors = []
    for truth in rules:
        fitting = [
            rule for rule in rules if rule[:seen] == truth[:seen]
        ]  # all have no error on what was seen
        errors.append(np.mean([np.mean(np.array(rule) != np.array(truth)) for rule in fitting]))
    assert np.mean(errors) == pytest.approx(1 / 4)


def test_levels_that_agree_save_the_factor_gamma():
    gamma, dimension = Fraction(1, 10), 80
    at = {"epsilon": 0.1, "beta": 0.05, "relation": Relation.REPLACE_ONE}
    agreeing = lower.counts(lower.from_levels([Fraction(1, 2)] * dimension, gamma), **at)
    any_levels = lower.counts(lower.from_fat_shattering(dimension, gamma), **at)
    assert agreeing / any_levels == pytest.approx(2 * 8)  # twice the gap, and not one of eight windows

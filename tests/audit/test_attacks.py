"""The attacks as arithmetic: the vector of the specification, their guarantees, and what is refused."""

import math
import random
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from maquette.audit import attacks
from maquette.audit.attacks import read_people
from maquette.domain import Domain
from maquette.errors import ParameterError, SourceError, WorkloadError
from maquette.queries import marginals, weights
from maquette.queries.dimension import fat_shattering_dimension, vc_dimension
from maquette.theory import lower
from maquette.vault.readers import open_engine


def cells(size: int) -> Domain:
    attribute = {"name": "cell", "kind": "categorical", "size": size, "nullable": False}
    return Domain.from_dict({"attributes": [attribute]})


def subsets(size: int) -> np.ndarray:
    return np.array([[labels >> j & 1 for j in range(size)] for labels in range(2**size)])


def test_the_vector_of_the_specification():
    every = subsets(4)
    found = attacks.halves(every, every @ np.array([0.9, 0.6, 0.5, 0.2]))
    gaps = {half.points: round(half.gap, 10) for half in found}
    assert gaps == {(0, 1): 0.5, (0, 2): 0.6, (0, 3): 0.9, (1, 2): 0.9, (1, 3): 1.2, (2, 3): 1.3}
    assert found[0].points == (0, 1)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 3), st.data())
def test_answers_within_a_give_a_half_within_4a(pairs, data):
    d = 2 * pairs
    every = subsets(d)
    truth = data.draw(st.sampled_from(list(combinations(range(d), pairs))))
    table = np.isin(np.arange(d), truth).astype(float)
    error = data.draw(st.lists(st.floats(-1, 1), min_size=2**d, max_size=2**d))
    largest = max(abs(e) for e in error)
    best = attacks.halves(every, every @ table + np.array(error))[0]
    assert len(set(best.points) ^ set(truth)) <= 4 * largest + 1e-9
    assert best.gap <= largest + 1e-9


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_real_weights_recover_within_4a_over_the_gap(data):
    """Low and high weights that vary from query to query, and queries in between that label nothing."""
    low, high = st.sampled_from([0, 1 / 8]), st.sampled_from([3 / 4, 7 / 8, 1])
    labelled = [
        [data.draw(high if bit else low) for bit in bits] for bits in ((0, 0), (0, 1), (1, 0), (1, 1))
    ]
    between = data.draw(st.lists(st.tuples(*[st.sampled_from([1 / 4, 3 / 8, 1 / 2])] * 2), max_size=3))
    queries = weights(cells(2), np.array([*labelled, *between]))
    gamma = Fraction(1, 4)
    found = fat_shattering_dimension(queries, gamma)
    assert found.value == 2
    # the search may also find witnesses 2 gamma apart, of which the lemma says nothing
    assume(max(found.levels) - min(found.levels) < 2 * gamma)
    window = lower.from_levels(list(found.levels), gamma)
    for secret in (0, 1):
        table = {"cell": np.array([found.points[secret][0]])}
        exact = queries.on_rows(table) / queries.denominator
        error = np.array([data.draw(st.floats(-0.2, 0.2)) for _ in exact])
        guess = attacks.shattered(queries, found, exact + error)
        assert len(set(guess.points) ^ {secret}) <= 4 * max(abs(error)) / window.gap + 1e-9


def test_an_odd_set_loses_its_last_point_and_known_records_are_subtracted():
    every = subsets(5)
    queries = weights(cells(5), every)
    dimension = vc_dimension(queries)
    assert dimension.value == 5
    order = [point[0] for point in dimension.points]
    held = np.array([order[1], order[3]])
    public = {"cell": np.array([0, 0, 2, 4])}
    counts = queries.on_rows({"cell": np.concatenate([held, public["cell"]])})
    assert attacks.shattered(queries, dimension, counts, background=public).points == (1, 3)


def test_what_the_attack_on_a_shattered_set_refuses():
    with pytest.raises(ParameterError, match="even number"):
        attacks.halves(subsets(3), np.zeros(8))
    with pytest.raises(ParameterError, match="one query per labelling"):
        attacks.halves(subsets(4)[1:], np.zeros(15))
    small = weights(cells(2), np.array([[0, 1], [1, 0]]))
    with pytest.raises(WorkloadError, match="2 to 16 points"):
        attacks.shattered(small, vc_dimension(small), np.zeros(2))


def random_bits(rows: int, columns: int) -> np.ndarray:
    rng = random.Random(7)
    return np.array([[rng.getrandbits(1) for _ in range(columns)] for _ in range(rows)])


def people_domain(people: int) -> Domain:
    return Domain.from_dict(
        {
            "attributes": [
                {"name": "person", "kind": "categorical", "size": people, "nullable": False},
                {"name": "sick", "kind": "boolean", "categories": ["no", "yes"], "nullable": False},
            ]
        }
    )


@pytest.mark.parametrize("method", attacks.METHODS)
def test_linear_reconstruction_explains_the_answers(method):
    people = 30
    bits = np.arange(people) * 7 % 5 % 2
    queries = weights(people_domain(people), random_bits(4 * people, 2 * people))
    known = {"person": np.arange(people)}
    system = attacks.design(queries, known, hidden="sick")
    counts = queries.on_rows(known | {"sick": bits}) / queries.denominator
    assert np.allclose(system.offset + system.matrix @ bits, counts)
    assert (attacks.linear(system, counts, method=method) == bits).all()
    rough = counts + 0.3 * np.cos(np.arange(len(counts)))
    assert (attacks.linear(system, rough, method=method) == bits).mean() > 0.9


def test_a_linear_program_forgives_a_few_wild_answers_where_least_squares_does_not():
    people = 24
    bits = np.arange(people) % 2
    matrix = random_bits(6 * people, people)
    system = attacks.Design(matrix.astype(float), np.zeros(6 * people))
    counts = matrix @ bits.astype(float)
    counts[::12] += 500.0
    assert (attacks.linear(system, counts, method="linear program") == bits).all()
    assert (attacks.linear(system, counts, method="least squares") == bits).mean() < 1


def test_what_linear_reconstruction_refuses():
    three = Domain.from_dict(
        {
            "attributes": [
                {"name": "person", "kind": "categorical", "size": 4, "nullable": False},
                {"name": "sick", "kind": "boolean", "categories": ["no", "yes"], "nullable": True},
            ]
        }
    )
    known = {"person": np.arange(4)}
    with pytest.raises(WorkloadError, match="two cells"):
        attacks.design(marginals(three, k=2), known, hidden="sick")
    queries = marginals(people_domain(4), k=2)
    with pytest.raises(WorkloadError, match="attributes that the attacker knows"):
        attacks.design(queries, {}, hidden="sick")
    with pytest.raises(WorkloadError, match="too many"):
        attacks.design(queries, {"person": np.zeros(2**22, dtype=int)}, hidden="sick")
    system = attacks.design(queries, known, hidden="sick")
    with pytest.raises(ParameterError, match="method"):
        attacks.linear(system, np.zeros(8), method="guessing")


def test_people_are_coded_by_the_domain(tmp_path):
    domain = Domain.from_dict(
        {
            "na_values": ["?"],
            "attributes": [
                {"name": "age", "kind": "numeric", "bounds": [0, 90], "bins": 9, "nullable": True},
                {"name": "sex", "kind": "categorical", "categories": ["f", "m"], "overflow": True},
                {"name": "group", "kind": "ordinal", "size": 3, "nullable": True},
            ],
        }
    )
    path = tmp_path / "people.csv"
    path.write_text("\ufeffsex,age,group,extra\nf,15,0,x\nm,?,2,x\nz,abc,7,x\n?,90,,x\n", encoding="utf-8")
    coded = read_people(path, domain)
    assert coded["age"].tolist() == [1, 9, 9, 8]
    assert coded["sex"].tolist() == [0, 1, 2, domain["sex"].missing_code]
    assert coded["group"].tolist() == [0, 2, domain["group"].unknown_code, 3]


def test_people_are_coded_as_the_private_table_is(tmp_path):
    domain = Domain.from_dict(
        {
            "attributes": [
                {"name": "rank", "kind": "ordinal", "size": 3, "overflow": True},
                {"name": "town", "kind": "categorical", "categories": ["1", "caf\u00e9"], "overflow": True},
                {"name": "sick", "kind": "boolean", "nullable": True},
                {"name": "dose", "kind": "categorical", "categories": [0.5, 2], "overflow": True},
            ]
        }
    )
    path = tmp_path / "people.csv"
    path.write_text(
        "rank,town,sick,dose\n2.0,1.00,yes,.50\n01,cafe\u0301,FALSE,2e0\n3,x,,3\n", encoding="utf-8"
    )
    coded = read_people(path, domain)
    assert coded["rank"].tolist() == [2, 1, 3]
    columns = open_engine(path, domain)._columns  # type: ignore[attr-defined]
    for name in domain.names:
        assert coded[name].tolist() == columns[name].tolist()


@pytest.mark.parametrize(
    ("text", "words"),
    [("age\n", "header only"), ("age\n1\n", "lacks the declared column"), (None, "cannot read")],
)
def test_files_of_people_that_are_refused(tmp_path, text, words):
    path = tmp_path / "people.csv"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SourceError, match=words):
        read_people(path, people_domain(3))


@pytest.mark.slow
def test_halves_of_sixteen_points_are_all_tried():
    every = subsets(16)
    table = np.array([i % 2 for i in range(16)])
    found = attacks.halves(every, every @ table)
    assert len(found) == math.comb(16, 8) == 12870
    assert found[0].points == tuple(range(1, 16, 2))

"""The attacks in action: they succeed on exact answers and on a broken mechanism, and fail on our releases."""

import random

import numpy as np
import pytest

from maquette import owner as handle
from maquette.api import release
from maquette.audit import attacks
from maquette.domain import Domain, Relation
from maquette.errors import ParameterError, WorkloadError
from maquette.queries import marginals, weights

pytestmark = pytest.mark.privacy

PEOPLE = {"shattered set": 8, "least squares": 32, "linear program": 32}


@pytest.mark.parametrize("attack", attacks.ATTACKS)
def test_exact_answers_betray_everyone(attack):
    found = attacks.run(attack, attacks.exact, people=PEOPLE[attack], trials=2, rng=random.Random(1))
    assert found.recovered == 1.0
    assert found.limit is None


@pytest.mark.parametrize("attack", attacks.ATTACKS)
@pytest.mark.parametrize("relation", Relation)
def test_our_releases_betray_no_more_than_the_limit(attack, relation):
    """Evidence, no proof. Chance is 1/2; the limit at epsilon = 0.1 is 0.525 or 0.550."""
    epsilon, trials = 0.1, 6
    limit = attacks.limit_for(relation, epsilon=epsilon)
    answering = attacks.releasing(epsilon=epsilon, relation=relation, mechanism="laplace")
    found = attacks.run(
        attack,
        answering,
        people=PEOPLE[attack],
        trials=trials,
        name="laplace",
        limit=limit,
        rng=random.Random(2),
    )
    spread = 1 / np.sqrt(4 * trials * PEOPLE[attack] / 2)
    assert found.recovered <= limit + 5 * spread
    assert found.recovered < 1


@pytest.mark.parametrize("attack", attacks.ATTACKS)
def test_a_mechanism_with_too_little_noise_is_caught(attack):
    """Noise of scale 1/4 on every answer instead of k/epsilon: far beyond the limit of epsilon = 0.1."""
    rng = random.Random(4)

    def leaky(domain, queries, people):
        counts = attacks.exact(domain, queries, people)
        return counts + np.array([rng.choice((-0.25, 0.25)) for _ in counts])

    found = attacks.run(attack, leaky, people=PEOPLE[attack], trials=2, rng=rng)
    assert found.recovered > attacks.limit_for(Relation.ADD_REMOVE, epsilon=0.1) + 0.25


def test_the_limits_of_both_relations():
    assert attacks.limit_for(Relation.REPLACE_ONE, epsilon=1) == pytest.approx(np.e / (1 + np.e))
    assert attacks.limit_for(Relation.ADD_REMOVE, epsilon=1) == pytest.approx(np.e**2 / (1 + np.e**2))


def test_trials_use_fresh_secrets_of_the_system_by_default():
    found = attacks.run("shattered set", attacks.exact, people=4, trials=1)
    assert (found.people, found.queries, found.recovered) == (4, 16, 1.0)


@pytest.mark.parametrize("points", [1, 3, 18])
def test_a_shattered_set_has_an_even_number_of_points(points):
    with pytest.raises(ParameterError, match="even number"):
        attacks.run("shattered set", attacks.exact, people=points)


def test_parameters_are_checked():
    with pytest.raises(ParameterError, match="attack"):
        attacks.run("guessing", attacks.exact, people=4)
    with pytest.raises(ParameterError, match="people"):
        attacks.run("least squares", attacks.exact, people=0)
    with pytest.raises(ParameterError, match="queries"):
        attacks.run("least squares", attacks.exact, people=4, queries=0)


def _made(epsilon: float, mechanism: str):
    people = 40
    domain = Domain.from_dict(
        {
            "attributes": [
                {"name": "person", "kind": "categorical", "size": people, "nullable": False},
                {"name": "sick", "kind": "boolean", "categories": ["no", "yes"], "nullable": False},
            ]
        }
    )
    rng = random.Random(5)
    groups = np.array([[rng.getrandbits(1) for _ in range(2 * people)] for _ in range(120)])
    codes = {"person": np.arange(people), "sick": np.array([i % 4 == 0 for i in range(people)]).astype(int)}
    columns = {a.name: a.decode(codes[a.name])[0].tolist() for a in domain}
    made = release(
        handle.open(columns, domain=domain),
        weights(domain, groups),
        epsilon=epsilon,
        mechanism=mechanism,
        post="none",
        certificate=0,
        ledger="memory",
    )
    return made, codes


def test_a_finished_release_is_attacked_by_what_is_known_about_its_people():
    loud, codes = _made(0.05, "laplace")
    for found in attacks.attack(loud, codes, hidden="sick"):
        assert found.chance == 0.75
        assert found.limit == 0.75  # guessing "healthy" is the best anyone can do at this epsilon
        assert found.recovered < 0.95
        assert (found.people, found.queries, found.answers) == (40, 120, "laplace")


def test_a_release_with_a_huge_epsilon_is_no_protection():
    """The attack is real: at epsilon = 20,000 the noise is below a record and the secrets are out."""
    quiet, codes = _made(20_000.0, "laplace")
    found = attacks.attack(quiet, codes, hidden="sick")
    assert [one.attack for one in found] == ["least squares", "linear program"]
    assert all(one.recovered == 1.0 for one in found)
    assert all(one.limit == pytest.approx(1.0) for one in found)


def test_an_attribute_that_no_query_looks_at_cannot_be_attacked():
    made, codes = _made(1.0, "laplace")
    with pytest.raises(WorkloadError, match="no query"):
        attacks.attack(made, codes, hidden="height")
    lone = marginals(made.domain, attributes=[("sick",)])
    table = {a.name: a.decode(codes[a.name])[0].tolist() for a in made.domain}
    only = release(handle.open(table, domain=made.domain), lone, epsilon=1.0, certificate=0, ledger="memory")
    with pytest.raises(WorkloadError, match="attributes that the attacker knows"):
        attacks.attack(only, codes, hidden="sick")

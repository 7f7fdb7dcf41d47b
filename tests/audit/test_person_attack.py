"""Are you in the table? An attack on persons with three records each, against the noise that they pay for."""

import math

import numpy as np
import pytest

import maquette as mq
from maquette.audit.attacks import released_counts
from maquette.core.events import LaplaceEvent
from maquette.domain import Domain
from maquette.releasing import plan

pytestmark = pytest.mark.privacy

EPSILON, ROWS, PEOPLE = 1.0, 3, 4000


def attack(tmp_path) -> float:
    """A lower limit, at a confidence of 99.99 %, of the epsilon that the release really has.

    Every cell is the home of one candidate; half of them are in the table with three records. Whoever sees three
    records or more says "in the table"; epsilon is at least the logarithm of how often that is right over wrong.
    """
    cells = {"name": "cell", "kind": "categorical", "size": 2 * PEOPLE, "nullable": False}
    domain = Domain.from_dict({"attributes": [cells]})
    home = np.repeat(np.arange(PEOPLE), ROWS + 2)  # two more records, which do not count
    table = mq.open({"who": home, "cell": home}, domain=domain, person="who", rows_per_person=ROWS)
    made = mq.release(
        table,
        mq.marginals(domain, 1),
        epsilon=EPSILON,
        mechanism="laplace",
        certificate=0.0,
        post="none",
        ledger=tmp_path / "l",
    )
    says = released_counts(made) >= ROWS - 0.5
    right, wrong = says[:PEOPLE].mean(), says[PEOPLE:].mean()
    reach = math.sqrt(math.log(2e4) / (2 * PEOPLE))  # Hoeffding
    return math.log((right - reach) / (wrong + reach))


def test_the_attack_fails_on_the_noise_of_persons(tmp_path):
    assert attack(tmp_path) <= EPSILON


def test_the_attack_succeeds_on_the_noise_of_records(tmp_path, monkeypatch):
    """The positive control: prices and charges for one record, on a table of persons with three."""
    monkeypatch.setattr(LaplaceEvent, "of_rows", lambda self, rows: self)
    monkeypatch.setattr(plan, "rows_of", lambda persons: 1)
    assert attack(tmp_path) > 1.25 * EPSILON  # 1.57 in the mean of twelve runs, deviation .03

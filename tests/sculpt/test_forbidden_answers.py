"""Combinations that the domain forbids are answered with zero, and what is stated about errors stays true."""

import numpy as np
import pandas as pd
import pytest

import maquette as mq
from maquette.domain import Attribute, Domain, Kind
from maquette.domain.constraint import Determines, Never
from maquette.models.answers import Answers
from maquette.models.constraints import cleared, possible

ATTRIBUTES = (
    Attribute("age", Kind.ORDINAL, codes=12),
    Attribute("job", Kind.ORDINAL, codes=4),
    Attribute("pay", Kind.ORDINAL, codes=4),
    Attribute("town", Kind.ORDINAL, codes=3),
)
CHILDREN = Never({"age": [0, 1, 2], "job": [1, 2, 3]})
PAID = Determines("pay", by="job", map={0: 0, 1: 1, 2: 2, 3: [2, 3]})
NOWHERE = Never({"town": [2]})
DOMAIN = Domain(ATTRIBUTES, constraints=(CHILDREN, PAID, NOWHERE))
N = 3000


def frame(*, keeps: bool = True) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    age = rng.integers(0, 12, N)
    job = np.where((age < 3) & keeps, 0, rng.integers(0, 4, N))
    pay = np.minimum(job, 2)
    return pd.DataFrame({"age": age, "job": job, "pay": pay, "town": rng.integers(0, 2, N)})


def by_hand(columns: dict[str, int]) -> bool:
    """The three constraints in plain words, for a whole record."""
    good_pay = {0: [0], 1: [1], 2: [2], 3: [2, 3]}[columns["job"]]
    child = columns["age"] < 3 and columns["job"] > 0
    return not child and columns["pay"] in good_pay and columns["town"] != 2


@pytest.mark.parametrize(
    "margin", [("age",), ("town",), ("age", "job"), ("age", "pay"), ("job", "pay", "town")]
)
def test_possible_cells_by_brute_force(margin):
    """Each constraint alone, projected: never stricter than all records, as strict where one constraint decides."""
    whole = {name: codes.ravel() for name, codes in zip(DOMAIN.names, np.indices(DOMAIN.shape), strict=True)}
    good = [by_hand({name: int(codes[i]) for name, codes in whole.items()}) for i in range(DOMAIN.size)]
    truly = (
        np.asarray(good)
        .reshape(DOMAIN.shape)
        .any(axis=tuple(i for i, name in enumerate(DOMAIN.names) if name not in margin))
    )
    found = possible(DOMAIN, margin)
    told = np.ones(truly.size, dtype=bool) if found is None else found
    assert (told | ~truly.ravel()).all()
    if margin != ("age", "pay"):  # follows from two constraints together, which is not looked for
        assert np.array_equal(told, truly.ravel())


def test_without_constraints_every_cell_is_possible():
    assert possible(Domain(ATTRIBUTES), ("age", "job")) is None


def test_cleared_answers_say_how_far_they_were_moved():
    asked = mq.marginals(DOMAIN, k=2) + mq.prefixes(DOMAIN, "age") + mq.marginals(DOMAIN, k=1)
    before = Answers(np.full(asked.count, 7, dtype=np.int64), 10)
    after, moved = cleared(before, asked)
    assert moved == 0.7
    assert (before.numerators == 7).all()
    zero = [asked.text(i) for i in np.flatnonzero(after.numerators == 0)]
    assert "town = 2" in zero
    assert all("town = 2" in text or ("job" in text) for text in zero)
    first = asked.parts[0].queries
    for margin, place in first.slices.items():
        good = possible(DOMAIN, margin)
        assert good is None or np.array_equal(after.numerators[place] > 0, good)
    assert cleared(after, asked)[1] == 0.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "epsilon"), [("sculpt", 1.0), ("sculpt", 10.0), ("residual", 1.0), ("gaussian", 1.0)]
)
def test_forbidden_cells_are_zero_in_the_answers_and_when_asked_for(mechanism, epsilon):
    asked = mq.marginals(DOMAIN, k=2)
    made = mq.release(
        mq.open(frame(), domain=DOMAIN),
        asked,
        epsilon=epsilon,
        delta=1e-6,
        mechanism=mechanism,
        ledger="memory",
    )
    for margin, place in asked.slices.items():
        good = possible(DOMAIN, margin)
        if good is not None:
            assert not made.answers.numerators[place][~good].any()
    for text in ("age = 1 AND job = 2", "age <= 2 AND job >= 1", "job = 1 AND pay = 3", "town = 2"):
        found = made.answer(text)
        assert found.value == 0.0, text
        assert found.error is None or found.error >= 0
    assert made.answer("age = 5").value > 0


@pytest.mark.parametrize("mechanism", ["residual", "sculpt"])
def test_stated_errors_hold_though_records_break_the_constraints(mechanism):
    private = mq.open(frame(keeps=False), domain=DOMAIN)
    asked = mq.marginals(DOMAIN, k=2)
    true = private._engine.answer(asked.to_forms()) / N
    made = mq.release(
        private,
        asked,
        epsilon=5.0,
        delta=1e-6,
        mechanism=mechanism,
        beta=1e-6,
        certificate=0.05,
        ledger="memory",
    )
    off = np.abs(made.answers.fractions - true).max()
    assert off > 0.01
    assert off <= made.certificate.alpha
    assert off <= made.guarantee.alpha
    found = made.answer("age = 1 AND job = 2")
    exact = float(((frame(keeps=False)["age"] == 1) & (frame(keeps=False)["job"] == 2)).mean())
    assert found.value == 0.0
    assert found.error is None or exact <= found.error

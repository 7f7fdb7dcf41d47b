from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maquette.accounting import (
    SLACK_UNITS,
    UNITS,
    ComposedEvent,
    Cost,
    CubeEvent,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    SelectionEvent,
)
from maquette.core.budget import Unit
from maquette.core.events import Event, from_dict
from maquette.errors import MechanismError, ParameterError

THIRD = Fraction(1, 3)


@pytest.mark.parametrize(
    ("event", "epsilon", "rho"),
    [
        (LaplaceEvent(scale=3, l1=1), THIRD, THIRD**2 / 2),
        (LaplaceEvent(scale=3, l1=0), 0, 0),
        (CubeEvent(epsilon=THIRD), THIRD, THIRD**2 / 2),
        (PureEvent(epsilon=THIRD, what="geometric size"), THIRD, THIRD**2 / 2),
        (SelectionEvent(epsilon=THIRD, method="exponential"), THIRD, THIRD**2 / 8),
        (SelectionEvent(epsilon=THIRD, method="permute-and-flip"), THIRD, THIRD**2 / 2),
        (GaussianEvent(sigma_squared=7, l2_squared=2), None, Fraction(1, 7)),
    ],
)
def test_costs_are_rounded_up_from_exact_rationals(event, epsilon, rho):
    assert event.cost(Unit.RHO) == Cost(math.ceil(rho * UNITS))
    if epsilon is not None:
        assert event.cost(Unit.EPSILON) == Cost(math.ceil(epsilon * UNITS))


def test_a_cost_on_the_grid_is_not_rounded():
    assert LaplaceEvent(scale=Fraction(10), l1=1).cost(Unit.EPSILON).units == UNITS // 10
    assert CubeEvent(epsilon=Fraction(UNITS + 1, 10 * UNITS)).cost(Unit.EPSILON).units == UNITS // 10 + 1


def test_gaussian_noise_has_no_pure_cost():
    with pytest.raises(MechanismError, match="no finite pure epsilon; give a delta"):
        GaussianEvent(sigma_squared=1, l2_squared=1).cost(Unit.EPSILON)
    with pytest.raises(MechanismError, match="no finite pure epsilon"):
        ComposedEvent((CubeEvent(1), GaussianEvent(1, 1))).cost(Unit.EPSILON)


def test_an_inexact_sampler_pays_its_total_variation_in_slack():
    event = GaussianEvent(sigma_squared=1, l2_squared=1, total_variation=Fraction(1, 3 * SLACK_UNITS))
    assert event.cost(Unit.RHO).slack == 1
    assert GaussianEvent(sigma_squared=1, l2_squared=1).cost(Unit.RHO).slack == 0


@pytest.mark.slow
@given(st.lists(st.fractions(0, 2), max_size=6))
def test_a_composition_reserved_as_a_whole_covers_its_parts(sizes):
    parts = tuple(PureEvent(epsilon=size, what="part") for size in sizes)
    assert ComposedEvent(parts).cost(Unit.RHO) == sum((p.cost(Unit.RHO) for p in parts), Cost(0))


EVENTS: list[Event] = [
    LaplaceEvent(scale=Fraction(5, 3), l1=2),
    GaussianEvent(sigma_squared=Fraction(9, 4), l2_squared=2, total_variation=Fraction(1, 10**30)),
    CubeEvent(epsilon=THIRD),
    SelectionEvent(epsilon=THIRD, method="permute-and-flip"),
    PureEvent(epsilon=THIRD, what="size"),
]


@pytest.mark.parametrize(
    "event", [*EVENTS, ComposedEvent(tuple(EVENTS)), ComposedEvent(())], ids=lambda e: e.tag
)
def test_events_survive_their_stored_form(event):
    import json

    assert from_dict(json.loads(json.dumps(event.to_dict()))) == event


@pytest.mark.parametrize(
    "make",
    [
        lambda: LaplaceEvent(scale=0, l1=1),
        lambda: LaplaceEvent(scale=-1, l1=1),
        lambda: LaplaceEvent(scale=1, l1=-1),
        lambda: LaplaceEvent(scale=1.5, l1=1),
        lambda: GaussianEvent(sigma_squared=0, l2_squared=1),
        lambda: GaussianEvent(sigma_squared=1, l2_squared=-1),
        lambda: GaussianEvent(sigma_squared=1, l2_squared=1, total_variation=Fraction(-1)),
        lambda: CubeEvent(epsilon=-1),
        lambda: CubeEvent(epsilon=0.5),
        lambda: PureEvent(epsilon=True, what=""),
        lambda: SelectionEvent(epsilon=1, method="noisy-max"),
    ],
)
def test_wrong_parameters_are_refused(make):
    with pytest.raises(ParameterError, match="expected"):
        make()


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"tag": "unknown"},
        {"tag": "cube"},
        {"tag": "cube", "epsilon": "1/0"},
        {"tag": "cube", "epsilon": "many"},
        {"tag": "cube", "epsilon": "1", "what": "more"},
    ],
)
def test_stored_forms_that_are_no_events_are_refused(data):
    with pytest.raises(ParameterError, match="expected"):
        from_dict(data)


def test_an_event_without_a_cost_cannot_be_made():
    class Free(Event):
        tag = "free"

    with pytest.raises(TypeError, match="cost"):
        Free()

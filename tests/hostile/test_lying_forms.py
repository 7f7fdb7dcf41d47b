"""Forms that say one thing when they are checked and another when they are read: refused, whatever they are made of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import maquette.queries as q
from maquette.core import answers as scores
from maquette.core.answers import Answers, ChoiceQuestion
from maquette.core.bodies import Body
from maquette.core.forms import (
    Conditions,
    Every,
    Intervals,
    Leaf,
    Prefixes,
    QueryForms,
    Scores,
    Some,
    Tables,
    Weights,
)
from maquette.core.laws import NoiseRequest
from maquette.core.sparse import Guess
from maquette.errors import MaquetteError, ParameterError, WorkloadError
from support.gate_world import DOMAIN, Pair
from support.lying_queries import Lying
from support.privacy_doubles import CAUGHT

pytestmark = pytest.mark.privacy
NAME = "0" * 64
PRICE = Fraction(1, 1000)


class Doubled(np.ndarray):
    """Says that its numbers are small."""

    def min(self, *args: Any, **options: Any) -> Any:
        return np.int64(0)

    def max(self, *args: Any, **options: Any) -> Any:
        return np.int64(0)


class Names(tuple):
    """Holds nothing when its length is asked for."""

    def __len__(self) -> int:
        return 0


class Word(str):
    """Equals every other one."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return hash("a")


class Number(int):
    """Lies between any two."""

    def __le__(self, other: Any) -> bool:
        return True

    def __ge__(self, other: Any) -> bool:
        return True


class Runs:
    """One cell when it is checked, none when its norm is computed, all when it is counted."""

    def __init__(self) -> None:
        self.turns = [[(0, 0)], [], [(0, 3)]]

    def __iter__(self) -> Any:
        return iter(self.turns.pop(0) if len(self.turns) > 1 else self.turns[0])

    def __hash__(self) -> int:
        return 1


def lying_array(numbers: Any) -> Any:
    return np.asarray(numbers).view(Doubled)


SCORES = Scores(("d",), ((np.arange(4),),), (np.array([9]),), np.array([0]), 1)
LISTED = np.array([[0, 1, 2, 3]], dtype=np.int32)
FORMS: dict[str, Any] = {
    "weights that say they are small": Weights(("d",), lying_array(LISTED * 1000), 3),
    "masked weights": Weights(("d",), np.ma.masked_greater(LISTED * 1000, 5), 3),  # type: ignore[arg-type]
    "fractions": Weights(("d",), LISTED / 3, 3),  # type: ignore[arg-type]
    "objects": Weights(("d",), LISTED.astype(object), 3),
    "thresholds that are not a number": replace(SCORES, thresholds=(np.array([np.nan]),)),  # type: ignore[arg-type]
    "infinite thresholds": replace(SCORES, thresholds=(np.array([np.inf]),)),  # type: ignore[arg-type]
    "thresholds that say they are small": replace(SCORES, thresholds=(lying_array([2**62]),)),
    "numbers that say they are small": replace(SCORES, numbers=((lying_array([2**62] * 4),),)),
    "numbers in a list": replace(SCORES, numbers=[(np.arange(4),)]),
    "thresholds in a list": replace(SCORES, thresholds=[np.array([9])]),
    "a claim that is below any": replace(SCORES, claim=Number(50)),
    "a claim as a fraction": replace(SCORES, claim=1.0),
    "runs that change": Conditions((Leaf("d", Runs()),), 1),  # type: ignore[arg-type]
    "runs as an iterator": Conditions((Leaf("d", iter([(0, 1)])),), 1),  # type: ignore[arg-type]
    "runs in lists": Conditions((Leaf("d", ([0, 1],)),), 1),  # type: ignore[arg-type]
    "parts as an iterator": Conditions((Every(iter([Leaf("d", ((0, 1),))])),), 1),  # type: ignore[arg-type]
    "parts of another kind": Conditions((Some(("d = 1",)),), 1),  # type: ignore[arg-type]
    "an attribute that equals any": Conditions((Leaf(Word("nobody"), ((0, 1),)),), 1),
    "an attribute that no domain has": Conditions((Leaf("nobody", ((0, 1),)),), 1),
    "cells beyond the attribute": Conditions((Leaf("d", ((0, 2**62),)),), 1),
    "cells that overlap": Conditions((Leaf("d", ((0, 2), (1, 3))),), 1),
    "cells from high to low": Conditions((Leaf("d", ((3, 0),)),), 1),
    "negative cells": Conditions((Leaf("d", ((-4, -1),)),), 1),
    "cells as truth values": Conditions((Leaf("d", ((False, True),)),), 1),
    "margins that seem empty": Tables(Names((("d",), ("d",)))),
    "the same table twice": Tables((("d",), ("d",))),
    "the same cell twice": Tables((("d",),), (np.array([1, 1]),)),
    "cells in a list": Tables((("d",),), [np.array([1])]),  # type: ignore[arg-type]
    "cells of every sign": Tables((("d",),), (np.array([-1, 1]),)),
    "a margin that names an attribute twice": Tables((("d", "d"),)),
    "a table of 2^40 cells": Tables((("huge",),)),
    "prefixes beyond the cells": Prefixes("d", 2**62),
    "prefixes below any": Prefixes("d", Number(50)),
    "intervals in a list": Intervals(("d",), [4]),  # type: ignore[arg-type]
    "intervals of no attribute": Intervals((), ()),
    "intervals beyond the cells": Intervals(("d",), (9,)),
}


@dataclass(frozen=True, eq=False)
class Handed(Lying):
    """A class with forms of its own."""

    forms: Any = None

    def to_forms(self) -> QueryForms:
        return self.forms


def asked_of(forms: Any) -> Handed:
    return Handed(q.where(DOMAIN, "d > 2"), lambda given, rng: given, 1, forms)


@pytest.mark.parametrize("name", FORMS)
def test_forms_that_are_no_plain_numbers_are_refused_before_the_look(name):
    forms = QueryForms((FORMS[name],), NAME)
    with pytest.raises(WorkloadError):
        forms.check(DOMAIN.sizes)
    for seed in range(3):
        outcome = Pair(seed).ask(
            "select", {"queries": asked_of(forms), "answers": Answers(np.array([1]), 4), "price": PRICE}
        )
        assert outcome.error is not None
        assert issubclass(outcome.error[0], MaquetteError)
        assert not outcome.touched


@pytest.mark.parametrize("name", ["", "é", 5, None, b"0" * 64, Word("0" * 64)])
def test_a_name_that_is_no_digest_is_refused(name):
    with pytest.raises(WorkloadError, match="64 digits"):
        QueryForms((Tables((("d",),)),), name).check(DOMAIN.sizes)


def test_what_is_remembered_of_an_array_is_what_it_holds():
    """A class that fills the same array anew is charged for what it asks now."""
    numbers, thresholds = np.zeros(4, dtype=np.int64), np.array([1, 2], dtype=np.int64)
    form = Scores(("d",), ((numbers,),), (thresholds,), np.arange(2), 2)
    assert form.added(DOMAIN.sizes).l1 == 0
    numbers[:] = 5
    assert form.added(DOMAIN.sizes).l1 == 2
    thresholds[1] = 7
    assert form.added(DOMAIN.sizes).l1 == 1


# Questions and released values of a kind derived from the gate's own: their code would run in a look.


class _Sharp(ChoiceQuestion):
    __slots__ = ()

    def scores(self, exact: Any, denominator: int, n: int) -> Any:
        return exact * 1000


class _Moving(Answers):
    __slots__ = ()

    @property
    def fractions(self) -> Any:
        return self.numerators * 2


class _Free(NoiseRequest):
    __slots__ = ()

    def sensitivity_of(self, query_forms: Any, domain: Any, relation: Any) -> Any:
        return scores.one_each(1)


class _Flat(Body):
    def shift(self, query_forms: Any, relation: Any) -> Fraction:
        return Fraction(1, 10**6)


class _Late(Guess):
    __slots__ = ()


class _Cheap(Fraction):
    def __gt__(self, other: object) -> bool:
        return False


WEIGHED = q.weights(DOMAIN, np.array([[0.0, 1.0, 0.5, 0.25]]), attributes=["d"])
GIVEN = Answers(np.array([1]), 4)
DERIVED: dict[str, tuple[str, dict[str, Any]]] = {
    "a choice": ("choose", {"question": _Sharp("count", WEIGHED), "price": PRICE}),
    "answers": ("select", {"queries": WEIGHED, "answers": _Moving(np.array([1]), 4), "price": PRICE}),
    "an array": ("select", {"queries": WEIGHED, "answers": Answers(lying_array([50]), 4), "price": PRICE}),
    "a masked array": (
        "largest_error",
        {"queries": WEIGHED, "answers": Answers(np.ma.masked_greater([50], 4), 4), "price": PRICE},  # type: ignore[arg-type]
    ),
    "noise": ("measure", {"queries": WEIGHED, "noise": _Free("laplace", PRICE)}),
    "a body": ("measure", {"queries": WEIGHED, "noise": NoiseRequest("norm", PRICE, _Flat((4,)))}),
    "a price": ("select", {"queries": WEIGHED, "answers": GIVEN, "price": _Cheap(10**9)}),
    "a whole number": ("test", {"queries": WEIGHED, "guess": Number(2**62), "about": {}}),
    "a guess": ("test_all", {"guesses": [_Late(WEIGHED, 1, {})]}),
}


@pytest.mark.parametrize("name", DERIVED)
def test_kinds_derived_from_those_of_the_gate_are_refused(name):
    method, arguments = DERIVED[name]
    for seed in range(3):
        outcome = Pair(seed).ask(method, arguments)
        assert outcome.error is not None
        assert issubclass(outcome.error[0], MaquetteError)


def test_a_choice_counts_its_candidates_by_the_forms():
    """A class that says it has more queries than its forms."""

    class Longer(Handed):
        count = 3  # type: ignore[assignment]

    longer = Longer(q.where(DOMAIN, "d > 2"), lambda given, rng: given, 1, WEIGHED.to_forms())
    question = ChoiceQuestion("nearest", longer, (Answers(np.array([1, 1, 1]), 4),))
    with pytest.raises(ParameterError, match="expected 1 answers, one per query, got 3"):
        question.check(DOMAIN)


def test_a_gate_that_took_any_array_would_be_noticed(monkeypatch):
    from maquette.core import forms as core

    monkeypatch.setattr(core, "_is_array", lambda value: isinstance(value, np.ndarray))
    heavy = QueryForms((FORMS["weights that say they are small"],), NAME)
    with pytest.raises(CAUGHT, match="moved by"):
        _select_from_pairs(heavy)


def _select_from_pairs(forms: QueryForms) -> None:
    for seed in range(30):
        Pair(seed).ask("select", {"queries": asked_of(forms), "answers": GIVEN, "price": PRICE})

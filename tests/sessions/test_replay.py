"""Whole sessions on neighbouring tables with the same draws: nothing public differs, also near exhaustion."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from maquette.core import curator as gate
from maquette.core import sparse
from maquette.core.budget import Budget
from maquette.domain import Relation
from maquette.errors import BudgetExceeded, UselessAnswer
from maquette.owner import Table
from maquette.sessions import survey
from support.online_cases import PEOPLE, book, columns
from support.online_tape import charges, check_inputs, taped
from support.privacy_doubles import Divergence, LooseEngine

pytestmark = pytest.mark.privacy

ROWS = 2000
CASES = {
    "as needed": {"epsilon": 2.4, "alpha": 0.15, "measure_first": False},
    "bypass": {"epsilon": 0.5, "alpha": 0.15},
    "bypass, rho": {"epsilon": 3.0, "delta": 1e-6, "alpha": 0.15, "queries": 60},
    "one table first, rho": {"epsilon": 3.0, "delta": 1e-6, "alpha": 0.15},
    "a survey first, rho": {"epsilon": 0.5, "delta": 1e-6, "alpha": 0.15},
    "as needed, rho": {"epsilon": 6.0, "delta": 1e-6, "alpha": 0.15, "measure_first": False},
    "lasting": {"epsilon": 2.0, "budget_for_all": True, "queries": 60},
    "lasting, rho": {"epsilon": 4.0, "delta": 1e-6, "budget_for_all": True, "queries": 60},
    "direct": {"epsilon": 0.3, "alpha": 0.2, "mechanism": "direct"},
    "median": {"epsilon": 3.0, "mechanism": "median", "queries": 60},
    "median, rho": {"epsilon": 3.0, "delta": 1e-6, "mechanism": "median", "queries": 60},
    "textbook": {"epsilon": 4.0, "alpha": 0.3, "update": "step"},
}
ENDS = ("as needed", "bypass", "direct")
"""Cases whose budget ends inside the session: what is refused is the same too."""
TEXTS = [f"age >= {a} and job = {j}" for a in range(5) for j in range(3)]
TEXTS += [f"age <= {a} and sex = {s}" for a in range(3) for s in range(2)]
TEXTS += ["sex = 1", "not sex = 1", "TRUE", "age > 7", "(age = 1 and job = 2) or (age = 3 and sex = 1)"]


def table_of(codes):
    return Table(LooseEngine(PEOPLE, codes), name="people", source="test")


def neighbour(codes, turn, relation, rng):
    place = int(rng.integers(len(codes["age"])))
    other = {name: values.copy() for name, values in codes.items()}
    if relation is Relation.REPLACE_ONE:
        for attribute in PEOPLE:
            other[attribute.name][place] = rng.integers(attribute.size)
        return other
    if turn % 2:
        return {name: np.delete(values, place) for name, values in other.items()}
    extra = {a.name: np.uint8(rng.integers(a.size)) for a in PEOPLE}
    return {name: np.append(values, extra[name]) for name, values in other.items()}


def run(monkeypatch, codes, tape, relation, options):
    """Everything that an adaptive analyst sees: answers, prices, forecasts, refusals, history."""
    ledger = book(Budget(options["epsilon"], options.get("delta", 0.0)), relation=relation)
    session, noise = taped(monkeypatch, tape, table_of(codes), ledger, relation=relation, **options)
    seen = []
    previous = 0.0
    for number, text in enumerate(TEXTS):
        asked = text if previous < 0.4 else f"({text}) or (age = {number % 8})"
        told = session.forecast(asked)
        try:
            if number % 5 == 4:  # some of them at once, with one of before
                many = session.ask_many([asked, TEXTS[0], f"({asked}) and sex = 1"])
                seen.append(
                    (
                        told,
                        "many",
                        *(replace(one, receipt=None) if hasattr(one, "receipt") else one for one in many),
                    )
                )
                continue
            answer = session.ask(asked, allow_useless=number % 4 > 0)
        except BudgetExceeded as error:
            seen.append((told, "refused", str(error), error.needed, error.left))
            continue
        except UselessAnswer as error:
            seen.append((told, "useless", str(error), error.error))
            continue
        previous = answer.value
        seen.append((told, answer.value, answer.error, answer.kind, answer.cost, answer.left))
    past = [(p.what, p.value, p.error, p.kind, p.cost) for p in session.history()]
    rows = session.synthetic(20).to_pydict()
    return {
        "seen": seen,
        "past": past,
        "rows": rows,
        "charges": charges(ledger),
        "text": repr(session),
    }, noise


def _refused(line):
    return line[1] == "refused" or any(getattr(part, "exit_code", 0) == 3 for part in line)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("name", CASES)
def test_neighbours_show_the_same_session(monkeypatch, name, relation):
    rng = np.random.default_rng([len(name), len(relation)])
    codes = columns(ROWS, seed=4)
    first, tape = run(monkeypatch, codes, None, relation, CASES[name])
    statuses = [_refused(line) for line in first["seen"]]
    moved = 0.0
    for turn in range(2):
        other = neighbour(codes, turn, relation, rng)
        second, played = run(monkeypatch, other, tape.calls, relation, CASES[name])
        played.check_finished()
        moved = max(moved, check_inputs(tape.calls, played.calls))
        assert second == first
    assert moved == 1.0 or relation is Relation.REPLACE_ONE
    if name in ENDS:
        assert any(statuses), "the budget was to end inside the session"
    surveys = [past for past in first["past"] if past[3] == "survey"]
    assert len(surveys) == {"a survey first, rho": 2, "one table first, rho": 1}.get(name, 0)
    if name in ("lasting", "median"):
        assert any(line[1] == "useless" for line in first["seen"]), (
            "some answers were to be refused as useless"
        )


def broken_score(exact, guess):
    return 2 * abs(exact - guess)


def test_the_replay_catches_a_score_that_moves_too_far(monkeypatch):
    monkeypatch.setattr(sparse, "score", broken_score)
    codes = columns(ROWS, seed=4)
    options = CASES["as needed"]
    _, tape = run(monkeypatch, codes, None, Relation.ADD_REMOVE, options)
    other = {
        name: np.append(codes[name], np.uint8(code)) for name, code in (("age", 7), ("sex", 0), ("job", 0))
    }
    _, played = run(monkeypatch, other, tape.calls, Relation.ADD_REMOVE, options)
    with pytest.raises(Divergence, match="moved by 2"):
        check_inputs(tape.calls, played.calls)


def test_the_replay_catches_bins_that_are_read_off_the_table(monkeypatch):
    codes = columns(ROWS, seed=4)
    options = CASES["a survey first, rho"]
    real = survey.pair_tables

    def peeking(domain, survey, ones):
        first = real(domain, survey, ones)[0]
        where_it_ends = 1 + int(held["codes"]["age"].sum()) % 6
        return (replace(first, cuts=((0, where_it_ends), *first.cuts[1:])), *real(domain, survey, ones)[1:])

    monkeypatch.setattr(survey, "pair_tables", peeking)
    held = {"codes": codes}
    first, tape = run(monkeypatch, codes, None, Relation.ADD_REMOVE, options)
    other = {name: np.append(values, np.uint8(1)) for name, values in codes.items()}
    held["codes"] = other
    try:
        second, played = run(monkeypatch, other, tape.calls, Relation.ADD_REMOVE, options)
        check_inputs(tape.calls, played.calls)
    except Divergence:
        return
    assert second != first


def test_the_replay_catches_a_size_that_is_not_paid_for(monkeypatch):
    from maquette.sessions.planning import SessionPlanner

    real = SessionPlanner.public

    def peeking(self):
        public = real(self)
        counted = public.size.value + self.curator._engine.size()
        return replace(public, size=replace(public.size, value=counted))

    monkeypatch.setattr(SessionPlanner, "public", peeking)
    codes = columns(ROWS, seed=4)
    first, tape = run(monkeypatch, codes, None, Relation.ADD_REMOVE, CASES["bypass"])
    other = neighbour(codes, 0, Relation.ADD_REMOVE, np.random.default_rng(1))
    try:
        second, _ = run(monkeypatch, other, tape.calls, Relation.ADD_REMOVE, CASES["bypass"])
    except Divergence:
        return
    assert second != first


def test_the_replay_catches_a_refusal_after_the_look(monkeypatch):
    """The refusal oracle: testing first and refusing the far ones only tells far from near for nothing."""
    codes = columns(ROWS, seed=4)
    options = CASES["as needed"]
    real = gate.OnlineCurator._look

    def peeking(self, asked, guess, held):
        exact = int(self._engine.answer(asked)[0])
        if exact % 2:  # any fact about the table would do
            raise BudgetExceeded("no", unit="epsilon", needed=0, left=0)
        return real(self, asked, guess, held)

    monkeypatch.setattr(gate.OnlineCurator, "_look", peeking)
    first, tape = run(monkeypatch, codes, None, Relation.ADD_REMOVE, options)
    differs = False
    for turn in range(2):
        other = neighbour(codes, turn, Relation.ADD_REMOVE, np.random.default_rng(3))
        try:
            second, _ = run(monkeypatch, other, tape.calls, Relation.ADD_REMOVE, options)
            differs |= second != first
        except Divergence:
            differs = True
    assert differs


def test_every_kind_of_session_is_replayed():
    from maquette.sessions.rules import MECHANISMS, UPDATES

    used = {options.get("mechanism", "pmw") for options in CASES.values()}
    assert used == set(MECHANISMS)
    assert {options.get("update", "refit") for options in CASES.values()} == set(UPDATES)
    assert len(list(itertools.chain(CASES))) >= 8

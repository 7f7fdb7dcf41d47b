"""Whatever a mechanism asks with: neighbouring tables have the same outcome, the same charges, and move as paid.

`python -m benchmarks gate_fuzz` makes a hundred thousand such calls.
"""

# pyright: reportOptionalSubscript=false

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from maquette.core import bounds, prices
from maquette.core import curator as gate
from maquette.core.curator import Curator
from maquette.core.drawing import DrawnDatabase, Shape
from maquette.core.measurement import Receipt
from maquette.core.rows import engine as vault
from maquette.core.rows.counting import CountTask
from maquette.core.rows.engine import MemoryEngine
from maquette.domain import Relation
from maquette.errors import ParameterError
from maquette.queries import marginals
from maquette.samplers import check
from maquette.samplers.draw import ExactDraws
from maquette.samplers.structures import Candidates, Draw, Thresholds
from support.gate_arguments import TABLES
from support.gate_calls import STRATEGIES, methods
from support.gate_fuzz import fuzz
from support.gate_world import BUDGETS, DOMAIN, WATCHED, Pair, draws_on_tape
from support.privacy_doubles import CAUGHT

pytestmark = pytest.mark.privacy

PRICE = Fraction(1, 10**6)


def test_every_public_method_of_the_curators_has_its_arguments():
    assert methods() == set(STRATEGIES)
    assert {n for n in dir(Curator) if not n.startswith("_") and callable(getattr(Curator, n))} <= methods()


def test_every_public_method_of_an_engine_is_watched():
    """A look that is not watched would pass as none."""
    public = {name for name in dir(MemoryEngine) if name[0] != "_" and callable(getattr(MemoryEngine, name))}
    assert public - set(WATCHED) == {"commitment"}, "what binds a ledger comes before everything"
    engine = Pair(1).sides[0].engine
    looks = {
        "size": (),
        "answer": (LONG.to_forms(),),
        "margins": ([("a",)],),
        "binned": ([TABLES[0]],),
        "distinct": ("a",),
        "distinct_records": (["a"],),
        "fold": (CountTask(DOMAIN, (("a",),)),),
        "in_order": (),
    }
    assert set(looks) == set(WATCHED)
    for name, arguments in looks.items():
        before = engine.touched
        getattr(engine, name)(*arguments)
        assert engine.touched > before, f"{name} is not watched"


def test_arbitrary_arguments_have_the_same_outcome_on_neighbouring_tables():
    tally = fuzz(range(40))
    assert tally.calls == 1600
    assert set(tally.answered) == methods(), f"never answered: {methods() - set(tally.answered)}"
    assert set(tally.refused) == methods() - {"catch_up"}


def test_the_same_with_the_production_ledger():
    assert fuzz(range(100, 103), ledger="real").calls == 120


def test_the_same_with_the_production_samplers():
    assert fuzz(range(200, 204), real=True).calls > 40


def test_the_pairs_cover_both_relations_and_all_units():
    pairs = [Pair(seed) for seed in range(40)]
    assert {pair.relation for pair in pairs} == set(Relation)
    seen = {(pair.sides[0].ledger.budget.unit, pair.curator.unit) for pair in pairs}
    assert seen == {(whole.unit, own.unit) for whole, own in BUDGETS}


Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Bug:
    """A check taken away, and the questions that must show it."""

    plant: Plant
    methods: tuple[str, ...]


def _without(place: object, name: str) -> Plant:
    return lambda patch: patch.setattr(place, name, lambda *args, **options: None)


def _unchecked_forms(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(bounds, "forms_of", lambda domain, queries: queries.to_forms())


def _unchecked_draws(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ExactDraws, "check", lambda self, domain, question: Shape(1, (2,)))


def _tells_the_count(patch: pytest.MonkeyPatch) -> None:
    real = Curator.size

    def size(self, *, price, note=None):
        if self._engine.size() > 2:
            raise ParameterError("too many")
        return real(self, price=price, note=note)

    patch.setattr(Curator, "size", size)


def _words_by_the_count(patch: pytest.MonkeyPatch) -> None:
    real = prices.on_grid

    def on_grid(price):
        try:
            return real(price)
        except ParameterError as error:
            raise ParameterError(f"{error} {np.random.default_rng().integers(2**60)}") from None

    patch.setattr(prices, "on_grid", on_grid)


def _more_noise_for_more_records(patch: pytest.MonkeyPatch) -> None:
    real = Curator._noisy_at

    def noisy_at(self, request, sensitivity, price, *rest, **options):
        less = price / (1 + self._engine.size() % 2) if isinstance(price, Fraction) else price
        return real(self, request, sensitivity, less, *rest, **options)

    patch.setattr(Curator, "_noisy_at", noisy_at)


def _twice_the_score(patch: pytest.MonkeyPatch) -> None:
    real = vault.count_errors
    patch.setattr(vault, "count_errors", lambda *args: 2 * real(*args))


CATALOGUE = {
    "rows and codes of small databases are not looked at": Bug(_without(gate, "check_values"), ("score_of",)),
    "draws are not checked": Bug(_unchecked_draws, ("draw",)),
    "weights are checked by the look": Bug(_without(gate, "check_weight"), ("total",)),
    "references and penalties of any size": Bug(
        _without(bounds, "check_numbers"), ("distances", "select_tables")
    ),
    "whole numbers of any size": Bug(
        _without(bounds, "check_whole"), ("open_epoch", "test", "select_tables")
    ),
    "queries of any size and domain": Bug(_unchecked_forms, ("select",)),
    "prices of any kind": Bug(_without(bounds, "check_price"), ("size", "measure", "select")),
    "notes of any kind": Bug(_without(bounds, "check_about"), ("note", "note_all")),
    "margins of any kind": Bug(_without(bounds, "check_margins"), ("measure_residuals",)),
    "a refusal that looks at the table": Bug(_tells_the_count, ("size",)),
    "a refusal that is never the same": Bug(_words_by_the_count, ("size",)),
    "noise that depends on the table": Bug(_more_noise_for_more_records, ("size",)),
    "a score of twice its sensitivity": Bug(_twice_the_score, ("largest_error",)),
}


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_planted_bug_is_caught(name, monkeypatch):
    bug = CATALOGUE[name]
    fuzz(range(300, 303), methods=bug.methods)
    bug.plant(monkeypatch)
    with pytest.raises(CAUGHT, match=r"seed \d+, call \d+"):
        fuzz(range(300, 360), methods=bug.methods)


def _drawn(structure, rows: int) -> DrawnDatabase:
    return DrawnDatabase(
        Draw(structure, "flat", 2), [np.zeros(rows, np.int64)], Fraction(1), Fraction(1, 2), Receipt(1, "0")
    )


LONG = marginals(DOMAIN, attributes=[["b"]])
TOO_LONG = {
    "score_of": {"draw": _drawn(Thresholds("a"), 2000), "price": PRICE},
    "draw": {
        "question": Draw(Candidates(LONG, {"b": np.zeros((3, 2000), np.int64)}), "flat", 2),
        "price": PRICE,
    },
}
WRAPPED = {
    "distances": {
        "binned": [TABLES[1]],
        "references": [np.array([2**62, 2**62 - 4, 0, 0])],
        "price": PRICE,
    },
    "select_tables": {
        "binned": [TABLES[1]],
        "references": [np.array([2**62, 2**62 - 4, 0, 0])],
        "penalties": np.zeros(1, dtype=np.int64),
        "count": 1,
        "price": PRICE,
    },
}


@pytest.mark.parametrize(
    ("method", "arguments", "place", "name"),
    [
        ("score_of", TOO_LONG["score_of"], gate, "check_values"),
        ("draw", TOO_LONG["draw"], check, "_check_codes"),
        *((m, a, bounds, "check_numbers") for m, a in WRAPPED.items()),
    ],
)
def test_what_the_checks_are_for(method, arguments, place, name, monkeypatch):
    """Refused with the check; without it the private input moves by more than was charged."""
    with draws_on_tape():
        refused = Pair(1).ask(method, arguments).error
        assert refused is not None
        assert refused[0] is ParameterError
        monkeypatch.setattr(place, name, lambda *args, **options: None)
        with pytest.raises(CAUGHT, match="the private input moved by"):
            _ask_pairs(method, arguments)


def _ask_pairs(method, arguments) -> None:
    for seed in range(60):
        Pair(seed).ask(method, arguments)

"""Public arguments that could carry a private number out of 64 bits or out of its sensitivity are refused unseen."""

from collections.abc import Callable
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from maquette.core import answers as public_tables
from maquette.core import bounds, sparse
from maquette.core.answers import ChoiceQuestion, project
from maquette.core.binned import Binned
from maquette.core.budget import Budget
from maquette.core.curator import OnlineCurator
from maquette.core.drawing import DrawnDatabase
from maquette.core.laws import NoiseRequest
from maquette.core.linear_queries import Group
from maquette.core.measurement import EpochTerms, Receipt
from maquette.core.noise import SystemNoise
from maquette.core.residuals import MAX_DENOMINATOR
from maquette.core.rows import engine as vault
from maquette.core.rows.loading import StreamEngine
from maquette.core.sparse import Guess
from maquette.core.weighting import Weighting
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.errors import MaquetteError, MechanismError, ParameterError, SourceError, WorkloadError
from maquette.models.answers import Answers
from maquette.owner import Table
from maquette.queries import halfspaces, marginals, prefixes, weights, where
from maquette.samplers.check import MAX_NESTING
from maquette.samplers.draw import EXACT_DRAWS
from maquette.samplers.structures import Candidates, Draw, Forest, Listed, Nested, Thresholds
from support.privacy_doubles import LooseEngine, Untouchable, columns_of, ledger_for, set_aside

DOMAIN = Domain(
    (
        Attribute("a", Kind.ORDINAL, codes=3),
        Attribute("b", Kind.CATEGORICAL, codes=2),
        Attribute("huge", Kind.ORDINAL, codes=2**40),
    )
)
SMALL = Domain(DOMAIN.attributes[:2])
PURE, RHO, MU = Budget(5.0), Budget(5.0, 1e-6), Budget(5.0, 1e-6, "gaussian")
TERMS = EpochTerms(3, 2, Fraction(1, 10), Fraction(1, 10), Fraction(1, 10))
LINE = Binned(("a",), ((0, 1, 2),))
PRICE = Fraction(1, 100)
PAIRS = marginals(DOMAIN, attributes=[["a", "b"]])
SPACES = halfspaces(DOMAIN, ["huge"], [[1]], [5])
BORDER = 2**63


class Borrowed(OnlineCurator):
    """The production curator with a sampler from outside."""

    def __init__(self, *args: Any, noise: Any, **options: Any) -> None:
        self._given = noise
        super().__init__(*args, **options)

    def _source(self) -> Any:
        return self._given


class Unasked:
    """A sampler that fails when it is asked for anything that needs a look."""

    watermark = None

    def laplace(self, exact: Any, *, scale: Any) -> Any:
        assert not exact.any()
        return exact

    @property
    def bits(self) -> Any:
        return SystemNoise().bits


class Exactly(Unasked):
    """A sampler without noise."""

    def laplace(self, exact: Any, *, scale: Any) -> Any:
        return exact


class Ends(Unasked):
    """A sampler whose every draw ends up at one end of the 64 bits."""

    def __init__(self, end: int) -> None:
        self.end = end

    def laplace(self, exact: Any, *, scale: Any) -> Any:
        return np.full_like(exact, self.end)


def _curator(
    engine: Any, *, budget: Budget = PURE, noise: Any = None, relation: Any = Relation.ADD_REMOVE
) -> Any:
    book = ledger_for(engine.domain, budget=budget, relation=relation)
    set_aside(book, "key", budget)
    table = Table(engine, name="t", source="test")
    return Borrowed(
        table, book, key="key", budget=budget, noise=noise or SystemNoise(), draws=EXACT_DRAWS
    ), book


def _drawn(structure: Any, base: Any, m: int, *values: Any, weight: Any = None) -> DrawnDatabase:
    return DrawnDatabase(
        Draw(structure, base, m, 1, weight), list(values), Fraction(1), Fraction(1, 2), Receipt(1, "0" * 64)
    )


def _odd(value: Any) -> Any:
    """What the annotations do not allow."""
    return value


def _tested(guess: Any, about: Any = None) -> Callable[[Any], Any]:
    return lambda c: c.test(where(DOMAIN, "a >= 1"), guess=guess, about=about)


CODES = {"a": np.zeros((3, 2000), dtype=np.int64), "b": np.zeros((3, 2000), dtype=np.int64)}
LONG = np.zeros(2000, dtype=np.int64)
DEEP = tuple((0, last) for last in range(MAX_NESTING + 1))
REFUSED: dict[str, Callable[[Any], Any]] = {
    "a guess at the end of 64 bits": _tested(-(BORDER - 1) + 6),
    "a guess beyond 64 bits": _tested(10**30),
    "a guess that is no whole number": _tested(0.5),
    "a guess that is not a number": _tested(float("nan")),
    "a guess as True": _tested(True),
    "a test that calls itself a note": _tested(0, {"ask": "note"}),
    "a test that cannot be written down": _tested(0, {"x": object()}),
    "a note that opens an epoch": lambda c: c.note({"ask": "epoch", "terms": {}}),
    "a note that says what was paid": lambda c: c.note({"tag": "pure"}),
    "a question that says another price": lambda c: c.size(price=PRICE, note={"tag": "pure", "epsilon": "0"}),
    "a question that cannot be written down": lambda c: c.size(price=PRICE, note={"x": float("inf")}),
    "references near the border": lambda c: c.distances([LINE], [np.array([BORDER - 1, 0, 0])], price=PRICE),
    "references that add up beyond it": lambda c: c.distances([LINE], [np.full(3, 2**62)], price=PRICE),
    "references that are not numbers": lambda c: c.distances([LINE], [np.array([np.nan, 0, 0])], price=PRICE),
    "a reference too few": lambda c: c.distances([LINE], [], price=PRICE),
    "a reference of room for nothing": lambda c: c.distances(
        [LINE], [np.broadcast_to(1, 2**45)], price=PRICE
    ),
    "penalties near the border": lambda c: c.select_tables(
        [LINE], [np.zeros(3, dtype=np.int64)], np.array([-BORDER]), count=1, price=PRICE
    ),
    "a million choices": lambda c: c.select_tables(
        [LINE], [np.zeros(3, dtype=np.int64)], np.array([0]), count=10**9, price=PRICE
    ),
    "cuts between codes": lambda c: c.measure_tables(
        [Binned(("a",), _odd(((0, 0.5),)))], variances=[Fraction(9)]
    ),
    "cuts in floats": lambda c: c.measure_tables(
        [Binned(("a",), _odd(((0.0, 1.0),)))], variances=[Fraction(9)]
    ),
    "a list of cuts": lambda c: c.measure_tables([Binned(("a",), _odd([(0, 1)]))], variances=[Fraction(9)]),
    "answers over 10^400": lambda c: c.select(
        PAIRS, Answers(np.zeros(6, dtype=np.int64), 10**400), price=PRICE
    ),
    "groups between queries": lambda c: c.largest_error(
        PAIRS, Answers(np.zeros(6, dtype=np.int64), 1), groups=[Group("x", 0, _odd(1.5))], price=PRICE
    ),
    "a price that is not a number": lambda c: c.measure(
        PAIRS, noise=NoiseRequest("laplace", _odd(float("nan")))
    ),
    "an infinite price": lambda c: c.select(
        PAIRS, Answers(np.zeros(6, dtype=np.int64), 1), price=float("inf")
    ),
    "a price of 10^400": lambda c: c.measure(PAIRS, noise=NoiseRequest("laplace", Fraction(10**400))),
    "no noise": lambda c: c.measure(PAIRS, noise=None),
    "a radius that cannot be listed": lambda c: c.measure(
        PAIRS, noise=NoiseRequest("cube", Fraction(1, 10**9))
    ),
    "a variance of 10^400": lambda c: c.measure_tables([LINE], variances=[Fraction(10**400)]),
    "a table of 2^40 cells": lambda c: c.measure(
        marginals(DOMAIN, attributes=[["huge"]]), noise=NoiseRequest("laplace", PRICE)
    ),
    "2^40 prefixes": lambda c: c.measure(prefixes(DOMAIN, "huge"), noise=NoiseRequest("laplace", PRICE)),
    "queries over another domain": lambda c: c.measure(
        marginals(SMALL, k=1), noise=NoiseRequest("laplace", PRICE)
    ),
    "a candidate of 2,000 rows for a draw of 2": lambda c: c.draw(
        Draw(Candidates(PAIRS, CODES), "flat", 2), price=PRICE
    ),
    "candidates in no cell": lambda c: c.draw(
        Draw(Candidates(PAIRS, {n: v[:, :2] - 1 for n, v in CODES.items()}), "flat", 2), price=PRICE
    ),
    "a draw over another domain": lambda c: c.draw(
        Draw(Listed(marginals(SMALL, k=1)), "flat", 2), price=PRICE
    ),
    "a draw of unknown attributes": lambda c: c.draw(Draw(Thresholds("nobody"), "flat", 2), price=PRICE),
    "a forest of three leaves each": lambda c: c.draw(
        Draw(Forest(("a", "b"), (("a", "b"),)), "sequence", 2), price=PRICE
    ),
    "sets too deep": lambda c: c.draw(Draw(Nested("huge", DEEP, 2**40), "flat", 2), price=PRICE),
    "a draw of a million rows": lambda c: c.draw(Draw(Thresholds("a"), "flat", 10**6), price=PRICE),
    "more databases than can be listed": lambda c: c.draw(Draw(Listed(PAIRS), "flat", 200), price=PRICE),
    "a database of 2,000 rows for a draw of 2": lambda c: c.score_of(
        _drawn(Thresholds("a"), "flat", 2, LONG), price=PRICE
    ),
    "a candidate of 2,000 rows, judged": lambda c: c.score_of(
        _drawn(Candidates(PAIRS, CODES), "flat", 2, LONG[:1]), price=PRICE
    ),
    "a database with codes of no cell": lambda c: c.score_of(
        _drawn(Thresholds("a"), "flat", 2, LONG[:2] + 3), price=PRICE
    ),
    "a database in floats": lambda c: c.score_of(
        _drawn(Thresholds("a"), "flat", 2, LONG[:2] * 1.0), price=PRICE
    ),
    "a database with a column too many": lambda c: c.score_of(
        _drawn(Thresholds("a"), "flat", 2, LONG[:2], LONG[:2]), price=PRICE
    ),
    "weights over 2^40": lambda c: c.total(Weighting("a", (0, 1, 2**40), 2**40, 1.0), price=PRICE),
    "weights for another attribute": lambda c: c.total(Weighting("b", (0, 1, 1), 1, 1.0), price=PRICE),
    "weights of 2^40 cells": lambda c: c.score_of(
        _drawn(Thresholds("huge"), "flat", 2, LONG[:2], weight=Weighting("a", (0, 1, 1), 1, 1.0)), price=PRICE
    ),
    "half-spaces of more cells than can be listed": lambda c: c.measure(
        SPACES, noise=NoiseRequest("laplace", PRICE)
    ),
    "half-spaces among other queries": lambda c: c.select(
        PAIRS + SPACES, Answers(np.zeros(7, dtype=np.int64), 1), price=PRICE
    ),
    "half-spaces, judged": lambda c: c.largest_error(
        SPACES, Answers(np.zeros(1, dtype=np.int64), 1), price=PRICE
    ),
    "half-spaces as a test": lambda c: c.test(SPACES, guess=0),
    "half-spaces to choose from": lambda c: c.choose(ChoiceQuestion("count", SPACES, ()), price=PRICE),
    "candidates for half-spaces": lambda c: c.draw(
        Draw(Candidates(SPACES, {"huge": LONG[None, :2]}), "flat", 2), price=PRICE
    ),
    "a threshold at the border": lambda c: c.open_epoch(EpochTerms(BORDER, 2, PRICE, PRICE, None)),
    "a cap that is no whole number": lambda c: c.open_epoch(EpochTerms(3, _odd(2.5), PRICE, PRICE, None)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_is_refused_before_the_payment_and_the_look(name):
    engine = Untouchable(DOMAIN)
    curator, book = _curator(engine, noise=Unasked())
    if "test" in name or "guess" in name:
        curator.open_epoch(TERMS)
    before, left = list(book.entries()), curator.left
    with pytest.raises(MaquetteError):
        REFUSED[name](curator)
    assert list(book.entries()) == before
    assert curator.left == left


HALVES = Binned(("a", "huge"), ((0, 1), (0, 7, 2**39)))


@pytest.mark.parametrize("rows", [(), ((1, 0, 2**39), (0, 1, 6), (2, 1, 2**40 - 1))])
def test_bins_of_an_attribute_of_2_to_the_40_cells_are_counted(rows):
    columns = {
        name: np.array([row[i] for row in rows], dtype=np.uint64 if name == "huge" else np.uint8)
        for i, name in enumerate(DOMAIN.names)
    }
    curator, _ = _curator(LooseEngine(DOMAIN, columns), noise=Exactly())
    (table,) = curator.measure_tables([HALVES], variances=[Fraction(400)])
    assert table.values.tolist() == ([1, 0, 0, 0, 0, 2] if rows else [0] * 6)


@pytest.mark.parametrize("count", [0, 3])
def test_weighted_candidates_may_look_at_no_attribute(count):
    """Every candidate is right: the draw is paid for and made, on tables without weight too."""
    curator, _ = _curator(LooseEngine(SMALL, columns_of(SMALL, (0, 0, 0, 0, count, 0))))
    always = Candidates(where(SMALL, "a >= 0"), {"b": np.zeros((3, 2), dtype=np.int64)})
    drawn = curator.draw(Draw(always, "flat", 2, 1, Weighting("a", (0, 1, 2), 2, 1.0)), price=PRICE)
    assert int(drawn.values[0][0]) in range(3)
    assert curator.score_of(drawn, price=PRICE).values.shape == (1,)


def test_the_border_of_a_guess_does_not_tell_the_count():
    """Free and repeatable: it was answered, or overflowed, by the exact count."""
    outcomes = set()
    for count in (0, 5, 6, 7, 8):
        curator, _ = _curator(LooseEngine(SMALL, columns_of(SMALL, (0, 0, count, 0, 0, 0))))
        curator.open_epoch(TERMS)
        for guess in (-(BORDER - 1) + 6, BORDER - 1, -BORDER):
            with pytest.raises(ParameterError) as caught:
                curator.test(where(SMALL, "a >= 1"), guess=guess)
            outcomes.add(str(caught.value))
    assert len(outcomes) == 1


def test_a_later_guess_that_cannot_be_stored_does_not_tell_the_earlier_outcome():
    curator, book = _curator(LooseEngine(SMALL, columns_of(SMALL, (9,) * 6)))
    curator.open_epoch(TERMS)
    before = list(book.entries())
    guesses = [Guess(where(SMALL, "a >= 1"), 0), Guess(where(SMALL, "b = 1"), 0, {"x": float("nan")})]
    with pytest.raises(ParameterError, match="plain"):
        curator.test_all(guesses)
    assert list(book.entries()) == before


@pytest.mark.parametrize("budget", [PURE, RHO, MU])
def test_answers_that_never_change_are_refused_by_name(budget):
    curator, book = _curator(Untouchable(SMALL), budget=budget, relation=Relation.REPLACE_ONE)
    noise = NoiseRequest("laplace", PRICE) if budget is PURE else NoiseRequest("gaussian", PRICE)
    with pytest.raises(ParameterError, match="the same on all neighbouring tables"):
        curator.measure(marginals(SMALL, k=0), noise=noise)
    assert not list(book.entries(parent="key"))


def test_the_largest_public_numbers_leave_exact_scores():
    """At the limits nothing wraps: the scores are those of Python's own whole numbers."""
    counts = np.array([bounds.RECORDS, 0, 0])
    references = np.array([-(bounds.SUMMANDS - 2), 1, -1])
    public_tables.check_references([LINE], [references])
    engine: Any = SimpleNamespace(cells_per_pass=3, binned=lambda tables: [counts])
    (found,) = vault.distances(engine, [LINE], [references])
    assert int(found) == bounds.RECORDS + bounds.SUMMANDS
    assert int((np.array([found]) - np.array([-bounds.SUMMANDS]))[0]) == bounds.RECORDS + 2 * bounds.SUMMANDS
    assert bounds.RECORDS + 2 * bounds.SUMMANDS <= bounds.EXACT
    assert sparse.score(2**20 * bounds.RECORDS, -bounds.SUMMANDS) <= bounds.EXACT
    with pytest.raises(ParameterError, match="altogether"):
        public_tables.check_references([LINE], [references * 2])


@pytest.mark.slow
def test_a_projection_at_its_limit_stays_exact():
    """Axes of 4 and 5 cells grow most; with the widest noise that is let through the result is still exact."""
    shape = (4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4)
    assert np.prod(shape) == MAX_DENOMINATOR
    axes = tuple(range(len(shape)))
    sigma = 1.0
    with pytest.raises(ParameterError, match="room for the projection"):
        bounds.check_projection(shape, axes, 2.0**40)
    while True:
        try:
            bounds.check_projection(shape, axes, sigma * 2)
        except ParameterError:
            break
        sigma *= 2
    largest = bounds.RECORDS + 16 * int(sigma)
    signs = np.ones((1,) * len(shape), dtype=np.int64)
    for axis, size in enumerate(shape):
        along = np.where(np.arange(size) == 0, 1, -1)
        signs = signs * along.reshape(tuple(size if i == axis else 1 for i in range(len(shape))))
    table = largest * signs
    exact, _ = project(table.astype(object), axes)
    found, _ = project(table, axes)
    place = np.unravel_index(int(np.abs(found).argmax()), shape)
    assert int(found[place]) == int(exact[place])
    assert (found == exact).all()


def test_a_threshold_beyond_the_sampler_is_cut_before_it_is_compared():
    """A sampler cuts scores at 64 bits; a threshold out there would let the cut decide."""
    engine = LooseEngine(SMALL, columns_of(SMALL, (9,) * 6))
    for end, far in ((2**63 - 1, True), (-(2**63), False)):
        curator, _ = _curator(engine, noise=Ends(end))
        curator.open_epoch(EpochTerms(2**40, 1, PRICE, PRICE, None))
        halves = weights(SMALL, np.full((1, 6), 0.5))
        assert curator.test(halves, guess=0).far is far


def test_larger_tables_are_not_opened(monkeypatch):
    monkeypatch.setattr(vault, "MAX_RECORDS", 3)
    columns = {"a": np.zeros(4, dtype=np.uint8), "b": np.zeros(4, dtype=np.uint8)}
    with pytest.raises(SourceError, match="at most 3 records"):
        vault.MemoryEngine(SMALL, columns)
    vault.MemoryEngine(SMALL, {name: column[:3] for name, column in columns.items()})


def test_a_stream_of_more_records_is_refused_on_its_first_pass(monkeypatch, tmp_path):
    from maquette.vault.readers import open_engine

    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "1,1\n" * 4, encoding="utf-8")
    engine = open_engine(path, SMALL, memory_limit=0)
    assert isinstance(engine, StreamEngine)
    monkeypatch.setattr(vault, "MAX_RECORDS", 3)
    with pytest.raises(SourceError, match="at most 3 records"):
        engine.commitment(b"salt")


def test_known_errors_of_the_gate_are_kept():
    curator, _ = _curator(Untouchable(DOMAIN))
    with pytest.raises(MechanismError, match="no epoch is open"):
        curator.test(where(DOMAIN, "a >= 1"), guess=0)
    with pytest.raises(WorkloadError, match="order of the domain"):
        curator.measure_residuals([("b", "a")], variances=[Fraction(9)])


def test_the_largest_price_is_a_price_and_the_next_is_none():
    bounds.check_price(bounds.LARGEST_PRICE)
    with pytest.raises(ParameterError, match="at most"):
        bounds.check_price(bounds.LARGEST_PRICE + Fraction(1, 10**12))

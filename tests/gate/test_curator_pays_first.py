"""Pay, look, return: in this order, once, and nothing is read before it is paid for."""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false

import os
import signal
from fractions import Fraction

import numpy as np
import pytest

from maquette.accounting.ledger import Ledger
from maquette.core.answers import ChoiceQuestion
from maquette.core.budget import Budget
from maquette.core.curator import Curator
from maquette.core.laws import NoiseRequest
from maquette.core.linear_queries import Group
from maquette.core.rows.engine import MemoryEngine
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.errors import (
    BudgetExceeded,
    KeyReused,
    LedgerError,
    LookFailed,
    MechanismError,
    ParameterError,
)
from maquette.models.answers import Answers
from maquette.owner import Table
from maquette.queries import marginals, weights
from maquette.samplers.draw import EXACT_DRAWS
from support.privacy_cases import HALVES, mixed
from support.privacy_conformance import TINY
from support.privacy_doubles import (
    LooseEngine,
    Untouchable,
    columns_of,
    ledger_for,
    set_aside,
    table_of,
)
from support.seeded import SeededCurator

PURE, CONCENTRATED = Budget(1.0), Budget(1.0, 1e-6)
HISTOGRAM = (3, 0, 2, 0, 0, 1, 0, 0, 4, 0, 0, 2)
QUERIES = mixed(TINY)
GUESS = Answers.from_fractions(np.full(QUERIES.count, 0.25))


def _curator(
    engine, *, budget=PURE, relation=Relation.ADD_REMOVE, ledger=None, key="release", kind=Curator, total=None
):
    table = Table(engine, name="tiny", source="test")
    book = ledger or ledger_for(TINY, budget=total or budget, relation=relation)
    if book.find(key) is None:
        set_aside(book, key, budget)
    return kind(table, book, key=key, budget=budget), book


def _asks(price: Fraction):
    """Every question of the gate at a price, by name."""
    return {
        "size": lambda c: c.size(price=price),
        "laplace": lambda c: c.measure(QUERIES, noise=NoiseRequest("laplace", price)),
        "cube": lambda c: c.measure(QUERIES, noise=NoiseRequest("cube", price)),
        "gaussian": lambda c: c.measure(QUERIES, noise=NoiseRequest("gaussian", price)),
        "residuals": lambda c: c.measure_residuals([("a",)], variances=[1 / (3 * price)]),
        "residuals in bins": lambda c: c.measure_binned_residuals([HALVES], variances=[1 / (4 * price)]),
        "select": lambda c: c.select(QUERIES, GUESS, price=price),
        "choose": lambda c: c.choose(ChoiceQuestion("nearest", QUERIES, (GUESS,)), price=price),
        "largest error": lambda c: c.largest_error(QUERIES, GUESS, price=price),
    }


CONCENTRATED_ONLY = ("gaussian", "residuals", "residuals in bins")
PURE_ASKS = [name for name in _asks(Fraction(1)) if name not in CONCENTRATED_ONLY]
RHO_ASKS = [name for name in _asks(Fraction(1)) if name not in ("laplace", "cube")]


@pytest.mark.parametrize(
    ("name", "budget"),
    [(n, PURE) for n in PURE_ASKS] + [(n, CONCENTRATED) for n in RHO_ASKS],
)
def test_a_refused_question_reads_nothing_and_costs_nothing(name, budget):
    curator, ledger = _curator(Untouchable(TINY), budget=budget)
    with pytest.raises(BudgetExceeded) as caught:
        _asks(Fraction(3))[name](curator)
    assert caught.value.needed > caught.value.left
    assert not list(ledger.entries(kind="reserve", parent="release"))
    assert curator.left == Fraction(budget.total_units, 10**12)


def test_the_ledger_refuses_too_where_the_curator_would_not():
    """A second curator on the same envelope knows nothing of the first; the ledger does."""
    ledger = ledger_for(TINY, budget=PURE, relation=Relation.ADD_REMOVE)
    set_aside(ledger, "release", PURE)
    first, _ = _curator(LooseEngine(TINY, columns_of(TINY, HISTOGRAM)), ledger=ledger)
    first.size(price=Fraction(9, 10))
    second = Curator(
        Table(_Committed(TINY), name="tiny", source="test"),
        ledger,
        key="release",
        budget=PURE,
        draws=EXACT_DRAWS,
    )
    with pytest.raises(KeyReused):
        second.measure(QUERIES, noise=NoiseRequest("laplace", Fraction(1, 2)))
    second._step = 1
    with pytest.raises(BudgetExceeded):
        second.measure(QUERIES, noise=NoiseRequest("laplace", Fraction(1, 2)))
    assert second.left == 1  # neither was paid, so neither counts


def test_what_the_ledger_refused_does_not_use_up_the_curators_own_budget():
    """The envelope holds less than the curator was promised; what fits into both is still answered."""
    ledger = ledger_for(TINY, budget=PURE, relation=Relation.ADD_REMOVE)
    set_aside(ledger, "release", Budget(0.5))
    curator, _ = _curator(LooseEngine(TINY, columns_of(TINY, HISTOGRAM)), ledger=ledger)
    for _ in range(3):
        with pytest.raises(BudgetExceeded):
            curator.size(price=Fraction(6, 10))
        assert curator.left == 1
    curator.size(price=Fraction(5, 10))
    assert curator.left == Fraction(1, 2)


class _Committed(Untouchable):
    def commitment(self, salt: bytes, *, like: str | None = None) -> str:
        return "one for all"


class _Witness(LooseEngine):
    """Whenever it is asked, the reservation must already be durable: read from the file by another connection."""

    location = None
    looks = 0

    def _check(self) -> None:
        with Ledger.open(self.location) as seen:
            reserved = [e.key for e in seen.entries(kind="reserve", parent="release")]
            answered = [e.key for e in seen.entries(kind="answer")]
        assert len(reserved) == len(answered) + 1, "the table was looked at without a durable payment"
        type(self).looks += 1

    def size(self):
        self._check()
        return super().size()

    def answer(self, queries):
        self._check()
        return super().answer(queries)

    def margins(self, margins):
        self._check()
        return super().margins(margins)

    def binned(self, tables):
        self._check()
        return super().binned(tables)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "budget"),
    [(n, PURE) for n in PURE_ASKS] + [(n, CONCENTRATED) for n in RHO_ASKS],
)
def test_the_payment_is_durable_before_the_look(name, budget, tmp_path):
    location = tmp_path / "ledger"
    ledger = ledger_for(TINY, budget=budget, relation=Relation.ADD_REMOVE, location=location)
    _Witness.location, _Witness.looks = location, 0
    curator, _ = _curator(_Witness(TINY, columns_of(TINY, HISTOGRAM)), budget=budget, ledger=ledger)
    _asks(Fraction(1, 100))[name](curator)
    assert _Witness.looks >= 1


class _Breaks(LooseEngine):
    """Fails after the payment, as a crash would."""

    def answer(self, queries):
        raise RuntimeError("the machine fell over")


def test_a_look_that_failed_stays_charged_and_is_charged_once_more_by_the_same_key():
    curator, ledger = _curator(_Breaks(TINY, columns_of(TINY, HISTOGRAM)), total=Budget(2.0))
    with pytest.raises(LookFailed):
        curator.measure(QUERIES, noise=NoiseRequest("laplace", Fraction(1, 4)))
    (charged,) = ledger.entries(kind="reserve", parent="release")
    assert charged.units == 250_000_000_000
    again, _ = _curator(LooseEngine(TINY, columns_of(TINY, HISTOGRAM)), ledger=ledger)
    first = again.measure(QUERIES, noise=NoiseRequest("laplace", Fraction(1, 4)))
    entries = list(ledger.entries(kind="reserve", parent="release"))
    assert [e.key for e in entries] == [charged.key]
    (further,) = [e for e in ledger.entries(kind="reserve") if e.key.startswith(f"{charged.key}/again/")]
    assert (further.parent, further.units) == (None, charged.units), "it is charged to the total"
    third, _ = _curator(_Committed(TINY), ledger=ledger)
    assert np.array_equal(
        third.measure(QUERIES, noise=NoiseRequest("laplace", Fraction(1, 4))).values, first.values
    )


def test_a_killed_process_leaves_the_charge_behind(tmp_path):
    location = tmp_path / "ledger"
    ledger_for(TINY, budget=PURE, relation=Relation.ADD_REMOVE, location=location).close()
    child = os.fork()
    if child == 0:
        try:
            with Ledger.open(location) as book:
                curator, _ = _curator(_Killed(TINY, columns_of(TINY, HISTOGRAM)), ledger=book)
                curator.size(price=Fraction(1, 4))
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    with Ledger.open(location) as book:
        (charged,) = book.entries(kind="reserve", parent="release")
        assert charged.units == 250_000_000_000
        assert not list(book.entries(kind="answer"))
        book.verify()


class _Killed(LooseEngine):
    def size(self):
        os.kill(os.getpid(), signal.SIGKILL)
        return 0


def test_the_same_key_gives_the_same_bytes_and_looks_at_nothing():
    curator, ledger = _curator(LooseEngine(TINY, columns_of(TINY, HISTOGRAM)))
    asks = {name: ask for name, ask in _asks(Fraction(1, 10)).items() if name in PURE_ASKS}
    first = [_values(ask(curator)) for ask in asks.values()]
    spent = ledger.spent_units
    again, _ = _curator(_Committed(TINY), ledger=ledger)
    assert [_values(ask(again)) for ask in asks.values()] == first
    assert ledger.spent_units == spent


def _values(released) -> list[int]:
    if isinstance(released, int):
        return [released]
    return np.atleast_1d(getattr(released, "values", getattr(released, "value", None))).tolist()


@pytest.mark.parametrize(
    "other",
    [
        lambda c: c.measure(QUERIES, noise=NoiseRequest("laplace", Fraction(1, 5))),
        lambda c: c.measure(marginals(TINY, k=1), noise=NoiseRequest("laplace", Fraction(1, 10))),
        lambda c: c.measure(QUERIES, noise=NoiseRequest("cube", Fraction(1, 10))),
        lambda c: c.size(price=Fraction(1, 10)),
    ],
)
def test_the_same_key_for_another_request_is_refused(other):
    curator, ledger = _curator(LooseEngine(TINY, columns_of(TINY, HISTOGRAM)))
    curator.measure(QUERIES, noise=NoiseRequest("laplace", Fraction(1, 10)))
    again, _ = _curator(_Committed(TINY), ledger=ledger)
    with pytest.raises(KeyReused):
        other(again)


def test_other_answers_are_another_request():
    curator, ledger = _curator(LooseEngine(TINY, columns_of(TINY, HISTOGRAM)))
    curator.largest_error(QUERIES, GUESS, price=Fraction(1, 10))
    again, _ = _curator(_Committed(TINY), ledger=ledger)
    other = Answers(GUESS.numerators + 1, GUESS.denominator)
    with pytest.raises(KeyReused):
        again.largest_error(QUERIES, other, price=Fraction(1, 10))


def test_another_tables_ledger_is_refused_before_anything_is_asked():
    ledger = ledger_for(TINY, budget=PURE, relation=Relation.ADD_REMOVE)
    set_aside(ledger, "release", PURE)
    Curator(
        table_of(TINY, HISTOGRAM, engine=MemoryEngine), ledger, key="release", budget=PURE, draws=EXACT_DRAWS
    )
    other = table_of(TINY, (1, *HISTOGRAM[1:]), engine=MemoryEngine)
    with pytest.raises(LedgerError, match="another table"):
        Curator(other, ledger, key="release", budget=PURE, draws=EXACT_DRAWS)
    Curator(
        table_of(TINY, HISTOGRAM, engine=MemoryEngine), ledger, key="release", budget=PURE, draws=EXACT_DRAWS
    )


def test_a_ledger_of_another_domain_is_refused():
    domain = Domain((Attribute("a", Kind.CATEGORICAL, codes=2),))
    ledger = ledger_for(domain, budget=PURE, relation=Relation.ADD_REMOVE)
    with pytest.raises(LedgerError, match="domain"):
        Curator(table_of(TINY, HISTOGRAM), ledger, key="release", budget=PURE, draws=EXACT_DRAWS)


def test_without_an_envelope_nothing_is_answered():
    ledger = ledger_for(TINY, budget=PURE, relation=Relation.ADD_REMOVE)
    table = Table(_Committed(TINY), name="tiny", source="test")
    curator = Curator(table, ledger, key="never reserved", budget=PURE, draws=EXACT_DRAWS)
    with pytest.raises(LedgerError):
        curator.size(price=Fraction(1, 10))


def test_gaussian_noise_is_not_sold_for_a_pure_budget():
    curator, ledger = _curator(Untouchable(TINY))
    for ask in CONCENTRATED_ONLY:
        with pytest.raises(MechanismError, match="no finite pure epsilon"):
            _asks(Fraction(1, 10))[ask](curator)
    assert not list(ledger.entries(kind="reserve", parent="release"))


def test_queries_of_another_domain_are_refused_unread():
    other = Domain((Attribute("a", Kind.ORDINAL, codes=3),))
    curator, _ = _curator(Untouchable(TINY))
    queries, guess = marginals(other, k=1), Answers.from_fractions(np.zeros(3))
    for ask in (
        lambda: curator.measure(queries, noise=NoiseRequest("laplace", Fraction(1, 10))),
        lambda: curator.select(queries, guess, price=Fraction(1, 10)),
        lambda: curator.largest_error(queries, guess, price=Fraction(1, 10)),
    ):
        with pytest.raises(ParameterError, match="own domain"):
            ask()


@pytest.mark.parametrize(
    "answers",
    [
        Answers(np.full(QUERIES.count, -1), 10),
        Answers(np.full(QUERIES.count, 11), 10),
        Answers(np.full(QUERIES.count - 1, 1), 10),
        Answers(np.full(QUERIES.count, 0.5), 1),
        Answers(np.full(QUERIES.count, np.nan), 1),
        Answers(np.full((QUERIES.count, 1), 1), 10),
        Answers(np.full(QUERIES.count, 0), 0),
        Answers(np.full(QUERIES.count, 0), -1),
    ],
    ids=["negative", "above 1", "too few", "floats", "nan", "table", "over nothing", "over less"],
)
def test_answers_outside_the_score_are_refused_unread(answers):
    curator, ledger = _curator(Untouchable(TINY))
    for ask in (curator.select, curator.largest_error):
        with pytest.raises(ParameterError, match="answers"):
            ask(QUERIES, answers, price=Fraction(1, 10))
    assert not list(ledger.entries(kind="reserve", parent="release"))


@pytest.mark.parametrize("group", [Group("empty", 2, 2), Group("beyond", 0, 10_000), Group("below", -1, 2)])
def test_groups_outside_the_queries_are_refused_unread(group):
    curator, _ = _curator(Untouchable(TINY))
    with pytest.raises(ParameterError, match="groups inside"):
        curator.largest_error(QUERIES, GUESS, groups=[group], price=Fraction(1, 10))


@pytest.mark.parametrize("variances", [[], [Fraction(0)], [Fraction(-1)], [Fraction(1)] * 2])
def test_variances_that_do_not_fit_are_refused_unread(variances):
    curator, _ = _curator(Untouchable(TINY), budget=CONCENTRATED)
    with pytest.raises(ParameterError, match="variances"):
        curator.measure_residuals([("a",)], variances=variances)


def test_cube_noise_is_for_whole_counts_only():
    curator, _ = _curator(Untouchable(TINY))
    fractional = weights(TINY, np.full((2, TINY.size), 0.3))
    with pytest.raises(MechanismError, match="counting queries"):
        curator.measure(fractional, noise=NoiseRequest("cube", Fraction(1, 10)))


def test_a_price_of_nothing_is_refused_unread():
    curator, _ = _curator(Untouchable(TINY))
    for name in PURE_ASKS:
        with pytest.raises(ParameterError, match="price"):
            _asks(Fraction(0))[name](curator)


def test_a_public_size_costs_nothing():
    engine = LooseEngine(TINY, columns_of(TINY, HISTOGRAM))
    curator, ledger = _curator(engine, relation=Relation.REPLACE_ONE)
    size = curator.size(price=Fraction(0))
    assert (size.value, size.public, size.receipt) == (sum(HISTOGRAM), True, None)
    assert not list(ledger.entries(kind="reserve", parent="release"))


def test_the_receipt_is_a_place_in_the_chain():
    curator, ledger = _curator(LooseEngine(TINY, columns_of(TINY, HISTOGRAM)))
    receipt = curator.measure(QUERIES, noise=NoiseRequest("laplace", Fraction(1, 10))).receipt
    (answer,) = ledger.entries(kind="answer")
    assert (receipt.sequence, receipt.head) == (answer.seq, answer.head)


def test_the_seeded_double_is_another_type_and_repeats_itself():
    def run(seed: int) -> list[list[int]]:
        ledger = ledger_for(TINY, budget=PURE, relation=Relation.ADD_REMOVE)
        set_aside(ledger, "release", PURE)
        curator = SeededCurator(table_of(TINY, HISTOGRAM), ledger, key="release", budget=PURE, seed=seed)
        assert "not" in curator.watermark or "nothing" in curator.watermark
        return [_values(_asks(Fraction(1, 10))[name](curator)) for name in PURE_ASKS]

    assert run(1) == run(1)
    assert run(1) != run(2)
    curator, _ = _curator(LooseEngine(TINY, columns_of(TINY, HISTOGRAM)))
    assert curator.watermark is None
    assert not isinstance(curator, SeededCurator)

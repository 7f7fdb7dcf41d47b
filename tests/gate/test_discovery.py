"""Finding a domain: the exact law of thresholds, what a neighbour can change, planted bugs, and the ledger before."""

import itertools
import math
from collections import defaultdict
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from maquette.accounting.ledger import Ledger
from maquette.core.budget import SLACK_UNITS, Budget
from maquette.core.ledger.create import BEFORE_DOMAIN
from maquette.discovery import curator as asking
from maquette.discovery import prices
from maquette.discovery import raw as vault
from maquette.discovery.curator import DiscoveryCurator
from maquette.discovery.findings import KINDS, from_bytes, threshold_for, to_bytes
from maquette.discovery.raw import open_raw
from maquette.domain import Persons, Relation
from maquette.errors import LedgerError, MechanismError, ParameterError, SourceError
from support.privacy_doubles import RecordingNoise, ReplayingNoise, set_aside
from support.privacy_tally import TallyLedger

pytestmark = pytest.mark.privacy

AR, REP = Relation.ADD_REMOVE, Relation.REPLACE_ONE
ROOMY = Budget(1.0, 1e-6, thresholds=True)


def column(counts):
    return {"c": [text for text, times in counts.items() for _ in range(times)]}


class LooseCurator(DiscoveryCurator):
    """The production curator without its limit: a delta that can be seen in a test is more than any ledger holds."""

    def _spent_with(self, cost):
        return self._spent + cost


class RawTally(TallyLedger):
    def require_raw(self, *, persons):
        assert persons == self.persons

    def bind_raw(self, columns, commitment):
        assert columns
        assert commitment


def curator_on(table, *, relation=AR, persons=None):
    book: Any = RawTally(budget=ROOMY, relation=relation, persons=persons)
    return LooseCurator(open_raw(table, ["c"], persons=persons), book, key="case", budget=ROOMY), book


class FixedNoise:
    """Adds given whole numbers, to walk through all that noise can be."""

    watermark = "test"

    def __init__(self, shifts):
        self.shifts = shifts

    def gaussian(self, values, *, sigma):
        return values + np.array(self.shifts[: len(values)], dtype=np.int64)


def discrete_gaussian(variance, reach):
    with localcontext() as context:
        context.prec = 40
        rate = Decimal(variance.denominator) / (2 * Decimal(variance.numerator))
        weights = {z: (-rate * z * z).exp() for z in range(-reach, reach + 1)}
        total = sum(weights.values())
        return {z: float(w / total) for z, w in weights.items()}


def law_of(counts, *, price, delta, reach=9, **options):
    """The exact law of what `common_values` publishes, by every noise up to a reach, through the production code."""
    law = defaultdict(float)
    first, _ = curator_on(column(counts), **options)
    variance = Fraction(first.common_values("c", price=price, delta=delta).noise.sigma_squared)
    chances = discrete_gaussian(variance, reach)
    for shifts in itertools.product(chances, repeat=len(counts)):
        curator, _ = curator_on(column(counts), **options)
        noise: Any = FixedNoise(shifts)
        curator._noise = noise
        found = curator.common_values("c", price=price, delta=delta)
        law[found.texts, tuple(found.counts.tolist())] += math.prod(chances[z] for z in shifts)
    return law


def renyi(one, other, order):
    """The Renyi divergence of an order; infinite where one has what the other has not."""
    total = 0.0
    for event, chance in one.items():
        if chance < 1e-11:  # beyond the noise that is walked through
            continue
        if not other.get(event):
            return math.inf
        total += chance**order * other[event] ** (1 - order)
    return math.log(total) / (order - 1)


PRICE, DELTA = Fraction(1, 2), Fraction(1, 20)  # variance 1


def test_a_value_that_others_share_loses_no_more_than_rho():
    one = law_of({"u": 3}, price=PRICE, delta=DELTA)
    other = law_of({"u": 4}, price=PRICE, delta=DELTA)
    for order in (1.5, 2, 4):
        assert renyi(one, other, order) <= order * float(PRICE) + 1e-6
        assert renyi(other, one, order) <= order * float(PRICE) + 1e-6


def test_a_value_of_one_record_comes_out_with_chance_delta_at_most():
    one = law_of({"u": 2}, price=PRICE, delta=DELTA)
    other = law_of({"u": 2, "v": 1}, price=PRICE, delta=DELTA)
    apart = sum(abs(one.get(e, 0) - other.get(e, 0)) for e in one.keys() | other.keys()) / 2
    assert 0 < apart <= float(DELTA)
    # and where it does not come out, the rest has the same law
    kept = {event: chance for event, chance in other.items() if "v" not in event[0]}
    share = sum(kept.values())
    assert all(math.isclose(kept[event] / share, one[event], rel_tol=1e-9) for event in one)


@pytest.mark.parametrize("rows", [1, 2, 3, 10])
@pytest.mark.parametrize("variance", [Fraction(1, 3), Fraction(1), Fraction(40), Fraction(10**6, 7)])
@pytest.mark.parametrize("delta", [Fraction(1, 10), Fraction(1, 10**6), Fraction(1, 10**12)])
def test_the_threshold_hides_every_person(rows, variance, delta):
    """By the exact law: k values of up to k records each, and any other way to divide a person's records."""
    threshold = threshold_for(variance, delta, rows=rows)
    reach = threshold - rows + 20 * (1 + math.isqrt(math.ceil(variance)))
    with localcontext() as context:
        context.prec = 60
        rate = Decimal(variance.denominator) / (2 * Decimal(variance.numerator))
        weights = [(-rate * z * z).exp() for z in range(reach + 1)]
        total = weights[0] + 2 * sum(weights[1:])

        def passes(count):
            return sum(weights[threshold - count :]) / total

        chance = max(rows // count * passes(count) for count in range(1, rows + 1))
        assert chance <= rows * passes(rows) <= Decimal(delta.numerator) / delta.denominator
    assert threshold <= rows + 2 + math.sqrt(2 * float(variance) * math.log(rows / float(delta)))


def rarely_seen(curator, delta):
    """Of 2,000 values with one record each, at most delta come out, but for chance."""
    found = curator.common_values("c", price=Fraction(1, 200), delta=delta)
    assert len(found.texts) <= 2000 * float(delta) + 6 * math.sqrt(2000 * float(delta)), "too many come out"
    assert list(found.texts) == sorted(found.texts), "the order says something"


LONELY = {"c": [f"value {i}" for i in range(2000)]}


def test_values_of_single_records_rarely_come_out():
    curator, book = curator_on(LONELY)
    rarely_seen(curator, Fraction(1, 20))
    ((_, units, slack),) = book.charges
    assert slack == SLACK_UNITS // 20
    assert abs(units - 10**12 // 200) <= 1


def test_of_persons_with_three_records_hardly_any_value_comes_out():
    who = {
        "who": [i for i in range(2000) for _ in range(3)],
        "c": [f"value {i}" for i in range(2000) for _ in range(3)],
    }
    curator, _ = curator_on(who, persons=Persons("who", 3))
    found = curator.common_values("c", price=Fraction(1, 200), delta=Fraction(1, 20))
    assert len(found.texts) <= 2000 / 20 + 60


BUGS = {
    "a threshold that forgets delta": lambda patch: patch.setattr(
        prices, "threshold_for", lambda variance, delta, *, rows: rows + 1
    ),
    "a threshold for half the noise": lambda patch: patch.setattr(
        asking, "common_values", _wider(prices.common_values, Fraction(4))
    ),
    "values in the order in which they come": lambda patch: patch.setattr(
        vault.RawTable, "spellings", _unsorted
    ),
    "a threshold for the variance of another unit": lambda patch: patch.setattr(
        prices,
        "threshold_for",
        lambda variance, delta, *, rows: threshold_for(variance / 9, delta, rows=rows),
    ),
}


def _wider(real, times):
    """The noise that is drawn is wider than the one that the threshold was made for."""
    from dataclasses import replace

    def plan(*args, **options):
        made = real(*args, **options)
        return replace(made, law=replace(made.law, sigma_squared=made.law.sigma_squared * times))

    return plan


def _unsorted(self, name):
    counts = self._rows.spellings(name).counts
    return tuple(counts), np.fromiter(counts.values(), np.int64, len(counts)) + 10**6


@pytest.mark.parametrize("name", BUGS)
def test_planted_bugs_are_caught(name, monkeypatch):
    curator, _ = curator_on({"c": LONELY["c"][::-1]})
    BUGS[name](monkeypatch)
    with pytest.raises(AssertionError, match=r"too many come out|the order says something"):
        rarely_seen(curator, Fraction(1, 20))


def test_a_threshold_for_records_does_not_hide_persons(monkeypatch):
    """A planted bug: the threshold of one record, for persons with three in one value."""
    who = {
        "who": [i for i in range(2000) for _ in range(3)],
        "c": [f"{i}" for i in range(2000) for _ in range(3)],
    }
    curator, _ = curator_on(who, persons=Persons("who", 3))
    monkeypatch.setattr(asking, "rows_of", lambda persons: 1)
    found = curator.common_values("c", price=Fraction(1, 8), delta=Fraction(1, 20))
    assert len(found.texts) > 2000 / 20 + 60


# Neighbours: the counts of cells move by one record, and nothing else does.

VALUES = [
    "17",
    "3.5",
    "-2e30",
    "2013-05-07",
    "2013-05-07 08:15",
    "north",
    "",
    "?",
    "1e400",
    "0",
    "9999-12-31",
    "nan",
]


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("ask", ["kinds", "numbers", "numbers between borders", "years"])
def test_cells_of_neighbours_move_by_one_record(ask, relation):
    base = VALUES * 3
    tape: Any = None
    public = charged = body = tape
    moved = 1 if relation is AR else 2
    for value in [None, *VALUES]:
        rows = base if value is None else [*base, value] if relation is AR else [value, *base[1:]]
        curator, book = curator_on({"c": rows}, relation=relation)
        curator._noise = RecordingNoise() if tape is None else ReplayingNoise(tape)
        more = {"borders": (0.0, 3.5, 17.0)} if "borders" in ask else {}
        found = getattr(curator, ask.split()[0])("c", price=Fraction(1, 10), **more)
        if tape is None:
            tape, public = curator._noise.calls, found.values.tolist()
            charged, body = book.charges, [slip.body for slip in book.slips.values()]
        apart = np.abs(curator._noise.calls[0].exact - tape[0].exact)
        assert apart.sum() <= moved
        assert found.values.tolist() == public
        assert (book.charges, [slip.body for slip in book.slips.values()]) == (charged, body)
        assert charged[0][1] >= 10**11


def test_every_value_is_in_one_cell_of_each_question():
    table = open_raw({"c": VALUES}, ["c"], na_values=["?"])
    kinds = table.kinds("c")
    assert kinds.sum() == len(VALUES)
    assert dict(zip(KINDS, kinds.tolist(), strict=True)) == {
        "whole number": 3,
        "number with a fraction": 1,
        "day or moment": 3,
        "other text": 3,
        "missing": 2,
    }
    assert table.numbers("c").sum() == 4
    assert table.numbers("c")[0] == 1  # below the ladder
    assert table.numbers("c", (0.0, 3.5, 17.0)).tolist() == [1, 1, 1, 1, len(VALUES) - 4]
    assert table.years("c").sum() == 3
    assert table.years("c")[-1] == 1  # beyond the years
    texts, counts = table.spellings("c")
    assert counts.sum() == len(VALUES) - 2
    assert from_bytes(to_bytes(texts)) == texts


def test_a_person_counts_with_so_many_records_and_not_more():
    rows = {"who": ["a"] * 5 + ["b", None], "c": ["x"] * 5 + ["x", "y"]}
    table = open_raw(rows, ["c"], persons=Persons("who", 2))
    assert table.spellings("c")[1].tolist() == [3]
    assert table.kinds("c").sum() == 3


@pytest.mark.parametrize(
    "borders", [(1.0,), (1.0, 1.0), (2.0, 1.0), (0.0, math.inf), (0.0, math.nan), (0, 1)]
)
def test_borders_that_do_not_increase_are_refused_before_a_look(borders):
    curator, book = curator_on({"c": ["1"]})
    with pytest.raises(MechanismError, match="increasing borders"):
        curator.numbers("c", borders=borders, price=Fraction(1, 10))
    assert not book.charges


def test_a_raw_table_keeps_its_secrets():
    import pickle

    table = open_raw({"c": ["secret"]}, ["c"])
    assert "secret" not in repr(table)
    with pytest.raises(SourceError, match="cannot be copied"):
        pickle.dumps(table)


def test_half_of_delta_is_kept_for_thresholds():
    plain, roomy = Budget(1.0, 1e-9), Budget(1.0, 1e-9, thresholds=True)
    assert roomy.slack_units > 500 * plain.slack_units
    assert 0.9 * plain.total_units < roomy.total_units < plain.total_units
    assert not Budget(1.0, thresholds=True).thresholds
    with pytest.raises(ParameterError, match="accounting 'zcdp'"):
        Budget(1.0, 1e-9, "gaussian", thresholds=True)


def before_domain(*, relation=AR, persons=None):
    book = Ledger.memory(
        budget=ROOMY, relation=relation, domain_fingerprint=BEFORE_DOMAIN, name="raw", persons=persons
    )
    set_aside(book, "case", ROOMY)
    return book


CROWD = {"who": ["one person"] * 1000, "c": ["their text"] * 1000}


@pytest.mark.parametrize("opened", [None, Persons("who", 3), Persons("c", 2)])
def test_rows_are_bounded_as_the_ledger_says_before_they_are_read(opened, monkeypatch):
    """A thousand rows of one person would pass the threshold for two rows of a person, and publish the text."""
    book = before_domain(persons=Persons("who", 2))
    table = open_raw(CROWD, ["c"], persons=opened)
    monkeypatch.setattr(vault.RawTable, "commitment", lambda *_: pytest.fail("the table was read"))
    before = book.receipt()
    with pytest.raises(LedgerError, match="protects persons by 'who' with at most 2"):
        DiscoveryCurator(table, book, key="case", budget=ROOMY)
    assert book.receipt() == before


def test_rows_of_persons_do_not_suit_a_ledger_of_records():
    with pytest.raises(LedgerError, match="protects single records"):
        DiscoveryCurator(
            open_raw(CROWD, ["c"], persons=Persons("who", 2)), before_domain(), key="case", budget=ROOMY
        )


def test_rows_that_are_bounded_as_the_ledger_says_are_looked_at():
    persons = Persons("who", 2)
    book = before_domain(persons=persons)
    curator = DiscoveryCurator(open_raw(CROWD, ["c"], persons=persons), book, key="case", budget=ROOMY)
    assert not curator.common_values("c", price=Fraction(1, 1000), delta=Fraction(1, 10**9)).texts


def test_a_ledger_with_a_domain_pays_for_no_discovery():
    book = before_domain()
    DiscoveryCurator(open_raw(CROWD, ["c"]), book, key="case", budget=ROOMY)
    book.declare("0" * 64)
    with pytest.raises(LedgerError, match="has a domain already"):
        DiscoveryCurator(open_raw(CROWD, ["c"]), book, key="case", budget=ROOMY)


@pytest.mark.parametrize("ask", ["kinds", "numbers", "years", "common_values"])
def test_a_column_that_is_not_there_is_refused_before_the_payment(ask):
    curator, book = curator_on({"c": ["1"]})
    more = {"delta": Fraction(1, 10**6)} if ask == "common_values" else {}
    with pytest.raises(ParameterError, match="column"):
        getattr(curator, ask)("who", price=Fraction(1, 10), **more)
    assert not book.charges

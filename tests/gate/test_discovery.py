"""Finding a domain: the exact law of thresholds, what a neighbour can change, planted bugs, and the ledger before."""

import itertools
import json
import math
from collections import defaultdict
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import maquette as mq
from maquette.accounting.budget import SLACK_UNITS, Budget
from maquette.domain import Attribute, Domain, Kind, Persons, Relation
from maquette.errors import LedgerError, MechanismError, ParameterError, SourceError
from maquette.gate import curator as curator_module
from maquette.gate import prices
from maquette.gate.curator import DiscoveryCurator
from maquette.questions.findings import KINDS, NUMBERS, YEARS, from_bytes, threshold_for, to_bytes
from maquette.questions.noise import Gaussian, Laplace
from maquette.releasing.discovery import kind_of
from maquette.releasing.found_cells import close_borders, number_attribute, occupied
from maquette.vault import raw as vault
from maquette.vault.raw import open_raw
from support.privacy_doubles import RecordingNoise, ReplayingNoise
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
    def bind_raw(self, columns, commitment):
        assert columns
        assert commitment


def curator_on(table, *, relation=AR, persons=None):
    book = RawTally(budget=ROOMY, relation=relation, persons=persons)
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
        curator._noise = FixedNoise(shifts)
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
        prices.Prices, "common_values", _wider(prices.Prices.common_values, Fraction(4))
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
    monkeypatch.setattr(curator_module, "rows_of", lambda persons: 1)
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
    tape = None
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


# What is made of noisy counts: no promise, but sense.


def test_bounds_are_borders_around_what_is_there():
    noise = Laplace(Fraction(1), Fraction(2))
    counts = np.zeros(len(NUMBERS) + 1, dtype=np.int64)
    assert occupied(counts, noise) is None
    counts[[100, 104]] = 500
    assert occupied(counts, noise) == (100, 104)
    assert kind_of(np.array([900, 0, 3, 5, 50]), noise) == ("number", True)
    assert kind_of(np.array([500, 400, 3, 5, 50]), noise) == ("number", False)
    assert kind_of(np.array([1, 0, 900, 5, 50]), noise)[0] == "date"
    assert kind_of(np.array([400, 0, 0, 500, 50]), noise)[0] == "text"
    assert kind_of(np.array([-3, -2, 0, -5, 2]), noise)[0] == "text"
    assert kind_of(np.array([30, 0, 2, 3, 9000]), noise) == ("number", True)  # missing nearly everywhere
    assert len(YEARS) == 401


def cells_found(values, *, is_whole, deviation=3):
    """The declaration that two looks at some numbers give, with noise that is always nought."""
    noise = Gaussian(Fraction(1), Fraction(deviation**2))
    table = open_raw({"c": [str(value) for value in values]}, ["c"])
    ladder = table.numbers("c")
    borders = close_borders(ladder, occupied(ladder, noise), is_whole=is_whole)
    assert all(a < b for a, b in itertools.pairwise(borders))
    return number_attribute("c", borders, table.numbers("c", borders), noise, is_whole=is_whole)


def test_few_whole_numbers_have_a_cell_each_the_last_one_too():
    """A closed last cell held two numbers before, and half of the largest came back as one that is not there."""
    attribute = cells_found([0] * 400 + [5] * 300 + [9] * 500 + [""] * 50, is_whole=True)
    assert [attribute.label(i) for i in range(attribute.cells)] == [str(i) for i in range(10)]
    codes = attribute.bin_index(np.arange(10.0))
    assert codes.tolist() == list(range(10))
    assert attribute.decode(codes)[0].tolist() == list(range(10))
    assert attribute.nullable
    assert not cells_found([1] * 400 + [2] * 300, is_whole=True).nullable
    assert cells_found([1] * 400 + [2] * 300, is_whole=True).cells == 2


def test_cells_hold_about_the_same_share_and_single_values_stay_alone():
    rng = np.random.default_rng(5)
    pay = np.concatenate([np.zeros(9000), rng.lognormal(10, 1, 20000).round(2)])
    attribute = cells_found(pay, is_whole=False)
    counts = np.bincount(attribute.bin_index(pay), minlength=attribute.cells)
    assert 60 <= attribute.cells <= 130
    assert counts[0] == 9000  # the nought alone, in a cell of its own
    assert counts[1:].max() <= 2 * 20000 / 60
    whole = rng.integers(18, 5000, 20000)
    attribute = cells_found(whole, is_whole=True)
    assert attribute.integer
    assert all(float(edge).is_integer() for edge in attribute.edges)
    assert sum(edge % 10 == 0 for edge in attribute.edges) >= 0.9 * len(
        attribute.edges
    )  # round where it may be
    apart = np.concatenate([rng.integers(0, 1000, 5000), rng.integers(9000, 9900, 5000)]).astype(float)
    gap = cells_found(apart.astype(int), is_whole=True)
    wide = np.diff(gap.edges) > 500
    counts = np.bincount(gap.bin_index(apart), minlength=gap.cells)
    assert wide.any()
    assert counts[wide].sum() <= 100  # hardly anything is there, and so hardly anything is spread over it
    assert number_attribute("c", (0.0, 1.0, 2.0), np.zeros(5, np.int64), _ANY, is_whole=True) is None


_ANY = Gaussian(Fraction(1), Fraction(9))


@pytest.mark.parametrize(
    "borders", [(1.0,), (1.0, 1.0), (2.0, 1.0), (0.0, math.inf), (0.0, math.nan), (0, 1)]
)
def test_borders_that_do_not_increase_are_refused_before_a_look(borders):
    curator, book = curator_on({"c": ["1"]})
    with pytest.raises(MechanismError, match="increasing borders"):
        curator.numbers("c", borders=borders, price=Fraction(1, 10))
    assert not book.charges


def people(n=6000, seed=1):
    rng = np.random.default_rng(seed)
    day = np.datetime64("2013-01-01") + rng.integers(0, 365, n).astype("timedelta64[D]")
    return pa.table(
        {
            "id": [f"person {i}" for i in range(n)],
            "age": rng.integers(18, 91, n),
            "pay": rng.exponential(30000, n).round(2),
            "where": rng.choice(["north", "south", "west"], n),
            "when": [str(d) for d in day],
            "code": rng.choice(["a", "b"], n),
        }
    )


def find(source, place, **options):
    settings = {"epsilon": 4.0, "delta": 1e-6, "total_epsilon": 8.0, "total_delta": 1e-5, "ledger": place}
    return mq.discover(source, **(settings | options))


def test_a_domain_is_found_and_released_with(tmp_path):
    place = tmp_path / "people.ledger"
    code = Attribute("code", Kind.CATEGORICAL, categories=("a", "b", "c"))
    result = find(people(), place, columns={"id": "drop", "code": code})
    how = {one.name: one.how for one in result.findings}
    assert how == {
        "id": "dropped",
        "age": "discovered",
        "pay": "discovered",
        "where": "discovered",
        "when": "discovered",
        "code": "declared",
    }
    domain = result.domain
    low, high = domain["age"].bounds
    assert (low, high) == (17.5, 90.5)
    assert not domain["age"].nullable
    assert domain["age"].integer
    assert not domain["pay"].integer
    assert domain["where"].categories == ("north", "south", "west")
    assert domain["when"].calendar == "month"
    assert domain["when"].categories[0] == "2013-01"
    assert domain["code"] == code
    with mq.Ledger.open(place) as book:
        assert book.awaits_domain
        paid = [r for one in result.findings for r in one.receipts]
        assert len(paid) == 10
        assert all(book.holds(receipt) for receipt in paid)
        spent = book.spent_units
    domain.save(tmp_path / "d.json")
    loaded = Domain.load(tmp_path / "d.json")
    assert loaded == domain
    assert loaded.notes["columns"]["where"]["how"] == "discovered"
    assert json.dumps(loaded.notes["discovery"]["epsilon"]) == "4.0"
    again = find(people(), place, columns={"id": "drop", "code": code})
    assert again.domain == domain
    made = mq.release(mq.open(people(), domain=loaded), mq.marginals(loaded, 1), epsilon=1.0, ledger=place)
    assert made.answers is not None
    with mq.Ledger.open(place) as book:
        assert book.domain_fingerprint == domain.fingerprint
        assert not book.awaits_domain
        assert book.spent_units > spent
        book.verify()
    with pytest.raises(LedgerError, match="has a domain already"):
        find(people(), place, epsilon=0.1)
    other = Domain((code,))
    with pytest.raises(LedgerError, match="another domain"):
        mq.release(mq.open(people(), domain=other), mq.marginals(other, 1), epsilon=1.0, ledger=place)


def test_a_discovery_shows_nothing_of_a_record_beyond_the_draws(tmp_path, monkeypatch):
    """Record and replay: one record more or less, with values that others have, or odd ones among numbers."""
    base = people(3000)
    odd = [("x", "-1e300"), ("9e99", "nan"), ("", "forty")]
    tables = [base.slice(1), pa.concat_tables([base, base.slice(7, 1)])]
    texts = base.set_column(1, "age", base["age"].cast(pa.string())).set_column(
        2, "pay", base["pay"].cast(pa.string())
    )
    for age, pay in odd:
        row = texts.slice(3, 1).set_column(1, "age", pa.array([age])).set_column(2, "pay", pa.array([pay]))
        tables.append(pa.concat_tables([row, texts]))
    tape, shown = None, None
    for number, table in enumerate([base, *tables]):
        noise = RecordingNoise() if tape is None else ReplayingNoise(tape)
        monkeypatch.setattr(DiscoveryCurator, "_source", lambda self, noise=noise: noise)
        result = find(table, tmp_path / f"{number}", columns={"id": "drop"})
        seen = str(result), list(result.domain)
        with mq.Ledger.open(tmp_path / f"{number}") as book:
            charges = [(e.tag, e.units, e.slack, e.body.get("ask")) for e in book.entries(kind="reserve")]
        if tape is None:
            tape, shown = noise.calls, (seen, charges)
        assert (seen, charges) == shown


def test_before_the_domain_a_ledger_knows_its_table(tmp_path):
    place = tmp_path / "l"
    result = find(people(), place, columns={"id": "drop"})
    with pytest.raises(LedgerError, match="belongs to another table"):
        find(people(seed=2), place, columns={"id": "drop"}, epsilon=0.5)
    changed = people().set_column(5, "code", pa.array(["a"] * 6000))
    table = mq.open(changed, domain=result.domain)
    with pytest.raises(LedgerError, match="belongs to another table"):
        mq.release(table, mq.marginals(result.domain, 1), epsilon=1.0, ledger=place)
    order = np.random.default_rng(3).permutation(6000)
    shuffled = mq.open(people().take(pa.array(order)), domain=result.domain)
    mq.release(shuffled, mq.marginals(result.domain, 1), epsilon=1.0, ledger=place)


def test_a_pure_ledger_finds_numbers_and_no_lists(tmp_path):
    options = {"delta": 0.0, "total_delta": None}
    found = find(
        people(), tmp_path / "a", columns=dict.fromkeys(("id", "where", "code", "when"), "drop"), **options
    )
    assert found.domain["age"].bounds == (17.5, 90.5)
    with pytest.raises(MechanismError, match="a list of them needs a delta"):
        find(people(), tmp_path / "b", columns={"id": "drop"}, **options)
    with pytest.raises(LedgerError, match="counts pure epsilon"):
        find(
            people(),
            tmp_path / "a",
            columns={"id": "drop"},
            epsilon=1.0,
            total_epsilon=None,
            total_delta=None,
        )


def test_persons_find_a_domain(tmp_path):
    rng = np.random.default_rng(5)
    n = 9000
    data = pa.table(
        {
            "who": rng.integers(0, 3000, n),
            "ward": rng.choice(["a", "b", "c"], n),
            "days": rng.integers(0, 30, n),
        }
    )
    result = find(data, tmp_path / "l", person="who", rows_per_person=2)
    assert {one.name: one.how for one in result.findings}["who"] == "dropped"
    assert result.domain["ward"].categories == ("a", "b", "c")
    assert result.domain["days"].bounds[1] == 29.5
    table = mq.open(data, domain=result.domain, person="who", rows_per_person=2)
    made = mq.release(table, mq.marginals(result.domain, 1), epsilon=1.0, ledger=tmp_path / "l")
    assert made.persons == Persons("who", 2)
    plain = mq.open(data, domain=result.domain)
    with pytest.raises(LedgerError, match="protects persons"):
        mq.release(plain, mq.marginals(result.domain, 1), epsilon=1.0, ledger=tmp_path / "l")


def test_what_makes_no_sense_is_refused(tmp_path):
    table = people(50)
    with pytest.raises(ParameterError, match="no column 'name'"):
        find(table, tmp_path / "l", columns={"name": "drop"})
    with pytest.raises(ParameterError, match="'number', 'text', 'date' or 'drop'"):
        find(table, tmp_path / "l", columns={"age": "whole"})
    with pytest.raises(ParameterError, match="nothing to find"):
        find(table, tmp_path / "l", columns=dict.fromkeys(table.column_names, "drop"))
    with pytest.raises(ParameterError, match="under the name 'age'"):
        find(table, tmp_path / "l", columns={"age": Attribute("pay", Kind.CATEGORICAL, codes=2)})
    with pytest.raises(ParameterError, match="'add-remove' only"):
        find(table, tmp_path / "l", relation="replace-one", person="id", rows_per_person=2)
    assert not (tmp_path / "l").exists()
    place = tmp_path / "plain.ledger"
    domain = Domain((Attribute("code", Kind.CATEGORICAL, categories=("a", "b")),))
    mq.release(mq.open(table, domain=domain), mq.marginals(domain, 1), epsilon=1.0, ledger=place)
    with pytest.raises(LedgerError, match="has a domain already"):
        find(table, place, total_epsilon=None, total_delta=None)
    with pytest.raises(mq.BudgetExceeded, match="this discovery needs"):
        find(table, tmp_path / "m", total_epsilon=1.0)


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

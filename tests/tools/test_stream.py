"""Running counts over time: what is measured, what is stated, repeats, streams that go on, neighbouring tables."""

import numpy as np
import pytest

import maquette as mq
from maquette.core.budget import UNITS, Budget
from maquette.core.laws import Gaussian, Laplace
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.errors import LedgerError, ParameterError, WorkloadError
from maquette.tools import envelope
from maquette.tools.stream import MAX_STEPS, _root, error, tree
from support import privacy_loss
from support.cli_files import call, desk, refused
from support.privacy_conformance import TINY
from support.privacy_doubles import RecordingNoise, ReplayingNoise, TapeCurator, ledger_for, table_of

DOMAIN = Domain(
    (
        Attribute("day", Kind.ORDINAL, codes=21, nullable=True),
        Attribute("region", Kind.CATEGORICAL, categories=("north", "south")),
    )
)
RNG = np.random.default_rng(5)
DAYS, REGIONS = RNG.integers(0, 21, 900), RNG.choice(["north", "south"], 900)
TABLE = mq.open({"day": DAYS.tolist(), "region": REGIONS.tolist()}, domain=DOMAIN)


def truth(mask=slice(None)):
    return np.cumsum(np.bincount(DAYS[mask], minlength=21))


def opened(budget=None):
    return mq.Ledger.memory(
        budget=budget or Budget(5.0),
        relation=Relation.ADD_REMOVE,
        domain_fingerprint=DOMAIN.fingerprint,
        name="days",
    )


@pytest.mark.parametrize("steps", [1, 2, 3, 8, 13, 64, 100])
@pytest.mark.parametrize("make", [tree, _root])
def test_running_counts_follow_from_what_is_measured(make, steps):
    rows, running = make(steps)
    assert running @ rows == pytest.approx(np.tril(np.ones((steps, steps))), abs=1e-9)
    if make is tree:
        assert rows.sum(axis=0).max() <= steps.bit_length()
        assert set(np.unique(rows)) <= {0.0, 1.0}


def test_a_tree_states_less_than_pairs_of_nodes_and_than_steps_alone():
    """The tree of Chan, Shi and Song adds up at most one node of every level of pairs: 60 steps, epsilon 1."""
    rows, running = tree(60)
    found = error(running, Laplace(1, int(rows.sum(axis=0).max())), beta=0.05)
    pairs = np.zeros((60, 12))
    for step in range(1, 61):
        pairs[step - 1, : step.bit_count()] = 1
    steps = np.tril(np.ones((60, 60)))
    assert found < 0.4 * error(pairs, Laplace(1, 6), beta=0.05)
    assert found < 0.75 * error(steps, Laplace(1, 1), beta=0.05)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_counts_are_within_what_is_stated_and_a_repeat_is_free(delta):
    ledger = opened(Budget(5.0, delta))
    one = mq.count_stream(TABLE.for_another_ledger(), "day", epsilon=1.0, delta=delta, ledger=ledger)
    assert np.abs(one.counts - truth()).max() <= one.error
    assert len(one) == 21
    assert one.last.time == one.times[-1]
    spent = ledger.balance()
    again = mq.count_stream(TABLE.for_another_ledger(), "day", epsilon=1.0, delta=delta, ledger=ledger)
    assert (again.counts == one.counts).all()
    assert ledger.balance() == spent
    assert spent.left_units < ledger.budget.total_units


def test_a_condition_is_counted_alone():
    one = mq.count_stream(
        TABLE.for_another_ledger(), "day", condition="region = 'north'", epsilon=2.0, ledger=opened()
    )
    assert np.abs(one.counts - truth(REGIONS == "north")).max() <= one.error
    other = mq.count_stream(
        TABLE.for_another_ledger(), "day", condition="region = 'south'", epsilon=2.0, ledger=opened()
    )
    assert other.key != one.key


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_stream_goes_on_where_another_ended(delta):
    first = mq.count_stream(
        TABLE.for_another_ledger(), "day", epsilon=1.0, delta=delta, ledger=opened(Budget(1.0, delta))
    )
    second = mq.count_stream(
        TABLE.for_another_ledger(),
        "day",
        epsilon=1.0,
        delta=delta,
        ledger=opened(Budget(1.0, delta)),
        after=first,
    )
    assert np.abs(second.counts - truth() - 900).max() <= second.error
    assert first.error < second.error < 2 * first.error
    assert len(second.draws) == 2 * len(first.draws)


@pytest.mark.parametrize("law", [Laplace(1, 6), Gaussian(1, 36)], ids=["laplace", "gaussian"])
def test_the_stated_error_holds_for_all_steps_together(law):
    rng = np.random.default_rng(1)
    running = (tree if isinstance(law, Laplace) else _root)(40)[1]
    shape = (500, running.shape[1])
    draws = rng.laplace(scale=6, size=shape) if isinstance(law, Laplace) else 6 * rng.normal(size=shape)
    before = rng.laplace(scale=9, size=500) if isinstance(law, Laplace) else 9 * rng.normal(size=500)
    largest = np.abs(draws @ running.T + before[:, None]).max(axis=1)
    level = error(running, law, (9.0,), beta=0.2)
    assert (largest > level).mean() < 0.2
    assert (largest > level / 3).mean() > 0.2


@pytest.mark.privacy
@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_streams_on_neighbouring_tables(relation, delta, monkeypatch):
    """The second table gets the first one's draws: nothing public differs, and no more is lost than was charged."""
    budget = Budget(0.7, delta)
    table = (3, 0, 2, 0, 0, 1, 0, 0, 4, 0, 0, 2)
    if relation is Relation.ADD_REMOVE:
        others = [tuple(c + (i == j) for j, c in enumerate(table)) for i in range(12)]
    else:
        others = [tuple(c - (k == 0) + (k == j) for k, c in enumerate(table)) for j in range(1, 12)]

    def ask(histogram, noise):
        monkeypatch.setattr(
            envelope, "Curator", lambda *args, **more: TapeCurator(*args, noise=noise, **more)
        )
        book = ledger_for(TINY, budget=budget, relation=relation)
        result = mq.count_stream(
            table_of(TINY, histogram),
            "a",
            epsilon=0.7,
            delta=delta,
            relation=relation,
            condition="b = 0",
            ledger=book,
        )
        return result, book.balance()

    tape = RecordingNoise()
    first, left = ask(table, tape)
    for other in others:
        replay = ReplayingNoise(tape.calls)
        second, other_left = ask(other, replay)
        replay.check_finished()
        assert (first.counts == second.counts).all()
        assert (first.error, first.key, left.spent_units) == (
            second.error,
            second.key,
            other_left.spent_units,
        )
        loss = privacy_loss.rho if delta else privacy_loss.pure
        lost = sum(loss(a, b) for a, b in zip(tape.calls, replay.calls, strict=True))
        assert lost * UNITS <= budget.total_units


def test_what_cannot_be_counted_is_refused():
    long = Domain(
        (Attribute("day", Kind.ORDINAL, codes=MAX_STEPS + 1), Attribute("x", Kind.CATEGORICAL, codes=2))
    )
    wide = Domain((Attribute("day", Kind.ORDINAL, codes=1000), Attribute("x", Kind.CATEGORICAL, codes=8)))
    with pytest.raises(WorkloadError, match="wider ones"):
        mq.count_stream(mq.open({"day": [1], "x": [0]}, domain=long), "day", epsilon=1.0, ledger="memory")
    with pytest.raises(WorkloadError, match="wider steps"):
        mq.count_stream(
            mq.open({"day": [1], "x": [0]}, domain=wide),
            "day",
            condition="x = 1",
            epsilon=1.0,
            ledger="memory",
        )
    with pytest.raises(WorkloadError, match="one condition"):
        mq.count_stream(TABLE.for_another_ledger(), "day", condition="day < 3", epsilon=1.0, ledger="memory")
    with pytest.raises(WorkloadError):
        mq.count_stream(TABLE.for_another_ledger(), "region", epsilon=1.0, ledger="memory")
    pure = mq.count_stream(TABLE.for_another_ledger(), "day", epsilon=1.0, ledger=opened())
    with pytest.raises(ParameterError, match="same kind"):
        mq.count_stream(
            TABLE.for_another_ledger(),
            "day",
            epsilon=1.0,
            delta=1e-6,
            after=pure,
            ledger=opened(Budget(1.0, 1e-6)),
        )


def test_a_table_that_grew_is_another_table():
    ledger = opened()
    mq.count_stream(TABLE.for_another_ledger(), "day", epsilon=1.0, ledger=ledger)
    more = mq.open({"day": [*DAYS.tolist(), 3], "region": [*REGIONS.tolist(), "north"]}, domain=DOMAIN)
    with pytest.raises(LedgerError):
        mq.count_stream(more, "day", epsilon=1.0, ledger=ledger)


def test_the_command(tmp_path):
    own = desk(tmp_path)
    words = ("stream", own.table, "-d", own.domain, "--ledger", tmp_path / "x.ledger", "--epsilon", 5, "-q")
    shown = call(*words, "--time", "age", "--where", "sex = 'Male'", "--json").json
    counts = [step["count"] for step in shown["steps"]]
    men = sum(1 for i in range(400) if i % 5 < 2 and i % 17)  # with an age
    assert abs(counts[-1] - men) <= shown["error"]
    again = call(*words, "--time", "age", "--where", "sex = 'Male'").out
    assert again.splitlines()[-2].endswith(f": {counts[-1]:,.0f}")
    assert "except with probability 0.05" in again
    refused(call(*words, "--time", "sex"), "ordered")

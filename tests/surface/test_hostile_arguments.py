"""Every public function and method with hostile arguments: an error of this package, in bounded words and time.

The contract: whatever a public function is given in the place of an argument that it declares, it returns or raises a
child of `MaquetteError`. Python itself raises TypeError for arguments that are missing or not declared, and what a
function raises that was given as an argument (`progress`) is its own. Arithmetic on coded columns (arguments declared
as Columns or NDArray) is for mechanisms and trusts its caller.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any

import pytest

import maquette as mq
from support import hostile_calls
from support.hostile_calls import Found, Stage, Target
from support.made_release import toy_domain

api: Any = mq
"""What type checkers would refuse is tried here."""
EVERY = 23
"""One call in so many is made here, others with other names; `benchmarks/hostile.py` makes all of them."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return Stage(tmp_path_factory.mktemp("hostile"))


@pytest.mark.slow
def test_hostile_arguments_end_in_errors_of_this_package(stage, monkeypatch):
    monkeypatch.chdir(stage.folder)
    found, count = Found(), 0
    for one in hostile_calls.targets(stage):
        count += 1
        hostile_calls.attack(one, found, every=EVERY, offset=count)
    assert not found.wrong, "\n".join(found.wrong)
    assert count > 100
    assert found.calls > 700
    assert 0 < found.accepted < found.calls / 5


@pytest.mark.slow
def test_the_working_calls_work(stage, monkeypatch):
    """Else the calls above would be refused for other reasons than they mean to be."""
    monkeypatch.chdir(stage.folder)
    broken = {}
    for name, call in hostile_calls.functions():
        made = hostile_calls.base(hostile_calls.target(stage, name, call))
        if isinstance(made, Exception):
            broken[name] = made
    assert set(broken) <= {"connect"}, broken  # no service is there


def test_what_escapes_is_found(stage):
    """The harness sees an untyped error, a hang and a hostile object that is asked."""

    def naive(a: Any, b: int = 0) -> float:
        while b == 10**30:
            pass
        if b is True:
            open(b, "w").close()
        if b == "zebra":
            sys.stdout.close()
        return 1 / a + len(repr(b))

    one = Target("naive", naive, {"a": 1}, tuple(inspect.signature(naive).parameters.values()))
    found = Found()
    hostile_calls.attack(one, found, seconds=0.2)
    said = "\n".join(found.wrong)
    assert "naive(a=0): ZeroDivisionError" in said
    assert "naive(b=10^30): TooLong" in said
    assert "naive(b=raising object): a hostile object was asked" in said
    assert "naive(b=True): took descriptor 1" in said
    assert "naive(b=word): AssertionError: a standard stream was closed" in said


@pytest.mark.parametrize(
    "call",
    [
        lambda s: api.choose(s.table, "age", score="quantile", quantile="0.5", epsilon=1.0, ledger=s.ledger),
        lambda s: api.choose(s.table, s.queries, score="error", answers=["a"], epsilon=1.0, ledger=s.ledger),
        lambda s: api.choose(s.table, s.queries, score="database", epsilon=1.0, ledger=s.ledger),
        lambda s: api.choose(
            s.table, s.queries, score="database", workload=s.queries, epsilon=1.0, ledger=s.ledger
        ),
        lambda s: api.choose(s.table, None, epsilon=1.0, ledger=s.ledger),
        lambda s: api.choose(
            s.table, s.queries, score="nearest", answers=[0.1], epsilon=1.0, ledger=s.ledger
        ),
        lambda s: api.count_stream(s.table, "age", after=3, epsilon=1.0, ledger=s.ledger),
        lambda s: api.synthesize(s.domain, s.queries, ["a"], n=10),
        lambda s: api.small_databases(None, [3]),
        lambda s: api.small_databases(s.made, [50], each=10**9),
        lambda s: api.session(s.table, attributes=[], epsilon=1.0, ledger=s.ledger),
        lambda s: api.above_threshold(
            s.table, threshold=5, positives=20, questions=3, epsilon=1.0, ledger=s.ledger
        ),
        lambda s: api.synthesize(s.domain, s.queries, [20.0] * s.queries.count, n=300).error(noise=-1),
        lambda s: api.release(s.table, s.queries, rows=10**30, epsilon=1.0, ledger=s.ledger),
    ],
)
def test_what_was_a_raw_error_or_taken_without_a_word(stage, call):
    before = stage.ledger.receipt()
    with pytest.raises(mq.MaquetteError):
        call(stage)
    assert stage.ledger.receipt() == before  # nothing was paid for it


def test_a_domain_may_stand_in_second_place(tmp_path):
    stage = Stage(tmp_path)
    assert api.open(stage.source, stage.domain).domain == stage.domain
    assert api.fit_report(stage.source, stage.domain) is not None
    with pytest.raises(
        mq.ParameterError,
        match=r"expected domain to be a Domain or None, got 'people\.csv'; use Domain\.load",
    ):
        api.open(stage.source, "people.csv")


def test_arguments_hold_no_private_value_in_a_message():
    """A table in the place of another argument is not shown."""
    with pytest.raises(mq.ParameterError) as raised:
        api.open("people.csv", {"age": ["CANARY7f3a"]})
    assert "CANARY" not in str(raised.value)
    with pytest.raises(mq.ParameterError) as raised:
        api.marginals([{"age": "CANARY7f3a"}], k=1)
    assert "CANARY" not in str(raised.value)


@pytest.mark.parametrize("text", ["1e99999999", "1e-99999999", "9" * 5000, "1/0", "0x10", "nan"])
def test_numbers_that_take_forever_to_write_down_are_refused(stage, text):
    from maquette.queries import parse_workload

    for call in (
        lambda: api.fat_shattering_dimension([[0, 1]], text),
        lambda: api.vc_dimension([[text, "1"]]),
        lambda: parse_workload(stage.domain, [f"weights:sex:{text},1"]),
        lambda: stage.made.sql(f"select quantile(age, {text}) from t"),
    ):
        with hostile_calls.limits(5), pytest.raises(mq.MaquetteError):
            call()


def test_a_path_of_no_file_system(tmp_path):
    for text in ("x" * 10**5, "a\0b", "\ud800"):
        for call in (api.load, api.Domain.load, api.draft, api.Ledger.open):
            with pytest.raises(mq.MaquetteError) as raised:
                call(text)
            assert len(str(raised.value)) < 500


def test_a_file_of_any_length_is_not_read_to_its_end(tmp_path):
    from maquette.queries import load

    sparse = tmp_path / "sparse.json"
    with sparse.open("wb") as stream:
        stream.truncate(20 * 10**9)
    for call in (mq.Domain.load, lambda place: load(toy_domain(), place)):
        with hostile_calls.limits(5), pytest.raises(mq.MaquetteError, match="more than 268,435,456 bytes"):
            call(sparse)

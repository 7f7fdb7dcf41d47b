"""A number of records that a release of the same ledger states is used, and not bought again."""

from dataclasses import replace

import pytest

import maquette as mq
from maquette.core.budget import Budget
from maquette.errors import ParameterError
from maquette.queries import marginals
from support.online_cases import PEOPLE, book, people, truth


def release_on(ledger, table):
    return mq.release(
        table, marginals(PEOPLE, 2), epsilon=1.0, mechanism="sculpt", certificate=None, ledger=ledger
    )


@pytest.fixture
def ledger():
    return book(Budget(4.0))


def test_it_costs_nothing_and_every_process_counts_with_it(ledger):
    table = people()
    release = release_on(ledger, table)
    session = mq.session(table, epsilon=1.0, ledger=ledger)
    assert session.forecast("age = 3").kind == "size"
    assert session.use_size(release)
    assert session.size.value == release.size.value
    assert session.forecast("age = 3").kind != "size"
    before = ledger.receipt()
    assert not session.buy_size()
    answer = session.ask("age = 3")
    assert abs(answer.value - truth(table, "age = 3")) <= answer.error
    first, *_ = session.history()
    assert (first.kind, first.cost, first.value) == ("size", 0.0, float(release.size.value))
    assert ledger.receipt() != before
    again = mq.session(table, epsilon=1.0, ledger=ledger)  # and knows nothing of the release
    assert again.key == session.key
    assert again.size.value == release.size.value
    assert again.size.noise == release.size.noise
    assert again.left == session.left
    assert again.ask("age = 3").value == answer.value
    assert not again.use_size(release)


def test_nothing_is_written_before_a_question(ledger):
    table = people()
    release = release_on(ledger, table)
    session = mq.session(table, epsilon=1.0, ledger=ledger)
    before = ledger.receipt()
    session.use_size(release)
    session.forecast("age = 3")
    session.forecast("select age, count(*) from people group by age")
    assert ledger.receipt() == before


def test_one_of_another_ledger_or_an_edited_one_is_refused(ledger):
    table = people()
    session = mq.session(table, epsilon=1.0, ledger=ledger)
    with pytest.raises(ParameterError, match="did not pay"):
        session.use_size(release_on(book(Budget(4.0)), people()))
    release = release_on(ledger, table)
    with pytest.raises(ParameterError, match="changed"):
        session.use_size(replace(release, size=replace(release.size, value=release.size.value + 1000)))
    assert session.size is None


def test_one_that_was_bought_stays(ledger):
    table = people()
    release = release_on(ledger, table)
    session = mq.session(table, epsilon=1.0, ledger=ledger)
    session.buy_size()
    bought = session.size
    assert not session.use_size(release)
    assert session.size == bought

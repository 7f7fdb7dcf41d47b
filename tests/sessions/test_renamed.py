"""Parameters under their former names still work, with a warning; what the ledger stores has not changed."""

import pytest

import maquette as mq
from support.online_cases import book, people


def reserved(ledger: mq.Ledger) -> dict[str, object]:
    entry = ledger.find(next(e.key for e in ledger.entries() if e.tag == "session"))
    assert entry is not None
    return {name: value for name, value in entry.body.items() if name != "blind"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"lasting": True}, {"budget_for_all": True}),
        ({"bypass": False, "alpha": 0.2}, {"measure_first": False, "alpha": 0.2}),
        ({"bypass": True, "alpha": 0.2}, {"measure_first": True, "alpha": 0.2}),
    ],
    ids=str,
)
def test_a_session_opens_under_the_former_names_with_a_warning(old, new):
    usual = {"epsilon": 1.0, "queries": 100}
    first, second = book(), book()
    with pytest.warns(
        DeprecationWarning, match=f"{next(iter(old))} is now called {next(iter(new))}"
    ) as caught:
        before = mq.session(people(), ledger=first, **usual, **old)
    assert caught[0].filename == __file__
    after = mq.session(people(), ledger=second, **usual, **new)
    assert before.key == after.key
    assert before.rules == after.rules
    assert reserved(first) == reserved(second)
    assert {"bypass", "lasting"} <= reserved(second).keys()
    assert not {"measure_first", "budget_for_all"} & reserved(second).keys()


def test_any_error_still_allows_answers_that_say_nothing():
    usual = {"epsilon": 0.01, "mechanism": "direct", "queries": 1000}
    session = mq.session(people(), ledger=book(), **usual)
    with pytest.raises(mq.UselessAnswer, match="allow_useless"):
        session.ask("age >= 3")
    with pytest.warns(DeprecationWarning, match="any_error is now called allow_useless"):
        assert session.forecast("age >= 3", any_error=True).refusal is None
    with pytest.warns(DeprecationWarning, match="any_error is now called allow_useless"):
        answer = session.ask("age >= 3", any_error=True)
    assert answer.error >= 0.5
    with pytest.warns(DeprecationWarning, match="any_error is now called allow_useless"):
        many = session.ask_many(["age >= 3", "sex = 1"], any_error=True)
    assert [type(one).__name__ for one in many] == ["SessionAnswer"] * 2
    assert many[0].value == answer.value

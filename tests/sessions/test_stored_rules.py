"""What a ledger stores of a session's rules keeps its words, so that sessions of older ledgers go on."""

import pytest

import maquette as mq
from support.online_cases import book, people


@pytest.mark.parametrize(
    ("rules", "stored"),
    [
        ({"budget_for_all": True}, {"bypass": False, "lasting": True}),
        ({"measure_first": False, "alpha": 0.2}, {"bypass": False, "lasting": False}),
        ({"measure_first": True, "alpha": 0.2}, {"bypass": True, "lasting": False}),
    ],
    ids=str,
)
def test_the_words_of_the_rules_in_a_ledger(rules, stored):
    ledger = book()
    mq.session(people(), ledger=ledger, epsilon=1.0, queries=100, **rules)
    entry = ledger.find(next(e.key for e in ledger.entries() if e.tag == "session"))
    assert entry is not None
    assert {name: entry.body[name] for name in stored} == stored
    assert not {"measure_first", "budget_for_all"} & entry.body.keys()

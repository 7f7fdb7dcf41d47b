"""What the gate hands out: the number of records, exact, paid or unpaid."""

import pytest

from maquette.core.measurement import Size


@pytest.mark.parametrize("size", [Size(7, None, None), Size.unknown()])
def test_the_old_word_for_a_number_that_was_paid_warns_and_still_answers(size):
    with pytest.warns(DeprecationWarning, match="unpaid"):
        assert size.known is not size.unpaid


def test_a_number_that_nobody_paid_for_says_nothing():
    assert Size.unknown().value == 0
    assert not Size.unknown().public
    assert Size.unknown().divisor == 1
    assert Size(7, None, None).public

"""What the gate hands out: the number of records, exact, paid or unpaid."""

from maquette.core.measurement import Size


def test_a_number_that_nobody_paid_for_says_nothing():
    assert Size.unknown().value == 0
    assert not Size.unknown().public
    assert Size.unknown().divisor == 1
    assert Size(7, None, None).public

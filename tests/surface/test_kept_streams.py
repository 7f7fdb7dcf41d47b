"""What one test does to stdout and stderr is not in the way of the next."""

from __future__ import annotations

import io
import os
import sys

import pytest

from support.kept_streams import put_back


@pytest.mark.parametrize("name", ["stdout", "stderr"])
@pytest.mark.parametrize("part", ["stream", "buffer"])
def test_a_test_cannot_close_what_pytest_reads(name, part):
    stream = getattr(sys, name)
    file = stream if part == "stream" else stream.buffer
    with pytest.raises(AssertionError, match="standard stream was closed"):
        file.close()
    stream.write("")
    assert not file.closed


def test_what_was_taken_is_put_back_and_said():
    before = [os.fstat(number) for number in (0, 1, 2)]
    with put_back() as moved:
        open(True, "w").close()
        sys.stderr = io.StringIO()
    assert moved == ["sys.stderr", "descriptor 1"]
    assert [os.fstat(number) for number in (0, 1, 2)] == before
    assert not isinstance(sys.stderr, io.StringIO)


def test_what_nobody_touched_is_no_news():
    with put_back() as moved:
        print("x")
    assert moved == []

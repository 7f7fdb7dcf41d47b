"""Which tests run through which lines: a plugin of pytest for a run under coverage.

Every line that is reached is stored with the test function that reached it (a fixture's lines with the whole file,
because it serves several tests), and the processor seconds of every test function with them. `benchmarks/mutation.py`
chooses by both the tests that a changed line has to pass.

    python -m coverage run --data-file=reached.db -m pytest -p tools.reached_by tests/gate
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any

import coverage
import pytest

_SECONDS: defaultdict[str, float] = defaultdict(float)


def times_file(data_file: str | Path) -> Path:
    """Where the seconds of a run's tests are, beside its data."""
    return Path(data_file).with_suffix(".json")


def function_of(node: str) -> str:
    """The test function of a node, whatever its parameters."""
    return node.partition("[")[0]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    _begin(item.nodeid.partition("::")[0])
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    name = function_of(item.nodeid)
    _begin(name)
    begin = time.process_time()
    try:
        return (yield)
    finally:
        _SECONDS[name] += time.process_time() - begin


def pytest_sessionfinish() -> None:
    _begin("")
    running = coverage.Coverage.current()
    if running is not None:
        file = times_file(running.get_data().data_filename())
        file.write_text(json.dumps(dict(sorted(_SECONDS.items())), indent=0), encoding="utf-8")


def _begin(name: str) -> None:
    running = coverage.Coverage.current()
    if running is not None:
        running.switch_context(name)

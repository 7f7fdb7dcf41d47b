"""Settings for all tests, and `--quick`: the unit tests alone.

A busy machine makes no property false, so none is refused for being slow. Whether a run passes is a function of the
code: examples and noise follow from a test's name, and the tests of a file run in one process, in their order.
`--hypothesis-profile=explore` tries other examples.
"""

from __future__ import annotations

import atexit
import gc
import os
import re
import shutil
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Before numpy is loaded: processes of tests share the cores, and threads of linear algebra that wait for one another
# cost a hundred times what a small product of matrices does.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from support.kept_streams import kept
from support.repeatable import STREAM

settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", settings.get_profile("explore"), derandomize=True)
settings.register_profile("quick", settings.get_profile("repeatable"), max_examples=25)
settings.load_profile("repeatable")

STREAM.install()

SAMPLERS = Path(__file__).parent / "samplers"
NOT_QUICK = ("law", "privacy", "accuracy", "server", "slow")
"""Kinds of test that `--quick` leaves out."""
MEMORY = Path("/dev/shm")
_WHOLE_FILE = re.compile(rf"^pytestmark = .*pytest\.mark\.({'|'.join(NOT_QUICK)})\b", re.MULTILINE)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="unit tests alone: no laws, audits, simulations")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--quick"):
        config.option.markexpr = " and ".join(f"not {kind}" for kind in NOT_QUICK)
        settings.load_profile(config.getoption("--hypothesis-profile") or "quick")
        if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 2**30:
            # ledgers wait for the disk at every payment; that they do is for the tests of whole processes
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
    if hasattr(config, "workerinput"):
        atexit.register(os._exit, 0)  # after all others: taking thousands of modules apart takes seconds


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    with STREAM.named(None if _draws_as_production(item) else item.nodeid):
        return (yield)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """Inside of what pytest captures: its files outlive the test."""
    with kept():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any, request: Any) -> Generator[None, object, object]:
    """What several tests share must not depend on which of them runs first."""
    if fixturedef.scope == "function" or _draws_as_production(request.node):
        return (yield)
    with STREAM.named(f"{fixturedef.baseid} {fixturedef.argname} {request.param_index}"):
        return (yield)


def _draws_as_production(node: pytest.Item | pytest.Collector) -> bool:
    """Is the noise itself what is tested?"""
    return node.get_closest_marker("privacy") is not None or SAMPLERS in node.path.parents


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is loaded here stays: Python's collector of cycles need not look at it again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_sessionfinish() -> None:
    gc.unfreeze()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Whole files of such kinds are not even imported: their libraries take longer to load than many tests."""
    if config.getoption("--quick") and collection_path.name.startswith("test_"):
        return bool(_WHOLE_FILE.search(collection_path.read_text("utf-8"))) or None
    return None

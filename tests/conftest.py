"""Settings for all tests, and `--quick`: the unit tests alone.

A busy machine makes no property false, so none is refused for being slow.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

NOT_QUICK = ("law", "privacy", "accuracy", "slow")
"""Kinds of test that `--quick` leaves out."""
_WHOLE_FILE = re.compile(rf"^pytestmark = .*pytest\.mark\.({'|'.join(NOT_QUICK)})\b", re.MULTILINE)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="unit tests alone: no laws, audits, simulations")


def pytest_configure(config: pytest.Config) -> None:
    if (
        config.getoption("dist", "no") == "load"
    ):  # -n 2 alone: tests of one group (a cluster) still run in one process
        config.option.dist = "loadgroup"
    if config.getoption("--quick"):
        config.option.markexpr = " and ".join(f"not {kind}" for kind in NOT_QUICK)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Whole files of such kinds are not even imported: their libraries take longer to load than many tests."""
    if config.getoption("--quick") and collection_path.name.startswith("test_"):
        return bool(_WHOLE_FILE.search(collection_path.read_text("utf-8"))) or None
    return None

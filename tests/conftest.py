"""Settings for all tests, and `--quick`: the unit tests alone.

A busy machine makes no property false, so none is refused for being slow.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

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
    if config.getoption("--quick"):
        config.option.markexpr = " and ".join(f"not {kind}" for kind in NOT_QUICK)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Files with a group (a cluster) run in one process.

    `--dist loadgroup` of pytest-xdist 3.8 writes the group into an attribute that pytest 9.2 does not read.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.split("::")[0]
            return file if _is_one_group(config.rootpath / file) else nodeid

    return ByFile(config, log)


@functools.cache
def _is_one_group(file: Path) -> bool:
    return file.is_file() and "pytest.mark.xdist_group(" in file.read_text("utf-8")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Whole files of such kinds are not even imported: their libraries take longer to load than many tests."""
    if config.getoption("--quick") and collection_path.name.startswith("test_"):
        return bool(_WHOLE_FILE.search(collection_path.read_text("utf-8"))) or None
    return None

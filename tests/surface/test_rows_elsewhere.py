"""The rows of a release in R and SDMetrics, by the lines of the page, where these are installed."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from support.made_release import toy_release
from support.pages import ROOT, blocks_of

PAGE = (ROOT / "docs" / "tables.md").read_text("utf-8")
(IN_R,) = re.findall(r"^```r\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
(IN_SDMETRICS,) = (block.text for block in blocks_of(PAGE, "tables.md") if "sdmetrics" in block.text)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the page's release lies."""
    toy_release().save(tmp_path / "people.maquette")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _r_has_arrow() -> bool:
    if shutil.which("Rscript") is None:
        return False
    asked = ["Rscript", "-e", 'quit(status = !requireNamespace("arrow", quietly = TRUE))']
    return subprocess.run(asked, capture_output=True).returncode == 0


@pytest.mark.skipif(not _r_has_arrow(), reason="R with the package arrow is not installed")
def test_r_reads_the_rows(folder: Path) -> None:
    done = subprocess.run(["Rscript", "-e", IN_R], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "north" in done.stdout


@pytest.mark.skipif(importlib.util.find_spec("sdmetrics") is None, reason="SDMetrics is not installed")
def test_sdmetrics_reads_the_rows(folder: Path) -> None:
    names: dict[str, object] = {}
    exec("import pandas as pd\n" + IN_SDMETRICS, names)
    assert names["score"] == pytest.approx(1)

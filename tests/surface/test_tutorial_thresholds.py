"""The tutorial's code runs as it stands, from top to bottom."""

import re
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "tutorial-thresholds.md"


def run_the_page() -> dict:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) == 4
    names: dict = {}
    exec("\n".join(blocks), names)  # the project's own page
    return names


@pytest.mark.slow
def test_the_tutorial_runs_and_its_figures_are_of_the_right_size(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_the_page()
    release, incomes = names["release"], names["incomes"]
    assert 45 <= release.database.m <= 53  # of three quarters of the budget: a certificate has a fifth
    exact = np.searchsorted(np.sort(incomes), np.arange(65_536), side="right") / len(incomes)
    assert np.abs(release.answers.fractions - exact).max() < 0.2
    assert release.certificate is not None
    assert "thresholds, tree base" in capsys.readouterr().out


@pytest.mark.slow
def test_running_the_tutorial_again_is_free_and_gives_the_same_rows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, again = (run_the_page()["release"] for _ in range(2))
    assert again.rows.equals(first.rows)
    assert (again.account, again.receipts) == (first.account, first.receipts)
    assert again.account.spent <= again.account.total == 1.0

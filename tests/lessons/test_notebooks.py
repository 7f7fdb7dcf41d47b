"""The notebooks of the lectures say what the pages say, and run from top to bottom in a kernel of their own."""

from __future__ import annotations

import nbformat
import pytest
from nbclient import NotebookClient

from support.tools import tool

make_notebooks = tool("make_notebooks")
LECTURES = make_notebooks.lectures()


def test_every_lecture_has_a_notebook_that_is_up_to_date():
    assert len(LECTURES) >= 8
    for page in LECTURES:
        assert page.with_suffix(".ipynb").read_text("utf-8") == make_notebooks.notebook(page), page.name


def test_a_page_becomes_text_and_code_in_order(tmp_path):
    page = tmp_path / "one.md"
    page.write_text("# One\n\n```python\nx = 1\n```\n\nmore\n\n```sh\nls\n```\n")
    cells = nbformat.reads(make_notebooks.notebook(page), as_version=4).cells
    assert [(cell.cell_type, cell.source) for cell in cells] == [
        ("markdown", "# One"),
        ("code", "x = 1"),
        ("markdown", "more\n\n```sh\nls\n```"),
    ]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")
def test_the_notebooks_run():
    """One kernel for each; an assertion of a lecture that does not hold raises here."""
    for page in LECTURES:
        notebook = nbformat.read(page.with_suffix(".ipynb"), as_version=4)
        NotebookClient(notebook, timeout=300).execute(cwd=str(page.parent))
    with pytest.raises(Exception, match="AssertionError"):
        NotebookClient(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("assert 1 > 2")])).execute()


def test_the_check_notices_a_stale_notebook(monkeypatch, tmp_path):
    (tmp_path / "one.md").write_text("```python\nx = 1\n```\n")
    monkeypatch.setattr(make_notebooks, "PAGES", tmp_path)
    assert make_notebooks.main(["--check"]) == 1
    assert make_notebooks.main([]) == 0
    assert make_notebooks.main(["--check"]) == 0

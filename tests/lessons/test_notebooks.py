"""The notebooks of the lectures say what the pages say, run from top to bottom, and hold what they print and draw."""

from __future__ import annotations

import re
import resource
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from support.tools import tool

make_notebooks = tool("make_notebooks")
LECTURES = make_notebooks.lectures()
MAX_SECONDS = 60
"""Of a processor, for all notebooks together."""


def test_every_lecture_has_a_notebook_that_is_up_to_date():
    assert len(LECTURES) == 10  # nine lectures and their index
    assert [page.name for page in LECTURES if not make_notebooks.is_current(page)] == []


@pytest.mark.parametrize("page", LECTURES, ids=lambda page: page.stem)
def test_a_notebook_holds_its_outputs_and_pictures(page):
    made = nbformat.read(page.with_suffix(".ipynb"), as_version=4)
    code = [cell for cell in made.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    for cell in code:
        assert not any(o.output_type == "error" or o.get("name") == "stderr" for o in cell.outputs)
        assert bool(cell.outputs) == ("print(" in cell.source)
    drawn = [name for cell in made.cells for name in cell.get("attachments", {})]
    named = [Path(name).name for _, name in make_notebooks._PICTURE.findall(page.read_text("utf-8"))]
    assert sorted(drawn) == sorted(named)
    assert not any(".svg)" in cell.source and "attachment:" not in cell.source for cell in made.cells)


def test_the_tour_is_a_notebook_with_its_outputs():
    (page,) = make_notebooks.tours()
    assert make_notebooks.is_current(page), "run: python tools/make_notebooks.py tour"
    made = nbformat.read(page.with_suffix(".ipynb"), as_version=4)
    code = [cell for cell in made.cells if cell.cell_type == "code"]
    assert not any(o.output_type == "error" for cell in code for o in cell.outputs)
    shown = {cell.source: cell.outputs[0].data.get("text/html", "") for cell in code if cell.outputs}
    assert "Synthetic rows" in shown["release.rows"]
    assert "mechanism" in shown["mq.plan(queries, n=20_000, epsilon=1.0, delta=1e-9)"]
    assert "Every one of these" in next(html for source, html in shown.items() if "mq.release(" in source)


def test_every_picture_is_drawn_by_the_tool():
    named = {
        name for page in LECTURES for _, name in make_notebooks._PICTURE.findall(page.read_text("utf-8"))
    }
    other = {name for name in named if name.startswith("../")}
    assert named - other == {f"{name}.svg" for name in make_notebooks.pictures()}
    assert all((make_notebooks.PAGES / name).is_file() for name in named)
    assert len(make_notebooks.PLANES) == 4


@pytest.mark.slow
def test_the_pictures_are_what_would_be_drawn():
    stale = [
        name
        for name, draw in make_notebooks.pictures().items()
        if (make_notebooks.PAGES / f"{name}.svg").read_text("utf-8") != draw()
    ]
    assert stale == []


def test_every_lecture_has_exercises_with_solutions():
    for page in LECTURES:
        text = page.read_text("utf-8")
        exercises = re.findall(r"^\*\*Exercise (\d+)\.\*\*", text, flags=re.MULTILINE)
        assert len(exercises) == len(re.findall(r"^\*\*Solution\.\*\*", text, flags=re.MULTILINE))
        if page.stem != "index":
            assert exercises == [str(i + 1) for i in range(len(exercises))]
            assert len(exercises) >= 3
            assert re.search(r"[Tt]exts? \d", text)


def test_a_page_becomes_text_and_code_in_order(tmp_path):
    page = tmp_path / "one.md"
    page.write_text("# One\n\n```python\nx = 1\n```\n\nmore ![of it](a.svg)\n\n```sh\nls\n```\n")
    cells = nbformat.reads(make_notebooks.notebook(page), as_version=4).cells
    assert [(cell.cell_type, cell.source) for cell in cells] == [
        ("markdown", "# One"),
        ("code", "x = 1"),
        ("markdown", "more ![of it](a.svg)\n\n```sh\nls\n```"),
    ]
    (tmp_path / "a.svg").write_text("<svg/>")
    cells = nbformat.reads(make_notebooks.notebook(page), as_version=4).cells
    assert cells[2].source.startswith("more ![of it](attachment:a.svg)")
    assert list(cells[2].attachments["a.svg"]) == ["image/svg+xml"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")
def test_the_notebooks_run_in_a_minute_and_print_what_they_hold():
    """One kernel for each; an assertion of a lecture that does not hold raises here."""
    before = _seconds()
    for page in LECTURES:
        made = make_notebooks.executed(page)
        assert make_notebooks.outputs(made) == make_notebooks.outputs(
            page.with_suffix(".ipynb").read_text()
        ), page
    assert 1 < _seconds() - before < MAX_SECONDS
    with pytest.raises(Exception, match="AssertionError"):
        NotebookClient(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("assert 1 > 2")])).execute()


def _seconds() -> float:
    """Of the processor, for processes that have ended: every kernel."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")
def test_the_check_notices_a_stale_notebook(monkeypatch, tmp_path):
    page = tmp_path / "one.md"
    page.write_text("```python\nprint(1)\n```\n")
    monkeypatch.setattr(make_notebooks, "PAGES", tmp_path)
    assert make_notebooks.main(["--check"]) == 1
    page.with_suffix(".ipynb").write_text(make_notebooks.notebook(page))
    assert make_notebooks.main(["--check"]) == 0
    page.write_text("```python\nprint(2)\n```\n")
    assert make_notebooks.main(["--check"]) == 1

"""Writes lectures and the tour as notebooks beside their pages, with outputs and pictures; `--check` compares only.

The pages are the source: a block of Python becomes a cell, everything between becomes text, a picture beside the page
becomes part of the notebook. Writing draws the pictures again and runs every notebook; names of pages write only these.

python tools/make_notebooks.py                # all of them
python tools/make_notebooks.py roth sampling  # two of them
python tools/make_notebooks.py --check        # ends with 1 if a notebook is not that of its page
"""

from __future__ import annotations

import base64
import contextlib
import io
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

PAGES = Path(__file__).resolve().parents[1] / "docs" / "lectures"
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_PICTURE = re.compile(r"(!\[[^\]]*\])\(((?:\.\./)?[\w-]+\.svg)\)")
"""A picture beside the page, which is drawn here, or one of the other pages'."""
TOPICS = (
    "laplace",
    "randomised-response",
    "exponential",
    "smalldb",
    "sampling",
    "sparse-vector",
    "multiplicative-weights",
    "reconstruction",
    "puzzles",
)
"""Tours of `maquette learn` whose picture has the name of the tour."""
RUNS = ("sparse-vector-run", "private-multiplicative-weights")
"""Tours whose animation has it."""
CORNERS = [(0, 0), (6, 0), (0, 6)]
PLANES = {
    "half-planes-three": (CORNERS, "Three corners: every set of them is the inside of a half-plane"),
    "half-planes-outside": ([*CORNERS, (6, 6)], "A fourth point outside the triangle"),
    "half-planes-inside": ([*CORNERS, (2, 2)], "A fourth point inside the triangle"),
    "half-planes-line": ([(0, 0), (2, 0), (4, 0), (6, 0)], "Four points on a line"),
}


def lectures() -> list[Path]:
    """The pages with code in them."""
    return sorted(page for page in PAGES.glob("*.md") if _BLOCK.search(page.read_text("utf-8")))


def tours() -> list[Path]:
    """The pages of the site to begin with; they make files, so they run in a folder of their own."""
    return [page for page in [PAGES.parent / "tour.md"] if page.is_file()]


def notebook(page: Path) -> str:
    """A page as a notebook without outputs, the same for the same page."""
    cells = []
    for i, part in enumerate(_BLOCK.split(page.read_text("utf-8"))):
        if part.strip():
            cells.append(_cell(page, i, part.strip()))
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    made = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
    nbformat.validate(made)
    return nbformat.writes(made) + "\n"


def _cell(page: Path, place: int, text: str) -> Any:
    """Code, or text with the pictures beside its page inside."""
    name = f"{page.stem}-{place}"
    if place % 2:
        return nbformat.v4.new_code_cell(text, id=name)
    files = {Path(file).name: page.parent / file for _, file in _PICTURE.findall(text)}
    drawn = {
        file: {"image/svg+xml": base64.b64encode(path.read_bytes()).decode()}
        for file, path in files.items()
        if path.is_file()
    }
    source = _PICTURE.sub(
        lambda found: (
            f"{found[1]}(attachment:{name})" if (name := Path(found[2]).name) in drawn else found[0]
        ),
        text,
    )
    cell = nbformat.v4.new_markdown_cell(source, id=name)
    if drawn:
        cell.attachments = nbformat.from_dict(drawn)
    return cell


def executed(page: Path) -> str:
    """A page as a notebook that was run from top to bottom, with what its cells printed; without times."""
    made = nbformat.reads(notebook(page), as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        place = folder if page in tours() else str(page.parent)
        NotebookClient(made, timeout=300, record_timing=False).execute(cwd=place)
    made.metadata = {"kernelspec": made.metadata["kernelspec"]}
    return nbformat.writes(made) + "\n"


def without_outputs(text: str) -> str:
    """A notebook as it was before it was run."""
    made = nbformat.reads(text, as_version=4)
    for cell in made.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return nbformat.writes(made) + "\n"


def outputs(text: str) -> list[list[str]]:
    """What every cell of a notebook printed or returned."""
    cells = nbformat.reads(text, as_version=4).cells
    return [
        [o.get("text") or str(o.get("data", {}).get("text/plain", "")) for o in cell.outputs]
        for cell in cells
        if cell.cell_type == "code"
    ]


def pictures() -> dict[str, Callable[[], str]]:
    """What draws every picture of the lectures, by its name."""
    drawn: dict[str, Callable[[], str]] = {topic: lambda topic=topic: _still(topic) for topic in TOPICS}
    drawn |= {run: lambda run=run: _moving(run) for run in RUNS}
    drawn |= {name: lambda name=name: _planes(*PLANES[name]) for name in PLANES}
    return drawn | {"private-multiplicative-weights-errors": lambda: _still("private-multiplicative-weights")}


def _svg(specification: dict[str, Any]) -> str:
    import vl_convert

    return vl_convert.vegalite_to_svg(specification)


def _shown(topic: str) -> tuple[Any, Any]:
    """A tour and what it shows, without what it prints."""
    from maquette.cli.learn import TOURS

    with contextlib.redirect_stdout(io.StringIO()):
        return TOURS[topic], TOURS[topic].show()


def _still(topic: str) -> str:
    from maquette.lessons import picture

    tour, shown = _shown(topic)
    lines = None if tour.lines is None else tour.lines()
    return _svg(picture(shown, title=tour.title or tour.about, lines=lines))


def _moving(topic: str) -> str:
    from maquette.lessons import animation

    tour, shown = _shown(topic)
    return animation(shown, table=tour.table, title=tour.about)


def _planes(points: list[tuple[int, int]], title: str) -> str:
    from maquette.lessons import half_planes, picture

    return _svg(picture(half_planes(points), title=title))


def is_current(page: Path) -> bool:
    """Is there a notebook of this page, outputs aside?"""
    place = page.with_suffix(".ipynb")
    return place.is_file() and without_outputs(place.read_text("utf-8")) == notebook(page)


def main(arguments: list[str]) -> int:
    """Writes notebooks, or checks them."""
    if "--check" in arguments:
        return int(not all(is_current(page) for page in [*lectures(), *tours()]))
    chosen = [page for page in [*lectures(), *tours()] if not arguments or page.stem in arguments]
    named = {file for page in chosen for _, file in _PICTURE.findall(page.read_text("utf-8"))}
    for name, draw in pictures().items():
        if f"{name}.svg" in named:
            (PAGES / f"{name}.svg").write_text(draw(), encoding="utf-8")
    for page in chosen:
        page.with_suffix(".ipynb").write_text(executed(page), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Writes the lectures as notebooks beside their pages, to be opened and changed; `--check` compares them only.

The pages are the source: a block of Python becomes a cell, everything between becomes text. Pictures are found beside.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import nbformat

PAGES = Path(__file__).resolve().parents[1] / "docs" / "lectures"
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def lectures() -> list[Path]:
    """The pages with code in them."""
    return sorted(page for page in PAGES.glob("*.md") if _BLOCK.search(page.read_text("utf-8")))


def notebook(page: Path) -> str:
    """A page as a notebook, the same for the same page."""
    cells = []
    for i, part in enumerate(_BLOCK.split(page.read_text("utf-8"))):
        if part.strip():
            make = nbformat.v4.new_code_cell if i % 2 else nbformat.v4.new_markdown_cell
            cells.append(make(part.strip(), id=f"{page.stem}-{i}"))
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    made = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
    nbformat.validate(made)
    return nbformat.writes(made) + "\n"


def main(arguments: list[str]) -> int:
    """Writes every notebook, or checks them."""
    stale = 0
    for page in lectures():
        place, text = page.with_suffix(".ipynb"), notebook(page)
        if "--check" in arguments:
            stale += not place.is_file() or place.read_text("utf-8") != text
        else:
            place.write_text(text, encoding="utf-8")
    return int(stale > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

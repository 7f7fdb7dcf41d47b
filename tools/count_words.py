"""How many words readers have before them: docs/*.md without what programs write.

python tools/count_words.py      # the pages, the longest first, and their sum
"""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
LIMIT = 45_000
GENERATED = frozenset(["cli.md", "reference.md", "theorems.md"])
"""Pages that programs write. Of other pages what stands between the marks of a program is left out."""
WRITTEN = re.compile(r"<!-- [\w ]+: written by tools/.*?<!-- end of [\w ]+ -->", re.DOTALL)


def words(text: str) -> int:
    """Words with a letter or a digit in them; comments are not shown to readers, code is."""
    shown = re.sub(r"<!--.*?-->", "", WRITTEN.sub("", text), flags=re.DOTALL)
    return sum(re.search(r"\w", word) is not None for word in shown.split())


def counts() -> dict[str, int]:
    """The words of every page, the longest first."""
    pages = {
        page.name: words(page.read_text("utf-8")) for page in DOCS.glob("*.md") if page.name not in GENERATED
    }
    return dict(sorted(pages.items(), key=lambda one: -one[1]))


def main() -> None:
    found = counts()
    for name, number in found.items():
        print(f"{number:7,}  {name}")
    print(f"{sum(found.values()):7,}  of {LIMIT:,}")


if __name__ == "__main__":
    main()

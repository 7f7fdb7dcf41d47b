"""Documents as programs: the code blocks of a page, in order, run in a folder with a table and its domain.

Two comments in a page, which readers of the site do not see, belong to this:

    <!-- not run: REASON -->          before a block that a test cannot run
    <!-- run before: python code -->  what a page takes for granted, run and not shown
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.cli_files import call

ROOT = Path(__file__).parents[2]
LANGUAGES = frozenset(["python", "sh"])
_PART = re.compile(
    r"<!-- not run: (?P<reason>.*?) -->"
    r"|<!-- run before:\s(?P<before>.*?)-->"
    r"|^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    """A piece of a page that can run, or the reason why a test does not run it."""

    page: str
    line: int
    language: str
    text: str
    not_run: str | None = None

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    """Every document with text for readers."""
    return [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "SECURITY.md",
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "docs/lectures").glob("*.md")),
    ]


def blocks_of(text: str, page: str) -> Iterator[Block]:
    """The blocks of a page that claim to be Python or commands, and what runs before them."""
    reason = None
    for part in _PART.finditer(text):
        line = text.count("\n", 0, part.start()) + 1
        if part["reason"] is not None:
            reason = part["reason"]
        elif part["before"] is not None:
            yield Block(page, line, "python", part["before"])
        elif part["language"] in LANGUAGES:
            yield Block(page, line, part["language"], part["text"], reason)
            reason = None


def commands(text: str) -> Iterator[list[str]]:
    """The words of each command; a backslash joins lines, a # begins a comment."""
    for line in text.replace("\\\n", " ").splitlines():
        if words := shlex.split(line, comments=True):
            yield words


def run(block: Block, names: dict[str, Any], folder: Path) -> None:
    """Run one block; commands have to end with 0."""
    if block.language == "python":
        source = "\n" * block.line + block.text
        exec(compile(source, block.page, "exec"), names)  # the project's own page
        return
    for program, *words in commands(block.text):
        assert program == "maquette", f"{block.place}: only maquette is run; say why {program} is not"
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            ended = call(*words)
        assert ended.code == 0, f"{block.place}: maquette {shlex.join(words)}\n{ended.err}"

"""Writes the reference of commands in docs/cli.md from the commands themselves.

python tools/make_cli_page.py           # writes; `make docs` does
python tools/make_cli_page.py --check   # ends with 1 if the page is not what would be written
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from maquette.cli.app import app

PAGE = Path(__file__).parents[1] / "docs/cli.md"
START, END = "<!-- commands: written by tools/make_cli_page.py -->", "<!-- end of commands -->"


def commands(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that does something, with its words."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield words, command
        return
    for name, one in inner.items():
        yield from commands(one, (*words, name))


def cell(text: str) -> str:
    """A text in a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def section(words: tuple[str, ...], command: Any) -> str:
    """One command: what it does, its example, its arguments and options."""
    about, _, example = command.help.partition("\b")
    title = " ".join(words)
    paragraphs = [" ".join(one.split()) for one in about.strip().split("\n\n")]
    lines = [f"### {title}", "", *(line for one in paragraphs for line in (one, ""))]
    shown = [line.removeprefix("  ") for line in example.strip().splitlines()[1:]]
    if shown:
        lines += ["```text", *shown, "```", ""]
    visible = [one for one in command.params if not getattr(one, "hidden", False) and one.name != "help"]
    if visible:
        lines += ["| | |", "|---|---|"]
    for one in visible:
        is_option = one.param_type_name == "option"
        name = ", ".join([*one.opts, *one.secondary_opts]) if is_option else one.metavar or one.name.upper()
        lines.append(f"| `{cell(name)}` | {cell(one.help or '')} |")
    return "\n".join(lines).rstrip()


def written(page: str) -> str:
    """The page with the reference of today."""
    before, rest = page.split(START)
    after = rest.split(END)[1]
    sections = [section(words, command) for words, command in commands(get_command(app), ("maquette",))]
    return f"{before}{START}\n\n" + "\n\n".join(sections) + f"\n\n{END}{after}"


def main(arguments: list[str]) -> int:
    """Writes the page, or checks it."""
    page = PAGE.read_text(encoding="utf-8")
    if "--check" in arguments:
        return int(written(page) != page)
    PAGE.write_text(written(page), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

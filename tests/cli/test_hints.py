"""Every command that a message or a page tells somebody to type exists, and is complete."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from maquette.cli.app import app
from maquette.cli.console import UsageProblem

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMAND: Any = typer.main.get_command(app)
WORDS = re.compile(r"\bmaquette ((?:[a-z]+ ?)+[^;`\n]*)")


def strings(source: str) -> Iterator[str]:
    """Every text of a module, with X for what is put in."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(v.value if isinstance(v, ast.Constant) else "X" for v in node.values)


def resolved(words: list[str]) -> tuple[Any, list[str]] | None:
    """The command that words begin with, and the rest; None if they are no command but a sentence."""
    command: Any = COMMAND
    for i, word in enumerate(words):
        if not hasattr(command, "commands"):
            return command, words[i:]
        plain = word.rstrip(",.:")
        if plain not in command.commands:
            assert command is COMMAND, f"maquette {' '.join(words[: i + 1])} does not exist"
            return None
        command = command.commands[plain]
    return command, []


def wrong(words: list[str], *, whole: bool = False, mention: bool = False) -> str | None:
    """What is wrong with a command: options that it does not have, or required ones that it lacks.

    A `whole` one is complete; one in a sentence is if it has options at all, unless it is only a `mention` of them.
    """
    found = resolved(words)
    if found is None:
        return None
    command, rest = found
    if hasattr(command, "commands"):
        return None if not whole else f"{' '.join(words)} is a group of commands"
    known = {name: p for p in command.params for name in (*p.opts, *p.secondary_opts)} | {
        "--help": None,
        "-h": None,
    }
    given = [word.split("=")[0].rstrip(",.:)") for word in rest if re.match(r"--?[a-z]", word)]
    for option in given:
        if option not in known:
            return f"'{' '.join(words)}' has no option {option}"
    open_end = any("..." in word or "…" in word for word in rest)
    if not (whole or given) or open_end or mention:
        return None
    for p in command.params:
        if p.param_type_name == "option" and p.required and not set(p.opts) & set(given):
            return f"'{' '.join(words)}' lacks {p.opts[0]}"
    return None


def code_lines(text: str) -> Iterator[str]:
    """The commands of code blocks, continued lines put together."""
    joined = re.sub(r"\s*\\\n\s*", " ", text)
    for line in joined.splitlines():
        if re.match(r"(    |\$ )?\s*maquette ", line) and (line.startswith(" ") or in_fence(joined, line)):
            yield re.sub(r"[][]", "", line.strip().removeprefix("$ "))  # what may be left out is parsed too


def in_fence(text: str, line: str) -> bool:
    return any(line in block for block in re.findall(r"```\w*\n(.*?)```", text, flags=re.DOTALL))


@pytest.mark.slow
def test_messages_name_commands_that_exist_and_are_complete():
    problems: list[str] = []
    seen = 0
    for file in sorted((ROOT / "src").rglob("*.py")):
        for text in strings(file.read_text(encoding="utf-8")):
            for match in WORDS.finditer(re.sub(r"\s*\\\n\s*", " ", text)):
                seen += 1
                problem = wrong(match[1].replace('"', " ").split())
                if problem:
                    problems.append(f"{file.name}: {problem}")
    assert seen > 40
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_name_commands_that_exist_and_parse(page):
    text = page.read_text(encoding="utf-8")
    for match in re.finditer(r"`maquette ([^`]*)`", text):
        problem = wrong(match[1].replace("\\|", "|").split("|")[0].split(), mention=True)
        assert problem is None, problem
    for line in code_lines(text):
        words = shlex.split(line, comments=True)[1:]
        problem = wrong(words, whole=True)
        assert problem is None, problem
        if any("..." in word for word in words):
            continue
        found = resolved(words)
        assert found is not None, line
        command, rest = found
        try:
            command.make_context("maquette", rest)
        except UsageProblem as error:
            pytest.fail(f"{page.name}: {line}: {error}")


def test_the_checks_see_what_is_wrong():
    assert (
        wrong(["ledger", "create", "X", "--epsilon", "E"]) == "'ledger create X --epsilon E' lacks --domain"
    )
    assert "no option --quickly" in str(wrong(["ledger", "verify", "X", "--quickly"]))
    with pytest.raises(AssertionError, match="ledger mend does not exist"):
        wrong(["ledger", "mend", "X"])
    assert wrong(["is", "young:", "interfaces", "may", "move"]) is None
    assert list(code_lines("    maquette plan \\\n      --n 1\ntext maquette plan\n")) == [
        "maquette plan --n 1"
    ]

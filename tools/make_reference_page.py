"""Writes docs/reference.md: every public name with its signature, its docstring and an example.

python tools/make_reference_page.py           # writes; `make docs` does
python tools/make_reference_page.py --check   # ends with 1 if the page is not what would be written

The docstrings are those that `help` shows. One page of plain Markdown needs no server and no plug-in, is found by the
site's own search without a network, and its examples are run by the test that runs those of all pages.
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import maquette

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/reference.md"
EXAMPLES = ROOT / "tools/reference_examples.py"
HEAD = """# Reference of names

Every name of `import maquette as mq`, written by `python tools/make_reference_page.py` from the docstrings. The
examples are one program, from the top of the page to its end, on the table of `maquette demo`; a test runs it.
[The tour](tour.md) says what comes first."""


def parts() -> list[tuple[list[str], str]]:
    """The names that belong together, with their example."""
    cut = re.split(r"^# --- (.*)$", EXAMPLES.read_text("utf-8"), flags=re.MULTILINE)[1:]
    pairs = zip(cut[::2], cut[1::2], strict=True)
    return [(names.split(", "), code.strip()) for names, code in pairs]


def troubles() -> list[str]:
    """The errors and warnings, the general ones first."""
    found = [name for name in maquette.__all__ if isinstance(getattr(maquette, name), type)]
    kinds = [name for name in found if issubclass(getattr(maquette, name), BaseException)]
    return sorted(kinds, key=lambda name: (name not in ("MaquetteError", "MaquetteWarning"), name))


def signature(name: str, thing: Any) -> str:
    """How it is called, an argument a line where they are many."""
    called = inspect.signature(thing)
    arguments, named = [], False
    for one in called.parameters.values():
        if one.kind is one.KEYWORD_ONLY and not named:
            arguments.append("*")
            named = True
        star = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        named = named or star == "*"
        default = "" if one.default is one.empty else f" = {shown(one.default)}"
        arguments.append(f"{star}{one.name}: {one.annotation}{default}")
    whole = f"mq.{name}({', '.join(arguments)}) -> {called.return_annotation}"
    if len(whole) > 100:
        inner = "".join(f"    {one},\n" for one in arguments)
        whole = f"mq.{name}(\n{inner}) -> {called.return_annotation}"
    return f"```text\n{whole}\n```"


def shown(default: Any) -> str:
    """A default as one writes it."""
    return repr(default.value if isinstance(default, maquette.Relation) else default)


def told(thing: Any) -> str:
    """A docstring as Markdown: what it guarantees, and what an argument may be, as a list."""
    text = inspect.cleandoc(thing.__doc__ or "")
    text = re.sub(r'^("\w+") {2,}', r"- \1: ", text, flags=re.MULTILINE)
    text = re.sub(r"^(Guarantee|Accuracy|Holds when|Cost): ", r"- **\1**: ", text, flags=re.MULTILINE)
    text = re.sub(r"(?<=\S)\n +(?=\S)", " ", text)
    return re.sub(r"^(?!- )(.+)\n(?=- )", r"\1\n\n", text, flags=re.MULTILINE)


def members(name: str, kind: type) -> str:
    """The methods and values of a class that stand in its own body, a line each."""
    lines = []
    for word, member in vars(kind).items():
        member = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if word.startswith("_") or not (inspect.isfunction(member) or isinstance(member, property)):
            continue
        first = inspect.cleandoc(member.__doc__ or "").split("\n\n")[0]
        if not first:
            continue
        call = "()" if inspect.isfunction(member) else ""
        lines.append(f"| `{word}{call}` | {' '.join(first.split()).replace('|', chr(92) + '|')} |")
    return "\n".join([f"| of `{name}` | |", "|---|---|", *lines]) if lines else ""


def entry(name: str) -> str:
    """One name."""
    thing = getattr(maquette, name)
    if isinstance(thing, str):
        return f"### {name}\n\nThe version that is installed."
    pieces = [f"### {name}"]
    if inspect.isfunction(thing):
        pieces.append(signature(name, thing))
    pieces.append(told(thing))
    if isinstance(thing, type):
        pieces.append(members(name, thing))
    if isinstance(thing, ModuleType):
        pieces.append(f"`help(mq.{name})` lists what is in it.")
    return "\n\n".join(piece for piece in pieces if piece)


def trouble(name: str) -> str:
    """One line of the table of errors."""
    thing = getattr(maquette, name)
    code = getattr(thing, "exit_code", "")
    about = " ".join(inspect.cleandoc(thing.__doc__ or "").split()).replace("|", "\\|")
    return f"| `{name}` | {about} | {code} |"


CAUGHT = """```python
try:
    mq.release(table, tables, epsilon=1e6, ledger="people.ledger")
except mq.BudgetExceeded as refused:                       # every error is a mq.MaquetteError
    print(refused)
```"""


def written() -> str:
    """The whole page."""
    sections = []
    for names, code in parts():
        sections += [
            f"## {names[0]}" if len(names) == 1 else "## " + ", ".join(names),
            f"```python\n{code}\n```",
        ]
        sections += [entry(name) for name in names]
    sections += ["## Errors and warnings", CAUGHT, "| name | when | exit code |\n|---|---|---|"]
    return "\n\n".join([HEAD, *sections]) + "\n" + "\n".join(trouble(name) for name in troubles()) + "\n"


def main(arguments: list[str]) -> int:
    """Writes the page, or checks it."""
    page = written()
    if "--check" in arguments:
        return int(not PAGE.is_file() or PAGE.read_text("utf-8") != page)
    PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The command line and the public names as the golden files hold them."""

from __future__ import annotations

import inspect
import json
import os
from pathlib import Path
from typing import Any

from typer.main import get_command
from typer.testing import CliRunner

import maquette as mq
from golden import cases, seam

# --- the command line -----------------------------------------------------------------------------------------------


def commands(folder: Path) -> list[dict[str, Any]]:
    """Exit codes of commands in a folder of their own, and what they print as JSON."""
    cases.DOMAIN.save(folder / "people.domain.json")
    whole = cases.columns()
    lines = [",".join(whole), *(",".join(row) for row in zip(*whole.values(), strict=True))]
    (folder / "people.csv").write_text("\n".join(lines) + "\n")
    (folder / "broken.domain.json").write_text('{"attributes": []}')
    before = Path.cwd()
    os.chdir(folder)
    try:
        with seam.seeded(7):
            return [_run(line) for line in COMMANDS]
    finally:
        os.chdir(before)


_ON = ["-d", "people.domain.json"]
_RELEASE = ["release", "people.csv", *_ON, "--ledger", "people.ledger", "--quiet"]
_PAID = ["--marginals", "1", "--marginals", "2", "--epsilon", "1", "--delta", "1e-6"]
_ONE = [*_RELEASE, *_PAID, "--mechanism", "residual", "-o", "one", "--json"]
_ASK = ["ask", "people.csv", *_ON, "--epsilon", "4", "--alpha", "0.2", "--ledger", "ask.ledger", "-q"]
_SIZES = ["bound", "--universe", "2^24", "--queries", "1e6", "--n", "1e5"]
COMMANDS: list[list[str]] = [
    ["version"],
    ["domain", "check", "people.domain.json", "--json"],
    ["domain", "check", "people.domain.json", "--table", "people.csv", "--json"],
    ["domain", "check", "broken.domain.json", "--json"],
    ["domain", "check", "absent.json"],
    ["plan", *_ON, "--marginals", "2", "--n", "20000", "--epsilon", "1", "--json"],
    ["plan", *_ON, "--marginals", "2", "--n", "20000", "--epsilon", "1", "--delta", "1e-9", "--json"],
    ["plan", *_ON, "--prefixes", "age", "--alpha", "0.05", "--epsilon", "1", "--json"],
    ["plan", *_ON, "--where", "height > 3", "--n", "20000", "--epsilon", "1"],
    ["plan", *_ON, "--marginals", "2", "--n", "20000", "--epsilon", "-1"],
    ["ledger", "create", "people.ledger", *_ON, "--epsilon", "2", "--delta", "1e-6", "--json"],
    ["ledger", "create", "people.ledger", *_ON, "--epsilon", "2"],
    _ONE,
    _ONE,
    [*_RELEASE, "--marginals", "1", "--epsilon", "5", "--delta", "1e-6", "-o", "two"],
    [*_RELEASE, "--marginals", "1", "--epsilon", "0", "-o", "two"],
    [*_RELEASE, "--marginals", "9", "--epsilon", "0.1", "-o", "two"],
    [*_RELEASE, "--marginals", "1", "--epsilon", "0.1", "--mechanism", "magic", "-o", "two"],
    [*_RELEASE, "--marginals", "1", "--epsilon", "0.1", "--relation", "replace-one", "-o", "two"],
    ["release", "absent.csv", *_ON, "--marginals", "1", "--epsilon", "1", "-o", "two"],
    ["release", "people.csv", *_ON, "--marginals", "1"],
    ["answer", "one", "member = 'yes'", "age >= 30 and region = 'north'", "--json"],
    ["answer", "one", "height > 3"],
    ["answer", "absent", "age < 30"],
    ["ledger", "show", "people.ledger", "--json"],
    ["ledger", "verify", "people.ledger", "--release", "one", "--json"],
    ["ledger", "verify", "people.ledger", "--receipt", "1:" + 64 * "0"],
    ["ledger", "verify", "people.ledger", "--receipt", "nonsense"],
    ["ledger", "show", "absent.ledger"],
    ["ledger", "settle", "people.ledger", "--all", "--json"],
    [*_ASK, "--json", "member = 'yes'", "age < 30", "member = 'no'", "TRUE"],
    [*_ASK, "--json", "--forecast", "score = 1"],
    [*_ASK, "height > 3"],
    ["ledger", "show", "ask.ledger", "--questions", "--json"],
    ["evaluate", "one", "people.csv", "--no-page", "--quiet", "--json"],
    [*_SIZES, "--epsilon", "1", "--vc", "10", "--alpha", "0.05", "--json"],
    [*_SIZES, "--epsilon", "1", "--delta", "1e-6", "--json"],
    ["bound", *_ON, "--prefixes", "age", "--n", "20000", "--epsilon", "1", "--json"],
    [*_SIZES, "--epsilon", "nan"],
    ["dimension", *_ON, "--ranges", "age", "--json"],
    ["dimension", *_ON, "--marginals", "2", "--gamma", "0.1", "--json"],
    ["dimension", *_ON, "--ranges", "region"],
    ["nonsense"],
]


def _run(words: list[str]) -> dict[str, Any]:
    done = CliRunner().invoke(seam.command_line(), words, prog_name="maquette")
    found: dict[str, Any] = {"command": " ".join(words), "code": done.exit_code}
    if "--json" in words and done.stdout.strip():
        found["json"] = cases.kept(json.loads(done.stdout))
    return found


# --- names ----------------------------------------------------------------------------------------------------------

MADE_INSIDE = {"Ledger", "Queries", "Release", "Session", "Table"}
"""Classes that users are handed and do not make themselves."""
METHODS = {
    "Answer": None,
    "Budget": None,
    "Certificate": None,
    "Domain": None,
    "Release": None,
    "Session": None,
    "SmallDb": (),
    "Table": None,
    "Ledger": (
        *("balance", "close", "create", "entries", "find", "left", "memory", "open", "receipt", "settle"),
        "verify",
    ),
}
"""Public classes whose public methods are held: all of them, or those named."""


def names() -> dict[str, Any]:
    """Every public name with the parameters that it takes, and the options of every command."""
    return {"names": {name: _form(name) for name in sorted(mq.__all__)}, "commands": _options()}


def _form(name: str) -> Any:
    value = getattr(mq, name)
    if isinstance(value, str):
        return "text"
    if inspect.ismodule(value):
        return dir(value)
    if not inspect.isclass(value):
        return signature(value)
    if issubclass(value, Warning | Exception):
        return [base.__name__ for base in value.__mro__ if base.__module__.startswith("maquette")]
    form: dict[str, Any] = {} if name in MADE_INSIDE else {"made by": signature(value)}
    if issubclass(value, mq.Relation):
        return {"members": {one.name: str(one) for one in value}}
    if name in METHODS:
        chosen = METHODS[name]
        names = {*dir(value), *getattr(value, "__dataclass_fields__", ())}
        public = [n for n in sorted(names) if not n.startswith("_")] if chosen is None else list(chosen)
        form["has"] = {n: _member(value, n) for n in public}
    return form


def _member(owner: type, name: str) -> str:
    """A field without a default is no attribute of its class; it holds a value all the same."""
    static = inspect.getattr_static(owner, name, None)
    if isinstance(static, property) or not callable(getattr(owner, name, None)):
        return "value"
    return signature(getattr(owner, name))


def signature(value: Any) -> str:
    """Names, kinds and defaults; types may be called otherwise."""
    found = inspect.signature(value)
    bare = [one.replace(annotation=inspect.Parameter.empty) for one in found.parameters.values()]
    return str(found.replace(parameters=bare, return_annotation=inspect.Signature.empty))


def _options() -> dict[str, Any]:
    found: dict[str, Any] = {}

    def walk(command: Any, words: tuple[str, ...]) -> None:
        for name, inner in getattr(command, "commands", {}).items():
            walk(inner, (*words, name))
        if not hasattr(command, "commands"):
            found[" ".join(words)] = [
                one.opts + one.secondary_opts if one.param_type_name == "option" else f"<{one.name}>"
                for one in command.params
            ]

    walk(get_command(seam.command_line()), ())
    return found

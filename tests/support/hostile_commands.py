"""Every command, with hostile words in the place of each argument and option, and with options two at a time.

Commands and options are taken from the application itself, so that a new one is tried without being named here; where
one needs an argument that no other has, `GOOD` learns its name. Every call runs in a folder that is made anew, and no
word leads out of it: a write to another place, or a connection to anywhere, is stopped before it happens and reported.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.main import get_command
from typer.testing import CliRunner

import maquette as mq
from maquette.cli.app import app
from maquette.cli.console import INTERRUPTED
from support.census import schema_of
from support.cli_files import CANARY, write_domain, write_table
from support.hostile_calls import SECONDS, Found, TooLong, limits
from support.kept_streams import put_back

CODES = (0, 2, 3, INTERRUPTED)
"""How a command may end, whatever it was given; the last where its questions find no answer."""
LONGEST = 6_000
"""Characters of messages: a few of the longest that an error may have."""

CONFIGURATION = """\
state = "state"
[tables.people]
source = "people.csv"
domain = "people.domain.json"
ledger = "people.ledger"
epsilon = 8.0
[people.anna]
[people.anna.tables.people]
epsilon = 1.0
"""

Words = list[str]


class Outside(BaseException):
    """A write out of the folder, or a connection; nothing that a command may catch."""


# --- the folder -----------------------------------------------------------------------------------------------------


class Desk:
    """A folder with one file of each kind, and with things in it that no command expects."""

    def __init__(self, root: Path) -> None:
        self.root, self.kept, self.work = root, root / "kept", root / "work"
        self.kept.mkdir()
        table, file = write_table(self.kept), write_domain(self.kept)
        domain = mq.Domain.load(file)
        with mq.Ledger.create(
            self.kept / "people.ledger",
            budget=mq.Budget(8.0),
            relation=mq.Relation.ADD_REMOVE,
            domain_fingerprint=domain.fingerprint,
            name="people.csv",
        ) as ledger:
            opened = mq.open(table, domain)
            made = mq.release(opened, mq.marginals(domain, k=1), epsilon=1.0, ledger=ledger)
        made.save(self.kept / "made", report=False)
        mq.draft(table).save(self.kept / "draft.domain.json")
        texts = {
            "serve.toml": CONFIGURATION,
            "matrix.csv": "0,1\n1,0\n1,1\n",
            "workload.json": '{"format": 1, "parts": [{"type": "marginals", "k": 1}]}',
            "questions.txt": "age >= 30\n",
            "tables.schema.json": schema_of(4).to_text(),
            "people.txt": "age,sex,region\n30,Male,north\n",
            "empty": "",
            "words.txt": "this is no file of ours\n" * 3,
            "deep.json": "[" * 100_000,
            "half.json": '{"attributes": [',
        }
        for name, text in texts.items():
            (self.kept / name).write_text(text)
        (self.kept / "bytes.bin").write_bytes(bytes(range(256)) * 4)

    def anew(self) -> None:
        """The folder as it was at the beginning."""
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(self.kept, self.work)
        for name in ("folder", "home", "t", "closed"):
            (self.work / name).mkdir()
        (self.work / "closed").chmod(0o500)
        (self.work / "unreadable").write_text("x")
        (self.work / "unreadable").chmod(0)
        (self.work / "dangling").symlink_to("nothing")
        (self.work / "loop").symlink_to("loop")
        with (self.work / "sparse").open("wb") as stream:
            stream.truncate(20 * 10**9)

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """In the folder, and not out of it."""
        before, here, home = tempfile.tempdir, Path.cwd(), os.environ.get("HOME")
        self.anew()
        os.chdir(self.work)
        tempfile.tempdir, os.environ["HOME"] = str(self.work / "t"), str(self.work / "home")
        try:
            with _watch.kept_in(self.work):
                yield
        finally:
            os.chdir(here)
            tempfile.tempdir = before
            os.environ.pop("HOME")
            if home is not None:
                os.environ["HOME"] = home


class _Watch:
    """A hook of the interpreter, which sees files before they are opened; there is no way to take it out again."""

    def __init__(self) -> None:
        self._folder: str | None = None
        self._is_installed = False

    @contextlib.contextmanager
    def kept_in(self, folder: Path) -> Iterator[None]:
        if not self._is_installed:
            sys.addaudithook(self._see)
            self._is_installed = True
        self._folder = os.path.realpath(folder)
        try:
            yield
        finally:
            self._folder = None

    def _see(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._folder is None:
            return
        if event == "open":
            path, mode, flags = arguments
            writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) if flags else "r" not in (mode or "r")
            if writes:
                self._check(event, path)
        elif event in ("os.mkdir", "os.remove", "os.rmdir", "os.truncate", "os.chmod", "os.utime"):
            self._check(event, arguments[0], arguments[-1])
        elif event in ("os.rename", "os.link", "os.symlink"):
            self._check(event, arguments[1], arguments[-1])
        elif event == "sqlite3.connect":
            self._check(event, arguments[0])
        elif event == "socket.connect" and isinstance(arguments[1], tuple):
            raise Outside(f"a connection to {arguments[1]!r:.100}")

    def _check(self, event: str, path: Any, beside: Any = -1) -> None:
        if isinstance(path, int) or (text := os.fsdecode(path)) in (os.devnull, ":memory:"):
            return
        text = text.removeprefix("file:").partition("?")[0] if event == "sqlite3.connect" else text
        if isinstance(beside, int) and beside > 0 and not os.path.isabs(text) and event != "os.chmod":
            text = os.path.join(os.readlink(f"/proc/self/fd/{beside}"), text)
        whole = os.path.join(os.path.realpath(os.path.dirname(text)), os.path.basename(text))
        if not whole.startswith(f"{self._folder}{os.sep}") and "__pycache__" not in whole:
            raise Outside(f"{event} of {whole:.200}")


_watch = _Watch()


# --- commands and their words ---------------------------------------------------------------------------------------

GOOD: dict[str, str] = {
    "source": "people.csv",
    "sources": "people.csv",
    "schema": "tables.schema.json",
    "domain": "people.domain.json",
    "epsilon": "1",
    "delta": "1e-6",
    "beta": "0.05",
    "alpha": "0.2",
    "gamma": "0.25",
    "n": "1000",
    "relation": "add-remove",
    "mechanism": "auto",
    "marginals": "1",
    "prefixes": "age",
    "ranges": "age",
    "where": "age >= 30",
    "classes": "points:sex",
    "workload": "workload.json",
    "condition": "age >= 30",
    "predicates": "age >= 30",
    "sql": "select count(*) from t",
    "statement": "select sex, count(*) from t group by sex",
    "ledger": "people.ledger",
    "location": "people.ledger",
    "total_epsilon": "8",
    "total_delta": "1e-6",
    "accounting": "gaussian",
    "folder": "made",
    "release": "made",
    "prior": "made",
    "places": "made",
    "names": "age",
    "values": "count(*)",
    "output": "out",
    "plot": "out.svg",
    "animate": "out.svg",
    "file": "questions.txt",
    "matrix": "matrix.csv",
    "people_file": "people.txt",
    "hidden": "sex",
    "declared": "people.domain.json",
    "configuration": "serve.toml",
    "time": "age",
    "threshold": "50",
    "attribute": "age",
    "quantile": "0.5",
    "method": "auto",
    "post": "auto",
    "certificate": "workload",
    "rows": "5",
    "universe": "2^20",
    "queries": "100",
    "vc": "3",
    "fat": "3",
    "attack": "all",
    "shape": "ranges",
    "topic": "exponential",
    "host": "127.0.0.1",
    "port": "0",
    "trusted_proxy": "127.0.0.1",
    "delimiter": ",",
    "encoding": "utf-8",
    "by": "anna",
    "accept": "sex=questionnaire",
    "drop": "age",
    "person": "sex",
    "key": "k",
    "receipt": "1:" + 64 * "0",
    "keys": "k",
}
"""A word for a parameter, by its name; others follow from its type."""
OWN: dict[tuple[str, str], str] = {
    ("domain review", "file"): "draft.domain.json",
    ("domain check", "file"): "people.domain.json",
    ("domain check", "table"): "people.csv",
    ("domain discover", "epsilon"): "50",
    ("domain discover", "ledger"): "found.ledger",
    ("ledger create", "location"): "new.ledger",
    ("export", "tables"): "age",
    ("schema check", "file"): "tables.schema.json",
    ("schema review", "file"): "tables.schema.json",
    ("schema review", "accept"): "person=questionnaire",
    ("schema draft", "tables"): "people=people.csv",
    ("schema draft", "keys"): "people=age",
    ("schema draft", "links"): "people.region=people",
    ("start", "ledger"): "start.ledger",
    ("token new", "person"): "anna",
    ("serve", "name"): "example.org",
    ("audit reconstruct", "folder"): "made",
    ("audit reconstruct", "bits"): "8",
    ("audit reconstruct", "trials"): "1",
}
"""Words for a parameter that means something else in one command."""
USED: dict[str, tuple[str, ...]] = {
    "plan": ("domain", "n", "epsilon", "marginals"),
    "release": ("domain", "marginals", "ledger", "output"),
    "table": ("names",),
    "ask": ("predicates", "ledger", "queries"),
    "choose": ("where", "ledger"),
    "above": ("ledger",),
    "stream": ("ledger",),
    "evaluate": ("output",),
    "bound": ("universe", "queries"),
    "dimension": ("matrix",),
    "learn": ("topic",),
    "serve": ("places", "port"),
    "domain draft": ("output",),
    "domain review": ("by", "accept"),
    "schema review": ("by", "accept"),
    "audit reconstruct": ("trials", "bits"),
    "ledger settle": ("every",),
    "ledger charge": ("epsilon",),
    "start": ("domain", "ledger", "n", "yes"),
}
"""Options that belong to the working call of a command although they are not required."""
TYPED = {"int": "2", "float": "0.5", "str": "age", "Path": "words.txt"}
BROKEN = {"replicates", "ledger recover", "schema draft", "token revoke"}
"""No call of them works here: there are no rows, nothing was lost, one table alone has no links, there is no token."""


@dataclass(frozen=True)
class Command:
    """One command with its parameters, and the words of a call that works."""

    name: str
    parameters: tuple[Any, ...]

    def good(self, one: Any) -> Words:
        """The words of one parameter that work."""
        if getattr(one, "is_flag", False):
            return [one.opts[-1]]
        found = OWN.get((self.name, one.name), GOOD.get(one.name))
        if found is None:
            kind = one.type_descriptor.annotation
            found = next(word for name, word in TYPED.items() if name in str(kind))
        return self.given(one, found)

    @staticmethod
    def given(one: Any, value: str) -> Words:
        """A value in the place of a parameter; what begins with a dash would be read as an option."""
        if one.param_type_name == "argument":
            return [value]
        return [f"{one.opts[-1]}={value}"] if one.opts[-1].startswith("--") else [one.opts[-1], value]

    def words(self, instead: dict[str, Words] | None = None) -> Words:
        """A call that works, with other words for some parameters: options first, then what has no name."""
        chosen = {one.name: self.good(one) for one in self.parameters if self._is_used(one)} | (instead or {})
        by_kind: dict[str, Words] = {"option": [], "argument": []}
        for one in self.parameters:
            by_kind[one.param_type_name] += chosen.get(one.name, [])
        return [*self.name.split(), *by_kind["option"], "--", *by_kind["argument"]]

    def _is_used(self, one: Any) -> bool:
        return one.required or one.name in USED.get(self.name, ())


def commands() -> list[Command]:
    """All of the application."""

    def walk(one: Any, names: tuple[str, ...]) -> Iterator[Command]:
        inner = getattr(one, "commands", None)
        if inner is None:
            yield Command(" ".join(names), tuple(one.params))
        for name, part in (inner or {}).items():
            yield from walk(part, (*names, name))

    return list(walk(get_command(app), ()))


FILES = (
    *("people.csv", "people.domain.json", "draft.domain.json", "people.ledger", "made", "serve.toml"),
    *("matrix.csv", "workload.json", "empty", "words.txt", "deep.json", "half.json", "bytes.bin", "sparse"),
    *("folder", "closed", "closed/new", "unreadable", "dangling", "loop", "loop/x", "absent", "absent/new"),
    *("people.csv/x", "made/release.json", ".", "n" * 300, "a/" * 3000),
)
TEXTS = (
    *("", " ", "0", "-0", "1", "-1", "3", "0.5", "-0.5", "1e99999", "1e-99999", "9" * 5000, "1/0", "1e308"),
    *("5e-324", "nan", "inf", "-inf", "0x10", "2^99999", "10^10^10", "1_000", "\u0663", "zebra", "-", "--"),
    *("--help", ",", ",,,", "=", "age=", "a\tb\nc", "\udcff\udc80", "\u202eage\u200b'\";--\u0301\U0001f600"),
    *("x" * 100_000, "x," * 50_000, "(" * 3000 + "age > 1" + ")" * 3000, "age > 1 and " * 3000 + "age > 1"),
    *("null", "[]", "{}", "[[[[", "age", "age >= 30", "select * from t", "; drop table t", "\x1b[2J", "%s%n"),
)


def calls(command: Command) -> Iterator[tuple[str, Words]]:
    """All hostile calls of a command, each with a name: one parameter at a time, twice, left out, and in pairs."""
    for one in command.parameters:
        if getattr(one, "is_flag", False):
            yield f"{one.name}=1", command.words({one.name: [f"{one.opts[-1]}=1"]})
            continue
        for value in (*TEXTS, *FILES):
            yield f"{one.name}={value!a:.40}", command.words({one.name: command.given(one, value)})
        good = command.good(one)
        yield f"{one.name} twice", command.words({one.name: [*good, *good]})
        yield f"{one.name} many times", command.words({one.name: good * 2000})
        yield f"no {one.name}", command.words({one.name: []})
    for one, other in itertools.combinations(command.parameters, 2):
        both = {one.name: command.good(one), other.name: command.good(other)}
        yield f"{one.name} with {other.name}", command.words(both)
    yield "an unknown option", [*command.name.split(), "--zebra=" + "x" * 100_000]


# --- how they end ---------------------------------------------------------------------------------------------------


def problem(desk: Desk, words: Words, *, seconds: float = SECONDS) -> tuple[int | None, str | None]:
    """The exit code of a call, and what is wrong with how it ended."""
    try:
        with put_back() as moved, desk.inside(), warnings.catch_warnings(), _brief_service(), limits(seconds):
            warnings.simplefilter("ignore")
            done = CliRunner().invoke(app, words, input="q\n" * 200, prog_name="maquette")
    except (Outside, TooLong) as error:
        return None, f"{type(error).__name__}: {error}"
    said = done.stderr
    if moved:
        return done.exit_code, f"took {', '.join(moved)}"
    if isinstance(done.exception, (Outside, TooLong)):
        return None, f"{type(done.exception).__name__}: {done.exception}"
    if done.exit_code not in CODES:
        return done.exit_code, f"exit code {done.exit_code}: {done.exception!r:.200} {said[-300:]}"
    if "Traceback" in said or CANARY in said + done.stdout:
        return done.exit_code, f"a traceback or a private value: {said[-300:]}"
    if len(said) > LONGEST:
        return done.exit_code, f"messages of {len(said):,} characters: {said[:100]}"
    if done.exit_code and not said.strip():
        return done.exit_code, "refused without a word"
    return done.exit_code, None


@contextlib.contextmanager
def _brief_service() -> Iterator[None]:
    """A server that starts, listens and ends at once."""
    import asyncio

    import uvicorn

    async def brief(self: uvicorn.Server) -> None:
        await asyncio.sleep(0.1)

    before = uvicorn.Server.main_loop
    uvicorn.Server.main_loop = brief
    try:
        yield
    finally:
        uvicorn.Server.main_loop = before


def attack(
    desk: Desk, command: Command, found: Found, *, every: int = 1, offset: int = 0, seconds: float = SECONDS
) -> None:
    """One hostile call in so many."""
    for place, (name, words) in enumerate(calls(command)):
        if (place + offset) % every:
            continue
        found.calls += 1
        code, wrong = problem(desk, words, seconds=seconds)
        found.accepted += code == 0
        if wrong is not None:
            found.wrong.append(f"{command.name} ({name}): {wrong}")

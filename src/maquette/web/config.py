"""The configuration of a service: tables, people and limits, in a TOML file that is checked before anything starts."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, IPvAnyAddress, ValidationError

from maquette.accounting.ledger import Rate
from maquette.core import _check
from maquette.errors import ParameterError

Role = Literal["steward", "analyst"]
NAME = r"^[a-z0-9][a-z0-9_.-]{0,39}$"
"""What tables and people may be called: it stands in addresses, file names and keys of ledgers."""


COMMAND_LINE = "the command line"
ANALYST = "web-"
"""What the names of analysts in the ledger begin with, so that sessions of the command line are not touched."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


_Kind = TypeVar("_Kind", bound=_Strict)


class TableSettings(_Strict):
    """One private table, its domain and its ledger."""

    source: str
    domain: str
    ledger: str | None = None
    """A path or a PostgreSQL URL; by default beside the table."""
    epsilon: float = Field(gt=0, le=100)
    """The total of the ledger, fixed when it is made."""
    delta: float = Field(default=0.0, ge=0, lt=1)
    accounting: Literal["zcdp", "gaussian"] = "zcdp"
    """How a ledger that is made counts a delta: sessions need less by zcdp, most releases less by gaussian."""
    relation: Literal["add-remove", "replace-one"] = "add-remove"
    about: str = Field(default="", max_length=2000)
    table: str | None = None
    """The table inside a DuckDB file."""
    delimiter: str = Field(default=",", min_length=1, max_length=1)
    encoding: str = "utf-8"
    discovery: bool = False
    """May a table without a domain file be served, so that the steward finds its domain privately and pays for it?"""
    review_draft: bool = False
    """May the steward's page show an unreviewed domain? Its lists may be read off the records: they are not private."""
    fit_report: bool = False
    """May the steward's page show exact counts of values that fit no declared cell? They are not private."""
    witness: str | None = None
    """A file on another disk that remembers how far the ledger was: an older copy of the ledger is then refused."""
    folder: str | None = None
    """Where the log and the releases of this table are; by default in `state`. For a worker with a user of its own."""
    socket: str | None = None
    """Where a worker that was started by somebody else listens; by default the service starts its own."""


class ShareSettings(_Strict):
    """What one person may spend on one table, and how fast."""

    epsilon: float = Field(gt=0, le=100)
    delta: float | None = Field(default=None, ge=0, lt=1)
    """By default that of the ledger."""
    alpha: float | None = Field(default=None, gt=0, lt=1)
    beta: float = Field(default=0.05, gt=0, lt=1)
    questions: int = Field(default=100, ge=1, le=1_000_000)
    """New questions that the session takes: its errors hold for all of them together, so that fewer are better. Without
    alpha each of them gets an equal part of the budget."""
    attributes: list[str] | None = None
    steps_per_minute: int = Field(default=120, ge=1, le=100_000)
    """New entries in the ledger; what was answered before is not counted."""

    @property
    def rate(self) -> Rate:
        return Rate(self.steps_per_minute, 60)


class PersonSettings(_Strict):
    """Who may sign in, and what for."""

    role: Role = "analyst"
    tables: dict[str, ShareSettings] = Field(default_factory=dict)
    requests_per_minute: int = Field(default=1200, ge=1)


class ProxySettings(_Strict):
    """Sign-in by a reverse proxy (OIDC): off unless it is there."""

    header: str = "x-forwarded-user"
    addresses: list[str] = Field(default_factory=lambda: ["127.0.0.1"])
    secret: str
    """A file with a secret that the proxy sends as x-maquette-proxy, so that nobody else can speak for it."""


class ListenSettings(_Strict):
    """Where a site or a service listens, and which names and proxies it knows."""

    host: str = "127.0.0.1"
    port: int = Field(default=8765, ge=0, le=65535)
    hosts: list[str] = Field(default_factory=list)
    """The names that the service answers to, besides its address."""
    behind_tls: bool = False
    trusted_proxies: list[IPvAnyAddress] = Field(default_factory=list)
    """Addresses of proxies that are believed when they say where a browser is (X-Forwarded-For), so that the
    pace of requests is that of each browser; those of `proxy` are too."""


class Settings(ListenSettings):
    """The whole file."""

    title: str = Field(default="maquette", max_length=80)
    state: str = "maquette-state"
    """The folder of tokens, jobs and releases; made for its owner only."""
    database: str | None = None
    """A PostgreSQL URL for tokens and jobs, where several processes serve; by default SQLite in the folder."""
    tick_milliseconds: int = Field(default=25, ge=0, le=1000)
    """Replies to questions go out on multiples of this time."""
    token_days: int = Field(default=90, ge=1, le=3650)
    session_hours: int = Field(default=8, ge=1, le=720)
    tables: dict[str, TableSettings]
    people: dict[str, PersonSettings] = Field(default_factory=dict)
    proxy: ProxySettings | None = None


@dataclass(frozen=True, slots=True)
class Config:
    """Settings with the folder that their paths are relative to."""

    settings: Settings
    folder: Path
    path: Path | None = None
    is_demo: bool = field(default=False)

    def place(self, text: str) -> Path:
        """A path of the file, relative to the file."""
        path = Path(text).expanduser()
        return path if path.is_absolute() else self.folder / path

    @property
    def state(self) -> Path:
        return self.place(self.settings.state)

    def ledger(self, name: str) -> str:
        """Where the ledger of a table is."""
        table = self.settings.tables[name]
        if table.ledger is None:
            source = self.place(table.source)
            return str(source.with_name(f"{source.stem}.ledger"))
        return table.ledger if "://" in table.ledger else str(self.place(table.ledger))

    def source(self, name: str) -> str:
        """Where the records of a table are: a path or an address."""
        source = self.settings.tables[name].source
        return source if "://" in source else str(self.place(source))

    def reading(self, name: str) -> dict[str, Any]:
        """How those records are read: arguments of whatever opens them."""
        table = self.settings.tables[name]
        return {"table": table.table, "delimiter": table.delimiter, "encoding": table.encoding}

    def domain(self, name: str) -> Path:
        return self.place(self.settings.tables[name].domain)

    def proposal(self, name: str) -> Path:
        """Where a domain that was found privately waits for the steward."""
        return self.table_folder(name) / "proposals" / f"{name}.domain.json"

    def table_folder(self, name: str) -> Path:
        """Where the log and the releases of a table are."""
        folder = self.settings.tables[name].folder
        return self.state if folder is None else self.place(folder)

    def listening(self, options: Mapping[str, Any]) -> Config:
        """The same with what the command line says: another address, further names and proxies."""
        settings = self.settings.model_dump()
        further = {
            name: [*settings[name], *value] for name, value in options.items() if isinstance(value, list)
        }
        return replace(self, settings=parse(settings | dict(options) | further, COMMAND_LINE))

    @property
    def is_secure(self) -> bool:
        return self.settings.behind_tls

    @property
    def proxies(self) -> list[str]:
        """Addresses that are believed when they say where a browser is."""
        named = self.settings.proxy.addresses if self.settings.proxy else ()
        return [*map(str, self.settings.trusted_proxies), *named]


def load(path: Path, *, is_demo: bool = False) -> Config:
    """Read and check a configuration; every problem is said at once, by its place."""
    try:
        data = tomllib.loads(_check.read_text(path, encoding="utf-8"))
    except OSError as error:
        raise ParameterError(f"cannot read the configuration {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ParameterError(f"the configuration {path} is not UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        raise ParameterError(f"the configuration {path} is not TOML: {error}") from None
    return Config(parse(data, str(path)), path.resolve().parent, path.resolve(), is_demo)


def listening(options: Mapping[str, Any]) -> ListenSettings:
    """Where a site over releases listens, by the command line alone."""
    return _checked(ListenSettings, options, COMMAND_LINE)


def parse(data: Mapping[str, Any], place: str) -> Settings:
    """The settings, if every one of them is right."""
    settings = _checked(Settings, data, place)
    problems = list(_problems(settings))
    if problems:
        raise ParameterError(f"{place}: {'; '.join(problems)}")
    return settings


def _checked(kind: type[_Kind], data: Mapping[str, Any], place: str) -> _Kind:
    """Settings of a kind, if each of them by itself is right."""
    try:
        return kind.model_validate(dict(data))
    except ValidationError as error:
        lines = [
            f"{'.'.join(str(part) for part in one['loc'])}: {_what_is_wrong(one)}"
            for one in error.errors()[:10]
        ]
        raise ParameterError(f"{place}: {'; '.join(lines)}") from None


def _what_is_wrong(one: Any) -> str:
    """One problem in plain words, with the setting that was probably meant."""
    if one["type"] == "missing":
        return "this setting is missing"
    if one["type"] != "extra_forbidden":
        got = f", got {one['input']}" if isinstance(one["input"], (int, float)) else ""
        return str(one["msg"]).replace("Input should be", "expected") + got
    places: dict[str, type[BaseModel]] = {
        "tables": TableSettings,
        "people": PersonSettings,
        "proxy": ProxySettings,
    }
    parts = [part for part in one["loc"] if isinstance(part, str)]
    kind = (
        Settings if len(parts) == 1 else ShareSettings if len(parts) > 3 else places.get(parts[0], Settings)
    )
    near = difflib.get_close_matches(parts[-1], kind.model_fields, n=1)
    return "there is no such setting" + (f"; did you mean '{near[0]}'?" if near else "")


def _problems(settings: Settings) -> list[str]:
    """What is wrong between the parts."""
    import re

    problems: list[str] = []
    if not settings.tables:
        problems.append("tables: expected at least one, such as [tables.people]")
    for kind, names in (("tables", settings.tables), ("people", settings.people)):
        problems += [
            f"{kind}.{name}: expected a name of a-z, 0-9, - and _, at most 40 characters"
            for name in names
            if not re.fullmatch(NAME, name)
        ]
    problems += [
        f'tables.{name}.discovery: it needs accounting = "zcdp" and a ledger in a file'
        for name, table in settings.tables.items()
        if table.discovery and (table.accounting != "zcdp" or "://" in (table.ledger or ""))
    ]
    for name, person in settings.people.items():
        for table, share in person.tables.items():
            if table not in settings.tables:
                problems.append(f"people.{name}.tables.{table}: there is no table of this name")
            elif share.epsilon > settings.tables[table].epsilon:
                problems.append(
                    f"people.{name}.tables.{table}.epsilon: {share.epsilon:g} is more than the table's total, "
                    f"{settings.tables[table].epsilon:g}"
                )
    ledgers = [table.ledger for table in settings.tables.values() if table.ledger is not None]
    if len(set(ledgers)) < len(ledgers):
        problems.append("tables: each needs a ledger of its own")
    return problems


# The service over a made-up table, in one command: a folder with the table, its domain, and a
# configuration.


DEMO = """\
title = "maquette, a demonstration"
state = "state"

[tables.people]
source = "people.csv"
domain = "people.domain.json"
epsilon = 4.0
delta = 1e-9
about = "A made-up census of 20,000 people. Its rows describe no real people."

[people.stella]
role = "steward"

[people.anna]
role = "analyst"
[people.anna.tables.people]
epsilon = 1.0
questions = 100
alpha = 0.015

[people.bert]
role = "analyst"
[people.bert.tables.people]
epsilon = 0.5
questions = 100
alpha = 0.03
"""


def prepare_demo(folder: Path) -> Config:
    """Everything that the demonstration needs; what is there from before goes on."""
    from maquette import demo

    if not (folder / "people.csv").exists():
        demo.write(folder)
    path = folder / "serve.toml"
    if not path.exists():
        path.write_text(DEMO, encoding="utf-8")
    return load(path, is_demo=True)

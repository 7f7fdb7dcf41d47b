"""Options of commands: views of the fields of requests, and what commands have besides, with one wording."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import typer

from maquette.cli.console import complain
from maquette.core import _check
from maquette.errors import ParameterError
from maquette.progress import Progress
from maquette.requests import Field, Protected, TableFormat, WorkloadWords, field_of, hints_of

if TYPE_CHECKING:
    from maquette.domain import Domain
    from maquette.owner import Table, Tables
    from maquette.queries import Queries
    from maquette.schema import Schema

DomainFile = Annotated[
    Path, typer.Option("--domain", "-d", help="The domain file: the declared public schema.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")]
Memory = Annotated[
    int | None,
    typer.Option(
        metavar="MB",
        min=0,
        help="Memory for coded rows, counted tables and a release. Rows that need more than half are read again for "
        "every question; a release that cannot keep to it is refused. Default: a quarter of what is free, for rows.",
    ),
]
Source = Annotated[
    str,
    typer.Argument(
        metavar="TABLE", help="The private table: CSV, Parquet, Arrow, DuckDB, postgresql://..., spark:..."
    ),
]


@dataclass(frozen=True, kw_only=True)
class TableFile:
    """The private table, and what is declared of it."""

    source: Source
    domain: DomainFile


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """What is declared of one table, or of several that belong together."""

    domain: Annotated[
        Path | None, typer.Option("--domain", "-d", help="The domain file: the declared public schema.")
    ] = None
    schema: Annotated[
        Path | None,
        typer.Option("--schema", help="The schema file of several tables, instead of a domain file."),
    ] = None

    def declared(self) -> Domain | Schema:
        """What is declared of the one, or of the several."""
        from maquette.domain import Domain
        from maquette.schema import Schema

        if self.domain is not None and self.schema is None:
            return Domain.load(self.domain)
        if self.schema is None or self.domain is not None:
            raise ParameterError(
                "give --domain FILE for one table, or --schema FILE for several that belong together"
            )
        return Schema.load(self.schema)


@dataclass(frozen=True, kw_only=True)
class TableFiles(Declaration):
    """The private table and what is declared of it, or several that belong together."""

    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="TABLE...",
            help="The private table: CSV, Parquet, Arrow, DuckDB, postgresql://..., spark:... With --schema NAME=TABLE "
            "for each table, or one database that holds them all.",
        ),
    ]

    @property
    def source(self) -> str:
        """The one table, or the one database."""
        if len(self.sources) != 1:
            raise ParameterError(
                f"expected one table, got {len(self.sources)}; several need --schema FILE, and NAME=TABLE for each"
            )
        return self.sources[0]

    def of(self, schema: Schema) -> str | dict[str, str]:
        """The source of each of several tables, or the one database."""
        pairs = [text.partition("=") for text in self.sources]
        if len(pairs) == 1 and pairs[0][0] not in schema.names:
            return self.source
        sources = {name: place for name, _, place in pairs if place}
        if len(sources) != len(pairs) or set(sources) != set(schema.names):
            raise ParameterError(
                f"expected NAME=TABLE once for each of the tables {', '.join(schema.names)}, or one database"
            )
        return sources


@dataclass(frozen=True, kw_only=True)
class TableReading(TableFormat, Protected):
    """How the private table is read, and whose rows are in it."""

    memory: Memory = None

    def open(self, source: str, declared: Domain, tell: Progress) -> Table:
        """The table behind its barrier, with progress while it is read."""
        return self._open(source, domain=declared, tell=tell)

    def open_all(self, sources: str | dict[str, str], declared: Schema, tell: Progress) -> Tables:
        """Several tables behind one barrier; what is said of one table is refused."""
        return self._open(sources, schema=declared, tell=tell)

    def _open(self, source: Any, *, tell: Progress, **declared: Any) -> Any:
        from maquette import owner as handle

        values = asdict(self)
        memory = values.pop("memory")
        return handle.open(
            source,
            **declared,
            **values,
            memory_limit=None if memory is None else memory * 10**6,
            progress=lambda share: tell("reading the table", share),
        )


@dataclass(frozen=True, kw_only=True)
class Shown:
    """How a result is printed."""

    as_json: AsJson = False
    quiet: Quiet = False


def read_workload(words: WorkloadWords, domain: Domain) -> Queries:
    """The union of everything that was asked for on the command line."""
    from maquette import queries as q
    from maquette.queries.forms import read_words

    queries = read_words(domain, words)
    for said in dict.fromkeys(said for text in words.where for said in q.where(domain, text).cuts):
        complain(f"note: {said}; it is asked as two queries, one for each side")
    return queries


def order_of(words: WorkloadWords) -> int:
    """The k of all k-way marginals, which is what several tables are asked for in words."""
    others = [one.name for one in fields(words) if one.name != "marginals" and getattr(words, one.name)]
    if len(words.marginals) != 1 or others:
        raise ParameterError(
            "several tables take --marginals K once, which asks for all K-way marginals of each and across them; "
            "maquette.release takes other queries for each"
        )
    return words.marginals[0]


def file_name(source: str, table: str | None) -> str:
    """A name for files about a table: its path, or the name of the table where an address may hold a password."""
    if "://" not in source and not source.startswith("spark:"):
        return source
    is_path = source.startswith("spark:") and not source.startswith("spark://")
    return re.sub(r"[^\w.-]+", "-", table or (Path(source[6:]).stem if is_path else "") or "query")


# Texts of which a value is made, by the name of the field.


def _durable(place: str) -> str:
    if place == "memory":
        raise ParameterError(
            "a ledger in memory would end with this command, and the next one would start a second budget for the same "
            "people; give --ledger a file, such as people.ledger (./memory for a file of this name)"
        )
    return place


def _accounting(name: str) -> str:
    _check.one_of(("gaussian", "zcdp"), accounting=name)
    return name


def _certificate(text: str) -> float | list[str]:
    """A share of the budget, or the words for what is certified."""
    try:
        return float(text)
    except ValueError:
        return [word.strip() for word in text.split(",")]


def _rows(text: str) -> int | Literal["small"]:
    """A whole number, or the word."""
    if text == "small":
        return text
    if not text.isdecimal() or int(text) < 1:
        raise ParameterError(f"expected rows to be a whole number >= 1, or small, got rows={text}")
    return int(text)


_READ: dict[str, Callable[[str], Any]] = {
    "accounting": _accounting,
    "certificate": _certificate,
    "ledger": _durable,
    "relation": str,
    "rows": _rows,
}


# Commands for Typer.


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """A command for Typer: a parameter that is a group of options, such as a request, stands for all of them."""
    hints = hints_of(command)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    parameters: list[inspect.Parameter] = []
    for name, one in inspect.signature(command).parameters.items():
        parameters += (
            _options_of(groups[name]) if name in groups else [_option(name, hints[name], one.default)]
        )

    @wraps(command)
    def run(**values: Any) -> None:
        arguments = {name: _value(name, value) for name, value in values.items()}
        members = {name: _group(kind, arguments) for name, kind in groups.items()}
        command(**arguments, **members)

    run.__dict__["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {}  # they are in the signature, evaluated; Typer would evaluate them once more
    return run


def _group(kind: Any, arguments: dict[str, Any]) -> Any:
    """A group of what was typed; what was not has its default. Typer says None for a list that nobody named."""
    typed = {one.name: arguments.pop(one.name) for one in fields(kind) if one.name in arguments}
    return kind(**{name: value for name, value in typed.items() if value is not None})


def _options_of(group: Any) -> list[inspect.Parameter]:
    kinds = hints_of(group)
    return [
        _option(one.name, kinds[one.name], one.default)
        for one in fields(group)
        if hasattr(kinds[one.name], "__metadata__")
    ]


def _option(name: str, annotated: Any, default: Any) -> inspect.Parameter:
    """One option, argument or field of a request as Typer takes it."""
    field = field_of(name, annotated, default)
    if field is not None:
        option = typer.Option(*field.help.flags, help=field.help.text, metavar=field.help.metavar)
        annotated, default = Annotated[_typed(field), option], _default(field)
    missing = default is MISSING or default is inspect.Parameter.empty
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        annotation=annotated,
        default=inspect.Parameter.empty if missing else default,
    )


def _typed(field: Field) -> Any:
    """The type as it is typed in a shell: lists for repeated options, texts for what is made of a text."""
    if get_origin(field.kind) is tuple:
        return list[get_args(field.kind)[0]] | None
    if field.name not in _READ:
        return field.kind
    parts = get_args(field.kind) if get_origin(field.kind) in (Union, UnionType) else ()
    return str | None if type(None) in parts else str


def _default(field: Field) -> Any:
    if get_origin(field.kind) is tuple:
        return None
    return str(field.default) if isinstance(field.default, str) else field.default


def _value(name: str, value: Any) -> Any:
    """What was typed, as the request takes it."""
    if isinstance(value, list):
        return tuple(value)
    return _READ[name](value) if name in _READ and isinstance(value, str) else value

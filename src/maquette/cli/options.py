"""Options that several commands share, with one wording, alone and in groups."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from maquette.cli.console import complain
from maquette.errors import ParameterError, WorkloadError
from maquette.progress import Progress

if TYPE_CHECKING:
    from maquette.domain import Domain
    from maquette.owner import Table
    from maquette.queries import Queries


DomainFile = Annotated[
    Path, typer.Option("--domain", "-d", help="The domain file: the declared public schema.")
]
Epsilon = Annotated[float, typer.Option(help="Privacy budget. Without a delta, pure differential privacy.")]
Delta = Annotated[
    float, typer.Option(help="Makes the budget (epsilon, delta), counted by Gaussian DP or zCDP.")
]
Beta = Annotated[float, typer.Option(help="Probability that a stated error is exceeded.")]
RelationName = Annotated[
    str, typer.Option("--relation", help="Neighbours: add-remove (n private) or replace-one (n public).")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")]
Delimiter = Annotated[str, typer.Option(help="Field separator of a CSV file.")]
Encoding = Annotated[str, typer.Option(help="Encoding of a CSV file, such as latin-1.")]
Memory = Annotated[
    int | None,
    typer.Option(
        metavar="MB",
        min=0,
        help="Memory for coded rows, counted tables and a release. Rows that need more than half are read again for "
        "every question; a release that cannot keep to it is refused. Default: a quarter of what is free, for rows.",
    ),
]
TableName = Annotated[str | None, typer.Option("--table", help="The table inside a database.")]
TableQuery = Annotated[
    str | None, typer.Option("--query", help="An SQL query on the database, instead of a table.")
]

PersonColumn = Annotated[
    str | None,
    typer.Option(
        "--person",
        metavar="COLUMN",
        help="The column that says whose row it is, to protect people with several rows.",
    ),
]
RowsPerPerson = Annotated[
    int | None,
    typer.Option("--rows-per-person", metavar="K", help="How many rows of each person count, with --person."),
]

WeightName = Annotated[
    str | None,
    typer.Option("--weight", metavar="ATTR", help="Weigh the records by this attribute (mechanism roth)."),
]

MarginalOrders = Annotated[
    list[int] | None, typer.Option("--marginals", metavar="K", help="All K-way marginals; may be repeated.")
]
PrefixNames = Annotated[
    list[str] | None, typer.Option("--prefixes", metavar="ATTR", help="Cumulative counts of an attribute.")
]
RangeNames = Annotated[
    list[str] | None,
    typer.Option("--ranges", metavar="A[,B]", help="All intervals of an attribute, or boxes of several."),
]
Predicates = Annotated[
    list[str] | None, typer.Option("--where", metavar="SQL", help='One predicate, such as "age >= 60".')
]
ClassWords = Annotated[
    list[str] | None,
    typer.Option(
        "--class",
        metavar="WORD",
        help="A class in words: points:age,sex; conjunctions:3; parities:a,b; halfspaces:age + 2*hours >= 60.",
    ),
]
WorkloadFile = Annotated[Path | None, typer.Option("--workload", help="A workload file (JSON).")]


@dataclass(frozen=True)
class Workload:
    """The queries of a command."""

    marginals: MarginalOrders = None
    prefixes: PrefixNames = None
    ranges: RangeNames = None
    where: Predicates = None
    classes: ClassWords = None
    workload: WorkloadFile = None

    def read(self, domain: Domain) -> Queries:
        """The union of everything that was asked for on the command line."""
        from maquette import queries as q

        parts: list[Queries] = []
        orders = self.marginals or []
        if any(order < 1 for order in orders):
            raise WorkloadError("expected --marginals 1 or more: a marginal has at least one attribute")
        if orders:
            parts.append(q.marginals(domain, orders[0] if len(orders) == 1 else orders))
        parts += [q.prefixes(domain, name) for name in self.prefixes or []]
        parts += [q.ranges(domain, *(n.strip() for n in names.split(","))) for names in self.ranges or []]
        if self.where:
            parts.append(q.exact_predicates(domain, self.where))
            for said in dict.fromkeys(said for text in self.where for said in q.where(domain, text).cuts):
                complain(f"note: {said}; it is asked as two queries, one for each side")
        parts += [q.parse_workload(domain, [word]) for word in self.classes or []]
        if self.workload is not None:
            parts.append(q.load(domain, self.workload))
        if not parts:
            raise WorkloadError(
                "there are no queries; give at least one of --marginals K, --prefixes ATTR, --ranges A[,B], "
                '--where "...", --class WORD, --workload FILE'
            )
        return parts[0] if len(parts) == 1 else q.union(*parts)


# How commands open the private table and choose its ledger: options with one wording, one call.

Source = Annotated[
    str,
    typer.Argument(
        metavar="TABLE", help="The private table: CSV, Parquet, Arrow, DuckDB, postgresql://..., spark:..."
    ),
]


def _durable(place: str | None) -> str | None:
    if place == "memory":
        raise ParameterError(
            "a ledger in memory would end with this command, and the next one would start a second budget for the same "
            "people; give --ledger a file, such as people.ledger (./memory for a file of this name)"
        )
    return place


LedgerPlace = Annotated[
    str | None,
    typer.Option(
        help="Path or URL of the ledger, created at first use. Default: beside the table.", callback=_durable
    ),
]
TotalEpsilon = Annotated[
    float | None, typer.Option(help="Total of a new ledger. Default: the epsilon of this command.")
]
TotalDelta = Annotated[
    float | None, typer.Option(help="Total of a new ledger. Default: the delta of this command.")
]
Accounting = Annotated[
    str | None,
    typer.Option(
        help="How a new ledger counts a delta: gaussian or zcdp. Default: the better one for the mechanism."
    ),
]


def file_name(source: str, table: str | None) -> str:
    """A name for files about a table: its path, or the name of the table where an address may hold a password."""
    if "://" not in source and not source.startswith("spark:"):
        return source
    is_path = source.startswith("spark:") and not source.startswith("spark://")
    return re.sub(r"[^\w.-]+", "-", table or (Path(source[6:]).stem if is_path else "") or "query")


@dataclass(frozen=True)
class Place:
    """How a table is read, and which one inside a database."""

    delimiter: Delimiter = ","
    encoding: Encoding = "utf-8"
    table: TableName = None
    query: TableQuery = None

    def open(
        self, source: str, declared: Domain, tell: Progress, *, memory: int | None = None, **persons: Any
    ) -> Table:
        """The table behind its barrier, with progress while it is read; `persons` says whose rows they are."""
        from maquette import owner as handle

        return handle.open(
            source,
            domain=declared,
            **asdict(self),
            **persons,
            memory_limit=None if memory is None else memory * 10**6,
            progress=lambda share: tell("reading the table", share),
        )


@dataclass(frozen=True)
class Privacy:
    """What an answer may cost, and what is said of its error."""

    epsilon: Epsilon
    delta: Delta = 0.0
    beta: Beta = 0.05
    relation: RelationName = "add-remove"


@dataclass(frozen=True)
class Payer:
    """The ledger that pays, and the totals of a new one."""

    ledger: LedgerPlace = None
    total_epsilon: TotalEpsilon = None
    total_delta: TotalDelta = None


@dataclass(frozen=True)
class Persons:
    """Who is protected, where a person may have several rows."""

    person: PersonColumn = None
    rows_per_person: RowsPerPerson = None


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """A command for Typer: a parameter that is a group of options stands for all of them, in its place."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    parameters: list[inspect.Parameter] = []
    for name, one in inspect.signature(command).parameters.items():
        parameters += _options_of(groups[name]) if name in groups else [one.replace(annotation=hints[name])]

    @wraps(command)
    def run(**values: Any) -> None:
        members = {
            name: kind(**{one.name: values.pop(one.name) for one in fields(kind)})
            for name, kind in groups.items()
        }
        command(**values, **members)

    run.__dict__["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {}  # they are in the signature, evaluated; Typer would evaluate them once more
    return run


@cache
def _options_of(group: Any) -> list[inspect.Parameter]:
    kinds = get_type_hints(group, include_extras=True)
    return [
        one.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=kinds[name])
        for name, one in inspect.signature(group).parameters.items()
    ]

"""Options that several commands share, with one wording."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from maquette.cli.console import Progress, complain
from maquette.errors import ParameterError, WorkloadError

if TYPE_CHECKING:
    from maquette.domain import Domain
    from maquette.gate.handle import Table
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
TableQuery = Annotated[str | None, typer.Option("--query", help="A query on a database, instead of a table.")]

PersonColumn = Annotated[
    str | None,
    typer.Option("--person", metavar="COLUMN", help="Whose row it is: protects persons with several rows."),
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


def read_workload(
    domain: Domain,
    *,
    marginals: list[int] | None,
    prefixes: list[str] | None,
    ranges: list[str] | None,
    where: list[str] | None,
    workload: Path | None,
    classes: list[str] | None = None,
) -> Queries:
    """The union of everything that was asked for on the command line."""
    from maquette import queries as q

    parts: list[Queries] = []
    if any(order < 1 for order in marginals or []):
        raise WorkloadError("expected --marginals 1 or more: a marginal has at least one attribute")
    if marginals:
        parts.append(q.marginals(domain, marginals[0] if len(marginals) == 1 else marginals))
    parts += [q.prefixes(domain, name) for name in prefixes or []]
    parts += [q.ranges(domain, *(n.strip() for n in names.split(","))) for names in ranges or []]
    if where:
        parts.append(q.exact_predicates(domain, where))
        for said in dict.fromkeys(said for text in where for said in q.where(domain, text).cuts):
            complain(f"note: {said}; it is asked as two queries, one for each side")
    parts += [q.parse_workload(domain, [word]) for word in classes or []]
    if workload is not None:
        parts.append(q.load(domain, workload))
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


def open_table(
    source: str,
    declared: Domain,
    *,
    delimiter: str,
    encoding: str,
    table: str | None,
    query: str | None,
    tell: Progress,
    person: str | None = None,
    rows_per_person: int | None = None,
    memory: int | None = None,
) -> Table:
    """The table behind its barrier, with progress while it is read."""
    from maquette.gate import handle

    return handle.open(
        source,
        domain=declared,
        delimiter=delimiter,
        encoding=encoding,
        table=table,
        query=query,
        person=person,
        rows_per_person=rows_per_person,
        memory_limit=None if memory is None else memory * 10**6,
        progress=lambda share: tell("reading the table", share),
    )

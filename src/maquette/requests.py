"""What an action is asked for: frozen values, whose fields say what a person reads about them.

A field has a type, a default, bounds and a `Help`. Options of commands, the schema of the service and the table in the
documentation are views of these (`fields_of`). A value is checked when it is made, before any data is opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_args, get_type_hints

from annotated_types import Ge, Gt, Le, Lt, MaxLen

from maquette.core.budget import Accounting, Budget
from maquette.core.neighbours import Persons, Relation

if TYPE_CHECKING:
    from maquette.core.ledger.ledger import Ledger
    from maquette.mechanisms.base import Mechanism

TYPICAL_ROWS = 100_000
"""The number of records that is planned for where nobody has made a guess."""
MAX_PARTS = 64
"""Of each kind in the words of a workload."""


@dataclass(frozen=True, slots=True)
class Help:
    """What a person reads beside a field."""

    text: str
    metavar: str | None = None
    flags: tuple[str, ...] = ()
    """On the command line, where it is not the field's own name."""

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        return handler(core) | {"description": self.text}


class Field(NamedTuple):
    """One field of a request, as its views show it."""

    name: str
    type: Any
    """With its bounds and help, as it is annotated."""
    kind: Any
    """The plain type."""
    help: Help
    default: Any
    """`MISSING` where it has to be given."""

    @property
    def is_required(self) -> bool:
        """Has it to be given?"""
        return self.default is MISSING


def field_of(name: str, annotated: Any, default: Any) -> Field | None:
    """A field by its annotation; None where that has no help: such a field is not for people."""
    parts = get_args(annotated)
    words = next((part for part in parts[1:] if isinstance(part, Help)), None)
    return None if words is None else Field(name, annotated, parts[0], words, default)


@cache
def fields_of(request: Any) -> tuple[Field, ...]:
    """The fields of a request that people give, in order."""
    hints = hints_of(request)
    named = (field_of(one.name, hints[one.name], one.default) for one in fields(request))
    return tuple(field for field in named if field is not None)


def hints_of(holder: Any) -> dict[str, Any]:
    """The types of a class or function; people name what this module knows for type checkers alone."""
    return get_type_hints(holder, localns={"Ledger": str, "Mechanism": str}, include_extras=True)


# Fields that several requests and commands have.

Epsilon = Annotated[
    float, Gt(0), Le(100), Help("Privacy budget. Without a delta, pure differential privacy.")
]
Delta = Annotated[
    float, Ge(0), Lt(1), Help("Makes the budget (epsilon, delta), counted by Gaussian DP or zCDP.")
]
RelationWord = Annotated[
    Relation | str,
    Help("Neighbours: add-remove (n private) or replace-one (n public).", flags=("--relation",)),
]
Beta = Annotated[float, Gt(0), Lt(1), Help("Probability that a stated error is exceeded.")]
WeightName = Annotated[
    str | None, Help("Weigh the records by this attribute (mechanism roth).", "ATTR", ("--weight",))
]
TotalEpsilon = Annotated[float | None, Help("Total of a new ledger. Default: the epsilon of this command.")]
Delimiter = Annotated[str, Help("Field separator of a CSV file.")]
TextEncoding = Annotated[str, Help("Encoding of a CSV file, such as latin-1.")]
TableQuery = Annotated[
    str | None, Help("An SQL query on the database, instead of a table.", flags=("--query",))
]


# What the parts of a request are.


@dataclass(frozen=True, kw_only=True)
class Privacy:
    """What may be learnt about a person, and who are neighbours."""

    epsilon: Epsilon
    delta: Delta = 0.0
    relation: RelationWord = Relation.ADD_REMOVE

    @property
    def between(self) -> Relation:
        """The relation by its word or as itself."""
        return Relation.named(self.relation)

    def budget_in(self, accounting: Accounting = "zcdp", *, thresholds: bool = False) -> Budget:
        """The whole of it, as a ledger that counts in this way pays for it."""
        return Budget(self.epsilon, self.delta, accounting, thresholds=thresholds)


@dataclass(frozen=True, kw_only=True)
class AnswerTerms(Privacy):
    """What an answer may cost, and what is said of its error."""

    beta: Beta = 0.05


@dataclass(frozen=True, kw_only=True)
class Totals:
    """The totals of a ledger that is made, and the name of this run in it."""

    total_epsilon: TotalEpsilon = None
    total_delta: Annotated[
        float | None, Help("Total of a new ledger. Default: the delta of this command.")
    ] = None
    key: Annotated[
        str | None, Help("A name for this run. The same key costs nothing again, a new key pays again.")
    ] = None

    def total(self, budget: Budget) -> Budget:
        """Of a ledger that is made: what is named of it, and the budget of this run where nothing is."""
        return replace(
            budget,
            epsilon=budget.epsilon if self.total_epsilon is None else self.total_epsilon,
            delta=budget.delta if self.total_delta is None else self.total_delta,
        )


@dataclass(frozen=True, kw_only=True)
class Payer(Totals):
    """The ledger that pays, and what is named of it."""

    ledger: Annotated[
        Ledger | str | Path | None,
        Help("Path or URL of the ledger, created at first use. Default: beside the table."),
    ] = None
    """A ledger, where one is or will be, "memory", or None for the one beside the table's file."""

    @property
    def place(self) -> str | None:
        """Where the ledger is, in words; None for one that is given, and for the one beside the table's file."""
        return str(self.ledger) if isinstance(self.ledger, (str, Path)) else None


@dataclass(frozen=True, kw_only=True)
class Protected:
    """Whose privacy it is, where a person may have several rows."""

    person: Annotated[
        str | None,
        Help("The column that says whose row it is, to protect people with several rows.", "COLUMN"),
    ] = None
    rows_per_person: Annotated[
        int | None, Help("How many rows of each person count, with --person.", "K")
    ] = None

    @property
    def persons(self) -> Persons | None:
        """Both, or nobody who has more than one row."""
        return Persons.named(self.person, self.rows_per_person)


@dataclass(frozen=True, kw_only=True)
class TableFormat:
    """How a table is read, and which one inside a database."""

    delimiter: Delimiter = ","
    encoding: TextEncoding = "utf-8"
    table: Annotated[str | None, Help("The table inside a database.")] = None
    query: TableQuery = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadWords:
    """The queries of an action, in words."""

    marginals: Annotated[tuple[int, ...], MaxLen(8), Help("All K-way marginals; may be repeated.", "K")] = ()
    prefixes: Annotated[
        tuple[str, ...], MaxLen(MAX_PARTS), Help("Cumulative counts of an attribute.", "ATTR")
    ] = ()
    ranges: Annotated[
        tuple[str, ...],
        MaxLen(MAX_PARTS),
        Help("All intervals of an attribute, or boxes of several.", "A[,B]"),
    ] = ()
    where: Annotated[
        tuple[str, ...], MaxLen(MAX_PARTS), Help('One predicate, such as "age >= 60".', "SQL")
    ] = ()
    classes: Annotated[
        tuple[str, ...],
        MaxLen(MAX_PARTS),
        Help(
            "A class in words: points:age,sex; conjunctions:3; parities:a,b; halfspaces:age,hours.",
            "WORD",
            ("--class",),
        ),
    ] = ()
    workload: Annotated[Path | None, Help("A workload file (JSON).")] = None


@dataclass(frozen=True, kw_only=True)
class ReleaseRequest(AnswerTerms):
    """Answer every query of a workload, with rows where they can be made."""

    mechanism: Annotated[str | Mechanism, MaxLen(40), Help("A mechanism by name, or auto.")] = "auto"
    weight: WeightName = None
    accounting: Annotated[
        Accounting | None,
        Help("How a new ledger counts a delta: gaussian or zcdp. Default: the better one for the mechanism."),
    ] = None
    rows: Annotated[
        int | Literal["small"] | None,
        Help("Number of synthetic rows, or 'small'. Default: the mechanism chooses.", "M"),
    ] = None
    typical_rows: Annotated[
        int,
        Ge(1),
        Help("A public guess of the number of records, used to choose the mechanism and its shares."),
    ] = TYPICAL_ROWS
    post: Annotated[str, Help("Post-processing: auto, none, consistent, lp or l2.")] = "auto"
    certificate: Annotated[
        float | str | Sequence[str] | None,
        Help(
            "Share of the budget that measures the largest error; 0 for none. Or what to certify, with commas: "
            "'workload,any combination,two ranges'. Default: what is expected to state less than the guarantee."
        ),
    ] = None
    groups: Annotated[bool, Help("Certify every group of queries separately.", flags=("--groups",))] = False


@dataclass(frozen=True, kw_only=True)
class PlanRequest:
    """What mechanisms promise on about n records, or what a target error needs; from public numbers only."""

    n: Annotated[int | None, Help("Number of records of the table, a public figure.", flags=("--n",))] = None
    epsilon: Annotated[float | None, Help("Privacy budget. Without a delta, pure differential privacy.")] = (
        None
    )
    delta: Delta = 0.0
    beta: Beta = 0.05
    alpha: Annotated[
        float | None, Help("Target error: computes the --n or --epsilon it needs; give the other one.")
    ] = None
    relation: RelationWord = Relation.ADD_REMOVE
    weight: WeightName = None
    rows_per_person: Annotated[int, Ge(1), Help("Protect persons of whom at most K records count.", "K")] = 1


@dataclass(frozen=True, kw_only=True)
class SessionRequest(AnswerTerms):
    """Questions one at a time, chosen as one goes, for one budget."""

    alpha: Annotated[
        float | None,
        Help("The error that every answer may have; by default one that suits the budget."),
    ] = None
    mechanism: Annotated[
        str,
        Help(
            "direct, pmw or median; auto takes direct or pmw, whichever is expected to state smaller errors."
        ),
    ] = "auto"
    queries: Annotated[int, Ge(1), Help("How many new questions the session takes.")] = 10_000
    budget_for_all: Annotated[
        bool,
        Help(
            "Take the smallest error at which the budget lasts for all these questions.",
            flags=("--budget-for-all",),
        ),
    ] = False
    analyst: Annotated[
        str | None,
        Help("Who asks. Sessions of different names are separate; this is bookkeeping, not access control."),
    ] = None
    share: Annotated[float | None, Help("Share of the ledger's total that is reserved for the analyst.")] = (
        None
    )
    typical_rows: int = TYPICAL_ROWS
    update: str = "refit"
    measure_first: bool | None = None
    attributes: tuple[str, ...] | None = None

    @property
    def is_open(self) -> bool:
        """Does nothing that is asked for decide how questions are answered, but for the mechanism?"""
        return (
            self.alpha is None
            and self.update == "refit"
            and self.measure_first is None
            and not self.budget_for_all
        )

"""The owner's handle on a private table: it can be passed around, shown and named, but not looked into."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, cast, overload

from maquette import _html
from maquette.core._arguments import checks_arguments
from maquette.core.table import PrivateTable, commitment_of, engine_of, family_of
from maquette.domain import Domain, Persons
from maquette.errors import DomainError, ParameterError
from maquette.schema import Schema

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from maquette.accounting.ledger import Ledger
    from maquette.discovery.raw import RawTable
    from maquette.queries.base import Queries
    from maquette.vault.fit import FitReport
    from maquette.vault.header import SourceCheck
    from maquette.vault.readers import ReadOptions


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Table(PrivateTable):
    """A private table, opened. Shows its name, its attributes and |X|: things that are public anyway.

    There is no length, no iteration and no value to be had from it; ask through a release or a session.
    """

    _: KW_ONLY
    name: str
    """What the owner calls it."""
    source: str
    """Where it came from, in public words."""
    ledger_location: Path | None = None
    """Where its ledger is kept if no other place is named: beside the file; None where there is none."""
    memory_limit: int | None = None
    """Bytes that the rows and a release may take; None where nobody set a limit."""
    lists_records: bool = True
    """Are whole records to be had on this machine? By the kind of source."""

    @property
    def domain(self) -> Domain:
        """The declared universe."""
        return cast("Domain", self.universe)

    def for_another_ledger(self) -> Table:
        """A second handle on the same rows, which are not read again: for a second ledger, on purpose.

        A handle is paid for by the ledger that paid first, and refuses another. What two ledgers pay for the same
        people adds up: their promises hold each, and both together only with the sum of both budgets.
        """
        family = None if self._family is None else replace(self._family, payers=[])
        return replace(self, _family=family)

    def __repr__(self) -> str:
        return f"Table('{self.name}', {self.domain!r})"

    def _repr_html_(self) -> str:
        rows = ((a.name, str(a.kind), f"{a.size:,}") for a in self.domain)
        head = f"(private), ln |X| = {self.domain.log_size:.1f}"
        return _html.table(self.name, ("attribute", "kind", "cells"), rows, head=head)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tables:
    """Several private tables that point to each other, opened, joined and bounded by units.

    `tables["person"]` is a private table as any other, of which each row has the columns of its ancestors; what is
    asked of one is paid for by the ledger of all, between neighbours that differ by a unit.
    """

    schema: Schema
    views: Mapping[str, Table]

    @property
    def root(self) -> Table:
        """The table whose rows are the units."""
        return self.views[self.schema.unit]

    def __getitem__(self, name: str) -> Table:
        self.schema[name]  # refuses an unknown name
        return self.views[name]

    def for_another_ledger(self) -> Tables:
        """Second handles on the same rows, for a second ledger; see `Table.for_another_ledger`."""
        members = family_of(self.root)
        assert members is not None
        again = replace(members, payers=[])
        return Tables(
            self.schema, {name: replace(table, _family=again) for name, table in self.views.items()}
        )

    def __repr__(self) -> str:
        return f"Tables({', '.join(self.schema.names)}; a unit is a row of '{self.schema.unit}')"


class OpenOptions(TypedDict, total=False):
    """How one table is opened, beside its domain."""

    name: str | None
    table: str | None
    query: str | None
    delimiter: str
    encoding: str
    person: str | None
    rows_per_person: int | None
    memory_limit: int | None
    allow_unreviewed: bool
    progress: Callable[[float], None] | None


@overload
def open(source: Any, domain: Domain, **options: Unpack[OpenOptions]) -> Table: ...  # noqa: A001


@overload
def open(  # noqa: A001
    source: Any,
    *,
    schema: Schema,
    name: str | None = None,
    delimiter: str = ",",
    encoding: str = "utf-8",
    allow_unreviewed: bool = False,
) -> Tables: ...


@checks_arguments
def open(  # noqa: A001  (the public word for it, used as mq.open)
    source: Any,
    domain: Domain | None = None,
    *,
    schema: Schema | None = None,
    name: str | None = None,
    table: str | None = None,
    query: str | None = None,
    delimiter: str = ",",
    encoding: str = "utf-8",
    person: str | None = None,
    rows_per_person: int | None = None,
    memory_limit: int | None = None,
    allow_unreviewed: bool = False,
    progress: Callable[[float], None] | None = None,
) -> Table | Tables:
    """Open a private table: a path or list of paths, an address of a database, a data frame, an open connection.

    The rows are coded by the declared domain, each on its own: nothing about the opening depends on another
    row, and nothing raises because of a value. `encoding` is that of a text file; one that is not in it is refused.
    `memory_limit` (bytes) is for the rows and a release of them, see `docs/sources.md`. Where a person may have several
    rows, `person` names the column that says whose row it is: everything then protects whole persons, and at most
    `rows_per_person` rows of each count (`docs/people.md`). With `schema` the source is a database, or a dictionary
    with a source for each table: several tables that point to each other (`docs/several-tables.md`).
    """
    declared = domain if schema is None else schema
    if declared is None or (domain is not None and schema is not None):
        raise ParameterError("expected the domain of one table (domain=) or the schema of several (schema=)")
    if not declared.reviewed and not allow_unreviewed:
        kind = "domain" if schema is None else "schema"
        raise DomainError(
            f"this {kind} is an unreviewed draft: its lists and bounds may come from the private rows; go through "
            f"its columns with maquette {kind} review, or check that each is public knowledge and set "
            f'"reviewed": true in the {kind} file'
        )
    from maquette.discovery.raw import raw_commitment
    from maquette.vault.readers import open_engine, public_name

    if domain is None:
        assert schema is not None
        if any(one is not None for one in (table, query, person, rows_per_person, memory_limit)):
            raise ParameterError(
                "table=, query=, person=, rows_per_person= and memory_limit= are for one table; a schema says which "
                "tables there are and how many rows of each count, and they are held in memory"
            )
        return _open_tables(source, schema, name=name, delimiter=delimiter, encoding=encoding)
    persons = Persons.named(person, rows_per_person)
    place: ReadOptions = {"table": table, "query": query, "delimiter": delimiter, "encoding": encoding}
    engine = open_engine(
        source, domain, persons=persons, memory_limit=memory_limit, progress=progress, **place
    )
    public = public_name(source, table)
    return Table(
        engine,
        name=public if name is None else name,
        source=public,
        ledger_location=ledger_beside(source),
        persons=persons,
        memory_limit=memory_limit,
        lists_records=engine.lists_records,
        _raw=partial(raw_commitment, source, **place),
    )


def _open_tables(source: Any, schema: Schema, *, name: str | None, **options: Any) -> Tables:
    from maquette.vault.readers import open_family, public_name

    is_each = isinstance(source, Mapping)
    if is_each and set(cast("Mapping[str, Any]", source)) != set(schema.names):
        raise ParameterError(f"expected a source for each of the tables {', '.join(schema.names)}")
    family = open_family(schema, source, **options)
    sources: dict[str, Any] = {one: source[one] if is_each else source for one in schema.names}
    publics = {one: public_name(of, None if is_each else one) for one, of in sources.items()}
    views = {
        one: Table(
            member.engine,
            name=one if name is None else f"{name}, {one}",
            source=publics[one],
            ledger_location=ledger_beside(sources[schema.unit]),
            persons=member.persons,
            _family=family,
            lists_records=member.engine.lists_records,
        )
        for one, member in family.members.items()
    }
    return Tables(schema, views)


@checks_arguments
def draft(
    source: Any,
    *,
    table: str | None = None,
    query: str | None = None,
    delimiter: str = ",",
    encoding: str = "utf-8",
    na_values: Sequence[str] = (),
) -> Domain:
    """A first domain, read off the private rows and marked as unreviewed: for the owner's eyes, not for release.

    Kinds, lists and bounds are guessed: from public knowledge where a column is of a usual kind, else from the rows.
    `domain.notes["columns"]` says which and what is risky about it. A person goes through the columns before a release:
    `maquette domain review`, or `maquette.domain.review`. `na_values` are texts that mean missing, besides the usual.
    """
    from maquette.vault.draft import draft_domain

    return draft_domain(
        source, table=table, query=query, delimiter=delimiter, encoding=encoding, na_values=na_values
    )


def ledger_beside(source: Any) -> Path | None:
    """Where the ledger of a table is kept if no other place is named; None for what is no single file."""
    from maquette.vault.readers import ledger_beside as place

    return place(source)


@checks_arguments
def fit_report(
    source: Any,
    domain: Domain,
    *,
    table: str | None = None,
    query: str | None = None,
    delimiter: str = ",",
    encoding: str = "utf-8",
) -> FitReport:
    """How many records no declared cell holds, per column. NOT PRIVATE, NOT FOR RELEASE: exact, unpaid, for the owner.

    Says for each column how many values are not declared or outside the bounds, how many are missing, and in which
    cell they are counted. A text file that is not in its encoding is refused with the place.
    """
    from maquette.vault import fit

    return fit.fit_report(source, domain, table=table, query=query, delimiter=delimiter, encoding=encoding)


def check_source(source: Any, **options: Unpack[ReadOptions]) -> SourceCheck:
    """What the place of a table shows without a look at its records, and what its reader could do besides reading."""
    from maquette.vault.readers import check_source

    return check_source(source, **options)


def raw_columns(source: Any, **options: Unpack[ReadOptions]) -> dict[str, bool]:
    """The header of a source, and which columns have a type that can be declared: public structure."""
    from maquette.discovery.raw import columns_of

    return columns_of(source, **options)


def open_columns(
    source: Any, columns: list[str], *, na_values: tuple[str, ...], persons: Persons | None, **options: Any
) -> RawTable:
    """The raw columns of a source, for a curator of discovery alone."""
    from maquette.discovery.raw import open_raw

    return open_raw(source, columns, na_values=na_values, persons=persons, **options)


def encode(domain: Domain, columns: Mapping[str, Sequence[str]]) -> dict[str, NDArray[Any]]:
    """Codes of texts that are nobody's secret, by the rules for private tables."""
    from maquette.core.rows.arrow import text_array
    from maquette.core.rows.coding import coders

    return {name: coder.code(text_array(columns[name])) for name, coder in coders(domain).items()}


# The one look at a private table that nobody pays for: exact answers, for the person who holds the table anyway.
# Whatever is computed from them is as private as the rows. They feed `maquette evaluate` and nothing else: no
# mechanism, no release and no ledger may ever see them, and nothing here writes a file.


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Truth:
    """Exact answers of a private table: whole numbers over `denominator`, and its number of records."""

    numerators: NDArray[np.int64]
    denominator: int
    records: int

    def __repr__(self) -> str:
        return f"Truth({len(self.numerators):,} private answers)"


def is_table_of(table: Table, ledger: Ledger) -> bool:
    """Does a ledger know this table as the one that it pays for? For the eyes of whoever holds both."""
    commitment = ledger.commitment
    same = table.ledger_identity == (ledger.domain_fingerprint, ledger.persons)
    return commitment is not None and same and commitment_of(table, ledger) == commitment


def exact_answers(table: Table, queries: Queries) -> Truth:
    """Exact answers, without noise and without payment.

    Guarantee: none. For the eyes of whoever holds the table.
    """
    if queries.domain.fingerprint != table.domain.fingerprint:
        raise ParameterError(
            "the release and the table have different domains; open the table with the release's own domain"
        )
    engine = engine_of(table)
    return Truth(engine.answer(queries.to_forms()), queries.denominator, engine.size())

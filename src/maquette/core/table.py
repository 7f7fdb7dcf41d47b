"""A handle on a private table: it can be passed around and named, but not looked into."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, NoReturn

from maquette.core.errors import LedgerError, ParameterError, SourceError
from maquette.core.ledger.ledger import Ledger
from maquette.core.neighbours import Persons
from maquette.core.universe import Universe

if TYPE_CHECKING:
    from maquette.core.rows.engine import Engine


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """One table of a family."""

    engine: Engine
    persons: Persons
    """The units, with as many records as one has in this table at most."""


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """Tables in which a unit has its rows. One ledger pays for all of them; neighbours differ by one unit."""

    fingerprint: str
    """Of the declaration of all of them: what the ledger knows as its domain."""
    units: Persons
    """Whom the ledger protects, with the most rows that a unit has in one of the tables."""
    members: Mapping[str, Member]
    payers: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """The ledger that first paid for one of the handles."""

    def commitment(self, salt: bytes) -> str:
        """What ties a ledger to all of the tables."""
        seals = "\n".join(one.engine.commitment(salt) for one in self.members.values())
        return (
            "tables:"
            + hmac.digest(salt, f"maquette tables\n{self.fingerprint}\n{seals}".encode(), "sha256").hex()
        )


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False, repr=False)
class PrivateTable:
    """A private table, opened. There is no length, no iteration and no value to be had from it."""

    _engine: Engine
    """For the gate alone."""
    _: KW_ONLY
    persons: Persons | None = None
    """Whose privacy is protected where one person has several records; None where everybody has one."""
    _family: Family | None = None
    """The tables that it belongs to, where a unit has rows in several."""
    _raw: Callable[[Sequence[str], bytes], str] | None = None
    """The commitment to raw columns, for a ledger that was made before the domain."""
    _payers: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]], init=False)
    """The ledger that first paid for this handle, by the head of its first entry and its name; no other one may."""

    def __post_init__(self) -> None:
        if self._family is not None and not any(
            one.engine is self._engine and one.persons == self.persons
            for one in self._family.members.values()
        ):
            raise ParameterError("expected a table of the family, with the rows that a unit has in it")

    @property
    def universe(self) -> Universe:
        """What a record can be: public."""
        return self._engine.domain

    @property
    def ledger_identity(self) -> tuple[str, Persons | None]:
        """What the ledger that pays for it was made for: a declaration, and whom it protects."""
        if self._family is None:
            return self.universe.fingerprint, self.persons
        return self._family.fingerprint, self._family.units

    def __reduce__(self) -> NoReturn:
        raise SourceError("a private table cannot be copied or pickled; open it again where it is needed")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.universe!r})"


def engine_of(table: PrivateTable) -> Engine:
    """What answers exactly: for the gate, and nobody else."""
    return table._engine  # pyright: ignore[reportPrivateUsage]  (the gate is whom the handle keeps it for)


def family_of(table: PrivateTable) -> Family | None:
    """The tables that it belongs to: for whoever opened them."""
    return table._family  # pyright: ignore[reportPrivateUsage]  (as above)


def commitment_of(table: PrivateTable, ledger: Ledger) -> str:
    """What ties a ledger to this table, in the form of the one that the ledger has."""
    family = family_of(table)
    if family is not None:
        return family.commitment(ledger.salt)
    return engine_of(table).commitment(ledger.salt, like=ledger.commitment)


def _payers_of(table: PrivateTable) -> list[tuple[str, str]]:
    family = family_of(table)
    if family is not None:
        return family.payers
    return table._payers  # pyright: ignore[reportPrivateUsage]  (the gate is whom the handle keeps it for)


def check_payer(table: PrivateTable, ledger: Ledger | None) -> None:
    """LedgerError where another ledger paid for this handle first; None stands for one that is not made yet."""
    payers = _payers_of(table)
    if not payers or (ledger is not None and ledger.opened == payers[0][0]):
        return
    other = "a new ledger" if ledger is None else f"ledger '{ledger.name}' ({ledger.location})"
    raise LedgerError(
        f"this opened table is paid for by ledger {payers[0][1]}, and {other} would be a second budget for the same "
        "people: nothing was paid or looked at. Give the ledger that paid first (ledger=, --ledger). Where a second "
        "budget is meant, take a handle of its own for it: table.for_another_ledger(), or open the table again"
    )


def remember_payer(table: PrivateTable, ledger: Ledger) -> None:
    """This ledger pays for this handle from now on; LedgerError where another one came first."""
    payers = _payers_of(table)
    if not payers:
        payers.append((ledger.opened, f"'{ledger.name}' ({ledger.location})"))
    check_payer(table, ledger)  # of two threads that come at once, one came first


def raw_commitment(table: PrivateTable, columns: Sequence[str], salt: bytes) -> str:
    """The commitment to the raw columns that a domain was found from; the table is read once more for it."""
    raw = table._raw  # pyright: ignore[reportPrivateUsage]  (as above)
    if raw is None:
        raise SourceError("this handle cannot show that its domain was found from its table; open it again")
    return raw(columns, salt)

"""A handle on a private table: it can be passed around and named, but not looked into."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, NoReturn

from maquette.core.errors import SourceError
from maquette.core.ledger.ledger import Ledger
from maquette.core.neighbours import Persons
from maquette.core.universe import Universe

if TYPE_CHECKING:
    from maquette.core.rows.engine import Engine


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False, repr=False)
class PrivateTable:
    """A private table, opened. There is no length, no iteration and no value to be had from it."""

    _engine: Engine
    """For the gate alone."""
    _: KW_ONLY
    persons: Persons | None = None
    """Whose privacy is protected where one person has several records; None where everybody has one."""
    _raw: Callable[[Sequence[str], bytes], str] | None = None
    """The commitment to raw columns, for a ledger that was made before the domain."""

    @property
    def universe(self) -> Universe:
        """What a record can be: public."""
        return self._engine.domain

    def __reduce__(self) -> NoReturn:
        raise SourceError("a private table cannot be copied or pickled; open it again where it is needed")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.universe!r})"


def engine_of(table: PrivateTable) -> Engine:
    """What answers exactly: for the gate, and nobody else."""
    return table._engine  # pyright: ignore[reportPrivateUsage]  (the gate is whom the handle keeps it for)


def commitment_of(table: PrivateTable, ledger: Ledger) -> str:
    """What ties a ledger to this table, in the form of the one that the ledger has."""
    return engine_of(table).commitment(ledger.salt, like=ledger.commitment)


def raw_commitment(table: PrivateTable, columns: Sequence[str], salt: bytes) -> str:
    """The commitment to the raw columns that a domain was found from; the table is read once more for it."""
    raw = table._raw  # pyright: ignore[reportPrivateUsage]  (as above)
    if raw is None:
        raise SourceError("this handle cannot show that its domain was found from its table; open it again")
    return raw(columns, salt)

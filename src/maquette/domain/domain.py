"""The declaration of a universe as its owner writes it: with its file, its remarks and what no record can be."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from maquette import _html
from maquette.core import _check
from maquette.core._arguments import checks_arguments
from maquette.core.universe import Universe
from maquette.domain import entries
from maquette.domain.constraint import Constraint, Rule, check_consistent, resolve
from maquette.errors import DomainError

_FILE_KEYS = ("attributes", "na_values", "reviewed", "constraints")
"""What a domain file says besides its notes."""
DRAFT, COLUMNS, LEFT_OUT = "draft", "columns", "left_out"
"""The notes of a draft: a warning, where the declaration of each column comes from, and why some have none."""


@dataclass(frozen=True)  # without slots, so that look-ups can be computed once and stored
class Domain(Universe):
    """The declared schema: attributes in order, the tokens that mean missing, and whether a person confirmed it."""

    reviewed: bool = True
    notes: dict[str, Any] = field(default_factory=dict[str, Any], compare=False, hash=False)
    """Everything else a domain file says (source, licence, remarks); never used in a computation."""
    constraints: tuple[Constraint, ...] = ()
    """What no record can be: `Never` and `Determines`. Released rows respect them; private records need not."""
    rules: tuple[Rule, ...] = field(default=(), init=False, repr=False, compare=False)
    """The constraints in codes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reviewed:
            object.__setattr__(self, "notes", _without_draft(self.notes))
        object.__setattr__(self, "constraints", tuple(self.constraints))
        if self.constraints:
            object.__setattr__(self, "rules", resolve(self.attributes, self.constraints))
            check_consistent(self.attributes, self.rules)

    @classmethod
    @checks_arguments
    def load(cls, path: str | Path) -> Domain:
        """Read a domain file (JSON)."""
        data = entries.read(Path(path))
        try:
            return cls.from_dict(data)
        except DomainError as error:
            raise DomainError(f"{path}: {error}") from None

    @classmethod
    @checks_arguments
    def from_dict(cls, data: dict[str, Any]) -> Domain:
        """A domain from the parsed form of its file."""
        return Domain(**entries.fields_of(data))

    def to_dict(self) -> dict[str, Any]:
        """The form that a domain file holds; defaults are left out, so that it means the same when it is read."""
        data: dict[str, Any] = {"attributes": [attribute.entry() for attribute in self.attributes]}
        if self.na_values:
            data["na_values"] = list(self.na_values)
        if not self.reviewed:
            data["reviewed"] = False
        if self.constraints:
            data["constraints"] = [constraint.spec() for constraint in self.constraints]
        return data | {key: note for key, note in self.notes.items() if key not in _FILE_KEYS}

    @checks_arguments
    def save(self, path: str | Path) -> None:
        """Write a domain file."""
        try:
            with os.fdopen(
                os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, self.file_mode), "w", encoding="utf-8"
            ) as file:
                if not self.reviewed:
                    Path(path).chmod(self.file_mode)
                file.write(entries.to_text(self.to_dict()))
        except OSError as error:
            raise DomainError(f"cannot write the domain file {path}: {error.strerror}") from None

    @property
    def file_mode(self) -> int:
        """Who may read its file, before the mask of the process: the owner alone, until it is reviewed."""
        return 0o666 if self.reviewed else 0o600

    @checks_arguments
    def project(self, names: Iterable[str]) -> Domain:
        """The smaller universe over some attributes, in the given order, with the constraints on them alone."""
        order = tuple(names)
        constraints = tuple(c for c in self.constraints if set(c.names) <= set(order))
        return Domain(
            tuple(self[name] for name in order), self.na_values, self.reviewed, constraints=constraints
        )

    @property
    def constraint_digests(self) -> tuple[str, ...]:
        return tuple(rule.digest() for rule in self.rules)

    @cached_property
    def _hash(self) -> int:
        return hash((self.attributes, self.na_values, self.reviewed, self.constraints))

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"Domain({len(self)} attributes, |X| = {_big(self.size)}: {', '.join(self.names)})"

    def _repr_html_(self) -> str:
        rows = [(a.name, str(a.kind), a.values_in_words, f"{a.size:,}") for a in self.attributes]
        head = f"{len(self)} attributes, {_big(self.size)} possible records"
        return _html.table("Domain.", ("attribute", "kind", "values", "cells"), rows, head=head)


def _without_draft(notes: dict[str, Any]) -> dict[str, Any]:
    """Notes without those of a draft, which speak of the rows. What is noted of columns that were found is paid for."""
    public = {key: note for key, note in notes.items() if key not in (DRAFT, LEFT_OUT)}
    columns = public.get(COLUMNS)
    if _check.is_dict(columns):
        public[COLUMNS] = {
            name: note for name, note in columns.items() if not (_check.is_dict(note) and "from" in note)
        }
        if columns and not public[COLUMNS]:
            del public[COLUMNS]
    return public


def _big(value: int) -> str:
    return (
        f"{value:,}" if value < 10**7 else f"{value:.3g}" if value < 10**300 else f"10^{len(str(value)) - 1}"
    )

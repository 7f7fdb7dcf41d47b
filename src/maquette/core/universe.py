"""The universe X: every record the table could hold, decided without looking at it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from maquette.core import _check
from maquette.core._arguments import checks_arguments
from maquette.core.attribute import Attribute
from maquette.core.errors import DomainError
from maquette.core.grid import column_of


@dataclass(frozen=True)  # without slots, so that look-ups can be computed once and stored
class Universe:
    """The declared attributes in order, and the texts that mean missing: what decides in which cell a record lies."""

    attributes: tuple[Attribute, ...]
    na_values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", tuple(self.attributes))
        object.__setattr__(self, "na_values", tuple(self.na_values))
        if not self.attributes:
            raise DomainError("a domain needs at least one attribute")
        names = [a.name for a in self.attributes]
        if len(set(names)) < len(names):
            twice = sorted({n for n in names if names.count(n) > 1})
            raise DomainError(f"attribute names must be distinct, got {', '.join(twice)} more than once")

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.attributes)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Cells per attribute, in order."""
        return tuple(a.size for a in self.attributes)

    @cached_property
    def size(self) -> int:
        """|X|, an exact int."""
        return math.prod(self.shape)

    @cached_property
    def log_size(self) -> float:
        """ln |X|."""
        return math.fsum(math.log(s) for s in self.shape)

    @cached_property
    def _places(self) -> dict[str, int]:
        """The position of each attribute by name."""
        return {name: place for place, name in enumerate(self.names)}

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Cells per attribute by name."""
        return dict(zip(self.names, self.shape, strict=True))

    @cached_property
    def columns(self) -> dict[str, int]:
        """The coded columns of a record by name, each with the number of its codes: attributes, then fine cells."""
        fine = {column_of(a.name): a.grid.size for a in self.attributes if a.grid is not None}
        return self.sizes | fine

    def __getitem__(self, name: str) -> Attribute:
        try:
            return self.attributes[self._places[name]]
        except (KeyError, TypeError):
            return self.attributes[self.index(name)]  # says that it is unknown

    def index(self, name: str) -> int:
        """The position of an attribute."""
        if name not in self:
            raise DomainError(
                f"unknown attribute {_check.shown(name)}; the domain has {', '.join(self.names)}"
            )
        return self._places[name]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._places

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self.attributes)

    def __len__(self) -> int:
        return len(self.attributes)

    @checks_arguments
    def cells(self, names: Iterable[str]) -> int:
        """How many cells the table over these attributes has."""
        sizes, listed = self.sizes, list(names)
        try:
            return math.prod([sizes[name] for name in listed])
        except KeyError:
            return math.prod(self[name].size for name in listed)  # says which one is unknown

    @property
    def constraint_digests(self) -> tuple[str, ...]:
        """Of what no released row may be, as texts: they name the universe, and nothing here reads them."""
        return ()

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of everything that decides the coding and the universe; equal fingerprints mean equal universes."""
        content: dict[str, Any] = {
            "attributes": [attribute.entry() for attribute in self.attributes],
            "na_values": sorted(set(self.na_values)),
        }
        if (
            self.constraint_digests
        ):  # absent otherwise, so that domains without any keep the fingerprint they had
            content["constraints"] = sorted(self.constraint_digests)
        return hashlib.sha256(json.dumps(_plain(content), sort_keys=True).encode()).hexdigest()

    def __getstate__(self) -> dict[str, Any]:
        """The declaration alone: a stored hash would be wrong in another process."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


def _plain(value: Any) -> Any:
    """One spelling of equal numbers: 0.0 becomes 0."""
    if _check.is_dict(value):
        return {key: _plain(item) for key, item in value.items()}
    if _check.is_list(value):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value

"""Whether the header of a table suits a domain: every declared column is there once, with a type that can hold it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from maquette.core.attribute import Attribute
from maquette.core.rows.coding import compares_numbers
from maquette.core.rows.source import Source, fits
from maquette.core.universe import Universe
from maquette.errors import SourceError


@dataclass(frozen=True, slots=True)
class SourceCheck:
    """What the place of a table shows without a look at its records."""

    description: str
    columns: int
    warnings: tuple[str, ...]


def check_fit(source: Source, domain: Universe) -> None:
    """Every declared column is there once, with a type that can hold its values. Looks at no record."""
    for part in source.parts:
        _check_header(part, domain)
        for attribute in domain:
            _check_kind(part, attribute)


def _check_header(source: Source, domain: Universe) -> None:
    # the first line of a file without a header is a record: found names are never repeated in a message
    missing = [name for name in domain.names if name not in source.header]
    if missing:
        raise SourceError(
            f"{source.description} has no column {_in_words(missing)}; {_advice(source, domain, missing)}"
        )
    twice = [name for name in domain.names if source.header.count(name) > 1]
    if twice:
        raise SourceError(
            f"{source.description} has more than one column {_in_words(twice)}; "
            "give every column its own name, or drop one of them"
        )


def _advice(source: Source, domain: Universe, missing: Sequence[str]) -> str:
    if source.hint:
        return source.hint
    alike = {_loose(name) for name in source.header}
    other_case = [name for name in missing if _loose(name) in alike]
    if other_case:
        return f"{_in_words(other_case)} is there with other capitals or spaces: rename it in the file or the domain"
    if len(missing) == len(domain):
        return (
            f"none of the {len(domain)} declared columns is among the {len(source.header)} found: "
            "does the file start with a header row?"
        )
    columns = "1 column" if len(source.header) == 1 else f"{len(source.header)} columns"
    return f"it has {columns}: rename or add the missing ones, or drop them from the domain"


def _loose(name: str) -> str:
    return "".join(name.split()).casefold()


def _in_words(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def _check_kind(source: Source, attribute: Attribute) -> None:
    kind = source.kind(attribute.name)
    if not fits(attribute, kind):
        values = "numbers" if compares_numbers(attribute) else "text, numbers, truth values or dates"
        raise SourceError(
            f"column '{attribute.name}' of {source.description} has type {kind}, but the domain declares it "
            f"{attribute.kind} and expects {values} (or text that spells them); "
            "convert the column or leave the attribute out of the domain"
        )

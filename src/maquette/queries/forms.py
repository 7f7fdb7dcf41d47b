"""The JSON form of queries, read back (`base.py` writes and hashes it).

The domain is stored beside the queries, not in them; reading needs it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import numpy as np

from maquette.core import _check
from maquette.domain import Domain
from maquette.errors import WorkloadError
from maquette.queries import names
from maquette.queries.base import FORMAT, VERSION, Part, Queries, Workload, to_json, union
from maquette.queries.conjunctions import Conjunctions, conjunctions
from maquette.queries.halfspaces import Halfspaces, halfspaces
from maquette.queries.marginals import Marginals, marginals, points
from maquette.queries.parities import Parities
from maquette.queries.predicates import Boxes, Predicate, Predicates, boxes, exact_predicates, predicates
from maquette.queries.ranges import Prefixes, Ranges, prefixes, ranges
from maquette.queries.weights import GRID, Weights, parities, weights
from maquette.requests import WorkloadWords

# Fields of a JSON object, checked: each complaint names the object, the field, what was expected and found.


class Fields:
    """A JSON object with exactly the expected fields."""

    def __init__(
        self, where: str, data: object, required: tuple[str, ...], optional: tuple[str, ...] = ()
    ) -> None:
        if not isinstance(data, dict):
            raise WorkloadError(f"expected an object for {where}, got {_excerpt(data)}")
        self.where = where
        self.data = cast("dict[str, Any]", data)
        missing = [name for name in required if name not in self.data]
        extra = [name for name in self.data if name not in (*required, *optional)]
        if missing or extra:
            problem = (
                f"lacks {', '.join(missing)}"
                if missing
                else f"has unknown fields {', '.join(map(str, extra))}"
            )
            raise WorkloadError(f"{where} {problem}; its fields are {', '.join((*required, *optional))}")

    def text(self, name: str) -> str:
        value = self.data[name]
        if not isinstance(value, str):
            raise self._wrong(name, "a text")
        return value

    def texts(self, name: str) -> list[str]:
        values = self.list(name)
        if not all(isinstance(value, str) for value in values):
            raise self._wrong(name, "a list of texts")
        return cast("list[str]", values)

    def whole(self, name: str) -> int:
        value = self.data[name]
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong(name, "a whole number")
        return value

    def number(self, name: str) -> float:
        value = self.data[name]
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self._wrong(name, "a number")
        return value

    def flag(self, name: str) -> bool:
        value = self.data[name]
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return value

    def list(self, name: str) -> list[Any]:
        value = self.data[name]
        if not isinstance(value, list):
            raise self._wrong(name, "a list")
        return cast("list[Any]", value)

    def lists(self, name: str) -> list[list[Any]]:
        values = self.list(name)
        if not all(isinstance(value, list) for value in values):
            raise self._wrong(name, "a list of lists")
        return values

    def lists_of_texts(self, name: str) -> list[list[str]]:
        values = self.lists(name)
        if not all(isinstance(value, str) for inner in values for value in inner):
            raise self._wrong(name, "lists of texts")
        return values

    def _wrong(self, name: str, kind: str) -> WorkloadError:
        return WorkloadError(f"expected {kind} as {name} of {self.where}, got {_excerpt(self.data[name])}")


def _excerpt(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


_RATIO = re.compile(r"-?[0-9]{1,400}(/[0-9]{0,399}[1-9][0-9]{0,399})?")


def from_json(domain: Domain, text: str) -> Queries:
    """Queries over this domain from their JSON text; `WorkloadError` says what is wrong with it."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WorkloadError(f"the workload is not JSON: {error}") from None
    fields = Fields("the workload", data, ("format", "version", "queries"))
    if fields.text("format") != FORMAT:
        raise WorkloadError(f'expected "format": "{FORMAT}" in the workload, got {fields.text("format")!r}')
    if fields.whole("version") != VERSION:
        raise WorkloadError(
            f"this release reads version {VERSION} of the workload's form, got {fields.whole('version')}"
        )
    return from_spec(domain, data["queries"])


def from_spec(domain: Domain, spec: object) -> Queries:
    """Queries from the form that `spec()` gave."""
    kind = cast("dict[str, object]", spec).get("kind") if isinstance(spec, dict) else None
    if not isinstance(kind, str):
        raise WorkloadError('expected an object with a "kind" for each class of queries')
    readers = {queries.kind: reader for queries, reader in READERS.items()}
    if kind not in readers:
        raise WorkloadError(f"unknown kind of queries {kind!r}; known are {', '.join(sorted(readers))}")
    return readers[kind](domain, cast("object", spec))


def save(queries: Queries, path: str | Path) -> None:
    """Write the JSON form to a file."""
    Path(path).write_text(to_json(queries) + "\n", encoding="utf-8")


def load(domain: Domain, path: str | Path) -> Queries:
    """Read the JSON form from a file."""
    try:
        text = _check.read_text(Path(path))
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise WorkloadError(f"cannot read the workload file {path}: {error}") from None
    try:
        return from_json(domain, text)
    except WorkloadError as error:
        raise WorkloadError(f"{path}: {error}") from None


def _marginals(domain: Domain, spec: object) -> Marginals:
    fields = Fields("marginals", spec, ("kind", "margins"))
    return Marginals(domain, tuple(tuple(margin) for margin in fields.lists_of_texts("margins")))


def _prefixes(domain: Domain, spec: object) -> Prefixes:
    return Prefixes(domain, Fields("prefixes", spec, ("kind", "attribute")).text("attribute"))


def _ranges(domain: Domain, spec: object) -> Ranges:
    return Ranges(domain, tuple(Fields("ranges", spec, ("kind", "attributes")).texts("attributes")))


def _boxes(domain: Domain, spec: object) -> Boxes:
    return boxes(domain, Fields("boxes", spec, ("kind", "boxes")).list("boxes"))


def _conjunctions(domain: Domain, spec: object) -> Conjunctions:
    fields = Fields("conjunctions", spec, ("kind", "width", "literals", "attributes"))
    over = tuple(fields.texts("attributes"))
    return Conjunctions(domain, fields.whole("width"), fields.flag("literals"), over)


def _halfspaces(domain: Domain, spec: object) -> Halfspaces:
    fields = Fields("half-spaces", spec, ("kind", "attributes", "normals", "thresholds"))
    normals = tuple(tuple(_ratio(entry) for entry in normal) for normal in fields.lists("normals"))
    thresholds = tuple(_ratio(entry) for entry in fields.list("thresholds"))
    return Halfspaces(domain, tuple(fields.texts("attributes")), normals, thresholds)


def _ratio(text: object) -> Fraction:
    if not isinstance(text, str) or not _RATIO.fullmatch(text):
        raise WorkloadError(f'expected a number such as "3/2" in half-spaces, got {str(text)[:60]!r}')
    return Fraction(text)


def _parities(domain: Domain, spec: object) -> Parities:
    fields = Fields("parities", spec, ("kind", "width", "attributes"))
    return Parities(domain, fields.whole("width"), tuple(fields.texts("attributes")))


def _weights(domain: Domain, spec: object) -> Weights:
    fields = Fields("weights", spec, ("kind", "attributes", "denominator", "numerators"))
    numerators = fields.lists("numerators")
    grid = fields.whole("denominator")
    if any(type(entry) is not int or not 0 <= entry <= grid <= GRID for row in numerators for entry in row):
        raise WorkloadError("expected whole numerators of weights from 0 to their denominator")
    if len({len(row) for row in numerators}) != 1:
        raise WorkloadError("expected numerators of weights as rows of equal length")
    return Weights(domain, tuple(fields.texts("attributes")), np.array(numerators, dtype=np.int32), grid)


def _predicate(domain: Domain, spec: object) -> Predicate:
    return Predicate(domain, Fields("a predicate", spec, ("kind", "where")).text("where"))


def _predicates(domain: Domain, spec: object) -> Predicates:
    return predicates(domain, Fields("predicates", spec, ("kind", "where")).texts("where"))


def _union(domain: Domain, spec: object) -> Workload:
    fields = Fields("a union", spec, ("kind", "parts"))
    return Workload(domain, tuple(_part(domain, part) for part in fields.list("parts")))


def _part(domain: Domain, spec: object) -> Part:
    fields = Fields("a part of a union", spec, ("queries", "weight"))
    queries: object = fields.data["queries"]
    if isinstance(queries, dict) and cast("dict[str, object]", queries).get("kind") == Workload.kind:
        raise WorkloadError("a union cannot contain unions; list all their parts")
    return Part(from_spec(domain, cast("object", queries)), fields.number("weight"))


READERS: dict[type[Queries], Callable[[Domain, object], Queries]] = {
    Boxes: _boxes,
    Conjunctions: _conjunctions,
    Halfspaces: _halfspaces,
    Marginals: _marginals,
    Parities: _parities,
    Predicate: _predicate,
    Predicates: _predicates,
    Prefixes: _prefixes,
    Ranges: _ranges,
    Weights: _weights,
    Workload: _union,
}
"""Every class of queries and the reader of its JSON form: a new class is one line here. The gate takes no others."""


# Workloads in words, as commands and forms take them.


def read_words(domain: Domain, words: WorkloadWords) -> Queries:
    """The union of everything that is asked for."""
    if any(order < 1 for order in words.marginals):
        raise WorkloadError("expected --marginals 1 or more: a marginal has at least one attribute")
    parts: list[Queries] = []
    if words.marginals:
        orders = sorted(set(words.marginals))
        parts.append(marginals(domain, orders[0] if len(orders) == 1 else orders))
    parts += [prefixes(domain, name) for name in words.prefixes]
    parts += [ranges(domain, *(name.strip() for name in text.split(","))) for text in words.ranges]
    if words.where:
        parts.append(exact_predicates(domain, words.where))
    parts += [parse_workload(domain, [word]) for word in words.classes]
    if words.workload is not None:
        parts.append(load(domain, words.workload))
    if not parts:
        raise WorkloadError(
            "there are no queries; give at least one of --marginals K, --prefixes ATTR, --ranges A[,B], "
            '--where "...", --class WORD, --workload FILE'
        )
    return parts[0] if len(parts) == 1 else union(*parts)


EXAMPLES = (
    "marginals:3, marginals:1,2, marginal:age,sex, points, points:age,sex, prefixes:age, ranges:age,hours, "
    "conjunctions:3, conjunctions:a,b,c, literals:3, parities:a,b,c, halfspaces:age + 2*hours >= 60, "
    "halfspaces:age,hours, boxes:age=3..7, weights:age:0,1/2,1, where:age >= 60, file:workload.json"
)


def parse_workload(domain: Domain, words: Iterable[str]) -> Queries:
    """The queries that some words name; several are united.

    Attributes may be written as in predicates, with _ for other signs and in any case. A predicate that cuts cells is
    asked from both sides: those who surely satisfy it, and those who may.
    """
    if isinstance(words, str):
        raise WorkloadError(f"expected a list of words such as {EXAMPLES}; got the text {words!r}")
    parts = [_parse(domain, word) for word in words]
    if not parts:
        raise WorkloadError(f"expected at least one class of queries, such as {EXAMPLES}")
    return parts[0] if len(parts) == 1 else union(*parts)


def _parse(domain: Domain, word: str) -> Queries:
    kind, _, rest = word.partition(":")
    kind = kind.strip().lower()
    if kind not in _KINDS:
        raise WorkloadError(f"unknown class of queries {kind!r}; write for example {EXAMPLES}")
    return _KINDS[kind](domain, rest.strip())


def _names(domain: Domain, rest: str) -> list[str]:
    return [names.find(domain, name.strip()).name for name in rest.split(",") if name.strip()]


def _numbers(kind: str, rest: str) -> list[int]:
    try:
        return [int(number) for number in rest.split(",")]
    except ValueError:
        raise WorkloadError(f"expected whole numbers after {kind}:, such as {kind}:3, got {rest!r}") from None


def _number(kind: str, rest: str) -> int:
    numbers = _numbers(kind, rest)
    if len(numbers) != 1:
        raise WorkloadError(f"expected one whole number after {kind}:, such as {kind}:3, got {rest!r}")
    return numbers[0]


def _one_name(domain: Domain, rest: str) -> str:
    attributes = _names(domain, rest)
    if len(attributes) != 1:
        raise WorkloadError(f"expected one attribute, such as prefixes:{domain.names[0]}, got {rest!r}")
    return attributes[0]


_TERM = re.compile(r"([+-]?)(?:([0-9]+(?:\.[0-9]+|/[0-9]+)?)\*?)?([^\W\d]\w*)")
_SIDE = re.compile(r"-?[0-9]+(?:\.[0-9]+|/[1-9][0-9]*)?")


def _parse_conjunctions(domain: Domain, kind: str, rest: str) -> Conjunctions:
    """Those of at most so many bits; or of any number of the named ones; or of all."""
    literals = kind == "literals"
    if re.fullmatch("[0-9, ]+", rest):
        return conjunctions(domain, _number(kind, rest), literals=literals)
    return conjunctions(domain, literals=literals, attributes=_names(domain, rest) if rest else None)


def _parse_halfspaces(domain: Domain, rest: str) -> Halfspaces:
    """Inequalities such as age + 2*hours >= 60, several with a semicolon between them; or a grid such as age,hours."""
    if rest and not re.search("[<>=;]", rest):
        return halfspaces(domain, _names(domain, rest))
    sides = [_inequality(domain, one.strip()) for one in rest.split(";") if one.strip()]
    if not sides:
        raise WorkloadError("expected an inequality after halfspaces:, such as age + 2*hours >= 60")
    over = tuple(name for name in domain.names if any(name in terms for terms, _ in sides))
    normals = tuple(tuple(terms.get(name, Fraction(0)) for name in over) for terms, _ in sides)
    return Halfspaces(domain, over, normals, tuple(limit for _, limit in sides))


def _inequality(domain: Domain, text: str) -> tuple[dict[str, Fraction], Fraction]:
    """The coefficients by attribute and the threshold of sum >= threshold."""
    left, sign, right = re.sub(r"\s", "", text).partition(">=" if ">=" in text else "<=")
    terms = list(_TERM.finditer(left))
    if not sign or not terms or "".join(t[0] for t in terms) != left or not _SIDE.fullmatch(right):
        raise WorkloadError(f"expected an inequality such as age + 2*hours >= 60, got {_excerpt(text)}")
    factor = 1 if sign == ">=" else -1
    normal: dict[str, Fraction] = {}
    for minus, number, name in (t.groups() for t in terms):
        attribute = names.find(domain, name).name
        value = Fraction(number or 1) * (-1 if minus == "-" else 1) * factor
        normal[attribute] = normal.get(attribute, Fraction(0)) + value
    return normal, Fraction(right) * factor


def _parse_parities(domain: Domain, rest: str) -> Weights | Parities:
    """Parities of every subset of some attributes with two cells, the empty subset included."""
    return parities(domain, _names(domain, rest))


def _parse_boxes(domain: Domain, rest: str) -> Boxes:
    """Codes from .. to of some attributes, several boxes with a semicolon between them."""
    listed: list[dict[str, tuple[int, int]]] = []
    for one in rest.split(";"):
        sides = [re.fullmatch(r"\s*(.+?)\s*=\s*([0-9]+)\.\.([0-9]+)\s*", side) for side in one.split(",")]
        if not all(sides):
            raise WorkloadError(f"expected codes such as boxes:age=3..7,sex=0..0, got {_excerpt(rest)}")
        listed.append({names.find(domain, s[1]).name: (int(s[2]), int(s[3])) for s in sides if s})
    return boxes(domain, listed)


def _parse_weights(domain: Domain, rest: str) -> Weights:
    """Weights for each cell of some attributes, several queries with a semicolon between them."""
    over, _, rows = rest.rpartition(":")
    try:
        matrix = [[float(_check.exact(one.strip())) for one in row.split(",")] for row in rows.split(";")]
    except (ValueError, OverflowError):
        raise WorkloadError(f"expected weights such as weights:age:0,1/2,1, got {_excerpt(rest)}") from None
    return weights(domain, matrix, attributes=_names(domain, over))


_KINDS: dict[str, Callable[[Domain, str], Queries]] = {
    "marginals": lambda domain, rest: marginals(domain, _numbers("marginals", rest)),
    "marginal": lambda domain, rest: marginals(domain, attributes=[_names(domain, rest)]),
    "points": lambda domain, rest: points(domain, _names(domain, rest) if rest else None),
    "prefixes": lambda domain, rest: prefixes(domain, _one_name(domain, rest)),
    "thresholds": lambda domain, rest: prefixes(domain, _one_name(domain, rest)),
    "ranges": lambda domain, rest: ranges(domain, *_names(domain, rest)),
    "conjunctions": lambda domain, rest: _parse_conjunctions(domain, "conjunctions", rest),
    "literals": lambda domain, rest: _parse_conjunctions(domain, "literals", rest),
    "boxes": _parse_boxes,
    "parities": _parse_parities,
    "halfspaces": _parse_halfspaces,
    "weights": _parse_weights,
    "where": lambda domain, rest: exact_predicates(domain, [rest]),
    "file": load,
}

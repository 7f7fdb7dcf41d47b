"""Workloads in a few words, as the command line takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from maquette.domain import Domain
from maquette.errors import WorkloadError
from maquette.queries import form, names
from maquette.queries.base import Queries
from maquette.queries.conjunctions import conjunctions
from maquette.queries.marginals import marginals, points
from maquette.queries.predicate import exact_predicates
from maquette.queries.ranges import prefixes, ranges
from maquette.queries.workload import union

EXAMPLES = (
    "marginals:3, marginals:1,2, marginal:age,sex, points, points:age,sex, prefixes:age, ranges:age,hours, "
    "conjunctions:3, literals:3, where:age >= 60, file:workload.json"
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
    found = _names(domain, rest)
    if len(found) != 1:
        raise WorkloadError(f"expected one attribute, such as prefixes:{domain.names[0]}, got {rest!r}")
    return found[0]


_KINDS: dict[str, Callable[[Domain, str], Queries]] = {
    "marginals": lambda domain, rest: marginals(domain, _numbers("marginals", rest)),
    "marginal": lambda domain, rest: marginals(domain, attributes=[_names(domain, rest)]),
    "points": lambda domain, rest: points(domain, _names(domain, rest) if rest else None),
    "prefixes": lambda domain, rest: prefixes(domain, _one_name(domain, rest)),
    "thresholds": lambda domain, rest: prefixes(domain, _one_name(domain, rest)),
    "ranges": lambda domain, rest: ranges(domain, *_names(domain, rest)),
    "conjunctions": lambda domain, rest: conjunctions(domain, _number("conjunctions", rest)),
    "literals": lambda domain, rest: conjunctions(domain, _number("literals", rest), literals=True),
    "where": lambda domain, rest: exact_predicates(domain, [rest]),
    "file": form.load,
}

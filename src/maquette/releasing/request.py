"""What is asked for in a release: a value, checked before any data is opened."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields
from typing import Any

from maquette.core import _check
from maquette.core.budget import Budget
from maquette.domain import Persons, check_relation
from maquette.errors import ParameterError, WorkloadError
from maquette.mechanisms import shape
from maquette.mechanisms.base import MECHANISMS, POSTS, Mechanism
from maquette.queries import canonical_hash
from maquette.queries.base import Queries
from maquette.queries.classes import CLASSES
from maquette.queries.combinations import COMBINATIONS
from maquette.queries.merging import Merged
from maquette.queries.quality import QUALITY
from maquette.releasing.certify import SHARE, WORKLOAD
from maquette.requests import ReleaseRequest

WORDS = (WORKLOAD, *COMBINATIONS, *CLASSES, *QUALITY)
"""What a certificate can be for."""


@dataclass(frozen=True, kw_only=True)
class Request(ReleaseRequest):
    """The public part of a call to `release` about a table of this kind, checked before any data is opened."""

    queries: Queries
    persons: Persons | None = None
    """Whom the budget protects, where one person has several records."""
    lists_records: bool = True
    """Can whole records of the table be had, which combinations of values need? It goes by the kind of table."""
    unused_delta: float = 0.0
    """The delta that was asked for, where pure noise is expected to state less without it."""

    @classmethod
    def of(cls, queries: Queries, wish: ReleaseRequest, **table: Any) -> Request:
        """What is asked for; `table` is what the request has to know of the table."""
        values = {one.name: getattr(wish, one.name) for one in fields(ReleaseRequest)}
        return cls(queries=queries, **table, **values)

    def __post_init__(self) -> None:
        _check.fraction(beta=self.beta)
        check_relation(self.persons, self.between)
        if not self.queries.attributes:
            raise WorkloadError(
                "these queries ask about no attribute: their answers are the same for every table, and nothing is "
                "paid for that; ask about at least one attribute"
            )
        _check.one_of(["auto", *MECHANISMS], mechanism=self.mechanism_name)
        _check.one_of(POSTS, post=self.post)
        _check.whole(typical_rows=self.typical_rows)
        if self.weight is not None and self.mechanism_name != "auto":
            self._check_weighs(self.weight)
        if self.rows is not None and self.rows != "small":
            _check.whole(most=_check.MAX_ROWS, rows=self.rows)
        if self.queries.domain.constraints:
            from maquette.models import constraints

            constraints.compile(
                self.queries.domain
            )  # what no record can meet is refused before anything is paid
        share, classes = read_certificate(self.certificate)
        if share is not None:
            _check.fraction_or_zero(certificate=share)
        if not self.lists_records and set(classes or ()) & {*COMBINATIONS, *QUALITY}:
            raise ParameterError(
                "combinations of values, typical errors and means are certified where whole records are on this "
                "machine, and those of this table stay where they are; name classes on few attributes instead"
            )
        if classes and self.weight is not None:
            raise ParameterError(
                "classes of questions are certified where every record counts as one; leave weight out"
            )

    def _check_weighs(self, weight: str) -> None:
        if not MECHANISMS[self.mechanism_name].traits.weighs_records:
            able = next(name for name, mechanism in MECHANISMS.items() if mechanism.traits.weighs_records)
            raise ParameterError(
                f"mechanism '{self.mechanism_name}' counts every record as one; weigh records by '{weight}' with "
                f"mechanism '{able}'"
            )

    @property
    def budget(self) -> Budget:
        return Budget(self.epsilon, self.delta, self.accounting or "zcdp")

    @property
    def mechanism_name(self) -> str:
        return self.mechanism if isinstance(self.mechanism, str) else self.mechanism.name

    @property
    def configured(self) -> Mechanism | None:
        """The mechanism with options of its own, where one was given."""
        return None if isinstance(self.mechanism, str) else self.mechanism

    @property
    def share(self) -> float | None:
        """The share of the budget for the workload's certificate; None leaves it to the planner."""
        return read_certificate(self.certificate)[0]

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The classes of questions to certify; None leaves them to the planner."""
        return read_certificate(self.certificate)[1]

    @property
    def merged(self) -> Merged:
        """What is asked of the table for the workload, and the way back to its answers."""
        return shape.merged(self.queries)

    @property
    def key(self) -> str:
        """The name of this release in a ledger, where it is given no other."""
        return f"release-{self.digest[:20]}"

    @property
    def digest(self) -> str:
        """SHA-256 of everything that decides the release."""
        share, classes = read_certificate(self.certificate)
        facts: dict[str, Any] = {
            "domain": self.queries.domain.fingerprint,
            "queries": canonical_hash(self.queries),
            "budget": [self.budget.epsilon, self.budget.delta],
            "relation": str(self.between),
            "mechanism": self.mechanism_name,
            "beta": self.beta,
            "certificate": SHARE if share is None else share,
            "groups": self.groups,
            "rows": self.rows,
            "post": self.post,
            "typical_rows": self.typical_rows,
        }
        if share == SHARE:  # also what is taken where nothing is asked for, if it is worth its price
            facts["certificate asked for"] = True
        if classes:
            facts["classes"] = list(classes)
        if self.weight is not None:
            facts["weight"] = self.weight
        if self.persons is not None:
            facts["persons"] = [self.persons.column, self.persons.rows]
        if self.configured is not None:
            facts["options"] = self.configured.to_dict()
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def read_certificate(certificate: object) -> tuple[float | None, tuple[str, ...] | None]:
    """The share for the workload's certificate and the classes to certify, as `certificate=` says them.

    A number is a share for the workload alone, words are "workload" and classes of questions, None leaves both to the
    planner.
    """
    if certificate is None:
        return None, None
    if isinstance(certificate, (int, float)):
        return certificate, ()
    words = [certificate] if isinstance(certificate, str) else certificate
    if not isinstance(words, (list, tuple)) or not all(isinstance(word, str) for word in words):
        raise ParameterError(
            f"expected certificate as a share of the budget or as words out of {', '.join(WORDS)}"
        )
    for word in words:
        _check.one_of(WORDS, certificate=word)
    return SHARE if WORKLOAD in words else 0.0, tuple(name for name in WORDS[1:] if name in words)

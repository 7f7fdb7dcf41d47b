"""What is asked for in a release: a value, checked before any data is opened."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from maquette.core import _check
from maquette.core.budget import UNITS, Budget, split
from maquette.core.measurement import Size
from maquette.domain import Persons, Relation, check_relation, rows_of
from maquette.errors import ParameterError, WorkloadError
from maquette.mechanisms import shape
from maquette.mechanisms.base import MECHANISMS, POSTS, TYPICAL_ROWS, Mechanism, Task
from maquette.queries import canonical_hash
from maquette.queries.base import Queries
from maquette.queries.classes import CLASSES
from maquette.queries.combinations import COMBINATIONS
from maquette.queries.merging import Merged
from maquette.releasing import means
from maquette.releasing.certify import CLASS_SHARE, SHARE, WORKLOAD

WORDS = (WORKLOAD, *COMBINATIONS, *CLASSES)
"""What a certificate can be for."""


@dataclass(frozen=True, slots=True)
class Request:
    """The public part of a call to `release`, checked before any data is opened."""

    queries: Queries
    budget: Budget
    relation: Relation
    mechanism: str
    beta: float
    certificate: float | None
    """The share of the budget for a certificate; None buys one where it is expected to beat the guarantee."""
    groups: bool = False
    rows: int | Literal["small"] | None = None
    post: str = "auto"
    typical_rows: int = TYPICAL_ROWS
    weight: str | None = None
    configured: Mechanism | None = None
    """The mechanism with options of its own, where one was given."""
    share: float = SHARE
    """Of the budget, for the certificate that nobody asked for, or asked against: decided by the planner."""
    classes: tuple[str, ...] | None = None
    """The classes of questions to certify; None buys those that are expected to say enough."""
    bought: tuple[str, ...] = ()
    """The classes that are certified."""
    persons: Persons | None = None
    """Whom the budget protects, where one person has several records."""
    size: Size | None = None
    """The number of records, where it is private and was asked for first; the rest is decided by it."""
    size_price: Fraction = Fraction(0)
    """What was paid for it, out of the mechanism's part."""
    lists_records: bool = True
    """Can whole records of the table be had, which combinations of values need? It goes by the kind of table."""
    unused_delta: float = 0.0
    """The delta that was asked for, where pure noise is expected to state less without it."""
    decided_by_size: bool = False
    """Did that number decide what is bought, and so which sentence is stated?"""

    @classmethod
    def of(
        cls,
        queries: Queries,
        *,
        epsilon: float,
        delta: float = 0.0,
        relation: Relation | str = Relation.ADD_REMOVE,
        mechanism: str | Mechanism = "auto",
        **options: Any,
    ) -> Request:
        """What a call to `release` asks for, in its own words."""
        share, classes = read_certificate(options.pop("certificate", None))
        return cls(
            certificate=share,
            classes=classes,
            bought=classes or (),
            queries=queries,
            budget=Budget(epsilon, delta),
            relation=Relation.named(relation),
            mechanism=mechanism if isinstance(mechanism, str) else mechanism.name,
            configured=None if isinstance(mechanism, str) else mechanism,
            **options,
        )

    def __post_init__(self) -> None:
        _check.fraction(beta=self.beta)
        check_relation(self.persons, self.relation)
        if not self.queries.attributes:
            raise WorkloadError(
                "these queries ask about no attribute: their answers are the same for every table, and nothing is "
                "paid for that; ask about at least one attribute"
            )
        _check.one_of(["auto", *MECHANISMS], mechanism=self.mechanism)
        _check.one_of(POSTS, post=self.post)
        _check.whole(typical_rows=self.typical_rows)
        if self.weight is not None and self.mechanism != "auto":
            self._check_weighs(self.weight)
        if self.rows is not None and self.rows != "small":
            _check.whole(most=_check.MAX_ROWS, rows=self.rows)
        if self.queries.domain.constraints:
            from maquette.models import constraints

            constraints.compile(
                self.queries.domain
            )  # what no record can meet is refused before anything is paid
        if self.certificate is not None:
            _check.fraction_or_zero(certificate=self.certificate)
        if not self.lists_records and set(self.classes or ()) & set(COMBINATIONS):
            raise ParameterError(
                "combinations of values are certified where whole records are on this machine, and those of this "
                "table stay where they are; name classes of questions on few attributes instead"
            )
        if self.classes and self.weight is not None:
            raise ParameterError(
                "classes of questions are certified where every record counts as one; leave weight out"
            )

    def _check_weighs(self, weight: str) -> None:
        if not MECHANISMS[self.mechanism].traits.weighs_records:
            able = next(name for name, mechanism in MECHANISMS.items() if mechanism.traits.weighs_records)
            raise ParameterError(
                f"mechanism '{self.mechanism}' counts every record as one; weigh records by '{weight}' with "
                f"mechanism '{able}'"
            )

    @property
    def prices(self) -> tuple[Fraction, Fraction]:
        """For the mechanism and for the workload's certificate, on the ledger's grid.

        As prices of looks at single records: what the gate charges for a person of several comes to the budget.
        """
        return self._divided[:2]

    @property
    def class_price(self) -> Fraction:
        """For the certificates of classes of questions; with `prices` never above the budget."""
        return self._divided[2]

    @property
    def sums_price(self) -> Fraction:
        """For the sums of columns that have a unit; with all others never above the budget."""
        return self._divided[3]

    def price_of_classes(self, some: int) -> Fraction:
        """The part of that for some of the certificates: each of them has noise of one deviation."""
        units = int(self.class_price * UNITS)
        return Fraction(units * some // len(self.bought), UNITS)

    @property
    def _divided(self) -> tuple[Fraction, Fraction, Fraction, Fraction]:
        whole = self.share if self.certificate is None else self.certificate
        share, classes = Fraction(str(whole)), Fraction(str(CLASS_SHARE)) if self.bought else Fraction(0)
        units = self.budget.row_units(rows_of(self.persons))
        sums = (
            Fraction(0) if self.weight is not None else means.share_of(self.queries) * (1 - share - classes)
        )
        parts = split(units, [1 - share - classes - sums, share, classes, sums])
        rest, certificate, more, columns = (Fraction(part, UNITS) for part in parts)
        return rest, certificate, more, columns

    @property
    def certificates(self) -> int:
        """How many certificates are bought."""
        return len(self.bought) + bool(self.prices[1])

    @property
    def merged(self) -> Merged:
        """What is asked of the table for the workload, and the way back to its answers."""
        return shape.merged(self.queries)

    @property
    def task(self) -> Task:
        return Task(
            self.merged.queries,
            self.relation,
            self.budget.unit,
            self.prices[0] - self.size_price,
            self.beta,
            self.post,
            None if self.rows == "small" else self.rows,
            self.weight,
            small=self.rows == "small",
            typical_rows=self.typical_rows,
            size=self.size,
        )

    @property
    def key(self) -> str:
        """The name of this release in a ledger, where it is given no other."""
        return f"release-{self.digest[:20]}"

    @property
    def digest(self) -> str:
        """SHA-256 of everything that decides the release."""
        facts = {
            "domain": self.queries.domain.fingerprint,
            "queries": canonical_hash(self.queries),
            "budget": [self.budget.epsilon, self.budget.delta],
            "relation": str(self.relation),
            "mechanism": self.mechanism,
            "beta": self.beta,
            "certificate": SHARE if self.certificate is None else self.certificate,
            "groups": self.groups,
            "rows": self.rows,
            "post": self.post,
            "typical_rows": self.typical_rows,
        }
        if (
            self.certificate == SHARE
        ):  # also what is taken where nothing is asked for, if it is worth its price
            facts["certificate asked for"] = True
        if self.classes:
            facts["classes"] = list(self.classes)
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

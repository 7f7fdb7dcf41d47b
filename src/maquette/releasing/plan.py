"""A request of which everything is decided: its mechanism at its task, and what of the budget goes to certificates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import NamedTuple

from maquette.core.budget import UNITS, Budget, split
from maquette.core.measurement import Size
from maquette.domain import rows_of
from maquette.errors import ParameterError
from maquette.mechanisms.base import Forecast, Mechanism, Prepared, Stated, Task
from maquette.progress import Stage
from maquette.releasing import means
from maquette.releasing.certify import (
    CLASS_SHARE,
    MAY_COST,
    SHARE,
    Offer,
    best_share,
    default_classes,
    expected_alpha,
    share_of_beta,
)
from maquette.releasing.request import Request

LARGEST_ERROR = "measuring the largest error"
CERTIFYING = 0.1
"""What certificates take, as a part of the mechanism's time."""


class CertificateChoice(NamedTuple):
    """What is certified: the workload for a share of the budget, and some classes of questions."""

    share: float = SHARE
    classes: tuple[str, ...] = ()


class PlanPrices(NamedTuple):
    """A budget divided, on the ledger's grid; the parts never sum above it.

    As prices of looks at single records: what the gate charges for a person of several comes to the budget.
    """

    mechanism: Fraction
    workload: Fraction
    """For the workload's certificate."""
    classes: Fraction
    """For the certificates of all classes of questions together."""
    sums: Fraction
    """For the sums of columns that have a unit."""


class PaidSize(NamedTuple):
    """The number of records, where it is private and was asked for first."""

    size: Size
    price: Fraction
    """Out of the mechanism's part."""
    decides: bool
    """Does it decide what is bought, and so which sentence is stated?"""


@dataclass(frozen=True, slots=True)
class Plan:
    """A request with its accounting and certificates, and the mechanism at the task that they leave it."""

    request: Request
    certificate: CertificateChoice
    prepared: Prepared
    paid_size: PaidSize | None = None

    @classmethod
    def of(
        cls,
        request: Request,
        mechanism: Mechanism,
        certificate: CertificateChoice | None = None,
        *,
        n: int | None = None,
        paid_size: PaidSize | None = None,
    ) -> Plan:
        """A mechanism at the task of a request, on about n records; with the usual certificate, or as asked for."""
        chosen = asked_for(request) if certificate is None else certificate
        spent = Fraction(0) if paid_size is None else paid_size.price
        task = Task(
            request.merged.queries,
            request.between,
            request.budget.unit,
            prices_of(request, chosen).mechanism - spent,
            request.beta,
            request.post,
            None if request.rows == "small" else request.rows,
            request.weight,
            small=request.rows == "small",
            typical_rows=request.typical_rows,
            size=None if paid_size is None else paid_size.size,
        )
        return cls(request, chosen, mechanism.prepare(task, n=n), paid_size)

    @property
    def mechanism(self) -> Mechanism:
        return self.prepared.mechanism

    @property
    def budget(self) -> Budget:
        return self.request.budget

    @property
    def prices(self) -> PlanPrices:
        return prices_of(self.request, self.certificate)

    def price_of_classes(self, some: int) -> Fraction:
        """The part of it for some of the certificates: each of them has noise of one deviation."""
        units = int(self.prices.classes * UNITS)
        return Fraction(units * some // len(self.certificate.classes), UNITS)

    @property
    def certificates(self) -> int:
        """How many certificates are bought."""
        return len(self.certificate.classes) + bool(self.prices.workload)

    @property
    def beta(self) -> float:
        """The chance to fail of each certificate."""
        beta = self.request.beta
        return share_of_beta(beta, self.certificates) if self.certificate.classes else beta

    @property
    def expected_alpha(self) -> float | None:
        """What the workload's certificate is expected to state; None where there is none, or nothing is known."""
        certificates = max(self.certificates, 1)
        return expected_alpha(self.prepared, price=self.prices.workload, certificates=certificates)

    @property
    def offer(self) -> Offer:
        """The classes of questions, for what is set aside for them."""
        return Offer(
            self.request.queries,
            self.prepared,
            self.prices.classes,
            is_workload_certified=bool(self.prices.workload),
            lists_records=self.request.lists_records,
        )

    @property
    def classes_left_out(self) -> tuple[str, ...]:
        """The classes of questions that the mechanism could have certified by default, where none of them is."""
        if self.certificate.classes or not _may_choose_classes(self.request):
            return ()
        if not self.mechanism.traits.answers_from_rows:
            return ()
        return default_classes(
            self.request.queries, n=self.prepared.n, lists_records=self.request.lists_records
        )

    @property
    def stages(self) -> tuple[Stage, ...]:
        """What a release comes through: the mechanism's own, then its certificates; none that nobody predicts."""
        own = self.prepared.stages
        if not own or not self.certificates:
            return own
        return (*own, Stage.of(LARGEST_ERROR, self.prepared.forecast.seconds * CERTIFYING))

    def forecast(self, *, alone: Prepared | None = None) -> Forecast:
        """What the mechanism promises, with what the certificates are expected to state.

        `alone` is the mechanism with the workload's certificate alone, where others are bought besides.
        """
        own = (alone or self.prepared).forecast
        return replace(
            own,
            stated="certificate" if self.certificate.share else "guarantee",
            certified=self.expected_alpha,
            classes=self.offer.forecasts(self.certificate.classes),
        )


def asked_for(request: Request) -> CertificateChoice:
    """What a request names; the usual certificate of the workload where it names none."""
    return CertificateChoice(SHARE if request.share is None else request.share, request.classes or ())


def prices_of(request: Request, certificate: CertificateChoice) -> PlanPrices:
    """The budget of a request, divided."""
    share = Fraction(str(certificate.share))
    classes = Fraction(str(CLASS_SHARE)) if certificate.classes else Fraction(0)
    units = request.budget.row_units(rows_of(request.persons))
    sums = Fraction(0) if request.weight is not None else means.share_of(request.queries)
    sums *= 1 - share - classes
    parts = split(units, [1 - share - classes - sums, share, classes, sums])
    if parts[0] < 1:
        raise ParameterError(f"the budget {request.budget} is too small to be divided")
    return PlanPrices(*(Fraction(part, UNITS) for part in parts))


def _may_choose_classes(request: Request) -> bool:
    """A number of rows that was asked for, weights and certificates asked for by name decide otherwise."""
    return request.share is None and request.rows is None and request.weight is None


def choose_certificate(request: Request, at: Callable[[CertificateChoice], Plan]) -> CertificateChoice:
    """What a release certifies: what is asked for; else what is expected to state less than the guarantee.

    `at` plans with so much set aside. Classes of questions are certified besides where their bounds are expected to
    say something, and the workload's to grow by little.
    """
    if request.share is not None or request.groups:
        return asked_for(request)
    share, alpha = best_share(lambda share: at(CertificateChoice(share)).prepared)
    alone = CertificateChoice(share)
    if not share or not _may_choose_classes(request):
        return alone
    names = _useful_classes(at(alone))
    if not names:
        return alone
    full = at(CertificateChoice(share, names))
    beside = full.expected_alpha
    return full.certificate if beside is None or beside <= MAY_COST * (alpha or 1.0) else alone


def _useful_classes(plan: Plan) -> tuple[str, ...]:
    """The classes that are certified by default beside what the mechanism does on about `plan.prepared.n` records."""
    request = plan.request
    names = default_classes(request.queries, n=plan.prepared.n, lists_records=request.lists_records)
    price = prices_of(request, plan.certificate._replace(classes=names)).classes
    return replace(plan.offer, price=price).useful()


def decided(plan: Plan, *, n: int, size: Size | None = None) -> Plan:
    """The same plan for a table of about n records, with the certificates that suit it; those asked for are bought.

    `size` is the number of records where it is private and was paid for first, for the mechanism's `size_price`.
    Public inputs and that number only; the guess instead of it where what is stated in advance judges its noise with
    that of the answers: a number that chose between two such statements would have a say in how often they fail. On
    tables much smaller than the guess this may choose the wider of the two.
    """
    request, paid = plan.request, None
    if size is not None:
        is_asked_for = request.share is not None or request.groups
        decides = not (is_asked_for or plan.prepared.judges_size_with_answers)
        n = n if decides or is_asked_for else request.typical_rows
        paid = PaidSize(size, plan.prepared.size_price, decides)

    @cache
    def at(certificate: CertificateChoice) -> Plan:
        return Plan.of(request, plan.mechanism, certificate, n=n, paid_size=paid)

    return at(choose_certificate(request, at))


def forecast_at(request: Request, mechanism: Mechanism, *, n: int) -> Forecast:
    """What a mechanism promises for a request on about n records, with the certificates that it would have."""

    @cache
    def at(certificate: CertificateChoice) -> Plan:
        return Plan.of(request, mechanism, certificate, n=n)

    usual = asked_for(request)._replace(classes=())
    if at(usual).prepared.refusal is not None:
        which: Stated = "certificate" if usual.share else "guarantee"
        return replace(at(usual).prepared.forecast, stated=which)
    chosen = choose_certificate(request, at)
    alone = at(chosen._replace(classes=()))
    full = at(chosen)
    return (alone if full.prepared.refusal is not None else full).forecast(alone=alone.prepared)

"""The whole main job: plan, then release. Introduces the mechanism to the gate and the ledger to both."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack, overload

from maquette.accounting.ledger import Entry, Ledger
from maquette.core._arguments import checks_arguments
from maquette.core.budget import UNITS, Accounting, Unit
from maquette.core.curator import Curator
from maquette.core.events import Receipt
from maquette.core.measurement import Size
from maquette.domain import Relation
from maquette.errors import ParameterError
from maquette.linked.release import LinkedRelease
from maquette.linked.run import LinkedRequest, release_tables
from maquette.mechanisms import postprocess
from maquette.mechanisms.base import Mechanism, Outcome
from maquette.mechanisms.postprocess import expanded
from maquette.models.answers import generator
from maquette.owner import Table, Tables
from maquette.progress import SILENT, Progress, Report, followed_by
from maquette.queries.base import Queries
from maquette.queries.classes import CLASSES
from maquette.queries.combinations import COMBINATIONS
from maquette.queries.quality import ANY_MEAN, numbers_of
from maquette.queries.typical import TYPICAL
from maquette.releasing import means, parts
from maquette.releasing.certify import (
    can_be_certified,
    certify,
    certify_classes,
    certify_combinations,
    certify_draw,
    certify_group_means,
    certify_typical,
)
from maquette.releasing.payment import (
    Bill,
    bill_of,
    find_payer,
    open_ledger,
    pay,
    warn_if_weak,
)
from maquette.releasing.plan import LARGEST_ERROR, Plan, decided
from maquette.releasing.planning import UNUSED_DELTA, check_memory, plan, plan_of, required, ways_of
from maquette.releasing.ranking import Comparison
from maquette.releasing.request import Request
from maquette.requests import TYPICAL_ROWS, Payer, ReleaseRequest
from maquette.results.binding import bind
from maquette.results.distribution import Distribution, distribution_of
from maquette.results.release import Release, with_distance
from maquette.results.statements import (
    Account,
    Certificate,
    ClassCertificate,
    QualityCertificate,
    Spending,
)
from maquette.results.sums import ColumnSum
from maquette.samplers.draw import EXACT_DRAWS

__all__ = ["Comparison", "open_ledger", "plan", "release", "required"]

UNCERTIFIED = (
    "no certificate was bought: by public numbers the guarantee was expected to state less than it would"
)


class ReleaseOptions(TypedDict, total=False):
    """What a release is asked for besides its table, its queries and epsilon."""

    delta: float
    relation: Relation | str
    mechanism: str | Mechanism
    beta: float
    ledger: Ledger | str | Path | None
    total_epsilon: float | None
    total_delta: float | None
    accounting: Accounting | None
    certificate: float | str | Sequence[str] | None
    groups: bool
    rows: int | Literal["small"] | None
    post: str
    key: str | None
    typical_rows: int
    weight: str | None
    progress: Progress | Report | None


@overload
def release(
    table: Table, queries: Queries, *, epsilon: float, **options: Unpack[ReleaseOptions]
) -> Release: ...


@overload
def release(
    table: Tables, queries: Mapping[str, Queries] | int, *, epsilon: float, **options: Unpack[ReleaseOptions]
) -> LinkedRelease: ...


@checks_arguments
def release(
    table: Table | Tables,
    queries: Queries | Mapping[str, Queries] | int,
    *,
    epsilon: float,
    delta: float = 0.0,
    relation: Relation | str = Relation.ADD_REMOVE,
    mechanism: str | Mechanism = "auto",
    beta: float = 0.05,
    ledger: Ledger | str | Path | None = None,
    total_epsilon: float | None = None,
    total_delta: float | None = None,
    accounting: Accounting | None = None,
    certificate: float | str | Sequence[str] | None = None,
    groups: bool = False,
    rows: int | Literal["small"] | None = None,
    post: str = "auto",
    key: str | None = None,
    typical_rows: int = TYPICAL_ROWS,
    weight: str | None = None,
    progress: Progress | Report | None = None,
) -> Release | LinkedRelease:
    """Answer every query of a workload on a private table, with a small database where one can be made.

    Guarantee: (epsilon, delta)-DP under `relation`; pure if delta is 0. Charged to the ledger before the table is
        looked at. The same request again (or the same `key`) returns the stored values and costs nothing; another
        `key` pays anew. `accounting` is how a ledger that is made here counts a delta: "gaussian" or "zcdp", by default
        the one in which the mechanism needs less noise; a ledger that is there counts as it was made to. Where pure
        noise is expected to state less (few questions, mostly), a release leaves its delta aside, out of the pure part
        of its ledger: one that it makes without an `accounting`, or one with enough of it left. Without
        `ledger` a table from a file has its ledger beside the file, and a table from memory is refused; "memory" keeps
        one that is forgotten with the table's handle, and warns.
    Accuracy: `release.stated`: `release.guarantee` in advance or, for the share `certificate` of the budget,
        `release.certificate` afterwards; per group of queries if `groups`. Where neither is asked for, a certificate is
        bought if it is expected to state less than the guarantee, for the share at which it is expected to state least
        (5 % to 20 %): from public numbers, and from the number of records, which is asked for first where it is
        private. `certificate` also takes words: "workload", and classes of questions far beyond it that are
        certified for another 5 % (`release.certificates`): "any combination" of values of any columns, "any
        combination and a range" or "and a list" of one column, each also " on one column", " on 2 columns" and " on 3
        columns"; "two ranges", "three ranges", "one attribute", "one small attribute", "two attributes", "two
        attributes with a small one", "three attributes", "anything on two attributes", "relative"; by default those
        that are expected to say enough. With `weight`, the name of a declared
        attribute, records count by its value (mechanism `roth`): fractions are of the total weight, and so are the
        errors. `rows` is the size of the small database: a number, or "small" for the fewest rows that still keep the
        largest error (`sculpt`). Of several tables `queries` are a dictionary, or k for all k-way marginals; all that
        is stated of them holds together (`docs/several-tables.md`).
    """
    request = ReleaseRequest(
        epsilon=epsilon,
        delta=delta,
        relation=relation,
        mechanism=mechanism,
        beta=beta,
        accounting=accounting,
        certificate=certificate,
        groups=groups,
        rows=rows,
        post=post,
        typical_rows=typical_rows,
        weight=weight,
    )
    payer = Payer(ledger=ledger, total_epsilon=total_epsilon, total_delta=total_delta, key=key)
    if isinstance(table, Tables):
        if isinstance(queries, Queries):
            raise ParameterError("expected queries for each table: a dictionary, or a number k")
        return tables_released(
            table, LinkedRequest.of(table.schema, queries, request), payer, progress=progress
        )
    if not isinstance(queries, Queries):
        raise ParameterError("expected a class of queries, as mq.marginals(domain, 2) makes one")
    return release_of(table, queries, request, payer, progress=progress)


def release_of(
    table: Table,
    queries: Queries,
    wish: ReleaseRequest,
    payer: Payer,
    *,
    progress: Progress | Report | None = None,
) -> Release:
    """The release that is asked for: planned, paid, run and stated."""
    request = Request.of(queries, wish, persons=table.persons, lists_records=table.lists_records)
    watcher = followed_by(progress)
    warn_if_weak(request.budget)
    with find_payer(table, payer, relation=request.between) as till:
        ways = ways_of(request, till.ledger, total=payer.total(request.budget), key=payer.key)
        plan = plan_of(*ways)
        check_memory(plan, limit=table.memory_limit)
        total = payer.total(plan.budget if plan.budget.delta else request.budget)
        book = till.open(parts.split(total, request.budget, plan.budget))
        name = payer.key or plan.request.key
        return _paid(table, book, plan, bill_of(plan, name), watcher)


def tables_released(
    tables: Tables, request: LinkedRequest, payer: Payer, *, progress: Progress | Report | None = None
) -> LinkedRelease:
    """The release of several tables that is asked for, paid, run and stated."""
    return release_tables(tables, request, payer, part=_paid, progress=followed_by(progress))


def _paid(table: Table, book: Ledger, plan: Plan, bill: Bill, watcher: Progress) -> Release:
    """A release of which everything is decided, and who pays for it."""
    curator = Curator(
        table, book, key=bill.key, budget=plan.budget, draws=EXACT_DRAWS, watch=_watched(watcher)
    )
    with pay(book, bill) as payment:
        plan = _decided(curator, plan)
        watcher.expect(plan.stages)
        done = run(curator, plan, key=bill.key, progress=watcher)
    result = finish(plan, done, book, payment.settle(), watermark=curator.watermark)
    bind(book, result, key=bill.key)
    return result


def _watched(progress: Progress) -> Callable[[int], None] | None:
    """How the holder of the table follows a long draw. The share is a guess: the number of levels is private."""
    if not progress.is_for_holder:
        return None
    return lambda levels: progress(
        f"drawing a small database: {levels} levels counted", levels / (levels + 20)
    )


def _decided(curator: Curator, plan: Plan) -> Plan:
    """The plan with everything that goes by the number of records: a public one, or one that is paid for first.

    What records weigh is asked for by the mechanism; a guess decides until then.
    """
    request, price = plan.request, plan.prepared.size_price
    if request.between is Relation.REPLACE_ONE and request.weight is None:
        return decided(plan, n=curator.size(price=Fraction(0)).divisor)
    if not price or plan.prepared.is_constant:
        return decided(plan, n=request.typical_rows)
    size = curator.size(price=price)
    return decided(plan, n=size.divisor, size=size)


@dataclass(frozen=True, slots=True)
class _Done:
    outcome: Outcome
    certificate: Certificate | None
    classes: tuple[ClassCertificate, ...] = ()
    quality: tuple[QualityCertificate, ...] = ()
    sums: tuple[ColumnSum, ...] = ()


def run(curator: Curator, plan: Plan, *, key: str, progress: Progress = SILENT) -> _Done:
    """The mechanism, the sums of columns, then the certificate, all through the same gate."""
    outcome = plan.prepared.run(curator, rng=generator(key), progress=progress)
    price = plan.prices.sums
    paid = means.measure(curator, plan.request.queries, price=price) if price else ()
    done = _certified(curator, plan, outcome, key=key, progress=progress)
    return replace(done, sums=tuple(ColumnSum.of(column) for column in paid))


def _certified(curator: Curator, plan: Plan, outcome: Outcome, *, key: str, progress: Progress) -> _Done:
    """What a mechanism has made, with its certificates."""
    request = plan.request
    outcome = expanded(outcome, request.merged)
    outcome = postprocess.meeting(outcome, request.queries, key=key)
    if not request.queries.count:
        return _Done(outcome, None)
    if request.unused_delta:
        outcome = replace(outcome, notes=(*outcome.notes, UNUSED_DELTA))
    certified, left_out = bool(plan.prices.workload), plan.classes_left_out
    if left_out:
        outcome = replace(outcome, notes=(*outcome.notes, _too_few(left_out, outcome.size)))
    if not certified and request.share is None:
        outcome = replace(outcome, notes=(*outcome.notes, UNCERTIFIED))
    if not plan.certificates:
        return _Done(outcome, None)
    progress(LARGEST_ERROR, 0.0)
    certificate = _certify(curator, plan, outcome) if certified else None
    done = _with_classes(curator, plan, outcome, certificate, key=key)
    progress(LARGEST_ERROR, 1.0)
    return done


def _certify(curator: Curator, plan: Plan, outcome: Outcome) -> Certificate:
    """Over the listed answers, or by the score of a drawn database."""
    queries, size, price = plan.request.queries, outcome.size, plan.prices.workload
    by_size = _is_decided_by_size(plan, outcome)
    if outcome.scored_draw is not None:
        certificate = certify_draw(
            curator,
            queries,
            outcome.scored_draw,
            size=size,
            price=price,
            beta=plan.beta,
            decided_by_size=by_size,
        )
    else:
        certificate = certify(
            curator,
            queries,
            outcome.answers,
            size=size,
            price=price,
            beta=plan.beta,
            certificates=plan.certificates,
            model=outcome.model,
            by_group=plan.request.groups,
            decided_by_size=by_size,
        )
    return replace(certificate, beta=plan.request.beta)  # what all certificates hold with together


def _is_decided_by_size(plan: Plan, outcome: Outcome) -> bool:
    """Did the very number of records that answers are shares of decide what is bought? Some ask for it once more."""
    paid = plan.paid_size
    return paid is not None and paid.decides and outcome.size is paid.size


def _with_classes(
    curator: Curator, plan: Plan, outcome: Outcome, certificate: Certificate | None, *, key: str
) -> _Done:
    """The certificates of classes of questions beside that of the workload."""
    names = plan.certificate.classes
    if not names:
        return _Done(outcome, certificate)
    distribution = distribution_of(plan.request.queries, outcome.answers, outcome.database)
    able = [name for name in names if distribution is not None and _is_able(distribution, name)]
    combined = [name for name in able if name in COMBINATIONS]
    typical = [name for name in able if name in TYPICAL]
    by_tables = [name for name in able if name in CLASSES]
    classes: tuple[ClassCertificate, ...] = ()
    terms: dict[str, Any] = {
        "size": outcome.size,
        "beta": plan.beta,
        "together": plan.request.beta,
        "certificates": plan.certificates,
        "model": outcome.model,
        "decided_by_size": _is_decided_by_size(plan, outcome),
    }
    if distribution is not None and combined:
        price = plan.price_of_classes(len(combined))
        classes += certify_combinations(
            curator, combined, distribution, price=price, workload=certificate, **terms
        )
    if distribution is not None and by_tables:
        price = plan.price_of_classes(len(by_tables))
        classes += certify_classes(curator, by_tables, distribution, price=price, **terms)
    quality: tuple[QualityCertificate, ...] = ()
    if distribution is not None and typical:
        price = plan.price_of_classes(len(typical))
        quality += certify_typical(curator, typical, distribution, key=key, price=price, **terms)
    if distribution is not None and ANY_MEAN in able:
        price = plan.price_of_classes(1)
        quality += certify_group_means(curator, distribution, price=price, workload=certificate, **terms)
    if left_out := set(names) - {one.name for one in (*classes, *quality)}:
        outcome = replace(outcome, notes=(*outcome.notes, _uncertified(left_out)))
    return _Done(outcome, certificate, classes, quality)


def _is_able(distribution: Distribution, name: str) -> bool:
    """Has a released distribution what a class of questions is about?"""
    if name == ANY_MEAN:
        return any(numbers_of(distribution.domain, distribution.columns))
    if name in COMBINATIONS or name in TYPICAL:
        return bool(distribution.columns)
    return can_be_certified(distribution.domain, name, distribution.sets)


def _too_few(names: Collection[str], size: Size) -> str:
    return (
        f"not certified: {', '.join(sorted(names))}; with about {size.divisor:,} records these bounds would be "
        "uninformative, or widen the workload's own, so no budget was spent on them; request them with certificate= "
        "(--certificate)"
    )


def _uncertified(names: Collection[str]) -> str:
    return (
        f"not certified: {', '.join(sorted(names))}; such classes need rows, or answers to whole marginals, and tables "
        "or rows that are not too large"
    )


def finish(plan: Plan, done: _Done, book: Ledger, paid: Entry, *, watermark: str | None) -> Release:
    """Everything public about the run, in one object; made when it was paid in full, however often it is repeated."""
    request, outcome, key = plan.request, done.outcome, paid.key
    is_pure = bool(paid.pure)
    unit = Unit.EPSILON if is_pure else book.budget.unit
    part = book.balance().parts(book.budget.unit)[unit]
    payments = list(book.entries(kind="reserve", parent=key))
    assert paid.settlement is not None
    last_entry = next(book.entries(after=paid.settlement.sequence - 1))
    result = Release(
        workload=request.queries,
        answers=outcome.answers,
        mechanism=plan.mechanism.name,
        relation=request.between,
        persons=request.persons,
        budget=request.budget,
        beta=request.beta,
        size=outcome.size,
        guarantee=outcome.guarantee,
        certificate=done.certificate,
        certificates=done.classes,
        sums=done.sums,
        quality=done.quality,
        database=outcome.database,
        model=outcome.model,
        deviations=outcome.deviations,
        exactness="exact" if not any(p.slack for p in payments) else "approximate with a proven bound",
        spending=tuple(
            Spending(p.tag, (p.pure if is_pure else p.units) / UNITS, unit, p.seq, p.body.get("ask"))
            for p in payments
        ),
        account=Account(
            book.name,
            unit,
            part.total / UNITS,
            part.charged / UNITS,
            part.reserved / UNITS,
            book.opened,
            None if book.budget.delta == request.budget.delta else book.budget.delta,
        ),
        receipts=tuple(
            Receipt(entry.seq, entry.head)
            for entry in book.entries(kind="answer")
            if entry.key.startswith(f"{key}/")
        ),
        parameters=outcome.parameters | {"key": key},
        notes=(*outcome.notes, *request.queries.notes),
        watermark=watermark,
        created=datetime.fromisoformat(last_entry.created).replace(microsecond=0),
    )
    return with_distance(result)

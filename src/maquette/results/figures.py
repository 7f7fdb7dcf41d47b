"""Counts, shares, sums, means and quantiles by groups of records, each between the ends that a release states.

Everything here is arithmetic on released numbers. A figure of a numeric attribute x needs no certificate of its own:
with cells of values v_1 < ... < v_k, a weighted count is a sum of counts of one-sided conditions,

    sum_t w_t c(x in cell t) = w_1 c(x declared) + sum_t (w_t - w_(t-1)) c(x >= cell t),

so if every one-sided condition is within e of the truth, it is within e times the variation of the weights. Hence, with
C the share of the records in the group whose value is declared, D = v_k - v_1, and h_t how far a value can lie from v_t
inside its cell:

    sum    within (min |v_t| + D) e, and the mean of h_t times C for what cells do not tell
    mean   within D e / (C - e), and the same mean of h_t: the true mean less the stated one is sum (v_t - mean) c_t / C
    quantile at level p: not below the border b_t if c(x < b_t) - p C < -e, not above it if that is >= e
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maquette.errors import ReleaseError, WorkloadError
from maquette.queries import condition
from maquette.queries.condition import Condition, Leaf, Runs
from maquette.queries.predicates import of_condition
from maquette.queries.quality import ANY_MEAN, rounding
from maquette.results import sums
from maquette.results.answering import check_attributes
from maquette.results.covering import Bound, Product, error_of
from maquette.results.distribution import marginal_places, records, variance_of_records
from maquette.results.groups import Groups
from maquette.results.knowledge import estimate
from maquette.results.means import Cells, crossing, ends_by_noise, mean_by_tails
from maquette.results.select import Item
from maquette.results.statements import Estimate
from maquette.results.sums import ColumnSum
from maquette.sculpt.model import SculptModel

if TYPE_CHECKING:
    from maquette.results.release import Release

Floats = NDArray[np.float64]

MEANS = "from the noise of a measured table (means and sums, for each cell alone)"
"""Beside the statement of the shares, where a mean is known better by its own noise."""
SEARCHED = "certified for the means of all groups"
"""Beside it where a mean is known better by the certificate of group means."""
NOBODY = "no record"
MAX_SINGLE = 5_000
"""Questions that are answered one by one where no statement covers a whole table."""
MAX_EACH = 2_000
"""Groups that are looked at one by one though a statement covers all of them: a second or two."""


@dataclass(frozen=True, slots=True)
class Figures:
    """One number for every group, between `lower` and `upper`; those are NaN where nothing is stated."""

    value: Floats
    lower: Floats
    upper: Floats

    @property
    def error(self) -> Floats:
        """The farther of both ends."""
        return np.maximum(self.value - self.lower, self.upper - self.value)


@dataclass(frozen=True, slots=True)
class Shares:
    """Released shares of the records in every group (rows) and cell of an attribute (columns).

    Any one-sided set of a row's cells is within `errors` of the row, NaN where nothing is stated.
    """

    values: Floats
    errors: Floats
    statement: str


@dataclass(frozen=True, eq=False)
class Grouping(Groups):
    """Groups of records with what one release says about them."""

    release: Release

    @classmethod
    def of(cls, release: Release, by: Sequence[str], text: str | None) -> Grouping:
        """Checked: attributes of the release, a condition that is exact on cells, not too many groups."""
        groups = Groups.over(release.domain, by, text, undeclared=True)
        if groups.predicate is not None:
            check_attributes(release, groups.predicate)
        for name in groups.by:
            if name not in release.measured:
                raise ReleaseError(
                    f"'{name}' is not in this release, which is about {', '.join(release.measured)}"
                )
        return cls(groups.domain, groups.by, groups.predicate, release)

    # --- figures ---------------------------------------------------------------------------------------------------

    def figures(self, item: Item) -> tuple[Figures, list[str]]:
        """The figure of an item for every group, and by what it is known."""
        if item.where is None:
            return self._whole(item), self.statements(item)
        if item.figure == "part":
            return self._part(item.where)
        return self._filtered(item, item.where)

    def _whole(self, item: Item) -> Figures:
        name = item.attribute or ""
        match item.figure:
            case "share":
                return self.share()
            case "sum" | "mean" if (column := self._column(name)) is not None:
                return self._by_own_sum(column, item.figure)
            case "sum":
                return self.sum(name)
            case "mean":
                return self.mean(name)
            case "quantile":
                assert item.level is not None
                return self.quantile(name, item.level)
            case _:
                return self.count(item.attribute)

    def _column(self, name: str | None) -> ColumnSum | None:
        """The measured sum of a numeric attribute, where the figure is about all records."""
        if self.by or self.predicate is not None or self.release.size.unpaid:
            return None
        return next((column for column in self.release.sums if column.name == name), None)

    def has_own_sum(self, item: Item) -> bool:
        """Is a mean or a sum known by the noise of the column's own sum?"""
        is_about_all = item.figure in ("sum", "mean") and item.where is None
        return is_about_all and self._column(item.attribute) is not None

    def _by_own_sum(self, column: ColumnSum, figure: str) -> Figures:
        """The mean or the sum of all declared values, by the noise of its own sum."""
        release = self.release
        beta = release.beta * release.knowledge.part_of_beta
        size = sums.Records(
            *self._size, release.size.public, variance_of_records(release.size, release.model)
        )
        state = sums.mean_of if figure == "mean" else sums.sum_of
        between = state(column, self.domain[column.name], size, beta=beta)
        return Figures(*(np.array([end]) for end in (between.value, between.lower, between.upper)))

    def _filtered(self, item: Item, text: str) -> tuple[Figures, list[str]]:
        """The figure of those who meet a further condition; groups that have none of them are there too."""
        both = text if self.predicate is None else f"({self.predicate.sql}) AND ({text})"
        inner = Grouping.of(self.release, self.by, both)
        self.remarks.update(dict.fromkeys(inner.remarks))
        some, said = inner.figures(replace(item, where=None))
        nobody = 0.0 if item.figure in ("count", "share", "sum") else float("nan")
        ends, places = np.full((3, len(self.codes)), nobody), inner.left[self.left]
        ends[:, places] = (some.value, some.lower, some.upper)
        statements = np.full(len(self.codes), NOBODY, dtype=object)
        statements[places] = said
        return Figures(*ends), statements.tolist()

    def _part(self, text: str) -> tuple[Figures, list[str]]:
        """Of the records of every group the share that meets a condition: s / (s + r), r those that do not.

        Accuracy: s and r have half of the chance each that a model's interval fails. The quotient rises with s and
            falls with r, so that its ends are those of both.
        """
        inside = Groups.over(self.domain, (), text, undeclared=True)
        if inside.predicate is not None:
            check_attributes(self.release, inside.predicate)
            self.remarks.update(dict.fromkeys(inside.predicate.remarks))
        if 2 * len(self.codes) > MAX_SINGLE:
            raise WorkloadError(
                f"shares of {len(self.codes):,} groups are too many to look at one by one; group by fewer attributes"
            )
        others = condition.opposite(self.domain, inside.condition)
        rows, said = list[tuple[float, float, float]](), list[str]()
        for group in self.codes.tolist():
            leaves, beta = self.leaves_of(group), self.release.beta / 2
            own, rest = (self._ask([*leaves, part], beta=beta) for part in (inside.condition, others))
            rows.append(
                (
                    _quotient(own.value, rest.value),
                    _quotient(own.lower, rest.upper),
                    _quotient(own.upper, rest.lower),
                )
            )
            said.append("; ".join(dict.fromkeys((_said(own), _said(rest)))))
        return Figures(*np.array(rows, dtype=np.float64).reshape(-1, 3).T), said

    @cached_property
    def remarks(self) -> dict[str, None]:
        """Which values of the conditions are not declared."""
        return {} if self.predicate is None else dict.fromkeys(self.predicate.remarks)

    def share(self, declared: str | None = None) -> Figures:
        """Of all records of the table; with `declared` only those whose value of that attribute is declared.

        Every group is a set of records and is known as it is wherever it is asked for (`results/knowledge.py`); of more
        groups than can be looked at one by one, what is stated for all of them at once.
        """
        if len(self.codes) > MAX_EACH:
            return self._share_at_once(declared)
        ends = ((one.value, one.lower, one.upper) for one in self._each(declared))
        table = np.array(list(ends), dtype=np.float64).reshape(-1, 3)
        return Figures(*table.T)

    def _share_at_once(self, declared: str | None) -> Figures:
        """The same by one statement for all groups together."""
        shares = self._shares(declared)
        columns = 1 if declared is None else self.domain[declared].cells
        value = np.clip(shares.values[:, :columns].sum(axis=1), 0.0, 1.0)
        return Figures(value, np.maximum(value - shares.errors, 0.0), np.minimum(value + shares.errors, 1.0))

    def _each(self, declared: str | None) -> list[Estimate]:
        """What is stated about every group."""
        if declared not in self._estimates:
            extra = [] if declared is None else [Leaf(declared, condition.whole(self.domain[declared].cells))]
            codes: list[list[int]] = self.codes.tolist()
            self._estimates[declared] = [self._ask([*self.leaves_of(group), *extra]) for group in codes]
        return self._estimates[declared]

    @cached_property
    def _estimates(self) -> dict[str | None, list[Estimate]]:
        return {}

    def count(self, declared: str | None = None) -> Figures:
        """Numbers of records: shares times the number of records in the table, which may be noisy itself."""
        return self._as_count(self.share(declared))

    def _as_count(self, share: Figures) -> Figures:
        low, n, high = self._size
        return Figures(share.value * n, share.lower * low, share.upper * high)

    def sum(self, name: str) -> Figures:
        """The sum of a numeric attribute over the records whose value is declared.

        Never beyond what so many records can sum up to: at least the smallest value times their number.
        """
        cells, shares = Cells.of(self.domain[name]), self._shares(name)
        values = shares.values[:, : len(cells.values)]
        total = values @ cells.values
        nearest = 0.0 if cells.values[0] <= 0 <= cells.values[-1] else float(np.abs(cells.values).min())
        off = (nearest + cells.width) * shares.errors
        off = off + values @ cells.reach + shares.errors * (cells.reach.min() + cells.reach_variation)
        low, n, high = self._size
        ends = np.stack(
            [(total - off) * low, (total - off) * high, (total + off) * low, (total + off) * high]
        )
        count = self._as_count(self._share_at_once(name))  # by the statement that the mean is known by
        least, most = cells.values[0] - cells.reach[0], cells.values[-1] + cells.reach[-1]
        lower = np.maximum(ends.min(axis=0), np.minimum(least * count.lower, least * count.upper))
        upper = np.minimum(ends.max(axis=0), np.maximum(most * count.lower, most * count.upper))
        mean = self.mean(name)  # so many records with such a mean: NaN where there may be none
        lower = np.fmax(lower, np.minimum(mean.lower * count.lower, mean.lower * count.upper))
        upper = np.fmin(upper, np.maximum(mean.upper * count.lower, mean.upper * count.upper))
        return Figures(total * n, lower, upper)

    def mean(self, name: str) -> Figures:
        """The mean of a numeric attribute over the records whose value is declared; NaN where there may be none."""
        cells, shares = Cells.of(self.domain[name]), self._shares(name)
        values = shares.values[:, : len(cells.values)]
        inside = values.sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            value = values @ cells.values / inside
            reach = values @ cells.reach / inside
            off = (cells.width + cells.reach_variation) * shares.errors / (inside - shares.errors) + reach
        off = np.where(inside > shares.errors, off, np.nan)
        least, most = mean_by_tails(values, shares.errors, cells)
        lower = np.maximum(value - off, least)
        upper = np.minimum(value + off, most)
        least, most = self._means_by_search(name, cells)
        together = (np.fmax(lower, least) <= np.fmin(upper, most)) & ~np.isnan(least)
        if (together & ~(np.fmin(upper, most) - np.fmax(lower, least) >= upper - lower)).any():
            self._by_search[name] = None
        lower = np.where(together, np.fmax(lower, least), lower)
        upper = np.where(together, np.fmin(upper, most), upper)
        value = np.where(together, np.clip(value, lower, upper), value)
        least, most = self._means_by_noise(name)
        narrower = ~(np.fmin(upper, most) - np.fmax(lower, least) >= upper - lower) & ~np.isnan(least)
        apart = (least > upper) | (most < lower)  # one of the two statements fails: nobody knows which
        lower, upper = (
            np.where(narrower, np.where(apart, np.fmin(lower, least), np.fmax(lower, least)), lower),
            np.where(narrower, np.where(apart, np.fmax(upper, most), np.fmin(upper, most)), upper),
        )
        value = np.where(narrower, np.clip(value, lower, upper), value)
        if narrower.any():
            self._by_noise[name] = None
        return Figures(np.where(inside > 0, value, np.nan), lower, upper)

    def _means_by_noise(self, name: str) -> tuple[Floats, Floats]:
        """Between which ends the noise of a measured table puts every mean (`results/means.py`); NaN where it is none.

        Each is for one cell alone, at the share of beta that a single interval has besides all certificates of classes;
        a release without those has no such share.
        """
        ends = np.full((2, len(self.codes)), np.nan)
        model = self.release.model if self.release.shares_beta else None
        if isinstance(model, SculptModel) and self.predicate is None and name not in self.by:
            beta = self.release.beta * self.release.knowledge.part_of_beta
            for i, group in enumerate(self.codes.tolist()):
                interval = ends_by_noise(
                    model, dict(zip(self.by, group, strict=True)), self.domain[name], beta=beta
                )
                if interval is not None:
                    ends[:, i] = interval
        return ends[0], ends[1]

    def _means_by_search(self, name: str, cells: Cells) -> tuple[Floats, Floats]:
        """Between which ends the certificate of all group means puts every mean; NaN where it does not.

        Accuracy: the records of a group that have a value are at least the rows' share less the certified error of that
            share, and the errors of both are parts of the same records: see `core/group_means.py`.
        """
        nowhere = np.full(len(self.codes), np.nan)
        certificate = next((one for one in self.release.quality if one.name == ANY_MEAN), None)
        coverage, leaves = self.release.coverage, self.leaves
        if certificate is None or coverage is None or leaves is None or name in (*self.by, *leaves):
            return nowhere, nowhere
        columns = {*self.by, *leaves, name}
        are_values = all(condition.count(runs) == 1 for runs in leaves.values())
        is_searched = len(columns) <= certificate.over and columns <= set(coverage.distribution.columns)
        errors = [coverage.bound_of_rows(product) for product in self._products(0, name)]
        error = max((one for one in errors if one is not None), default=math.nan)
        if not are_values or not is_searched or None in errors:
            return nowhere, nowhere
        keep = tuple(n for n in self.domain.names if n in self.by or n == name)
        shares = self._arranged(coverage.of_rows(keep, leaves), keep, name)[:, : len(cells.values)]
        inside = shares.sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = shares @ cells.values / inside
            off = (certificate.alpha * cells.width + cells.reach_variation * error) / (inside - error)
            off = off + shares @ cells.reach / inside + rounding(self.domain[name]) * cells.width
        off = np.where(inside > error, off, np.nan)
        return mean - off, mean + off

    @cached_property
    def _by_search(self) -> dict[str, None]:
        """Attributes with a mean that the certificate of group means narrows."""
        return {}

    @cached_property
    def _by_noise(self) -> dict[str, None]:
        """Attributes with a mean that the noise of a table narrows."""
        return {}

    def quantile(self, name: str, level: Fraction) -> Figures:
        """The value below which a share `level` of the records lies, of those whose value is declared."""
        attribute, p = self.domain[name], float(level)
        shares = self._shares(name)
        values = np.maximum(shares.values[:, : attribute.cells], 0.0)
        borders = np.array([attribute.edge(i) for i in range(attribute.cells + 1)])
        below = np.concatenate([np.zeros((len(values), 1)), np.cumsum(values, axis=1)], axis=1)
        inside = below[:, -1]
        gap = below - p * inside[:, None]
        value = np.array([crossing(row, borders) for row in gap])
        errors = shares.errors[:, None]
        low = np.where(gap < -errors, borders, -np.inf).max(axis=1)
        high = np.where(gap >= errors, borders, np.inf).min(axis=1)
        has_error = ~np.isnan(shares.errors) & (inside + shares.errors > 0)
        lower = np.where(has_error, np.maximum(low, borders[0]), np.nan)
        upper = np.where(has_error, np.minimum(high, borders[-1]), np.nan)
        return Figures(np.where(inside > 0, value, np.nan), lower, upper)

    # --- shares of groups --------------------------------------------------------------------------------------------

    @cached_property
    def _size(self) -> tuple[float, float, float]:
        """The number of records between the ends that the certificates reckon with, so that all hold together."""
        release = self.release
        return records(release.size, release.model, beta=release.beta * release.knowledge.part_of_beta)

    def statements(self, item: Item) -> list[str]:
        """By what the figures of every group are stated."""
        name = item.attribute
        if self.has_own_sum(item):
            return [sums.STATEMENT]
        if item.figure in ("count", "share") and len(self.codes) <= MAX_EACH:
            return [_said(one) for one in self._each(name)]
        statement = self._shares(name).statement
        if name in self._by_search:
            statement = f"{statement}; {SEARCHED}"
        whole = f"{statement}; {MEANS}" if name in self._by_noise else statement
        return [whole] * len(self.codes)

    def _shares(self, name: str | None) -> Shares:
        if name not in self._cache:
            whole = [one for one in (self._of_workload(name), self._of_classes(name)) if one is not None]
            best = min(whole, key=lambda one: float(np.nanmax(one.errors, initial=0.0)), default=None)
            self._cache[name] = best if best is not None else self._one_by_one(name)
        return self._cache[name]

    @cached_property
    def _cache(self) -> dict[str | None, Shares]:
        return {}

    def _of_workload(self, name: str | None) -> Shares | None:
        """Groups that are cells of a marginal of the workload: its bound holds for all of them together."""
        release = self.release
        margin = tuple(n for n in release.domain.names if n in self.by)
        places = marginal_places(release.workload)
        if name is not None or self.predicate is not None or margin not in places or not release.listed:
            return None
        place = places[margin]
        alpha, _ = release.knowledge.workload_bound(np.array([place.start, place.stop - 1]))
        if not alpha < 1:
            return None
        table = release.answers.numerators[place] / release.answers.denominator
        values = self._arranged(table, margin)
        return Shares(values, np.full(len(values), alpha), release.knowledge.workload_statement)

    def _of_classes(self, name: str | None) -> Shares | None:
        """Groups that a certified class covers, all from one table."""
        coverage = self.release.coverage
        if coverage is None or self.leaves is None or self._product(0, name) is None:
            return None
        bound = coverage.bound(self._product(0, name) or ())
        if bound is None:
            return None
        keep = tuple(n for n in self.domain.names if n in self.by or n == name)
        table = coverage.shares(bound.statement, keep, self.leaves)
        values = self._arranged(table, keep, name)
        return Shares(values, self._errors(bound, name), f"certified for {bound.statement.says}")

    def _errors(self, bound: Bound, name: str | None) -> Floats:
        """The bound of every group; groups that are single cells of the same attributes have the same."""
        shared = not set(self.by) & set(self.leaves or ()) and name not in (*self.by, *(self.leaves or ()))
        groups = range(1) if shared else range(len(self.codes))
        errors = [
            max((error_of(product, bound) for product in self._products(i, name)), default=0.0)
            for i in groups
        ]
        return np.full(len(self.codes), errors[0]) if shared else np.array(errors)

    def _products(self, group: int, name: str | None) -> list[Product]:
        """The conjunctions whose errors a row of shares stands for: one-sided in `name`."""
        if name is None or name in self.by:
            product = self._product(group, name)
            return [] if product is None else [product]
        cells = self.domain[name].cells
        inside = (self.leaves or {}).get(name, condition.whole(cells))
        sides = [condition.meet(inside, ((t, cells - 1),)) for t in range(cells)]
        return [self._product(group, name, runs) or () for runs in dict.fromkeys(sides) if runs]

    def _product(self, group: int, name: str | None, runs: Runs | None = None) -> Product | None:
        """The conjunction of the condition and one group, and a one-sided set of another attribute."""
        if self.leaves is None or not len(self.codes):
            return None
        sets = dict(self.leaves)
        for attribute, code in zip(self.by, self.codes[group].tolist(), strict=True):
            sets[attribute] = ((code, code),)
        if name is not None and name not in self.by:
            cells = self.domain[name].cells
            sets[name] = runs if runs is not None else sets.get(name, ((cells // 2, cells - 1),))
        return tuple(Leaf(attribute, cells) for attribute, cells in sets.items())

    def _arranged(self, table: NDArray[Any], names: tuple[str, ...], name: str | None = None) -> Floats:
        """A table over `by` (and `name`) with a row for each group, columns for the cells of `name`."""
        domain = self.domain
        shape = [domain[n].size for n in names]
        grid = np.asarray(table, dtype=np.float64).reshape(shape)
        if name is not None and name in self.by:  # the value of a group is its own cell
            order = [names.index(n) for n in self.by]
            flat = grid.transpose(order).ravel()[self.left]
            rows = np.zeros((len(flat), domain[name].size))
            rows[np.arange(len(flat)), self.codes[:, self.by.index(name)]] = flat
            return rows
        order = [names.index(n) for n in (*self.by, *((name,) if name is not None else ()))]
        columns = 1 if name is None else domain[name].size
        return grid.transpose(order).reshape(-1, columns)[self.left]

    def _one_by_one(self, name: str | None) -> Shares:
        """Every group asked for by itself, with whatever is stated about it."""
        domain = self.domain
        cells = 1 if name is None or name in self.by else domain[name].cells
        if len(self.codes) * cells > MAX_SINGLE:
            raise WorkloadError(
                f"no statement of this release covers a table over {', '.join(self.by) or 'these records'} as a whole, "
                f"and {len(self.codes) * cells:,} questions are too many to ask one by one; group by fewer attributes"
            )
        width = 1 if name is None else domain[name].size
        values, errors = np.zeros((len(self.codes), width)), np.full(len(self.codes), np.nan)
        said: dict[str, None] = {}
        for i, group in enumerate(self.codes.tolist()):
            leaves = self.leaves_of(group)
            if name is None or name in self.by:
                place = 0 if name is None else group[self.by.index(name)]
                one = self._ask(leaves)
                values[i, place], errors[i] = one.value, _error(one)
            else:
                sides = [self._ask([*leaves, Leaf(name, ((t, cells - 1),))]) for t in range(cells)]
                from_there = np.array([one.value for one in sides])
                values[i, :cells] = from_there - np.append(from_there[1:], 0.0)
                errors[i] = max(_error(one) for one in sides)
                one = sides[0]
            said[_said(one)] = None
        return Shares(values, errors, "; ".join(said))

    def _ask(self, leaves: Sequence[Condition], *, beta: float | None = None) -> Estimate:
        """The share of the records of the condition and some sets."""
        result = estimate(self.release, of_condition(self.domain, self.joined(leaves)), beta=beta)
        if result is None:
            raise ReleaseError(
                "this release holds answers only and does not cover this table; ask for tables of its workload"
            )
        return result


def _quotient(own: float | None, rest: float | None) -> float:
    """The share of some records among them and the rest; NaN where there may be none or nothing is stated."""
    return float("nan") if own is None or rest is None or not own + rest > 0 else own / (own + rest)


def _error(one: Estimate) -> float:
    """How far it may be off; NaN where that is not stated."""
    return float("nan") if one.error is None else one.error


def _said(one: Estimate) -> str:
    """How it is known."""
    about = " (for each cell alone)" if one.alone else ""
    return (one.statement or one.note or f"from the {one.source}") + about

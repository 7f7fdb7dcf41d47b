"""Small databases near a table: proposed by an earlier release, or grown row by row.

`grow` chooses every row privately (SmallDB by m choices instead of one draw).
One draw among all small databases is out of reach beyond a few cells, and a draw among proposals is as good as these.
Row by row is between the two: each step scores the database with one more row by SmallDB's own score, the largest
error over the workload, and the exponential mechanism (or permute-and-flip) chooses the row. The steps share the
price. No theorem bounds what a greedy path loses against the best database: a certificate measures it.

`small_databases` proposes candidates for one private draw (SmallDB on a released range). The proposals follow from the
release, so they cost nothing, and any number of sizes may be tried. The draw among them is the exponential mechanism on
SmallDB's score; what it loses against the best proposal is its regret. How good the best proposal is, no theorem says
in advance: a certificate measures it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.core import _check
from maquette.core._arguments import checks_arguments
from maquette.core.answers import ChoiceQuestion
from maquette.core.budget import UNITS
from maquette.core.curator import Curator
from maquette.domain import Relation
from maquette.errors import ParameterError
from maquette.models.answers import Answers, SmallDatabase, generator
from maquette.owner import Table
from maquette.queries.base import Queries
from maquette.releasing.payment import Place
from maquette.requests import Payer, Privacy
from maquette.results.release import Release
from maquette.tools.envelope import curator_for

MAX_CELLS = 4096
"""Cells of the queries' attributes up to which every record may be the next row; beyond, rows of a release must do."""
MAX_GROWN = 10_000
"""Rows of a grown database: each is a private choice of its own."""
MAX_OPTIONS = 256
"""Rows that one step chooses among."""


@dataclass(frozen=True, slots=True, eq=False)
class Grown:
    """A small database that was grown row by row."""

    database: SmallDatabase
    workload: Queries
    epsilon: float
    """Of one choice."""
    key: str

    @property
    def answers(self) -> Answers:
        """Of its rows to the workload, as fractions."""
        return self.database.answer(self.workload)


@checks_arguments
def grow(
    table: Table,
    workload: Queries,
    *,
    rows: int,
    epsilon: float,
    delta: float = 0.0,
    source: Release | None = None,
    relation: Relation | str = Relation.ADD_REMOVE,
    ledger: Place = None,
    total_epsilon: float | None = None,
    total_delta: float | None = None,
    key: str | None = None,
) -> Grown:
    """A small database of `rows` rows near the table on a whole workload, chosen one row at a time.

    The rows to choose from are those of an earlier release (`source`), or every record over the attributes of the
    workload where these are at most 4,096 cells; 256 of them, picked at random, stand for choice in each step.

    Guarantee: (epsilon, delta)-DP under `relation`, pure if delta is 0: `rows` choices of an equal part of the price
        each, all charged to the ledger before the first look. The score of a candidate is the largest error of the
        database with it, in counts, of sensitivity 1 (`core/answers.py`).
    Accuracy: none in advance; each step loses at most its regret (`tools.choose.regret`) against its best row.
    """
    _check.whole(most=MAX_GROWN, rows=rows)
    pool = _pool(workload, source)
    facts = {"queries": workload.spec(), "rows": rows, "source": _digest(pool)}
    privacy = Privacy(epsilon=epsilon, delta=delta, relation=relation)
    payer = Payer(ledger=ledger, total_epsilon=total_epsilon, total_delta=total_delta, key=key)
    about = {"score": "row by row", "what": facts}
    with curator_for(table, privacy, payer, about, tag="choice") as paid:
        price = Fraction(paid.units // rows, UNITS)
        if not price:
            raise ParameterError(f"the budget cannot be divided among {rows:,} rows; ask for fewer")
        chosen = _choose_rows(paid.curator, workload, pool, rows, price, key=paid.key)
        own = float(paid.budget.unit.selection_epsilon(price))
    database = SmallDatabase({name: codes[chosen] for name, codes in pool.columns.items()})
    return Grown(database, workload, own, paid.key)


def _choose_rows(
    curator: Curator, workload: Queries, pool: SmallDatabase, rows: int, price: Fraction, *, key: str
) -> list[int]:
    """Numbers of rows of the pool, one after the other."""
    rng = generator(f"{key} grow")
    free = {
        name: np.zeros(pool.m, dtype=np.uint8) for name in workload.attributes if name not in pool.columns
    }
    weights = np.asarray(workload.columns_of(pool.columns | free), dtype=np.int64)
    total = np.zeros(workload.count, dtype=np.int64)
    chosen: list[int] = []
    for place in range(rows):
        options = rng.choice(pool.m, min(pool.m, MAX_OPTIONS), replace=False)
        denominator = workload.denominator * (place + 1)
        lists = tuple(Answers(total + weights[:, option], denominator) for option in options)
        index = curator.choose(ChoiceQuestion("database", workload, lists), price=price)
        chosen.append(int(options[index]))
        total = total + weights[:, chosen[-1]]
    return chosen


def _pool(workload: Queries, source: Release | None) -> SmallDatabase:
    """The rows that may be chosen: public."""
    if source is not None:
        if source.database is None:
            raise ParameterError("the release has no rows to choose from; release with rows")
        if source.domain.fingerprint != workload.domain.fingerprint:
            raise ParameterError("the release is about another domain than the workload")
        return source.database
    names, domain = workload.attributes, workload.domain
    cells = domain.cells(names)
    if cells > MAX_CELLS:
        raise ParameterError(
            f"the workload looks at {cells:,} cells, and up to {MAX_CELLS:,} can be listed; give source=, an earlier "
            "release whose rows can be chosen from"
        )
    shape = tuple(domain[name].size for name in names)
    codes = np.unravel_index(np.arange(cells), shape)
    return SmallDatabase(dict(zip(names, (column.astype(np.int64) for column in codes), strict=True)))


def _digest(pool: SmallDatabase) -> str:
    digest = hashlib.sha256()
    for name, codes in pool.columns.items():
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(codes, dtype="<u4").tobytes())
    return digest.hexdigest()


MAX_PICKED = 10**7
"""Rows of all proposals together."""
POOL, MAX_ENTRIES = 2000, 2**24
"""Released rows that one proposal is picked from, and queries times rows that are held for that at most."""


@checks_arguments
def small_databases(
    release: Release, sizes: Sequence[int], *, each: int = 4, workload: Queries | None = None
) -> list[SmallDatabase]:
    """Databases of several sizes out of the rows of a release: `each` of every size, and once the rows themselves.

    The rows themselves are there where a size reaches their number; elsewhere they are `release.database`.

    Every proposal is picked out of random rows of the release, one row at a time, each the one that brings the answers
    over `workload` (the release's own by default) nearest to those of all released rows in squared distance (herding;
    Chen, Welling and Smola 2010): its error falls like 1 / size, that of random rows like the root of that. Public:
    nothing private is looked at.
    """
    if release.database is None:
        raise ParameterError("the release has no rows to propose small databases from; release with rows")
    _check.whole(each=each)
    for size in sizes:
        _check.whole(size=size)
    total_rows = each * sum(size for size in sizes if size < release.database.m)
    if total_rows > MAX_PICKED:
        raise ParameterError(
            f"expected proposals of at most {MAX_PICKED:,} rows in all, got {total_rows:,}; ask for fewer or "
            "smaller ones"
        )
    rows, queries = release.database, release.workload if workload is None else workload
    target = rows.answer(queries).fractions
    rng = generator(f"{release.parameters.get('key', '')} candidates")
    proposals: list[SmallDatabase] = []
    for size in sizes:
        if size < rows.m:
            proposals += [_nearest(rows, size, queries, target, rng) for _ in range(each)]
    return [*proposals, rows] if any(size >= rows.m for size in sizes) else proposals


def _nearest(
    rows: SmallDatabase, size: int, queries: Queries, target: np.ndarray, rng: np.random.Generator
) -> SmallDatabase:
    """`size` of the rows, picked one after the other."""
    most = max(size, min(POOL, MAX_ENTRIES // max(queries.count, 1)))
    pool = rng.choice(rows.m, min(rows.m, most), replace=False)
    columns = {name: codes[pool] for name, codes in rows.columns.items()}
    picked = pool[herd(_weights(queries, columns, len(pool)) - target[:, None].astype(np.float32), size)]
    return SmallDatabase({name: codes[picked] for name, codes in rows.columns.items()})


def herd(gaps: NDArray[np.float32], size: int) -> NDArray[np.int64]:
    """The numbers of `size` columns whose sum is small: the next is the one that makes the norm of the sum smallest."""
    norms = np.einsum("ij,ij->j", gaps, gaps)
    total = np.zeros(len(gaps), dtype=np.float32)
    picked = np.empty(size, dtype=np.int64)
    for place in range(size):
        scores = 2 * (total @ gaps) + norms
        scores[picked[:place]] = np.inf
        picked[place] = int(scores.argmin())
        total = total + gaps[:, picked[place]]
    return picked


def _weights(queries: Queries, columns: dict[str, NDArray[Any]], count: int) -> NDArray[np.float32]:
    """The weight of every query (down) on every row (across)."""
    free = {name: np.zeros(count, dtype=np.uint8) for name in queries.attributes if name not in columns}
    return np.asarray(queries.columns_of(columns | free) / queries.denominator, dtype=np.float32)

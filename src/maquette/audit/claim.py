"""The claim of the founding texts on real rows: errors of thresholds on finer and finer grids, against their number.

NOT PRIVATE: true errors are computed with the table in hand. For public tables only.

One column, read as numbers between two bounds, is put on grids of 2^4 to 2^64 cells, each inside the next. On every
grid all thresholds are asked: as many queries as cells. SmallDB is released as for any private table, by the gate and
from a ledger of its own; the other lines are proved: what independent noise states, and what no private mechanism can
fall below.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.accounting.ledger import Ledger
from maquette.core import _check
from maquette.core.budget import Budget
from maquette.core.conversions import advanced_step
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.errors import ParameterError
from maquette.queries.ranges import prefixes
from maquette.theory import direct, draws, lower

BITS = (*range(4, 25, 4), *range(32, 65, 4))
"""log2 of the cells of each grid."""
MAX_BITS = 64
_EXACT_BITS = 52
"""Places of a number between the bounds that a double holds."""
WARNING = "NOT PRIVATE, NOT FOR RELEASE: true errors are exact and unpaid; for public tables, or for the table's holder"


@dataclass(frozen=True, slots=True)
class Point:
    """All thresholds on one grid. Errors are shares of the records; more than 1 says nothing."""

    bits: int
    """log2 of the number of thresholds."""
    laplace: float
    """Independent Laplace noise on each, at a pure epsilon: stated."""
    composed: float
    """The same at what advanced composition leaves of (epsilon, delta): stated."""
    bound: float
    """SmallDB at the pure epsilon: stated before the table is looked at."""
    true: float
    """The largest error of the small database that was drawn."""
    lower: float
    """No mechanism of this pure epsilon states less on all tables."""
    rows: int
    """Of the small database."""
    seconds: float
    """Processor time of the release."""


def claim(
    values: Sequence[float] | NDArray[Any],
    *,
    low: float,
    high: float,
    epsilon: float = 1.0,
    delta: float = 1e-9,
    beta: float = 0.05,
    bits: Sequence[int] = BITS,
    progress: Callable[[str, float], None] = lambda _what, _share: None,
) -> tuple[Point, ...]:
    """One point per grid of 2^bits cells between the bounds; values beyond them are in the first or the last cell.

    The number of records is public (replace-one).
    """
    _check.positive(epsilon=epsilon)
    _check.fraction(beta=beta, delta=delta)
    numbers = np.asarray(values, dtype=np.float64)
    if not len(numbers) or not np.isfinite(numbers).all() or not -math.inf < low < high < math.inf:
        raise ParameterError("expected finite numbers, at least one of them, and bounds low < high")
    if not bits or any(not 1 <= one <= MAX_BITS for one in bits):
        raise ParameterError(f"expected grids of 2^1 to 2^{MAX_BITS} cells")
    finest = keys_of(numbers, low, high)
    points: list[Point] = []
    for i, one in enumerate(bits):
        progress(f"2^{one} thresholds", i / len(bits))
        points.append(_point(finest >> np.uint64(MAX_BITS - one), one, epsilon, delta, beta))
    progress("all grids", 1.0)
    return tuple(points)


def keys_of(numbers: NDArray[np.float64], low: float, high: float) -> NDArray[np.uint64]:
    """The cell of every number among 2^64 equal ones between the bounds; the last places are 0."""
    share = np.clip((numbers - low) / (high - low), 0.0, 1.0 - 2.0**-_EXACT_BITS)
    return (share * 2.0**_EXACT_BITS).astype(np.uint64) << np.uint64(MAX_BITS - _EXACT_BITS)


def _point(keys: NDArray[np.uint64], bits: int, epsilon: float, delta: float, beta: float) -> Point:
    n, log_queries = len(keys), bits * math.log(2)
    started = time.process_time()
    rows, bound = _draw(keys, bits, epsilon, beta)
    seconds = time.process_time() - started
    step = advanced_step(epsilon=epsilon, k=2**bits, delta=delta)
    composed = math.inf
    if step > 0:
        composed = draws.laplace_exact(scale=1 / float(step), log_queries=log_queries, beta=beta) / n
    return Point(
        bits,
        direct.laplace(n=n, epsilon=epsilon, log_queries=log_queries, beta=beta),
        composed,
        bound,
        largest_gap(keys, rows),
        least_error(n=n, log_universe=log_queries, epsilon=epsilon, beta=beta),
        len(rows),
        round(seconds, 2),
    )


def _draw(
    keys: NDArray[np.uint64], bits: int, epsilon: float, beta: float
) -> tuple[NDArray[np.uint64], float]:
    """The rows of a release by SmallDB, and what it states."""
    import pyarrow

    from maquette import owner as handle
    from maquette.api import release

    domain = Domain((Attribute("key", Kind.ORDINAL, codes=2**bits),))
    table = handle.open(pyarrow.table({"key": keys}), domain=domain)
    budget = Budget(epsilon)
    ledger = Ledger.memory(
        budget=budget, relation=Relation.REPLACE_ONE, domain_fingerprint=domain.fingerprint, name="claim"
    )
    result = release(
        table,
        prefixes(domain, "key"),
        epsilon=epsilon,
        beta=beta,
        relation=Relation.REPLACE_ONE,
        mechanism="smalldb",
        certificate=None,
        ledger=ledger,
    )
    assert result.database is not None
    return result.database.columns["key"].astype(np.uint64), result.guarantee.alpha


def largest_gap(keys: NDArray[Any], rows: NDArray[Any]) -> float:
    """The largest difference of the two shares of a threshold, over all thresholds: it is at some key or row."""
    places = np.unique(np.concatenate([keys, rows]))
    shares = [np.searchsorted(np.sort(some), places, side="right") / len(some) for some in (keys, rows)]
    return float(np.abs(shares[0] - shares[1]).max())


def least_error(*, n: int, log_universe: float, epsilon: float, beta: float) -> float:
    """No mechanism of this pure epsilon has a smaller error on all thresholds, except with probability beta.

    Let x_j be a table with r records in cell j and n - r in the first cell. The shares of some threshold differ by
    r / n between any two of them, so that answers within less than r / (2n) are those of one table only; and any two
    are r steps apart. By the proof of `lower.packing_records`, with r in the place of n, that is impossible for every
    r below the number that it states.
    """
    least = lower.packing_records(
        log_universe=log_universe, epsilon=epsilon, beta=beta, relation=Relation.REPLACE_ONE
    )
    return min(math.ceil(least) - 1, n) / (2 * n) if least > 0 else 0.0


# --- the picture ----------------------------------------------------------------------------------------------------

LINES = {
    "laplace": ("independent Laplace noise, stated", "#1d4ed8", [1, 0]),
    "composed": ("with advanced composition, stated", "#6366f1", [5, 3]),
    "bound": ("SmallDB, stated", "#c2410c", [5, 3]),
    "true": ("SmallDB, true", "#c2410c", [1, 0]),
    "lower": ("no private mechanism is below", "#6b7280", [2, 2]),
}
FLOOR = 3e-5
"""Errors below are not drawn."""


def specification(
    points: Sequence[Point], *, records: int, epsilon: float, delta: float, what: str
) -> dict[str, Any]:
    """Error against log2 of the number of thresholds, on a logarithmic scale, each line with its name on it."""
    values = [
        {"bits": point.bits, "line": LINES[name][0], "error": asdict(point)[name]}
        for name in LINES
        for point in points
        if FLOOR < asdict(point)[name] <= 1
    ]
    ends = {value["line"]: value for value in values}
    last = max(p.bits for p in points)
    names, colours, dashes = (list(part) for part in zip(*LINES.values(), strict=True))
    x = {
        "field": "bits",
        "type": "quantitative",
        "title": "number of questions: all thresholds on a grid",
        "scale": {"domain": [min(p.bits for p in points), last], "nice": False},
        "axis": {
            "labelExpr": "'2^' + datum.value",
            "values": [p.bits for p in points if p.bits % 8 == 0],
            "grid": False,
        },
    }
    y = {
        "field": "error",
        "type": "quantitative",
        "title": "largest error, of all records",
        "scale": {"type": "log", "domain": [FLOOR, 1], "nice": False},
        "axis": {
            "labelExpr": "format(100 * datum.value, '~g') + ' %'",
            "values": [1e-4, 1e-3, 1e-2, 0.1, 1],
            "titlePadding": 14,
        },
    }
    colour = {
        "field": "line",
        "type": "nominal",
        "legend": None,
        "scale": {"domain": names, "range": colours},
    }
    dash = {"field": "line", "type": "nominal", "legend": None, "scale": {"domain": names, "range": dashes}}
    text = {"type": "text", "fontSize": 13, "fontWeight": "bold"}
    at_end = [value for value in ends.values() if value["bits"] == last]
    before = [value for value in ends.values() if value["bits"] < last]
    label = {"color": colour, "text": {"field": "line", "type": "nominal"}}
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "title": {
            "text": "All thresholds at once: independent noise against one small database",
            "subtitle": f"{what}; n = {records:,}; epsilon = {epsilon:g} (advanced composition: delta = {delta:g})",
            "anchor": "start",
            "offset": 14,
        },
        "width": 640,
        "height": 320,
        "padding": 10,
        "data": {"values": values},
        "encoding": {"x": x, "y": y},
        "layer": [
            {
                "mark": {"type": "line", "strokeWidth": 2.6},
                "encoding": {"color": colour, "strokeDash": dash},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 30, "opacity": 1},
                "encoding": {"color": colour},
            },
            {
                "data": {"values": at_end},
                "mark": text | {"align": "right", "dy": -13},
                "encoding": label,
            },
            {
                "data": {"values": before},
                "mark": text | {"align": "left", "dx": 10, "dy": 6},
                "encoding": label,
            },
        ],
        "config": {
            "font": "Arial, Helvetica, sans-serif",
            "background": "white",
            "view": {"stroke": None},
            "axis": {
                "gridColor": "#e5e7eb",
                "labelFontSize": 13,
                "titleFontSize": 14,
                "titleFontWeight": "normal",
            },
            "title": {"fontSize": 17, "subtitleFontSize": 13, "subtitleColor": "#4b5563"},
        },
    }


# --- the table ------------------------------------------------------------------------------------------------------


def read_column(path: Path, column: str) -> NDArray[np.float64]:
    """The numbers of one column of a CSV or Parquet file, without those that are missing."""
    import pyarrow
    import pyarrow.csv
    import pyarrow.parquet

    try:
        if path.suffix == ".parquet":
            table = pyarrow.parquet.read_table(path, columns=[column])
        else:
            only = pyarrow.csv.ConvertOptions(include_columns=[column])
            table = pyarrow.csv.read_csv(path, convert_options=only)
        numbers = table[column].cast(pyarrow.float64()).drop_null()
    except (OSError, KeyError, pyarrow.ArrowException) as error:
        raise ParameterError(
            f"cannot read numbers from column '{column}' of {path}: {str(error).splitlines()[0]}"
        ) from None
    array = np.asarray(numbers.to_numpy(), dtype=np.float64)
    return array[np.isfinite(array)]

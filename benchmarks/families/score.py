"""What stored figures of the families say: ratios of `sculpt` to the best of the others, cell by cell."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.families import cells
from benchmarks.peers import quoted

NUMBERS = ("rows max", "rows L1", "answers max", "answers L1")
CLOSE = 1.1
"""No cell should be worse than the best of the others by more than this factor."""

Key = tuple[str, str]
"""A table and a workload."""
Figures = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Stored:
    """Figures of every cell: those of the references, and `sculpt` by the digest of its code, oldest first."""

    references: dict[Key, dict[str, Figures]]
    ours: dict[Key, dict[str, Figures]]

    @classmethod
    def read(cls, paths: Iterable[Path]) -> Stored:
        stored = cls({}, {})
        for path in paths:
            for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
                stored.add(json.loads(line)["figures"])
        return stored

    def add(self, figures: Figures) -> None:
        key = (figures["table"], figures["cell"])
        for mechanism, found in figures["mechanisms"].items():
            if mechanism == cells.OURS:
                self.ours.setdefault(key, {})[found["code"]] = found
            else:
                self.references.setdefault(key, {})[mechanism] = found

    def has(self, key: Key, mechanism: str, code: str, *, seeds: int) -> bool:
        """Was this tried with as many seeds at least? `sculpt` with this code, others with any."""
        if mechanism == cells.OURS:
            found = self.ours.get(key, {}).get(code)
        else:
            found = self.references.get(key, {}).get(mechanism)
        return found is not None and found.get("of seeds", seeds) >= seeds


def peers(path: Path) -> dict[Key, dict[str, Figures]]:
    """Errors of other systems' rows on whole workloads, measured before or quoted."""
    found: dict[Key, dict[str, Figures]] = {}
    for (table, k, epsilon), systems in quoted.FIGURES.items():
        for name, (largest, l1) in systems.items():
            place = found.setdefault((table, str(cells.Workload(k, epsilon))), {})
            place[name] = {"rows max": largest, "rows L1": l1}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        figures = json.loads(line)["figures"]
        for k in (2, 3):
            scores = figures.get(f"all {k}-way marginals")
            if scores and "failed" not in figures:
                place = found.setdefault((figures["table"], str(cells.Workload(k, figures["epsilon"]))), {})
                place[figures["mechanism"]] = {"rows max": scores["max"], "rows L1": scores["L1"]}
    return found


def best(references: Iterable[Figures], metric: str) -> float:
    """The smallest error by any reference, of its rows or of its answers."""
    values = [f[f"{of} {metric}"] for f in references for of in ("rows", "answers") if f"{of} {metric}" in f]
    return min(values, default=float("nan"))


@dataclass(frozen=True, slots=True)
class Ratio:
    """One number of one cell: ours, and the best of the others."""

    key: Key
    number: str
    ours: float
    other: float

    @property
    def value(self) -> float:
        return self.ours / max(self.other, 1e-12)


def ratios(
    stored: Stored,
    others: dict[Key, dict[str, Figures]],
    *,
    code: str | None = None,
    against: str | None = None,
    half: str | None = None,
    keys: Iterable[Key] | None = None,
) -> list[Ratio]:
    """Of `sculpt` with this code (by default each cell's newest) to the references and peers, or to older code."""
    asked = None if keys is None else set(keys)
    found: list[Ratio] = []
    for key, versions in stored.ours.items():
        if (half and cells.half_of(key[0]) != half) or (asked is not None and key not in asked):
            continue
        newest = list(versions)[-1] if code is None else _matching(versions, code)
        if newest is None:
            continue
        references = [*stored.references.get(key, {}).values(), *others.get(key, {}).values()]
        if against is not None:
            older = _matching(versions, against)
            references = [] if older is None or older == newest else [versions[older]]
        for number in NUMBERS:
            other = best(references, number.split()[1]) if against is None else _of(references, number)
            if number in versions[newest] and other == other:
                found.append(Ratio(key, number, versions[newest][number], other))
    return found


def _of(references: Sequence[Figures], number: str) -> float:
    return references[0].get(number, float("nan")) if references else float("nan")


def _matching(versions: dict[str, Figures], code: str) -> str | None:
    if code == "first":
        return next(iter(versions))
    return next((c for c in versions if c.startswith(code)), None)


def lines(found: Sequence[Ratio], *, worst: int = 12) -> Iterator[str]:
    """The score as a table, by workload, and the worst cells."""
    if not found:
        yield "nothing to compare yet"
        return
    groups = {"all": found} | {
        cell: [r for r in found if r.key[1] == cell] for cell in sorted({r.key[1] for r in found})
    }
    yield "| cells | number | cells | geometric mean | not worse | within 10 % | worst |"
    yield "|---|---|---|---|---|---|---|"
    for name, group in groups.items():
        for number in NUMBERS:
            values = np.array([r.value for r in group if r.number == number])
            if len(values):
                mean = float(np.exp(np.log(np.maximum(values, 1e-12)).mean()))
                yield (
                    f"| {name} | {number} | {len(values)} | {mean:.3f} | {(values <= 1).mean():.0%} | "
                    f"{(values <= CLOSE).mean():.0%} | {values.max():.2f} |"
                )
    yield ""
    for r in sorted(found, key=lambda r: -r.value)[:worst]:
        yield f"{r.key[0]} {r.key[1]} {r.number}: {r.ours:.4g} against {r.other:.4g} ({r.value:.2f})"


def score(found: Sequence[Ratio]) -> float:
    """One figure: the geometric mean of all ratios."""
    return float(np.exp(np.mean([np.log(max(r.value, 1e-12)) for r in found])))

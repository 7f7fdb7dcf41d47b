"""How a source becomes a private table: coded into memory, or read again on every pass where it does not fit."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

from maquette.core.rows.coding import Coder, coded, coders
from maquette.core.rows.commitment import lane_keys
from maquette.core.rows.counting import (
    Coded,
    RecordsTask,
    TableCache,
)
from maquette.core.rows.engine import (
    LEAST_CELLS_PER_PASS,
    MIN_CELLS_PER_PASS,
    ROWS,
    BatchEngine,
    Engine,
    MemoryEngine,
    check_records,
    kept_cells,
)
from maquette.core.rows.source import Source, changed
from maquette.core.universe import Universe


class StreamEngine(BatchEngine):
    """A source that is read and coded again on every pass, a batch at a time; every pass sees the same records.

    A file notices by itself that it was changed. Of any other source (a database that others write to, a query that
    picks its rows at random, a data frame that is changed in place) every pass reads whole records and compares their
    multiset with that of the opening, by a digest under a key of this engine's own; a pass over others gives no result.
    """

    __slots__ = ("_cells", "_coders", "_keys", "_seal", "_source")

    def __init__(self, domain: Universe, source: Source, *, cells: int, room: int | None = None) -> None:
        """`cells` are counted at once; `room` is a limit on the bytes of tables, as in memory."""
        super().__init__(domain)
        self._source = source
        self._coders = coders(domain)
        self._cells = cells
        self._keys = lane_keys(secrets.token_bytes(32))
        self._seal: list[Any] | None = None
        tables = TableCache(domain, cells=kept_cells(room))
        self._tables = tables if source.is_unchanged() else None
        if not source.notices_changes:
            for _ in self._same_records():
                pass

    @property
    def cells_per_pass(self) -> int:
        return self._cells

    def _table_cache(self) -> TableCache | None:
        return self._tables if self._tables and self._source.is_unchanged() else None

    def _batches(self, names: Sequence[str]) -> Iterator[Coded]:
        return self._coded(names) if self._source.notices_changes else self._same_records()

    def _same_records(self) -> Iterator[Coded]:
        """Whole records, and after the last of them the comparison with the first pass."""
        records = RecordsTask(self.domain, self._keys)
        sums = records.zeros()
        for batch in self._coded(tuple(self.domain.columns)):
            records.add(sums, batch)
            yield batch
        state = [array.tolist() for array in sums]
        if self._seal is None:
            self._seal = state
        if state != self._seal:
            raise changed(self._source.description)

    def _coded(self, names: Sequence[str]) -> Iterator[Coded]:
        pending: list[Coded] = []
        rows = total = 0
        coding = {name: self._coders[name] for name in names}
        own = tuple(dict.fromkeys(coder.attribute.name for coder in coding.values()))
        for raw, _ in self._source.batches(own):
            pending.append(coded(coding, raw))
            rows += len(pending[-1][names[0]])
            total += len(pending[-1][names[0]])
            check_records(total)
            if rows >= ROWS:
                yield _stacked(pending, names)
                pending, rows = [], 0
        if rows:
            yield _stacked(pending, names)


def load(
    source: Source, domain: Universe, *, memory_limit: int | None, progress: Callable[[float], None] | None
) -> Engine:
    """Code the whole source into memory, or fall back to streaming as soon as the codes outgrow the limit.

    A source that will be streamed is read to its end all the same: what is wrong with it (damage, another encoding, a
    failing cast) shows when it is opened, before anything is paid for. Of a limit that was set codes take half at most,
    and tables that are counted and kept an eighth, or half where no codes are kept; the rest is for what a release
    makes of them (`releasing/planning.py`).
    """
    limit = psutil.virtual_memory().available // 4 if memory_limit is None else memory_limit // 2
    coding = coders(domain)
    row_bytes = sum(coder.dtype.itemsize for coder in coding.values())
    rows = min(source.likely_rows, limit // row_bytes + 1)  # more would be streamed
    columns = {name: _Column(coder, rows) for name, coder in coding.items()}
    tell = Steps(progress)
    nbytes = 0
    for raw, share in source.batches(domain.names):
        if nbytes <= limit:
            nbytes += sum(columns[name].add(codes) for name, codes in coded(coding, raw).items())
        if nbytes > limit:
            columns.clear()
        tell(share)
    tell(1.0)
    if nbytes > limit:
        least = MIN_CELLS_PER_PASS if memory_limit is None else LEAST_CELLS_PER_PASS
        return StreamEngine(
            domain, source, cells=max(least, limit // 16), room=None if memory_limit is None else limit
        )
    source.close()
    codes = {name: column.codes for name, column in columns.items()}
    return MemoryEngine(domain, codes, room=None if memory_limit is None else memory_limit // 8)


class Steps:
    """Tells the progress in steps of 5 %, so that the number of calls says nothing about the table."""

    def __init__(self, progress: Callable[[float], None] | None) -> None:
        self._progress = progress
        self._step = 0

    def __call__(self, share: float) -> None:
        while self._progress is not None and share * 20 >= self._step <= 20:
            self._progress(self._step / 20)
            self._step += 1


class _Column:
    """Codes that grow in place: room is doubled column by column, and room that is not used takes no memory."""

    def __init__(self, coder: Coder, rows: int) -> None:
        """`rows` are those that there seem to be: room for so many is made at once."""
        self._room = np.empty(rows, dtype=coder.dtype)
        self._rows = 0

    @property
    def codes(self) -> NDArray[Any]:
        return self._room[: self._rows]

    def add(self, codes: NDArray[Any]) -> int:
        """How many bytes they take."""
        end = self._rows + len(codes)
        if end > len(self._room):
            room = np.empty(max(end, 2 * self._rows), dtype=self._room.dtype)
            room[: self._rows] = self.codes
            self._room = room
        self._room[self._rows : end] = codes
        self._rows = end
        return codes.nbytes


def _stacked(batches: Sequence[Coded], names: Sequence[str]) -> Coded:
    if len(batches) == 1:
        return batches[0]
    return {name: np.concatenate([batch[name] for batch in batches]) for name in names}

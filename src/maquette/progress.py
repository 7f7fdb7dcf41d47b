"""How those who follow long work hear of it: its stages in advance, then how far each of them is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

Report = Callable[[str, float], None]
"""Called with what is being done and the share of it that is done."""
LEAST_SECONDS = 0.2
"""No stage is predicted to be shorter."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage that a run will come to."""

    name: str
    seconds: float
    """How long it will take, by formula; a watcher corrects it by what it sees."""

    @classmethod
    def of(cls, name: str, seconds: float) -> Stage:
        """A stage that is predicted to take so long, or the least that is said of any."""
        return cls(name, max(seconds, LEAST_SECONDS))


class Progress:
    """Somebody who follows long work. This one hears nothing; what a subclass does not say stays so."""

    is_for_holder: bool = True
    """Does nobody but the holder of the table hear it? The levels of a long draw depend on the records; who stores or
    sends what is said here is not told of them."""

    def expect(self, stages: Sequence[Stage]) -> None:
        """The stages that the run will come to, in order; none where nobody predicted them."""

    def __call__(self, what: str, share: float) -> None:
        """What is being done, as the name of a stage and, after a colon, a detail; and the share that is done."""


class _Reporting(Progress):
    """A function that is told how far the work is."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def __call__(self, what: str, share: float) -> None:
        self._report(what, share)


class InNotebook(Progress):
    """A line under the cell of a notebook, which goes on in its place: the stage, its number and a bar."""

    def __init__(self) -> None:
        self._names: tuple[str, ...] = ()
        self._place: Any = None

    def expect(self, stages: Sequence[Stage]) -> None:
        self._names = tuple(stage.name for stage in stages)

    def __call__(self, what: str, share: float) -> None:
        from IPython.display import HTML, display

        name = what.partition(": ")[0]
        number = f"{self._names.index(name) + 1} of {len(self._names)}: " if name in self._names else ""
        line = f"{number}{escape(what)} <progress max='1' value='{min(max(share, 0.0), 1.0):.3f}'></progress>"
        if self._place is None:
            self._place = display(HTML(line), display_id=True)
        else:
            self._place.update(HTML(line))


SILENT = Progress()


def followed_by(progress: Progress | Report | None) -> Progress:
    """Who follows, whatever a caller gave: a plain function hears how far it is, None is nobody."""
    if progress is None:
        return SILENT
    return progress if isinstance(progress, Progress) else _Reporting(progress)

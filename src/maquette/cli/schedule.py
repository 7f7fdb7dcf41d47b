"""How far a whole run is: which of its stages it is in, and how long all that is left will take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from maquette.releasing.stages import ExpectedStage

SURE_AFTER = 2.0
"""Seconds of a stage after which its speed says something about the rest."""
PRIOR_SECONDS = 3.0
"""The weight of the predictions themselves: a first short stage says little about the rest."""
SLOWEST, FASTEST = 20.0, 0.05
"""Bounds of the pace: seconds that pass for one that was predicted."""


class Stage:
    """One stage of long work: how far it is, and how long the rest takes at the speed that was seen so far."""

    def __init__(self, now: float) -> None:
        self.started = self._last_at = now
        self._first: tuple[float, float] | None = None
        self.share = 0.0

    def reach(self, share: float, now: float) -> None:
        """Note how far it is; the speed counts from the first report, which may be above zero."""
        self._first = self._first or (share, now)
        self.share, self._last_at = share, now

    def remaining(self, now: float) -> float | None:
        """Seconds to its end; None while too little was seen to say so honestly."""
        share, since = self._first or (0.0, now)
        passed, done = self._last_at - since, self.share - share
        if now - self.started < SURE_AFTER or passed <= 0 or done <= 0 or self.share >= 1:
            return None
        return max((1 - self.share) * passed / done - (now - self._last_at), 0.0)


@dataclass
class Schedule:
    """The stages that were announced, those that were seen, and the pace at which predictions came true.

    Times are predicted from public sizes before the run, and multiplied by how much longer the stages so far took.
    """

    expected: list[ExpectedStage] = field(default_factory=list["ExpectedStage"])
    _spans: dict[str, float] = field(default_factory=dict[str, float])
    _current: tuple[str, Stage] | None = None

    def expect(self, stages: Sequence[ExpectedStage], *, before: Sequence[ExpectedStage] = ()) -> None:
        """What is to come, after what is done already."""
        self.expected = [*before, *stages]

    def reach(self, name: str, share: float, now: float) -> Stage:
        """A report of a stage; a new name ends the one before."""
        if self._current is None or self._current[0] != name:
            if self._current is not None:
                last, stage = self._current
                self._spans[last] = now - stage.started
            self._current = (name, Stage(now))
        self._current[1].reach(share, now)
        return self._current[1]

    def place(self, name: str) -> tuple[int, int] | None:
        """Which of how many stages it is; None where nothing was announced, or not this one."""
        names = [stage.name for stage in self.expected]
        return (names.index(name) + 1, len(names)) if name in names else None

    @property
    def pace(self) -> float:
        """Seconds that passed for each one that was predicted, over the stages that are done."""
        done = [stage for stage in self.expected if stage.name in self._spans]
        predicted = sum(stage.seconds for stage in done)
        passed = sum(self._spans[stage.name] for stage in done)
        pace = (passed + PRIOR_SECONDS) / (predicted + PRIOR_SECONDS)
        return min(max(pace, FASTEST), SLOWEST)

    def remaining(self, now: float) -> float | None:
        """Seconds to the end of everything; None where nothing was announced."""
        place = None if self._current is None else self.place(self._current[0])
        if self._current is None or place is None:
            return None
        stage, prediction = self._current[1], self.expected[place[0] - 1]
        own = stage.remaining(now)
        if own is None:
            own = max(prediction.seconds * self.pace - (now - stage.started), 0.0)
        return own + self.pace * sum(later.seconds for later in self.expected[place[0] :])

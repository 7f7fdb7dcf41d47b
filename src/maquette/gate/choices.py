"""Private choices among candidates of one's own: pay, look, return the number of one."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from maquette.accounting.events import Selection
from maquette.gate import prices
from maquette.gate.barrier import Barrier
from maquette.questions import bounds
from maquette.questions.choices import ChoiceQuestion


class ChoosingBarrier(Barrier):
    """A barrier that also chooses."""

    def choose(self, question: ChoiceQuestion, *, price: Fraction, method: Selection | None = None) -> int:
        """The number of a candidate with a large score.

        Guarantee: `price`, for scores of sensitivity 1 (`questions/choices.py`): permute-and-flip for a pure price, the
            exponential mechanism for a price in rho or where it is asked for.
        """
        bounds.check_type(question, ChoiceQuestion, "candidates with their score")
        question.check(self.domain)
        monotone = question.is_monotone(self.relation)
        plan = prices.choice(price=price, unit=self.unit, monotone=monotone, method=method)

        def look() -> list[np.ndarray]:
            scores = question.scores(self._engine.answer(question.queries), self._engine.size())
            chosen = self._noise.select(scores, scale=plan.scale, method=plan.event.method)
            return [np.array([chosen], dtype=np.int64)]

        ((chosen,), _) = self._ask(plan.event, question.request(), look)
        return int(chosen[0])

"""What a session knows: a function of its steps in the ledger, taken in order, and of nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from maquette.accounting.budget import UNITS, Unit
from maquette.accounting.events import Event, GaussianEvent, LaplaceEvent, from_body
from maquette.accounting.ledger import Receipt
from maquette.domain import Domain
from maquette.errors import LedgerError
from maquette.gate.online import Step
from maquette.models.answers import GRID
from maquette.models.hypothesis import Released
from maquette.models.measurement import Gaussian, Laplace, Noise, Size
from maquette.queries.form import from_spec
from maquette.sessions.answer import Past
from maquette.sessions.question import Question


@dataclass(frozen=True, slots=True)
class Known:
    """An answer that was given."""

    value: float
    side: bool
    error: float
    receipt: Receipt


@dataclass(frozen=True, slots=True)
class Client:
    """What a caller's key was used for."""

    meaning: str
    side: bool
    value: float
    error: float
    receipt: Receipt


@dataclass(slots=True)
class State:
    """Grows by one step at a time."""

    domain: Domain
    unit: Unit
    size: Size | None = None
    known: dict[str, Known] = field(default_factory=dict[str, Known])
    clients: dict[str, Client] = field(default_factory=dict[str, Client])
    released: list[Released] = field(default_factory=list[Released])
    lessons: int = 0
    """How many released answers the hypothesis has to know: up to the last one that it had wrong."""
    far: list[bool] = field(default_factory=list[bool])
    """Outcomes of guesses in order, tested or measured."""
    questions: int = 0
    epochs: int = 0
    history: list[Past] = field(default_factory=list[Past])
    pending: Step | None = None
    belief: tuple[int, str] | None = None
    """The digest of the hypothesis that last guessed, and how many released answers it knew."""

    def take(self, step: Step) -> None:
        """Follow one step."""
        self.pending = None if step.answered else step
        if not step.answered:
            return
        match step.ask:
            case "size":
                self._take_size(step)
            case "epoch":
                self.epochs += 1
                self._tell(step, "opened an epoch", kind="epoch")
            case "test":
                self._take_test(step)
            case "measure":
                self._take_measured(step)
            case "note":
                self._take_note(step)
            case _:
                raise LedgerError(f"the ledger holds a step that no session makes: {step.ask!r}")

    def cost(self, step: Step) -> float:
        """In the session's unit."""
        return from_body(step.body).cost(self.unit).units / UNITS if step.units else 0.0

    def _take_size(self, step: Step) -> None:
        if step.values is None:
            raise LedgerError("the ledger has lost the number of records")
        law = law_of(from_body(step.body))
        self.size = Size(int(step.values[0][0]), law, step.receipt)
        self._tell(step, "number of records", kind="size", value=float(self.size.value))

    def _take_test(self, step: Step) -> None:
        far = self._values(step)[0] == 1
        near, wide = step.body["errors"]
        self._believed(step)
        if far:
            value = self._release(step, self._values(step)[1])
            self.lessons = len(self.released)
        else:
            value = int(step.body["answer"]) / GRID
        self._answered(step, value, wide if far else near, far=far, kind="paid" if far else "free")

    def _take_measured(self, step: Step) -> None:
        value = self._release(step, self._values(step)[0])
        self._believed(step)
        guess, threshold = int(step.body["answer"]) / GRID, step.body["threshold"]
        far = threshold is not None and abs(value - guess) * int(step.body["size"]) > threshold
        if far:
            self.lessons = len(self.released)
        self._answered(step, value, step.body["errors"][1], far=far, kind="paid")

    def _take_note(self, step: Step) -> None:
        body = step.body
        client = Client(
            body["meaning"], bool(body["side"]), float(body["value"]), body["error"], _place(step)
        )
        self.clients[str(body["client"])] = client
        self._tell(step, body["text"], kind="cached", value=client.value, error=client.error)

    def _answered(self, step: Step, value: float, error: float, *, far: bool, kind: str) -> None:
        body = step.body
        self.questions += 1
        self.far.append(far)
        known = Known(value, bool(body["side"]), error, _place(step))
        self.known[body["meaning"]] = known
        if body.get("client") is not None:
            self.clients[body["client"]] = Client(body["meaning"], known.side, value, error, known.receipt)
        self._tell(step, body["text"], kind=kind, value=value, error=error)

    def _release(self, step: Step, numerator: int) -> float:
        """The measured share, kept for the hypothesis unclipped."""
        body = step.body
        queries = from_spec(self.domain, body["spec"])
        size = int(body["size"])
        raw = numerator / (size * queries.denominator)
        self.released.append(Released(queries, raw, float(body["deviation"]) / size))
        return min(max(raw, 0.0), 1.0)

    def _believed(self, step: Step) -> None:
        knew, digest = step.body["belief"]
        self.belief = (int(knew), str(digest))

    def _values(self, step: Step) -> list[int]:
        if step.values is None:
            raise LedgerError(f"the ledger has lost the answer of step {step.number}")
        return [int(part[0]) for part in step.values]

    def _tell(
        self, step: Step, what: str, *, kind: str, value: float | None = None, error: float | None = None
    ) -> None:
        self.history.append(
            Past(
                step.receipt.sequence,
                step.created,
                what,
                value,
                error,
                kind,
                self.cost(step),
                step.body.get("client"),
            )
        )


def about(question: Question, client: str | None) -> dict[str, Any]:
    """What the ledger says about a question, so that a restart understands it."""
    return {
        "spec": question.queries.spec(),
        "text": question.text,
        "meaning": question.meaning,
        "side": question.side,
        "client": client,
    }


def law_of(event: Event) -> Noise:
    """The law that a paid question was drawn with."""
    match event:
        case LaplaceEvent():
            return Laplace(_exact(event.l1) / event.scale, _exact(event.scale))
        case GaussianEvent():
            return Gaussian(event.l2_squared / (2 * _exact(event.sigma_squared)), _exact(event.sigma_squared))
        case _:
            raise LedgerError(f"the ledger holds a measurement by {event.tag}")


def priced(body: Mapping[str, Any]) -> Noise:
    """The noise that a stored question asked for: its kind and price."""
    from fractions import Fraction

    price = Fraction(body["price"])
    return Laplace(price) if body["tag"] == LaplaceEvent.tag else Gaussian(price)


def _exact(value: Any) -> Any:
    from fractions import Fraction

    return Fraction(value)


def _place(step: Step) -> Receipt:
    return Receipt(step.receipt.sequence, step.receipt.head)

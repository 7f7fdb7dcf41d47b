"""What a session knows: a function of its steps in the ledger, taken in order, and of nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

from maquette.accounting.budget import UNITS, Unit
from maquette.accounting.events import Event, GaussianEvent, LaplaceEvent, SmoothedEvent, from_body
from maquette.accounting.ledger import Receipt
from maquette.domain import Domain
from maquette.errors import LedgerError
from maquette.gate.online import Step
from maquette.models.answers import GRID
from maquette.models.hypothesis import Released
from maquette.queries.base import Margin
from maquette.queries.forms import from_spec
from maquette.queries.marginals import Binned
from maquette.questions.measurement import Gaussian, Laplace, Noise, NoisyTable, Size
from maquette.sessions.question import Question

# What a session hands out. Small frozen values, all public.

Kind = Literal["free", "cached", "paid"]
"""free: the hypothesis passed its test, or no data was needed; cached: asked before; paid: measured, or the epoch
in which it was tested had to be opened."""


@dataclass(frozen=True, slots=True)
class SessionAnswer:
    """One answer. All answers of a session are within their errors together, except with probability `beta`."""

    query: str
    value: float
    """The share of the records, between 0 and 1."""
    error: float
    beta: float
    kind: Kind
    cost: float
    """What this question took, in `unit`; an epoch is paid by the question that opens it."""
    left: float
    """What the session still has, in `unit`."""
    unit: str
    receipt: Receipt | None
    """Where in the ledger it stands; None if no entry was needed."""
    notes: tuple[str, ...] = ()
    holds_for: str = "all answers of the session together"
    """What `beta` is the chance of failure of."""

    @property
    def low(self) -> float:
        return max(self.value - self.error, 0.0)

    @property
    def high(self) -> float:
        return min(self.value + self.error, 1.0)

    def __str__(self) -> str:
        return f"{100 * self.value:.2f} % ± {100 * self.error:.2f} points ({self.kind})"


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a question would cost at most and how good its answer would be, from public state only."""

    query: str
    kind: Literal["free", "cached", "size", "test", "measure"]
    """size: the number of records is bought first and decides the rest; test: answered from the hypothesis if it passes
    its test, measured otherwise."""
    cost: float
    """The most that it takes, in `unit`. Before the number of records is bought that may be all that is left;
    `Session.buy_size` buys the number alone, and `ask(at_most=)` sets a limit."""
    error: float | None
    """The largest error that its answer may state; None while the number of records is not known."""
    guess: float | None
    """What the hypothesis believes, without any promise."""
    left: float
    unit: str
    size_cost: float = 0.0
    """The part of `cost` for the number of records, exactly."""
    refusal: str | None = None
    """Why it would be refused: questions, epochs or budget that are used up, an error that says nothing; or None."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A question among many that was not answered. Nothing was read and nothing was spent for it."""

    query: str
    why: str
    exit_code: int
    """3 where something is used up, 2 where the answer would say nothing."""

    def __str__(self) -> str:
        return f"refused: {self.why}"


@dataclass(frozen=True, slots=True)
class Past:
    """One line of a session's history."""

    sequence: int
    when: str
    what: str
    """The question, or what was paid for."""
    value: float | None
    error: float | None
    kind: str
    cost: float
    key: str | None = None
    """The caller's idempotency key."""


@dataclass(frozen=True, slots=True)
class Lender:
    """The session on the same ledger that an answer was taken over from, and the beta that is stated there."""

    session: str
    beta: float


@dataclass(frozen=True, slots=True)
class Known:
    """An answer that was given."""

    value: float
    side: bool
    error: float
    receipt: Receipt
    lender: Lender | None = None


@dataclass(frozen=True, slots=True)
class Client:
    """What a caller's key was used for."""

    meaning: str
    side: bool
    value: float
    error: float
    receipt: Receipt
    lender: Lender | None = None


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
    tables: list[NoisyTable] = field(default_factory=list[NoisyTable])
    """Of the survey, as far as it was bought."""
    compared: list[Any] = field(default_factory=list[Any])
    """The queries, in JSON, in which the hypothesis was compared with the table or learnt from it."""
    belief: tuple[int, str] | None = None
    """The digest of the hypothesis that last guessed, and how many released answers it knew."""

    def known_attributes(self) -> Margin:
        """The attributes that the hypothesis knows something about; of all others it holds what it began with."""
        used = {name for spec in self.compared for name in from_spec(self.domain, spec).attributes}
        return tuple(name for name in self.domain.names if name in used)

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
            case "tables":
                self._take_tables(step)
            case "note" if step.body.get("follows"):
                self._take_following(step)
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
        far = not is_near(step)
        self._believed(step)
        denominator = self._release(step) if far else 1
        if far:
            self.lessons = len(self.released)
        value, error = read_answer(step, denominator)
        self._answered(step, value, error, far=far, kind="paid" if far else "free")

    def _take_measured(self, step: Step) -> None:
        value, error = read_answer(step, self._release(step))
        self._believed(step)
        guess, threshold = int(step.body["answer"]) / GRID, step.body["threshold"]
        far = threshold is not None and abs(value - guess) * int(step.body["size"]) > threshold
        if far:
            self.lessons = len(self.released)
        self._answered(step, value, error, far=far, kind="paid")

    def _take_tables(self, step: Step) -> None:
        if step.values is None:
            raise LedgerError("the ledger has lost the tables of a survey")
        variances = [Fraction(text) for text in step.body["variances"]]
        for asked, values, variance in zip(binned_of(step.body), step.values, variances, strict=True):
            self.tables.append(NoisyTable(asked, values, variance, step.receipt))
        self._tell(step, f"a survey of {len(variances)} tables", kind="survey")

    def _take_following(self, step: Step) -> None:
        """An answer that follows from the survey."""
        value, error = float(step.body["value"]), float(step.body["error"])
        self.questions += 1
        self._keep(step, value, error)
        self._tell(step, step.body["text"], kind="free", value=value, error=error)

    def _take_note(self, step: Step) -> None:
        """A caller's key for what was known, or an answer that was taken over."""
        body = step.body
        meaning, side, value, error = body["meaning"], bool(body["side"]), float(body["value"]), body["error"]
        lender = None if body.get("lender") is None else Lender(*body["lender"])
        if lender is not None:
            self.known[meaning] = Known(value, side, error, step.receipt, lender)
        if body["client"] is not None:
            self.clients[str(body["client"])] = Client(meaning, side, value, error, step.receipt, lender)
        self._tell(step, body["text"], kind="cached", value=value, error=error)

    def _answered(self, step: Step, value: float, error: float, *, far: bool, kind: str) -> None:
        self.questions += 1
        self.far.append(far)
        self.compared.append(step.body["spec"])
        self._keep(step, value, error)
        self._tell(step, step.body["text"], kind=kind, value=value, error=error)

    def _keep(self, step: Step, value: float, error: float) -> None:
        """The answer under its meaning, and under its caller's key."""
        body = step.body
        known = Known(value, bool(body["side"]), error, step.receipt)
        self.known[body["meaning"]] = known
        if body.get("client") is not None:
            self.clients[body["client"]] = Client(body["meaning"], known.side, value, error, known.receipt)

    def _release(self, step: Step) -> int:
        """Keep the measured share for the hypothesis, unclipped; returns what the value is a multiple of."""
        queries = from_spec(self.domain, step.body["spec"])
        deviation = float(step.body["deviation"]) / int(step.body["size"])
        self.released.append(Released(queries, _share(step, queries.denominator), deviation))
        return queries.denominator

    def _believed(self, step: Step) -> None:
        knew, digest = step.body["belief"]
        self.belief = (int(knew), str(digest))

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


def read_answer(step: Step, denominator: int) -> tuple[float, float]:
    """The share that a stored test or measurement answered, and the error that was stated with it."""
    near, wide = step.body["errors"]
    if is_near(step):
        return int(step.body["answer"]) / GRID, near
    return min(max(_share(step, denominator), 0.0), 1.0), wide


def is_near(step: Step) -> bool:
    """Is the answer a guess that passed its test?"""
    return step.ask == "test" and _values(step)[0] == 0


def _share(step: Step, denominator: int) -> float:
    """The noisy value, which comes last, as a share of the records."""
    return _values(step)[-1] / (int(step.body["size"]) * denominator)


def _values(step: Step) -> list[int]:
    if step.values is None:
        raise LedgerError(f"the ledger has lost the answer of step {step.number}")
    return [int(part[0]) for part in step.values]


def about(question: Question, client: str | None) -> dict[str, Any]:
    """What the ledger says about a question, so that a restart understands it."""
    return {
        "spec": question.queries.spec(),
        "text": question.text,
        "meaning": question.meaning,
        "side": question.side,
        "client": client,
    }


def binned_of(body: Mapping[str, Any]) -> list[Binned]:
    """The tables that a stored step of a survey asked for."""
    return [Binned.from_json(named) for named in body["tables"]]


def law_of(event: Event) -> Noise:
    """The law that a paid question was drawn with."""
    match event:
        case LaplaceEvent():
            return Laplace(_exact(event.l1) / event.scale, _exact(event.scale))
        case GaussianEvent() | SmoothedEvent():
            return Gaussian(event.l2_squared / (2 * _exact(event.sigma_squared)), _exact(event.sigma_squared))
        case _:
            raise LedgerError(f"the ledger holds a measurement by {event.tag}")


def priced(body: Mapping[str, Any]) -> Noise:
    """The noise that a stored question asked for: its kind and price."""
    price = Fraction(body["price"])
    return Laplace(price) if body["tag"] == LaplaceEvent.tag else Gaussian(price)


def _exact(value: Any) -> Any:
    return Fraction(value)

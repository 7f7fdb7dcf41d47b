"""What a session knows: a function of its steps in the ledger, taken in order, and of nothing else.

The hypothesis is a part of it: it follows from the released answers, and is built when it is needed.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any
from weakref import WeakKeyDictionary

from maquette.accounting.ledger import Ledger, Receipt
from maquette.core.answers import GRID
from maquette.core.binned import Binned
from maquette.core.budget import UNITS, Unit
from maquette.core.events import Event, GaussianEvent, LaplaceEvent, SmoothedEvent, from_body
from maquette.core.laws import Gaussian, IndependentLaw, Laplace, NoiseRequest
from maquette.core.measurement import NoisyTable, Size, Step, Verdict, has_outcome, read_step, verdict_of
from maquette.domain import Domain
from maquette.errors import LedgerError
from maquette.mechanisms.online import Settings
from maquette.models.answers import SmallDatabase, size_of
from maquette.models.hypothesis import Hypothesis, Prior, Released
from maquette.models.start import hypothesis_for
from maquette.queries.base import Queries
from maquette.queries.forms import from_spec
from maquette.queries.rows import Margin
from maquette.sessions.question import Past, Question
from maquette.sessions.rules import Rules
from maquette.theory.adaptive import SharedGap


@dataclass(frozen=True, slots=True)
class Source:
    """The session on the same ledger, or the release bound there, that an answer is from, and the beta stated there."""

    name: str
    beta: float
    is_release: bool = False

    def to_json(self) -> list[Any]:
        """As ledgers have always stored it; a release says so."""
        return [self.name, self.beta, *([True] if self.is_release else [])]


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """An answer of this session, as its ledger holds it."""

    meaning: str
    side: bool
    value: float
    error: float
    receipt: Receipt
    source: Source | None = None


@dataclass(slots=True)
class State:
    """Grows by one step at a time."""

    domain: Domain
    unit: Unit
    size: Size | None = None
    size_prices: list[Fraction] = field(default_factory=list[Fraction])
    """What was paid for the number of records, each time that it was bought."""
    answers: dict[str, StoredAnswer] = field(default_factory=dict[str, StoredAnswer])
    """By meaning."""
    answers_by_key: dict[str, StoredAnswer] = field(default_factory=dict[str, StoredAnswer])
    """By the idempotency key of a caller."""
    released: list[Released] = field(default_factory=list[Released])
    to_learn: int = 0
    """How many released answers the hypothesis has to know: up to the last one that it had wrong."""
    far: list[bool] = field(default_factory=list[bool])
    """Outcomes of guesses in order, tested or measured."""
    questions: int = 0
    epochs: int = 0
    history: list[Past] = field(default_factory=list[Past])
    pending: Step | None = None
    """A step that was paid for and not answered."""
    tables: list[NoisyTable] = field(default_factory=list[NoisyTable])
    """Of the survey, as far as it was bought."""
    compared: list[Any] = field(default_factory=list[Any])
    """The queries, in JSON, in which the hypothesis was compared with the table or learnt from it."""
    last_hypothesis: tuple[int, str] | None = None
    """How many released answers the hypothesis knew that guessed last, and its digest."""
    current: Queries | None = None
    """The query that is asked now; its own step need not be read back from JSON."""

    def known_attributes(self) -> Margin:
        """The attributes that the hypothesis knows something about; of all others it holds what it began with."""
        used = {name for spec in self.compared for name in from_spec(self.domain, spec).attributes}
        return tuple(name for name in self.domain.names if name in used)

    def take(self, step: Step) -> None:
        """Follow one step."""
        self.pending = None if step.answered else step
        if not step.answered:
            return
        if not has_outcome(step):
            if step.units:
                self._add_to_history(step, "lost before it was stored", kind="lost")
            return
        match step.ask:
            case "test" | "measure":
                self._take_answer(step)
            case "size":
                if step.values is None:
                    raise LedgerError("the ledger has lost the number of records")
                self.size = Size(int(step.values[0][0]), law_of(from_body(step.body)), step.receipt)
                if "price" in step.body:
                    self.size_prices.append(Fraction(step.body["price"]))
                self._add_to_history(step, "number of records", kind="size", value=float(self.size.value))
            case "epoch":
                self.epochs += 1
                self._add_to_history(step, "opened an epoch", kind="epoch")
            case "tables":
                self._take_tables(step)
            case "note":
                self._take_note(step)
            case _:
                raise LedgerError(f"the ledger holds a step that no session makes: {step.ask!r}")

    def _take_answer(self, step: Step) -> None:
        """A guess that was tested, or a value that was measured: the hypothesis gets the value unclipped."""
        body, near, denominator, queries = step.body, is_near(step), 1, None
        if not near:
            is_current = self.current is not None and self.current.spec() == body["spec"]
            queries = self.current if is_current else from_spec(self.domain, body["spec"])
            assert queries is not None
            denominator = queries.denominator
        share, error = read_answer(step, denominator)
        value, size, far = min(max(share, 0.0), 1.0), int(body["size"]), not near
        if queries is not None:
            self.released.append(Released(queries, share, float(body["deviation"]) / size))
        if step.ask == "measure":
            guess, threshold = int(body["answer"]) / GRID, body["threshold"]
            far = threshold is not None and abs(value - guess) * size > threshold
        if far:
            self.to_learn = len(self.released)
        self.last_hypothesis = (int(body["belief"][0]), str(body["belief"][1]))
        self.questions += 1
        self.far.append(far)
        self.compared.append(body["spec"])
        self._store(step, value, error, kind="free" if near else "paid")

    def _take_tables(self, step: Step) -> None:
        if step.values is None:
            raise LedgerError("the ledger has lost the tables of a survey")
        variances = [Fraction(text) for text in step.body["variances"]]
        for table, values, variance in zip(binned_of(step.body), step.values, variances, strict=True):
            self.tables.append(NoisyTable(table, values, variance, step.receipt))
        self._add_to_history(step, f"a survey of {len(variances)} tables", kind="survey")

    def _take_note(self, step: Step) -> None:
        """A number of records or an answer that was taken over, an answer that a survey implies, or a caller's key."""
        if "size" in step.body:
            self._take_published_size(step)
            return
        value, error = float(step.body["value"]), float(step.body["error"])
        if step.body.get("follows"):
            self.questions += 1
            self._store(step, value, error, kind="free")
        else:
            pair = step.body.get("lender")
            source = None if pair is None else Source(*pair)
            self._store(step, value, error, kind="cached", source=source, is_new=source is not None)

    def _take_published_size(self, step: Step) -> None:
        self.size = replace(size_of(step.body["size"]), receipt=step.receipt)
        self.size_prices.append(Fraction(0))
        what = "number of records, as a release states it"
        self._add_to_history(step, what, kind="size", value=float(self.size.value))

    def _store(
        self,
        step: Step,
        value: float,
        error: float,
        *,
        kind: str,
        source: Source | None = None,
        is_new: bool = True,
    ) -> None:
        """An answer under its caller's key and, unless it is a repeat, under its meaning."""
        body = step.body
        stored = StoredAnswer(body["meaning"], bool(body["side"]), value, error, step.receipt, source)
        if is_new:
            self.answers[stored.meaning] = stored
        if body.get("client") is not None:
            self.answers_by_key[str(body["client"])] = stored
        self._add_to_history(step, body["text"], kind=kind, value=value, error=error)

    def _add_to_history(
        self, step: Step, what: str, *, kind: str, value: float | None = None, error: float | None = None
    ) -> None:
        cost = from_body(step.body).cost(self.unit).units / UNITS if step.units else 0.0
        self.history.append(
            Past(step.receipt.sequence, step.created, what, value, error, kind, cost, step.body.get("client"))
        )


def read_answer(step: Step, denominator: int) -> tuple[float, float]:
    """The share that a stored test or measurement answered, not clipped, and the error that was stated with it."""
    near_error, value_error = step.body["errors"]
    if is_near(step):
        return int(step.body["answer"]) / GRID, near_error
    if step.values is None:
        raise LedgerError(f"the ledger has lost the answer of step {step.number}")
    size = int(step.body["size"])
    share = int(step.values[-1][0]) / (size * denominator)  # the noisy value comes last
    gap = step.body.get("gap")  # steps of earlier versions have none
    return share, value_error if gap is None else SharedGap.from_json(gap).error(share, size)


def is_near(step: Step) -> bool:
    """Is the answer a guess that passed its test?"""
    return step.ask == "test" and verdict_of(step) == Verdict.NEAR


def question_note(question: Question, client: str | None) -> dict[str, Any]:
    """What the ledger says about a question, so that a restart understands it."""
    return {
        "spec": question.queries.spec(),
        "text": question.text,
        "meaning": question.meaning,
        "side": question.side,
        "client": client,
    }


def binned_of(body: Mapping[str, Any]) -> list[Binned]:
    """The tables of a stored step of a survey."""
    return [Binned.from_json(table) for table in body["tables"]]


def law_of(event: Event) -> IndependentLaw:
    """The law that a paid question was drawn with."""
    match event:
        case LaplaceEvent():
            return Laplace(_exact(event.l1) / event.scale, _exact(event.scale))
        case GaussianEvent() | SmoothedEvent():
            return Gaussian(event.l2_squared / (2 * _exact(event.sigma_squared)), _exact(event.sigma_squared))
        case _:
            raise LedgerError(f"the ledger holds a measurement by {event.tag}")


def noise_request(body: Mapping[str, Any]) -> NoiseRequest:
    """The noise that a stored question asked for: its kind and price."""
    price = Fraction(body["price"])
    return NoiseRequest("laplace" if body["tag"] == LaplaceEvent.tag else "gaussian", price)


def _exact(value: Any) -> Any:
    return Fraction(value)


# --- the hypothesis -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TakenOver:
    """An answer of another session or of a release, with the statement that was made there."""

    value: float
    side: bool
    error: float
    source: Source


@dataclass(frozen=True, slots=True)
class SharedAnswer(TakenOver):
    """An answer of another session."""

    sequence: int


class SessionSteps:
    """The steps of all sessions of a ledger, each read once for all sessions that share a ledger object."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._sequence = 0
        """The last entry of the ledger that was looked at."""
        self.betas: dict[str, float] = {}
        """The sessions, and the chance of failure that each states."""
        self._read: dict[str, int] = {}
        """By session: the last entry that was read."""
        self._behind: set[str] = set()
        """Sessions with entries that were not read so far."""
        self._steps: dict[str, list[tuple[str, Step]]] = {}
        """By meaning: the sessions that answered it, and how."""

    def catch_up(self, ledger: Ledger) -> None:
        """Read what is new in the ledger."""
        with self._mutex:
            for line in ledger.entry_heads(after=self._sequence):
                self._sequence = line.seq
                if line.tag == "session":
                    entry = ledger.find(line.key)
                    assert entry is not None
                    self.betas[line.key] = float(entry.body["beta"])
                elif line.parent in self.betas:
                    self._behind.add(line.parent)
            if self._behind:
                self._behind = {name for name in self._behind if not self._follow(ledger, name)}

    def of(self, meaning: str) -> list[tuple[str, Step]]:
        """Who answered a question, and how."""
        with self._mutex:
            return list(self._steps.get(meaning, ()))

    def _follow(self, ledger: Ledger, name: str) -> bool:
        """Read on in a session; False if it waits for an answer that may still come.

        One that something else reserved in ends there: it is refused to those who go on in it, and to no others.
        """
        for entry in ledger.children(name, after=self._read.get(name, 0)):
            try:
                step = read_step(entry)
            except LedgerError:
                return True
            if not step.answered:
                return False
            self._read[name] = entry.seq
            if has_outcome(step) and (step.ask in ("test", "measure") or step.body.get("follows")):
                self._steps.setdefault(step.body["meaning"], []).append((name, step))
        return True


_STEPS: WeakKeyDictionary[Ledger, SessionSteps] = WeakKeyDictionary()


_STEPS_MUTEX = threading.Lock()


class SharedAnswers:
    """Follows the other sessions of a ledger, and looks up their answers."""

    def __init__(self, ledger: Ledger, domain: Domain, *, own: str) -> None:
        self._ledger = ledger
        self._domain = domain
        self._own = own
        with _STEPS_MUTEX:
            self._steps = _STEPS.setdefault(ledger, SessionSteps())

    def catch_up(self) -> None:
        """Read what is new in the ledger."""
        self._steps.catch_up(self._ledger)

    def find(self, meaning: str, *, within: float) -> SharedAnswer | None:
        """The answer with the smallest error, if that is at most `within`; of equals the earliest."""
        best = None
        for name, step in self._steps.of(meaning):
            if name == self._own:
                continue
            answer = self._read_answer(name, step)
            if answer.error <= within and (
                best is None or (answer.error, answer.sequence) < (best.error, best.sequence)
            ):
                best = answer
        return best

    def _read_answer(self, name: str, step: Step) -> SharedAnswer:
        if step.ask == "note":
            value, error = float(step.body["value"]), float(step.body["error"])
        else:
            denominator = 1 if is_near(step) else from_spec(self._domain, step.body["spec"]).denominator
            share, error = read_answer(step, denominator)
            value = min(max(share, 0.0), 1.0)
        source = Source(name, self._steps.betas[name])
        return SharedAnswer(value, bool(step.body["side"]), error, source, step.receipt.sequence)


class HypothesisCache:
    """The hypothesis that follows from the released answers, fitted again only where it has to learn."""

    def __init__(self, domain: Domain, rules: Rules, prior: Prior | None = None) -> None:
        self._domain = domain
        self._rules = rules
        self._prior = prior
        self._hypothesis: Hypothesis | None = None
        self._learned = 0
        """How many released answers it knows."""
        self._rows, self._step = 0, 0.0
        self._width: float | None = None
        self._with_widths: list[Released] = []

    def prepare(self, settings: Settings) -> None:
        """What the hypothesis needs to know of the settings."""
        self._rows, self._step = settings.rows, settings.step
        rules = self._rules
        if rules.budget_for_all and rules.mechanism == "pmw" and rules.update == "refit":
            self._width = settings.answer_error

    def guess(self, state: State, question: Question) -> int:
        """The guess of a share on the grid of released answers: a whole number over 2^30."""
        if self._rules.mechanism == "direct":
            return 0
        share = float(self._current(state).answer(question.queries)[0])
        return min(max(round(share * GRID), 0), GRID)

    def first_guess(self, question: Question) -> float | None:
        """The guess before anything was released."""
        if self._rules.mechanism != "pmw":
            return None
        return float(self._start().answer(question.queries)[0])

    @property
    def identity(self) -> list[Any]:
        """How many released answers the hypothesis knows, and its digest: stored with every guess."""
        return [self._learned, "" if self._hypothesis is None else self._hypothesis.digest()]

    def check(self, state: State) -> None:
        """After a restart: the rebuilt hypothesis is the one that guessed last."""
        rules = self._rules
        if state.last_hypothesis is None or rules.mechanism == "direct" or rules.update == "step":
            return
        count, digest = state.last_hypothesis
        rebuilt = self._start() if not count else self._start().refit(self._released(state, count))
        if rebuilt.digest() != digest:
            raise LedgerError(
                "the hypothesis that follows from the ledger is not the one that its last answer names; "
                "run maquette ledger verify"
            )
        self._hypothesis, self._learned = rebuilt, count

    def synthetic(self, state: State, m: int, *, key: str) -> SmallDatabase:
        """m rows drawn from the hypothesis."""
        if self._rules.mechanism == "direct":
            start = hypothesis_for(self._domain, attributes=self._rules.attributes)
            return start.refit(state.released).synthetic(m, key=key)
        return self._current(state).synthetic(m, key=key)

    def _released(self, state: State, count: int) -> list[Released]:
        """The first released answers; with their widths in a session whose budget is for all questions."""
        if self._width is None:
            return state.released[:count]
        for answer in state.released[len(self._with_widths) : count]:
            self._with_widths.append(replace(answer, width=self._width))
        return self._with_widths[:count]

    def _current(self, state: State) -> Hypothesis:
        hypothesis = self._hypothesis or self._start()
        if self._learned < state.to_learn:
            if self._rules.update == "refit":
                hypothesis = hypothesis.refit(self._released(state, state.to_learn))
            else:
                for answer in state.released[self._learned : state.to_learn]:
                    hypothesis = hypothesis.step(answer.queries, answer.value, step=self._step)
            self._learned = state.to_learn
        self._hypothesis = hypothesis
        return hypothesis

    def _start(self) -> Hypothesis:
        if self._rules.mechanism == "median" and self._rows:
            from maquette.models.version_space import version_space_for

            return version_space_for(
                self._domain, rows=self._rows, attributes=self._rules.attributes, prior=self._prior
            )
        return hypothesis_for(self._domain, attributes=self._rules.attributes, prior=self._prior)

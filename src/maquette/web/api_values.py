"""What goes in and comes out, as OpenAPI describes it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from maquette.core.attribute import Kind
from maquette.sessions.question import Past
from maquette.web.explore import MAX_TEXT

Text = Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]


class Problem(BaseModel):
    """A refusal (RFC 9457)."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str = ""
    kind: str = Field(default="", description="The name of the library's error, where it is one.")


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Question(_Body):
    """A condition on one record."""

    query: Text
    at_most: float | None = Field(
        default=None, ge=0, le=1e6, description="The most that it may take, in `unit`."
    )
    allow_useless: bool = Field(default=False, description="Also answer with an error of 50 points or more.")


class ForecastQuestion(_Body):
    """A condition, or one SELECT of counts or shares by groups."""

    query: Text


class Statement(_Body):
    """One SELECT of counts or shares by groups: every cell is a question."""

    statement: Text
    at_most: float | None = Field(
        default=None, ge=0, le=1e6, description="The most that all cells may take, in `unit`."
    )
    allow_useless: bool = Field(default=False, description="Also answer with an error of 50 points or more.")


class Column(BaseModel):
    name: str
    kind: Kind
    cells: int


class Standing(BaseModel):
    left: float
    total: float
    unit: str
    questions: int


class TableFacts(BaseModel):
    """What is public about a table, and what is left to whoever asks."""

    name: str
    about: str
    relation: str
    columns: list[Column]
    records: int | None = Field(description="Noisy unless public; null while nobody has bought it.")
    records_public: bool = False
    standing: Standing | None = Field(description="Null for people without a budget of their own.")
    domain: dict[str, Any] = Field(description="The declared domain, as a domain file holds it.")


class Tables(BaseModel):
    items: list[TableFacts]


class ReleaseAnswer(BaseModel):
    query: str
    value: float
    count: float
    error: float | None
    low: float | None
    high: float | None
    confidence: float | None
    source: str
    statement: str | None
    notes: list[str]
    typical: str | None = None


class PublishedAnswer(ReleaseAnswer):
    """What a published release says to a condition, for nothing."""

    release: str


class Forecast(BaseModel):
    query: str
    kind: str
    cost: float
    error: float | None
    left: float
    total: float
    unit: str
    size_cost: float
    refusal: str | None
    beta: float
    questions: int = Field(default=1, description="Cells of a SELECT; 1 for a condition.")
    new_questions: int | None = Field(default=None, description="Cells that were not answered before.")
    published: list[PublishedAnswer] = Field(
        default_factory=list[PublishedAnswer],
        description="What releases answer for nothing, the smallest error first.",
    )


class CellAnswer(BaseModel):
    """The answer behind one cell of a SELECT."""

    query: str
    value: float
    error: float
    beta: float
    holds_for: str
    kind: Literal["free", "cached", "paid"]
    cost: float
    left: float
    unit: str
    receipt: str | None
    notes: list[str]


class Answer(CellAnswer):
    """The answer to one question."""

    low: float
    high: float
    total: float


class SessionResult(BaseModel):
    """The rows of a SELECT with their errors, the answers behind them, and what they took together."""

    columns: list[str]
    rows: list[list[Any]]
    notes: list[str]
    answers: list[CellAnswer]
    cost: float
    left: float
    total: float
    unit: str


class History(BaseModel):
    items: list[Past]
    next: int | None


class ReleaseFacts(BaseModel):
    name: str
    headline: str
    facts: dict[str, str]
    columns: list[str]
    answers: int
    rows: int | None
    domain: dict[str, Any] = Field(description="The declared domain, as a domain file holds it.")


class Releases(BaseModel):
    items: list[ReleaseFacts]
    next: str | None = Field(description="`after` of the next page.")


class Result(BaseModel):
    """A table of figures with their errors."""

    columns: list[str]
    rows: list[list[Any]]
    notes: list[str]


class Job(BaseModel):
    id: str
    number: int
    table: str
    person: str
    state: Literal["running", "done", "failed", "cancelled"]
    stage: str
    share: float = Field(description="How far it is, from 0 to 1.")
    why: str
    published: bool
    release: str | None
    note: str = Field(
        default="", description="What is to be said about its cost, in the reply that begins it."
    )


class JobProgress(BaseModel):
    """How far a job is, as an event says it."""

    state: Literal["running", "done", "failed", "cancelled"]
    stage: str
    share: int = Field(ge=0, le=1000, description="How far it is, in thousandths.")
    why: str


class Jobs(BaseModel):
    items: list[Job]
    next: int | None


class LedgerFacts(BaseModel):
    name: str
    epsilon: float
    delta: float
    unit: str
    total: float
    spent: float
    reserved: float
    left: float
    pure_epsilon: float | None = None
    pure: dict[str, float] | None = None
    receipt: str


class Entries(BaseModel):
    items: list[dict[str, Any]]
    next: int | None

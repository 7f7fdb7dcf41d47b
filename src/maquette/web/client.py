"""A service from Python: `maquette.connect(url, token=...)`. Sessions and releases feel like the local ones.

What comes back are the library's own values (`SessionAnswer`, `Forecast`, `ResultTable`) and its own errors. Every
question gets an idempotency key, so that one that was cut off can be sent again: it is, once.
"""

from __future__ import annotations

import dataclasses
import io
import json
import secrets
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeVar

from maquette import errors
from maquette.core import _check
from maquette.core._arguments import checks_arguments
from maquette.core.events import Receipt
from maquette.domain import Domain
from maquette.errors import (
    BudgetExceeded,
    LedgerError,
    MaquetteError,
    ParameterError,
    RateExceeded,
    ReleaseError,
    UselessAnswer,
)
from maquette.results.statements import Answer
from maquette.results.tables import ResultTable
from maquette.sessions.grouped import SessionTable
from maquette.sessions.question import Forecast, Past, Refusal, SelectForecast, SessionAnswer

if TYPE_CHECKING:
    import httpx
    import pyarrow as pa
    from _typeshed import DataclassInstance

Value = TypeVar("Value", bound="DataclassInstance")
ATTEMPTS = 4
"""How often a request is sent that got no answer, or the answer that the table is being opened again."""
PAUSE = 0.5


class ServiceError(MaquetteError):
    """A service that cannot be reached, or that refused for a reason of its own."""


@checks_arguments
def connect(url: str, *, token: str, timeout: float = 60.0) -> Service:
    """A service of `maquette serve`, as the person whose token it is."""
    try:
        import httpx
    except ImportError:
        raise ParameterError("a client needs one more package: pip install 'maquette-dp[client]'") from None
    if not url.startswith(("http://", "https://")):
        raise ParameterError("expected the address of a service, such as https://census.example")
    if url.startswith("http://") and _host(url) not in ("127.0.0.1", "localhost", "::1"):
        raise ParameterError("the token would be sent unencrypted; use https://")
    _check.positive(timeout=timeout)
    if not token.isascii() or not token.isprintable():
        raise ParameterError("expected a token as the service made it: letters, digits and signs on one line")
    headers = {"authorization": f"Bearer {token}"}
    wait = min(timeout, MAX_WAIT)
    try:
        client = httpx.Client(base_url=f"{url.rstrip('/')}/api/v1", headers=headers, timeout=wait)
    except (httpx.InvalidURL, ValueError):
        raise ParameterError("expected the address of a service, such as https://census.example") from None
    service = Service(client)
    service.tables()  # an address or a token that is wrong is noticed here
    return service


MAX_WAIT = 86_400.0
"""Seconds: a day."""


def _host(url: str) -> str | None:
    from httpx import URL, InvalidURL

    try:
        return URL(url).host
    except InvalidURL:
        return None


class Service:
    """What one person may see of a service."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def tables(self) -> list[str]:
        """The names of the tables."""
        return [one["name"] for one in self.get("/tables")["items"]]

    def session(self, table: str) -> RemoteSession:
        """Questions to a table, out of your own budget."""
        return RemoteSession(self, table)

    def releases(self) -> list[str]:
        """The names of the releases."""
        names: list[str] = []
        after: str | None = ""
        while after is not None:
            page = self.get("/releases", after=after, limit=500)
            names += [one["name"] for one in page["items"]]
            after = page["next"]
        return names

    def load(self, name: str) -> RemoteRelease:
        """A release by its name."""
        return RemoteRelease(self, self.get(f"/releases/{name}"))

    def release(
        self,
        table: str,
        *,
        epsilon: float,
        delta: float = 0.0,
        marginals: Iterable[int] = (),
        ranges: Iterable[str] = (),
        prefixes: Iterable[str] = (),
        where: Iterable[str] = (),
        mechanism: str = "auto",
        beta: float = 0.05,
        name: str = "",
        key: str | None = None,
        progress: Callable[[str, float], None] | None = None,
    ) -> RemoteRelease:
        """Release a table and wait for it. For stewards; the same `key` again is the same release and costs nothing."""
        wish = {
            "name": name,
            "marginals": list(marginals),
            "ranges": list(ranges),
            "prefixes": list(prefixes),
            "where": list(where),
            "epsilon": epsilon,
            "delta": delta,
            "mechanism": mechanism,
            "beta": beta,
        }
        job = self.post(f"/tables/{table}/releases", wish, key=key)
        for state in self.follow(job["id"]):
            if progress is not None:
                progress(state["stage"], state["share"] / 1000)
        job = self.get(f"/jobs/{job['id']}")
        while job["state"] == "done" and job["release"] is None:
            time.sleep(PAUSE)
            job = self.get(f"/jobs/{job['id']}")
        if job["state"] != "done":
            raise ServiceError(f"the release is {job['state']}: {job['why']}")
        return self.load(job["release"])

    def follow(self, job: str) -> Iterator[dict[str, Any]]:
        """The states of a job as they come, until it ends."""
        with self._client.stream("GET", f"/jobs/{job}/events", timeout=None) as reply:
            if reply.status_code != 200:
                reply.read()
                raise error_of(reply)
            for line in reply.iter_lines():
                if line.startswith("data: "):
                    yield json.loads(line[6:])

    def get(self, path: str, **params: Any) -> Any:
        return self._send("GET", path, params=params).json()

    def post(self, path: str, body: dict[str, Any] | None = None, *, key: str | None = None) -> Any:
        headers = {"idempotency-key": key or secrets.token_hex(16)}
        return self._send("POST", path, json=body, headers=headers).json()

    def file(self, path: str) -> bytes:
        return self._send("GET", path).content

    def _send(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        """Send until there is an answer: every request may be sent twice, by its nature or by its key."""
        import httpx

        for attempt in range(ATTEMPTS):
            is_last = attempt == ATTEMPTS - 1
            try:
                reply = self._client.request(method, path, **arguments)
            except httpx.TransportError as error:
                if is_last:
                    raise ServiceError(f"the service cannot be reached ({type(error).__name__})") from None
            else:
                if reply.status_code < 400:
                    return reply
                if reply.status_code != 503 or is_last:
                    raise error_of(reply)
            time.sleep(PAUSE * (attempt + 1))
        raise AssertionError("the last attempt returns or raises")

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Service('{self._client.base_url}')"


class RemoteSession:
    """A session on a service: `ask`, `forecast` and `history` as a local session has them."""

    def __init__(self, service: Service, table: str) -> None:
        self._service, self._path, self._table = service, f"/tables/{table}", table
        facts = service.get(self._path)
        if facts["standing"] is None:
            raise ParameterError(f"you have no budget of your own for '{table}'")
        self.domain = Domain.from_dict(facts["domain"])

    @property
    def left(self) -> float:
        return self._standing()["left"]

    @property
    def total(self) -> float:
        return self._standing()["total"]

    @property
    def unit(self) -> str:
        return self._standing()["unit"]

    @property
    def questions_left(self) -> int:
        return self._standing()["questions"]

    def _standing(self) -> dict[str, Any]:
        return self._service.get(self._path)["standing"]

    def ask(
        self, query: str, *, key: str | None = None, allow_useless: bool = False, at_most: float | None = None
    ) -> SessionAnswer:
        """Answer one question. See `maquette.Session.ask`."""
        body = {"query": query, "at_most": at_most, "allow_useless": allow_useless}
        return _answer(self._service.post(f"{self._path}/questions", body, key=key))

    def ask_many(
        self, queries: Iterable[str], *, allow_useless: bool = False
    ) -> list[SessionAnswer | Refusal]:
        """Answer many questions in order; one that is refused is a `Refusal` in its place, and the others go on."""
        answers: list[SessionAnswer | Refusal] = []
        for query in queries:
            try:
                answers.append(self.ask(query, allow_useless=allow_useless))
            except (BudgetExceeded, UselessAnswer) as error:
                answers.append(Refusal(query, str(error), error.exit_code))
        return answers

    def sql(
        self,
        statement: str,
        *,
        key: str | None = None,
        allow_useless: bool = False,
        at_most: float | None = None,
    ) -> SessionTable:
        """Counts and shares by groups, all cells or none. See `maquette.Session.sql`."""
        body = {"statement": statement, "at_most": at_most, "allow_useless": allow_useless}
        fields = self._service.post(f"{self._path}/sql", body, key=key)
        table = _table(fields)
        return SessionTable(
            table.arrow,
            table.notes,
            answers=tuple(_answer(one) for one in fields["answers"]),
            cost=fields["cost"],
            left=fields["left"],
            unit=fields["unit"],
        )

    def forecast(self, query: str) -> Forecast:
        """What a question or a SELECT would cost at most and would state. Spends nothing."""
        fields = self._service.post(f"{self._path}/forecast", {"query": query})
        return _value(Forecast if fields["new_questions"] is None else SelectForecast, fields, guess=None)

    def buy_size(self) -> None:
        """Buy the number of records, which the first question needs, by itself."""
        self._service.post(f"{self._path}/size")

    @property
    def size(self) -> int | None:
        """The number of records, public or noisy; None before it is bought."""
        return self._service.get(self._path)["records"]

    def synthetic(self, m: int = 1000) -> pa.Table:
        """m rows drawn from what the questions taught so far. See `maquette.Session.synthetic`."""
        return _table(self._service.get(f"{self._path}/synthetic", m=m)).arrow

    def history(self) -> list[Past]:
        """Everything that you asked, in order."""
        past: list[Past] = []
        after: int | None = 0
        while after is not None:
            page = self._service.get(f"{self._path}/questions", after=after, limit=500)
            past += [_value(Past, one) for one in page["items"]]
            after = page["next"]
        return past

    def __repr__(self) -> str:
        return f"RemoteSession('{self._table}', {self._service!r})"


class RemoteRelease:
    """A release on a service: `answer`, `table`, `sql` and `rows` as a local release has them."""

    def __init__(self, service: Service, facts: dict[str, Any]) -> None:
        self._service, self._facts = service, facts
        self._path = f"/releases/{facts['name']}"

    @property
    def name(self) -> str:
        return self._facts["name"]

    @property
    def headline(self) -> str:
        return self._facts["headline"]

    @property
    def columns(self) -> tuple[str, ...]:
        """The attributes that it says something about."""
        return tuple(self._facts["columns"])

    @cached_property
    def domain(self) -> Domain:
        return Domain.from_dict(self._facts["domain"])

    def save(self, path: str | Path) -> Path:
        """The whole release folder, as a local one that `maquette.load` reads."""
        place = Path(path)
        if place.exists():
            raise ReleaseError(f"{place} exists; choose another place")
        data = io.BytesIO(self._service.file(f"{self._path}/release.zip"))
        place.mkdir(parents=True)
        with zipfile.ZipFile(data) as archive:
            for member in archive.infolist():
                (place / PurePosixPath(member.filename).name).write_bytes(archive.read(member))
        return place

    def facts(self) -> dict[str, str]:
        return dict(self._facts["facts"])

    def answer(self, query: str) -> Answer:
        """The share of the records that meet a condition, with its error where one is proved."""
        fields = self._service.get(f"{self._path}/answer", q=query)
        return _value(Answer, fields, notes=tuple(fields["notes"]))

    def table(self, *names: str, values: str | None = None, where: str | None = None) -> ResultTable:
        """Figures by the cells of some columns."""
        return _table(
            self._service.get(f"{self._path}/table", by=list(names), figure=values or "", where=where or "")
        )

    def sql(self, statement: str) -> ResultTable:
        """The result of one SELECT."""
        return _table(self._service.get(f"{self._path}/sql", q=statement))

    @property
    def rows(self) -> pa.Table:
        """The synthetic rows, as an Arrow table."""
        import pyarrow.parquet

        return pyarrow.parquet.read_table(io.BytesIO(self._service.file(f"{self._path}/rows.parquet")))

    def __repr__(self) -> str:
        return f"RemoteRelease('{self.name}': {self.headline})"


def _answer(fields: dict[str, Any]) -> SessionAnswer:
    receipt = None if fields["receipt"] is None else Receipt.parse(fields["receipt"])
    return _value(SessionAnswer, fields, receipt=receipt, notes=tuple(fields["notes"]))


def _value(kind: type[Value], fields: dict[str, Any], **more: Any) -> Value:
    """A value of the library out of the fields of the same names; what it has besides keeps its default."""
    names = [field.name for field in dataclasses.fields(kind) if field.name not in more]
    return kind(**{name: fields[name] for name in names if name in fields}, **more)


def _table(fields: dict[str, Any]) -> ResultTable:
    import pyarrow as pa

    columns = {name: [row[i] for row in fields["rows"]] for i, name in enumerate(fields["columns"])}
    return ResultTable(pa.table(columns), tuple(fields["notes"]))


def error_of(reply: httpx.Response) -> MaquetteError:
    """The library's own error for a refusal."""
    try:
        fields = reply.json()
        detail = str(fields.get("detail") or fields.get("title"))
    except (ValueError, AttributeError):
        fields, detail = {}, f"status {reply.status_code}"
    kind = getattr(errors, str(fields.get("kind") or ""), None)
    match reply.status_code:
        case 400 if kind is UselessAnswer:
            return UselessAnswer(detail, error=float(fields.get("error", 1.0)))
        case 400 | 422 if isinstance(kind, type) and issubclass(kind, MaquetteError):
            return kind(detail)
        case 402:
            numbers = {name: float(fields.get(name, "nan")) for name in ("needed", "left")}
            return BudgetExceeded(detail, unit=str(fields.get("unit", "")), **numbers)
        case 429:
            return RateExceeded(detail, seconds=float(reply.headers.get("retry-after", 1)))
        case 400 | 422:
            return ParameterError(detail)
        case 404:
            return ReleaseError(detail)
        case 503:
            return LedgerError(detail)
        case _:
            return ServiceError(detail)

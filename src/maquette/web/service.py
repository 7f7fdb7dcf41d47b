"""What the service does for whom: every page and every route of the interface asks here, and here it is decided.

A person sees a table that the configuration gives them; stewards see all. What is not theirs does not exist for them
(Missing); what is theirs to see and not to do is refused (Forbidden).
"""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from maquette.domain import Domain
from maquette.errors import KeyReused, MaquetteError, ParameterError, ReleaseError
from maquette.web import explore, state
from maquette.web.auth import Door, Person
from maquette.web.config import Config
from maquette.web.explore import Catalog, free_name, short_name
from maquette.web.jobs import CANCELLED, DONE, FAILED, RUNNING
from maquette.web.keeper import Keeper
from maquette.web.link import Link, WorkerGone
from maquette.web.pace import Pace
from maquette.web.pages import Forbidden, Missing, words_of
from maquette.web.plain import reach_of
from maquette.web.requests import DiscoveryRequest, ReleaseRequest
from maquette.web.state import State, only_for_owner

if TYPE_CHECKING:
    from maquette.results.release import Release
    from maquette.results.statements import Answer

KEY = "web:"
"""What the keys of questions from pages and programs begin with in the ledger."""
OPEN = "open"
"""The stage of a table that can be asked; the others lead there."""
MAX_SAVED = 200
"""Questions that one person keeps for a table."""
POLL_SECONDS = 0.5
"""How often the states of running jobs are read."""

log = logging.getLogger("maquette.web")


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """The result of a SELECT over a release, as a page shows it."""

    release: str
    columns: list[str]
    rows: list[list[str]]
    total: int


class Service:
    """Tables behind their workers, releases, jobs and people."""

    def __init__(
        self, config: Config, links: Mapping[str, Link], *, keepers: Mapping[str, Keeper] | None = None
    ) -> None:
        self.config = config
        self.links = dict(links)
        self.keepers = dict(keepers or {})
        self.store = State.at(config.state, config.settings.database)
        self.door = Door(config, self.store)
        self.pace, self.visitors, self.failures = Pace(), Pace(), Pace()
        """Requests of people, requests of addresses without a person, and wrong tokens."""
        self.catalog = Catalog({}, check=self._check_release)
        self.counts: dict[str, int] = {}
        self._mutex = threading.Lock()
        self._domains: dict[str, Domain] = {}
        self._sized: set[tuple[str, str]] = set()
        """People and tables whose session has the number of records."""
        self._stop = threading.Event()
        for row in self.store.rows(state.job, state=DONE):
            self._add_release(row)
        self._poller = threading.Thread(target=self._poll, daemon=True)
        self._poller.start()

    @classmethod
    def start(cls, config: Config) -> Service:
        """With workers of its own: all are started at once, and all tables are open when this returns."""
        assert config.path is not None
        only_for_owner(config.state)
        run = Path(tempfile.mkdtemp(prefix="maquette-"))
        keepers: dict[str, Keeper] = {}
        links: dict[str, Link] = {}
        try:
            for name, table in config.settings.tables.items():
                place = run / f"{len(links)}.socket" if table.socket is None else config.place(table.socket)
                links[name] = Link(name, place)
                if table.socket is None:
                    keepers[name] = Keeper(config.path, name, place)
            for keeper in keepers.values():
                keeper.wait_ready()
            return cls(config, links, keepers=keepers)
        except BaseException:
            for keeper in keepers.values():
                keeper.stop()
            raise

    def stop(self) -> None:
        self._stop.set()
        self._poller.join(5)
        for keeper in self.keepers.values():
            keeper.stop()
        self.store.close()

    def count(self, what: str) -> None:
        """For the metrics: public events only."""
        with self._mutex:
            self.counts[what] = self.counts.get(what, 0) + 1

    def slowed(self, seconds: int) -> int:
        """The same seconds; counted where somebody has to wait."""
        if seconds:
            self.count("slowed_down")
        return seconds

    # --- tables -----------------------------------------------------------------------------------------------------

    def tables_of(self, person: Person) -> list[str]:
        if person.is_steward:
            return sorted(self.links)
        return sorted(name for name in person.settings.tables if name in self.links)

    def link(self, person: Person, table: str) -> Link:
        """The worker of a table that this person may see."""
        if table not in self.tables_of(person):
            raise Missing(f"there is no table called '{table}' for you")
        return self.links[table]

    def steward_link(self, person: Person, table: str) -> Link:
        link = self.link(person, table)
        self.require_steward(person)
        return link

    def require_steward(self, person: Person) -> None:
        if not person.is_steward:
            raise Forbidden("this is for the steward")

    def asking_link(self, person: Person, table: str) -> Link:
        """The worker of a table on which this person has a budget."""
        link = self.link(person, table)
        if table not in person.settings.tables:
            raise Forbidden(
                f"you have no budget of your own for '{table}'; the steward gives one in the configuration"
            )
        return link

    def domain(self, table: str) -> Domain:
        """The declared columns, which do not change while a worker has the table open."""
        if table not in self._domains:
            facts = self.links[table].call("describe")
            if facts["stage"] != OPEN:
                raise Missing(f"the table '{table}' is not open yet: the steward prepares its domain")
            self._domains[table] = Domain.from_dict(facts["domain"])
        return self._domains[table]

    def change_domain(self, person: Person, table: str, call: str, **arguments: Any) -> None:
        """One step of a review, or the domain that was found: recorded with who did it."""
        self.steward_link(person, table).call(call, who=person.name, **arguments)
        self._domains.pop(table, None)

    def describe(self, person: Person, table: str) -> dict[str, Any]:
        """A table as this person sees it, with what is left to them.

        A draft's lists may be read off the records: it is for the steward, who reviews it, and for nobody else.
        """
        link = self.link(person, table)
        facts = link.call("describe")
        if facts["stage"] != OPEN:
            domain = facts["domain"] if person.is_steward else None
            return facts | {"domain": domain, "standing": None, "problem": None}
        facts |= {"records": self._published_records(table) or facts["records"]}
        try:
            standing = link.call("standing", who=person.name) if table in person.settings.tables else None
            return facts | {"standing": standing, "problem": None}
        except MaquetteError as error:
            return facts | {"standing": None, "problem": words_of(error)}

    def _published_records(self, table: str) -> dict[str, Any] | None:
        """The number of records as the published release states it that knows it best."""
        best = self._best_size(table)
        if best is None:
            return None
        size = best[1].size
        return {"value": size.value, "is_public": size.public, "error": reach_of(size)}

    def _best_size(self, table: str) -> tuple[str, Release] | None:
        """The published release that knows the number of records best, by the law of its noise alone."""
        whole, _ = self.catalog.readable(self.published_releases(table))
        return min(
            (one for one in whole if not one[1].size.unpaid),
            key=lambda one: reach_of(one[1].size),
            default=None,
        )

    def _offer_size(self, person: Person, table: str, link: Link) -> None:
        """Before a question would buy the number of records: the session takes one that is published."""
        if (person.name, table) not in self._sized and (best := self._best_size(table)) is not None:
            link.call("use_size", who=person.name, job=self._release_names[best[0]])

    # --- questions --------------------------------------------------------------------------------------------------

    def forecast(self, person: Person, table: str, query: str) -> dict[str, Any]:
        link = self.asking_link(person, table)
        self._offer_size(person, table, link)
        return link.call("forecast", who=person.name, query=query)

    def published_answers(self, person: Person, table: str, query: str) -> list[tuple[str, Answer]]:
        """What the releases that this person may read say to a condition, for nothing; the smallest error first."""
        answers: list[tuple[str, Answer]] = []
        whole, _ = self.catalog.readable(self.visible_releases(person, table))
        for name, release in whole:
            with suppress(MaquetteError):  # it says nothing about these columns
                answers.append((name, release.answer(query)))
        return sorted(answers, key=lambda one: 1.0 if one[1].error is None else one[1].error)

    def published_table(self, person: Person, table: str, statement: str) -> PublishedTable | None:
        """The same for a SELECT in words: the first release that has all of its figures."""
        whole, _ = self.catalog.readable(self.visible_releases(person, table))
        for name, release in whole:
            with suppress(MaquetteError):
                result = explore.sql(release, statement)
                return PublishedTable(name, *explore.shown(result, release.domain), len(result))
        return None

    def buy_size(self, person: Person, table: str) -> bool:
        """The number of records: as it is published, or bought; False where it was known."""
        link = self.asking_link(person, table)
        self._offer_size(person, table, link)
        return link.call("buy_size", who=person.name, role=person.role)

    def ask(
        self, person: Person, table: str, query: str, *, key: str | None, **limits: Any
    ) -> dict[str, Any]:
        """Answer a question out of this person's budget. `key` makes it safe to send again.

        `limits` are `at_most`, the most that it may take, and `allow_useless`, for an answer that says nothing.
        """
        link = self.asking_link(person, table)
        self._offer_size(person, table, link)
        result = link.call("ask", query=query, **_from(person, key), **limits)
        return self._count_answer(person, table, result)

    async def ask_async(
        self, person: Person, table: str, query: str, *, key: str, **limits: Any
    ) -> dict[str, Any]:
        """The same on an event loop: a question that waits for the disk takes no thread."""
        link = self.asking_link(person, table)
        if (person.name, table) not in self._sized:
            await anyio.to_thread.run_sync(self._offer_size, person, table, link)
        result = await link.call_async("ask", query=query, **_from(person, key), **limits)
        return self._count_answer(person, table, result)

    def sql(
        self, person: Person, table: str, statement: str, *, key: str | None, **limits: Any
    ) -> dict[str, Any]:
        """Answer one SELECT, all its cells or none, out of this person's budget."""
        link = self.asking_link(person, table)
        if key is not None:
            self._take_key(person, table, statement, key)
        self._offer_size(person, table, link)
        result = link.call("sql", statement=statement, **_from(person, key), **limits)
        return self._count_answer(person, table, result)

    def _take_key(self, person: Person, table: str, statement: str, key: str) -> None:
        """Remember what a key is used for, durably and before anything is asked; refuse it for another statement."""
        digest = hashlib.sha256(statement.encode("utf-8", "replace")).hexdigest()
        place = {"person": person.name, "table": table, "key": key}
        if self.store.add(state.statement, **place, digest=digest, created=int(time.time())):
            return
        row = self.store.find(state.statement, **place)
        if row is None or row["digest"] != digest:
            raise KeyReused(f"key '{key}' was used before for another statement; give each its own key")

    def settle(self, person: Person, table: str, key: str) -> None:
        """End what a reservation holds; a session that follows it learns the number of records again."""
        self.steward_link(person, table).call("settle", key=key, who=person.name)
        self._sized = {one for one in self._sized if one[1] != table}

    def _count_answer(self, person: Person, table: str, result: dict[str, Any]) -> dict[str, Any]:
        if result["cost"]:
            self._sized.add((person.name, table))
        self.count(f"answers_{result.get('kind') or ('paid' if result['cost'] else 'cached')}")
        return result

    def history(self, person: Person, table: str, **page: Any) -> dict[str, Any]:
        """What this person asked; `page` is `after` and `limit`, or `newest`."""
        return self.asking_link(person, table).call("history", who=person.name, **page)

    def saved(self, person: Person, table: str) -> list[str]:
        """The questions that this person keeps, the newest first."""
        rows = self.store.rows(state.saved, newest=True, person=person.name, table=table)
        return [row["query"] for row in rows]

    def keep(self, person: Person, table: str, query: str) -> None:
        """Keep a question, without its answer; the oldest makes room for it."""
        self.asking_link(person, table)
        values = {"person": person.name, "table": table, "query": query}
        if self.store.add(state.saved, **values, created=int(time.time())):
            for old in self.saved(person, table)[MAX_SAVED:]:
                self.forget(person, table, old)

    def forget(self, person: Person, table: str, query: str) -> None:
        self.store.remove(state.saved, person=person.name, table=table, query=query)

    # --- releases and jobs ------------------------------------------------------------------------------------------

    def visible_releases(self, person: Person, table: str | None = None) -> list[str]:
        """Published releases of tables that this person may see; the steward also sees those that are not published.

        Of one table, or of all.
        """
        tables = [one for one in self.tables_of(person) if table in (None, one)]
        return self._finished_releases(tables, with_hidden=person.is_steward)

    def published_releases(self, table: str) -> list[str]:
        return self._finished_releases([table], with_hidden=False)

    def _finished_releases(self, tables: Sequence[str], *, with_hidden: bool) -> list[str]:
        rows = self.store.rows(state.job, state=DONE)
        jobs = {row["id"] for row in rows if row["table"] in tables and (row["published"] or with_hidden)}
        return sorted(name for name, job in self._release_names.items() if job in jobs)

    @property
    def _release_names(self) -> dict[str, str]:
        """By name in addresses: the job that made it."""
        return {
            name: self.catalog.folder(name).name.removesuffix(".maquette") for name in self.catalog.names()
        }

    def release_of_job(self, job: str) -> str | None:
        return next((name for name, one in self._release_names.items() if one == job), None)

    def _check_release(self, folder: Path) -> str | None:
        """What the worker of its table finds when it holds a release against the ledger; None while it is away."""
        job = folder.name.removesuffix(".maquette")
        row = self.store.find(state.job, id=job)
        try:
            return None if row is None else self.links[row["table"]].call("check_release", job=job)
        except WorkerGone:
            return None
        except ReleaseError as error:  # it names a folder
            log.error("release of job %s: %s", job, error)
            raise ReleaseError(
                "this release is not what the ledger recorded: it was changed after it was made. Tell the steward"
            ) from None

    def start_job(
        self, person: Person, table: str, request: ReleaseRequest | DiscoveryRequest, *, key: str
    ) -> dict[str, Any]:
        """Begin a release or a discovery, or find the one that this key began."""
        link, wish = self.steward_link(person, table), request.model_dump()
        text = json.dumps(wish, sort_keys=True)
        row = self.store.find(state.job, person=person.name, key=key)
        if row is None:
            job = secrets.token_hex(8)
            note = link.call("check_job", job=job, request=wish)  # what is refused leaves nothing behind
            values = {"id": job, "key": key, "person": person.name, "table": table, "request": text}
            values |= {"state": RUNNING, "stage": "waiting", "share": 0, "why": "", "published": 0}
            if self.store.add(state.job, **values, created=int(time.time())):
                link.call("start_job", job=job, who=person.name, request=wish)
                self.count("jobs_started")
                return self.job(person, job) | {"note": note or ""}
            row = self.store.find(state.job, person=person.name, key=key)
            assert row is not None
        if (row["table"], row["request"]) != (table, text):
            raise KeyReused(f"the key '{key}' was used before for another release; give each its own key")
        return row

    def job(self, person: Person, job: str) -> dict[str, Any]:
        row = self.store.find(state.job, id=job)
        if row is None or not person.is_steward:
            raise Missing(f"there is no job '{job}' for you")
        return row

    def jobs(self, person: Person, *, after: int = 0, limit: int = 50) -> list[dict[str, Any]]:
        """The newest first; `after` is the number of the last one of the page before."""
        self.require_steward(person)
        return self.store.rows(state.job, after=after, limit=limit, newest=True)

    def change_job(self, person: Person, job: str, action: str) -> dict[str, Any]:
        """Cancel or resume a job; publish its release to the analysts of the table, or hide it."""
        match action:
            case "cancel":
                return self.cancel(person, job)
            case "resume":
                return self.resume(person, job)
            case "publish" | "hide":
                return self.publish(person, job, is_public=action == "publish")
            case _:
                raise ParameterError(f"there is no action '{action}'")

    def cancel(self, person: Person, job: str) -> dict[str, Any]:
        row = self.job(person, job)
        if row["state"] == RUNNING:
            self.links[row["table"]].call("cancel_job", job=job, who=person.name)
            self.store.change(state.job, {"id": job, "state": RUNNING}, state=CANCELLED, why="cancelled")
        return self.job(person, job)

    def resume(self, person: Person, job: str) -> dict[str, Any]:
        """Go on with a job that was cancelled or failed: what was paid is in the ledger and is not paid again."""
        row = self.job(person, job)
        if row["state"] in (CANCELLED, FAILED):
            link, wish = self.links[row["table"]], json.loads(row["request"])
            link.call("check_job", job=job, request=wish)
            link.call("start_job", job=job, who=person.name, request=wish)  # first: it has no old state then
            attempt = row["attempt"]
            values = {"state": RUNNING, "why": "", "stage": "waiting", "attempt": attempt + 1}
            self.store.change(state.job, {"id": job, "attempt": attempt}, **values)
        return self.job(person, job)

    def publish(self, person: Person, job: str, *, is_public: bool) -> dict[str, Any]:
        """Show a release to the analysts of its table, or to stewards alone."""
        row = self.job(person, job)
        if row["state"] != DONE or self.release_of_job(job) is None:
            raise ParameterError("this release is not finished, so it cannot be published")
        self.store.change(state.job, {"id": job}, published=int(is_public))
        action = "published a release" if is_public else "hid a release"
        self.links[row["table"]].call(
            "note", who=person.name, role=person.role, action=action, detail={"job": job}
        )
        return self.job(person, job)

    def _poll(self) -> None:
        """Follow running jobs; those that a worker does not know were cut short by its end, and go on."""
        while not self._stop.wait(POLL_SECONDS):
            try:
                running = self.store.rows(state.job, state=RUNNING)
            except MaquetteError:
                continue  # the database is away for a while
            for row in running:
                try:
                    self._follow(row)
                except MaquetteError:
                    continue  # the worker is being started again

    def _follow(self, row: dict[str, Any]) -> None:
        link = self.links.get(row["table"])
        if link is None:
            return
        status = link.call("job", job=row["id"])
        if status is None:
            request = json.loads(row["request"])
            status = link.call("start_job", job=row["id"], who=row["person"], request=request)
        values = {name: status[name] for name in ("state", "stage", "share", "why")}
        attempt = {
            "id": row["id"],
            "state": RUNNING,
            "attempt": row["attempt"],
        }  # and not one that was resumed since
        changed = self.store.change(state.job, attempt, **values)
        if changed and status["state"] == DONE:
            self._add_release(row)

    def _add_release(self, row: dict[str, Any]) -> None:
        if row["table"] not in self.config.settings.tables:
            return
        folder = self.config.table_folder(row["table"]) / "releases" / f"{row['id']}.maquette"
        if folder.is_dir() and self.release_of_job(row["id"]) is None:
            wish = short_name(json.loads(row["request"]).get("name") or f"{row['table']}-{row['number']}")
            self.catalog.add(free_name(wish, self.catalog.names()), folder)

    # --- for whoever runs it ----------------------------------------------------------------------------------------

    def is_ready(self) -> bool:
        return all(link.is_ready() for link in self.links.values())

    def metrics(self) -> str:
        """Counters in the form of Prometheus: requests and processes, nothing of a table."""
        lines = [f"maquette_{name}_total {value}" for name, value in sorted(self.counts.items())]
        for table, link in self.links.items():
            lines.append(f'maquette_worker_up{{table="{table}"}} {int(link.is_ready())}')
        for table, keeper in self.keepers.items():
            lines.append(f'maquette_worker_restarts_total{{table="{table}"}} {keeper.restarts}')
        running = len(self.store.rows(state.job, state=RUNNING))
        return "\n".join([*lines, f"maquette_jobs_running {running}", ""])

    def record_sign_in(self, person: Person, action: str) -> None:
        """In the log of every table that this person may see."""
        for table in self.tables_of(person):
            try:
                detail = {"token": person.token}
                self.links[table].call(
                    "note", who=person.name, role=person.role, action=action, detail=detail
                )
            except WorkerGone:
                continue


def _from(person: Person, key: str | None) -> dict[str, Any]:
    """Whose question it is, for the worker, and its key there."""
    return {"who": person.name, "role": person.role, "key": None if key is None else f"{KEY}{key}"}

"""One private table with its ledger and the sessions of its analysts: what a worker does when the front asks.

Everything goes through the public interface of the library; there is no way from here to a row. What is handed back
was paid for, or is public by declaration.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from maquette.core.budget import Budget
from maquette.domain import Domain, Relation
from maquette.domain.entries import to_text
from maquette.domain.review import REVIEWS, confirm
from maquette.errors import BudgetExceeded, KeyReused, MaquetteError, ParameterError, ReleaseError
from maquette.owner import fit_report
from maquette.owner import open as open_table
from maquette.releasing.payment import bill_of, open_ledger
from maquette.releasing.planning import check_memory, plan_of, ways_of
from maquette.releasing.request import Request
from maquette.results import wording
from maquette.results.document import plain
from maquette.results.folder import write_text
from maquette.results.loading import load
from maquette.results.release import Release
from maquette.sessions.grouped import SessionTable
from maquette.sessions.opening import session
from maquette.sessions.session import Session
from maquette.web.audit import AuditLog
from maquette.web.config import ANALYST, Config, ShareSettings
from maquette.web.jobs import Jobs, job_key
from maquette.web.ledger import MAX_PAGE, Account, Witness
from maquette.web.once import MadeOnce
from maquette.web.plain import reach_of
from maquette.web.planning import note_of_cost
from maquette.web.requests import ReleaseRequest

MAX_ANSWERS = 10_000


class Holder:
    """Answers the calls of the front about one table."""

    def __init__(self, config: Config, name: str) -> None:
        settings = config.settings.tables[name]
        self._config, self._name, self._settings = config, name, settings
        self._domain = Domain.load(config.domain(name))
        self._table = open_table(
            config.source(name),
            domain=self._domain,
            name=name,
            **config.reading(name),
        )
        self._ledger = open_ledger(
            self._table,
            config.ledger(name),
            relation=Relation.named(settings.relation),
            budget=Budget(settings.epsilon, settings.delta, settings.accounting),
        )
        self._check_total()
        self._witness = None if settings.witness is None else Witness(config.place(settings.witness))
        if self._witness is not None:
            self._witness.check(self._ledger)
            self._witness.follow(self._ledger)
        self._audit = AuditLog(config.table_folder(name) / "audit" / f"{name}.jsonl")
        self._jobs = Jobs(config, name)
        self._sessions: MadeOnce[Session] = MadeOnce()
        self._answers: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {}
        """The last answers by person and key, for those who send again; the ledger has all of them."""
        self._mutex = threading.Lock()
        account = Account(self._ledger)
        self._calls: dict[str, Callable[..., Any]] = {
            "describe": self.describe,
            "forecast": self.forecast,
            "ask": self.ask,
            "sql": self.sql,
            "synthetic": self.synthetic,
            "buy_size": self.buy_size,
            "use_size": self.use_size,
            "standing": self.standing,
            "history": self.history,
            "ledger": account.ledger,
            "entries": account.entries,
            "spent": account.spent,
            "verify": self.verify,
            "settle": self.settle,
            "audit": self.audit,
            "note": self.note,
            "fit": self.fit,
            "confirm": self.confirm,
            "check_release": self.check_release,
            "check_job": self.check_job,
            "start_job": self.start_job,
            "job": self._jobs.status,
            "cancel_job": self.cancel_job,
        }

    def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Do what the front asks for, if it is one of the calls."""
        if name not in self._calls:
            raise ParameterError(f"there is no call '{name}'")
        return plain(self._calls[name](**arguments))

    def close(self) -> None:
        self._jobs.stop()
        if self._witness is not None:
            self._witness.stop(self._ledger)
        self._ledger.close()

    def _check_total(self) -> None:
        budget, settings = self._ledger.budget, self._settings
        if (budget.epsilon, budget.delta) != (settings.epsilon, settings.delta):
            raise ParameterError(
                f"the ledger of '{self._name}' was made with {budget}, which is fixed, and the configuration says "
                f"{wording.budget(settings.epsilon, settings.delta)}; write the ledger's own total there"
            )

    # --- analysts ---------------------------------------------------------------------------------------------------

    def _session(self, who: str) -> Session:
        """The session of an analyst: opened once, with what the configuration gives; what it replaces is ended."""
        return self._sessions.get(who, lambda: self._open(who, self._share(who)))

    def _share(self, who: str) -> ShareSettings:
        person = self._config.settings.people.get(who)
        share = None if person is None else person.tables.get(self._name)
        if share is None:
            raise ParameterError(f"the configuration gives {who} no budget for the table '{self._name}'")
        return share

    def _open(self, who: str, share: ShareSettings) -> Session:
        analyst = f"{ANALYST}{who}"
        delta = self._settings.delta if share.delta is None else share.delta

        def opened() -> Session:
            return session(
                self._table,
                epsilon=share.epsilon,
                delta=delta,
                alpha=share.alpha,
                beta=share.beta,
                queries=share.questions,
                attributes=share.attributes,
                relation=self._settings.relation,
                ledger=self._ledger,
                analyst=analyst,
            )

        try:
            new = opened()
        except BudgetExceeded:
            # what an earlier session of theirs holds may be what is missing
            if not self._end_sessions(analyst, keep=None):
                raise
            new = opened()
        self._end_sessions(analyst, keep=new.key)
        self._ledger.limit(new.key, share.rate)
        return new

    def _end_sessions(self, analyst: str, *, keep: str | None) -> int:
        """Give back what sessions of an analyst under earlier settings hold; how many there were."""
        old = [
            one.entry.key
            for one in self._ledger.open_envelopes()
            if one.entry.tag == "session"
            and one.entry.body.get("analyst") == analyst
            and one.entry.key != keep
        ]
        for key in old:
            self._ledger.settle(key)
        return len(old)

    def describe(self) -> dict[str, Any]:
        """What is public about the table."""
        return {
            "name": self._name,
            "stage": "open",
            "about": self._settings.about,
            "domain": self._domain.to_dict(),
            "relation": self._settings.relation,
            "fit_report": self._settings.fit_report,
            "records": self._records(),
            "unit": self._ledger.budget.unit,
        }

    def _records(self) -> dict[str, Any] | None:
        """The number of records that some session bought, or that is public; None while nobody has."""
        for _, one in self._sessions.items():
            size = one.size
            if size is not None:
                return {"value": size.value, "is_public": size.public, "error": reach_of(size)}
        return None

    def standing(self, who: str) -> dict[str, Any]:
        """What an analyst has left."""
        one = self._session(who)
        return {"left": one.left, "total": one.total, "unit": one.unit, "questions": one.questions_left}

    def forecast(self, who: str, query: str) -> dict[str, Any]:
        """What a question would cost and state. Spends and looks at nothing."""
        one = self._session(who)
        return asdict(one.forecast(query)) | {"total": one.total, "beta": one.rules.beta}

    def ask(
        self,
        who: str,
        role: str,
        query: str,
        key: str | None = None,
        at_most: float | None = None,
        allow_useless: bool = False,
    ) -> dict[str, Any]:
        """Answer a question out of an analyst's own budget; the log has it before the reply leaves."""
        one = self._session(who)
        note: dict[str, Any] = {"query": query[:500], "key": key}
        repeat = None if key is None else self._answers.get((who, key))
        if repeat is not None and repeat[0] == query:  # sent again: what was released stays released
            self._log(who, role, "asked", note | {"kind": "cached", "cost": 0.0})
            return repeat[1] | {"kind": "cached", "cost": 0.0}
        try:
            answer = one.ask(query, key=key, at_most=at_most, allow_useless=allow_useless)
        except MaquetteError as error:
            self._log(who, role, "refused", note | {"why": type(error).__name__})
            raise
        is_paid = answer.kind == "paid"
        self._log(who, role, "asked", note | {"kind": answer.kind, "cost": answer.cost}, is_paid=is_paid)
        receipt = None if answer.receipt is None else str(answer.receipt)
        result = asdict(answer) | {
            "receipt": receipt,
            "low": answer.low,
            "high": answer.high,
            "total": one.total,
        }
        if key is not None:
            with self._mutex:
                self._answers[who, key] = (query, result)
                if len(self._answers) > MAX_ANSWERS:
                    self._answers.pop(next(iter(self._answers)))
        return result

    def sql(
        self,
        who: str,
        role: str,
        statement: str,
        key: str | None = None,
        at_most: float | None = None,
        allow_useless: bool = False,
    ) -> dict[str, Any]:
        """Counts by groups out of an analyst's own budget: every cell is a question, and all are answered or none.

        A cell that was answered before is free, so that a statement which is sent again costs nothing. That its key is
        of no other statement was seen by the front, which remembers keys.
        """
        one = self._session(who)
        note: dict[str, Any] = {"query": statement[:500], "key": key}
        try:
            table = one.sql(statement, at_most=at_most, allow_useless=allow_useless)
        except MaquetteError as error:
            self._log(who, role, "refused", note | {"why": type(error).__name__})
            raise
        self._log(
            who, role, "asked", note | {"cells": len(table), "cost": table.cost}, is_paid=table.cost > 0
        )
        return table_fields(table) | {"total": one.total}

    def buy_size(self, who: str, role: str) -> bool:
        """Buy the number of records for an analyst, by itself."""
        is_new = self._session(who).buy_size()
        self._log(who, role, "bought the number of records", {}, is_paid=is_new)
        return is_new

    def use_size(self, who: str, job: str) -> bool:
        """Give an analyst's session the number of records that a release states, so that none is bought."""
        one = self._session(who)
        if one.size is not None:
            return False
        try:
            return one.use_size(self._release(job))
        except (ParameterError, ReleaseError):  # it was changed, or another ledger paid for it
            return False

    def synthetic(self, who: str, m: int) -> dict[str, Any]:
        """Rows drawn from what an analyst's questions taught: post-processing, free."""
        rows = self._session(who).synthetic(min(m, MAX_ANSWERS))
        return {"columns": rows.column_names, "rows": [list(row.values()) for row in rows.to_pylist()]}

    def history(self, who: str, after: int = 0, limit: int = 50, newest: bool = False) -> dict[str, Any]:
        """What an analyst asked, in order; one page of it, or the last one.

        Times are in whole seconds: a step is dated before its look, and to the millisecond the next one would say how
        long the look took, which the tick of replies hides.
        """
        past = [one for one in self._session(who).history() if one.sequence > after]
        most = min(limit, MAX_PAGE)
        page = past[-most:] if newest else past[:most]
        more = page[-1].sequence if len(page) < len(past) and not newest else None
        return {"items": [asdict(replace(one, when=_seconds(one.when))) for one in page], "next": more}

    # --- the steward ------------------------------------------------------------------------------------------------

    def verify(self) -> dict[str, Any]:
        """Read the whole ledger and the whole log again."""
        end = self._ledger.verify()
        lines = self._audit.verify(self._ledger)
        return {"receipt": str(end), "audit_lines": lines}

    def settle(self, key: str, who: str) -> dict[str, Any]:
        """End a reservation; what it did not spend goes back."""
        if self._jobs.is_running(key):
            raise KeyReused("its job is running; cancel that first")
        self._ledger.settle(key)
        for name, one in self._sessions.items():
            if one.key == key:
                self._sessions.forget(name)
        self._log(who, "steward", "settled", {"key": key})
        return {"key": key}

    def audit(self, before: int | None = None, limit: int = 50) -> dict[str, Any]:
        lines = self._audit.newest(before=before, limit=min(limit, MAX_PAGE) + 1)
        page = lines[: min(limit, MAX_PAGE)]
        return {
            "items": [asdict(line) for line in page],
            "next": page[-1].number if len(lines) > len(page) else None,
        }

    def note(self, who: str, role: str, action: str, detail: dict[str, Any]) -> None:
        """A line in the log about something that happened in the front."""
        self._log(who, role, action[:40], detail)

    def fit(self, who: str) -> dict[str, Any]:
        """Exact counts of what fits no declared cell: not private, and only where the configuration allows it."""
        if not self._settings.fit_report:
            raise ParameterError(
                "the fit report counts records exactly, and is not shown here unless the configuration says "
                "fit_report = true; on the machine of the table, maquette domain check shows it"
            )
        self._log(who, "steward", "looked at the fit report", {})
        report = fit_report(
            self._config.source(self._name),
            domain=self._domain,
            **self._config.reading(self._name),
        )
        return report.to_dict()

    def confirm(self, name: str, who: str, why: str) -> None:
        """Write down who confirms that the declared values of a column are public knowledge, and why."""
        reviews = confirm(self._domain, name, by=who, why=why).notes[REVIEWS]
        self._domain = replace(self._domain, notes=self._domain.notes | {REVIEWS: reviews})
        write_text(self._config.domain(self._name), to_text(self._domain.to_dict()))
        self._log(who, "steward", "confirmed a column", {"column": name, "why": why[:500]})

    def check_release(self, job: str) -> str | None:
        """Hold a release against the ledger that paid for it; one that was edited is refused."""
        return self._release(job).checked

    def _release(self, job: str) -> Release:
        if not (job.isalnum() and len(job) <= 40):
            raise ParameterError("expected the id of a job as letters and digits")
        folder = self._config.table_folder(self._name) / "releases" / f"{job}.maquette"
        return load(folder, ledger=self._ledger)

    def check_job(self, job: str, request: dict[str, Any]) -> str | None:
        """Refuse a release that cannot be made or that the ledger cannot pay, by public numbers, before it is begun.

        What is to be said about its cost, if anything.
        """
        if request.get("kind") == "discovery":
            raise ParameterError(f"the domain of '{self._name}' is declared: nothing has to be discovered")
        wish = ReleaseRequest.model_validate(request)
        release_request = Request(
            queries=wish.queries(self._domain),
            relation=self._settings.relation,
            persons=self._table.persons,
            **wish.arguments(),
        )
        total = self._ledger.budget
        plan = plan_of(*ways_of(release_request, self._ledger, total=total, key=job_key(job)))
        check_memory(plan, limit=self._table.memory_limit)
        bill_of(plan, job_key(job)).check_covered(self._ledger)
        return note_of_cost(wish, total)

    def start_job(self, job: str, who: str, request: dict[str, Any]) -> dict[str, Any]:
        self._log(who, "steward", "started a release", {"job": job, "request": request}, is_paid=True)
        return self._jobs.start(job, request)

    def cancel_job(self, job: str, who: str) -> dict[str, Any]:
        self._log(who, "steward", "cancelled a release", {"job": job})
        return self._jobs.cancel(job)

    def _log(
        self, who: str, role: str, action: str, detail: dict[str, Any], *, is_paid: bool = False
    ) -> None:
        self._audit.write(who, role, action, detail, self._ledger.receipt(), is_paid=is_paid)


def _seconds(when: str) -> str:
    return datetime.fromisoformat(when).isoformat(timespec="seconds")


def table_fields(table: SessionTable) -> dict[str, Any]:
    """The result of a SELECT as the front gets it: rows, the answers behind them, and what they took."""
    names = table.column_names
    answers = [
        asdict(one) | {"receipt": None if one.receipt is None else str(one.receipt)} for one in table.answers
    ]
    return {
        "columns": names,
        "rows": [[row[name] for name in names] for row in table.arrow.to_pylist()],
        "notes": list(table.notes),
        "answers": answers,
        "cost": table.cost,
        "left": table.left,
        "unit": table.unit,
    }

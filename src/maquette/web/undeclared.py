"""A table whose domain is not there yet, or not reviewed: what a worker does until the table can be opened.

The steward reviews a drafted domain column by column, or has one found privately and paid for. Neither shows a record;
an unreviewed draft, whose lists may be read off the records, leaves the worker only where the configuration allows it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from maquette.accounting.ledger import Ledger
from maquette.core.budget import Budget
from maquette.core.events import Receipt
from maquette.core.ledger.create import BEFORE_DOMAIN
from maquette.domain import Domain, Relation
from maquette.domain import review as reviews
from maquette.domain.file import parse_attribute
from maquette.errors import LedgerError, ParameterError
from maquette.owner import raw_columns
from maquette.releasing.discovery import bill_of
from maquette.releasing.discovery_plan import forecast_discovery
from maquette.requests import Privacy
from maquette.results.document import plain
from maquette.results.folder import write_domain
from maquette.web.audit import BEFORE_LEDGER, AuditLog
from maquette.web.config import Config
from maquette.web.holder import Holder
from maquette.web.jobs import Jobs, job_key
from maquette.web.requests import DiscoveryRequest


def open_holder(config: Config, name: str) -> Holder | UndeclaredTable:
    """The table with its ledger; without a reviewed domain, what leads there."""
    path, settings = config.domain(name), config.settings.tables[name]
    is_draft = path.exists() and settings.review_draft and not Domain.load(path).reviewed
    is_empty = not path.exists() and settings.discovery
    return UndeclaredTable(config, name) if is_draft or is_empty else Holder(config, name)


class UndeclaredTable:
    """Answers the calls of the front about a table that cannot be opened yet, and opens it when it can be."""

    def __init__(self, config: Config, name: str) -> None:
        self._config, self._name = config, name
        self._settings = config.settings.tables[name]
        self._audit = AuditLog(config.table_folder(name) / "audit" / f"{name}.jsonl")
        self._jobs = Jobs(config, name)
        self._mutex = threading.Lock()
        self._holder: Holder | None = None
        self._header = {} if config.domain(name).exists() else self._columns()
        self._calls: dict[str, Callable[..., Any]] = {
            "describe": self.describe,
            "confirm": self.confirm,
            "drop": self.drop,
            "edit": self.edit,
            "forecast_discovery": self.forecast_discovery,
            "accept": self.accept,
            "note": self.note,
            "check_job": self.check_job,
            "start_job": self.start_job,
            "job": self._jobs.status,
            "cancel_job": self.cancel_job,
        }

    def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Do what the front asks for; once the table is open, that is up to its holder."""
        if self._holder is not None:
            return self._holder.call(name, arguments)
        if name not in self._calls:
            raise ParameterError(f"the table '{self._name}' is not open yet: its domain is being prepared")
        return plain(self._calls[name](**arguments))

    def close(self) -> None:
        self._jobs.stop()
        if self._holder is not None:
            self._holder.close()

    @property
    def _stage(self) -> str:
        if self._config.domain(self._name).exists():
            return "draft"
        return "proposal" if self._config.proposal(self._name).exists() else "empty"

    def describe(self) -> dict[str, Any]:
        """How far the domain is, and what of it may be seen."""
        domain = self._draft() if self._stage == "draft" else self._proposal()
        return {
            "name": self._name,
            "stage": self._stage,
            "about": self._settings.about,
            "domain": None if domain is None else domain.to_dict(),
            "header": list(self._header),
            "relation": self._settings.relation,
            "total": {"epsilon": self._settings.epsilon, "delta": self._settings.delta},
            "fit_report": False,
            "records": None,
            "unit": "",
        }

    # --- review -----------------------------------------------------------------------------------------------------

    def confirm(self, name: str, who: str, why: str) -> None:
        """Confirm a column: who says that its values are public knowledge, and why."""
        self._store(reviews.confirm(self._draft(), name, by=who, why=why))
        self._log(who, "confirmed a column", {"column": name, "why": why[:500]})
        self._open_if_reviewed()

    def drop(self, name: str, who: str) -> None:
        """Take a column out of the domain."""
        self._store(reviews.drop(self._draft(), name))
        self._log(who, "dropped a column", {"column": name})
        self._open_if_reviewed()

    def edit(self, name: str, who: str, entry: str) -> None:
        """Declare a column in another way, as the file spells it; it is to be confirmed afterwards."""
        self._store(reviews.edit(self._draft(), name, parse_attribute(entry)))
        self._log(who, "edited a column", {"column": name})

    def _draft(self) -> Domain:
        if self._stage != "draft":
            raise ParameterError(f"there is no drafted domain of '{self._name}' to review")
        return Domain.load(self._config.domain(self._name))

    def _store(self, domain: Domain) -> None:
        write_domain(self._config.domain(self._name), domain)

    def _open_if_reviewed(self) -> None:
        with self._mutex:
            if self._holder is None and self._draft().reviewed:
                self._holder = Holder(self._config, self._name)

    # --- private discovery ------------------------------------------------------------------------------------------

    def _columns(self) -> dict[str, bool]:
        """The header, which is public structure: names, and whether a column can be declared at all."""
        config, name = self._config, self._name
        return raw_columns(config.source(name), query=None, **config.reading(name))

    def forecast_discovery(self, request: dict[str, Any]) -> dict[str, Any]:
        """What a discovery would cost and see. Spends and looks at nothing."""
        parsed, settings = DiscoveryRequest.model_validate(request), self._settings
        forecast = forecast_discovery(
            self._header,
            columns=parsed.columns,
            epsilon=parsed.epsilon,
            delta=parsed.delta,
            total_epsilon=settings.epsilon,
            total_delta=settings.delta,
            relation=settings.relation,
        )
        columns = [asdict(one) for one in forecast.columns]
        return {"share": forecast.share, "columns": columns, "note": forecast.note}

    def check_job(self, job: str, request: dict[str, Any]) -> str | None:
        """Refuse a discovery that cannot be made, or that the ledger cannot pay, before it is begun.

        What is to be said about its cost, if anything.
        """
        if self._stage == "draft":
            raise ParameterError(
                "this table has a drafted domain: review that one, nothing has to be discovered"
            )
        note = self.forecast_discovery(request)["note"]
        wish = DiscoveryRequest.model_validate(request)
        with self._account() as book:
            privacy = Privacy(epsilon=wish.epsilon, delta=wish.delta)
            bill_of(privacy, request, key=job_key(job)).check_covered(book)
        return note

    def _account(self) -> Ledger:
        """The ledger that an earlier discovery made, or one as the next will make it."""
        place, settings = Path(self._config.ledger(self._name)), self._settings
        if place.exists():
            return Ledger.open(place)
        return Ledger.memory(
            budget=Budget(settings.epsilon, settings.delta, "zcdp", thresholds=True),
            relation=Relation.named(settings.relation),
            domain_fingerprint=BEFORE_DOMAIN,
            name=self._name,
        )

    def start_job(self, job: str, who: str, request: dict[str, Any]) -> dict[str, Any]:
        self._log(who, "started a discovery", {"job": job, "request": request}, is_paid=True)
        return self._jobs.start(job, request)

    def cancel_job(self, job: str, who: str) -> dict[str, Any]:
        self._log(who, "cancelled a discovery", {"job": job})
        return self._jobs.cancel(job)

    def _proposal(self) -> Domain | None:
        path = self._config.proposal(self._name)
        return Domain.load(path) if path.exists() else None

    def accept(self, who: str) -> None:
        """Use the domain that was found: the table is opened with it, for good from its first release or session."""
        domain = self._proposal()
        if domain is None or self._stage != "proposal":
            raise ParameterError(f"no domain of '{self._name}' was found that could be used")
        if self._jobs.any_running():
            raise ParameterError("a discovery is running; wait for it, or cancel it first")
        with self._mutex:
            self._store(domain)
            try:
                self._holder = Holder(self._config, self._name)
            except BaseException:
                self._config.domain(self._name).unlink(missing_ok=True)
                raise
        self._log(who, "accepted the domain", {"columns": list(domain.names)})

    # --- the log ----------------------------------------------------------------------------------------------------

    def note(self, who: str, role: str, action: str, detail: dict[str, Any]) -> None:
        """A line in the log about something that happened in the front."""
        self._log(who, action[:40], detail, role=role)

    def _log(
        self, who: str, action: str, detail: dict[str, Any], *, role: str = "steward", is_paid: bool = False
    ) -> None:
        self._audit.write(who, role, action, detail, self._receipt(), is_paid=is_paid)

    def _receipt(self) -> Receipt:
        """The end of the ledger that a discovery made; before there is one, the start of all."""
        place = self._config.ledger(self._name)
        if "://" not in place and not Path(place).exists():
            return BEFORE_LEDGER
        try:
            with Ledger.open(place) as ledger:
                return ledger.receipt()
        except LedgerError:
            if "://" in place:  # there is none yet in that database
                return BEFORE_LEDGER
            raise

"""Releases as jobs: each in a process of its own, which can be ended at any time and goes on from the ledger.

The process holds the table, asks it through the ledger and writes a release folder. Whatever ends it, the same job
started again finds in the ledger what was paid and stored, and pays again only for a look that was lost.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from maquette.errors import MaquetteError, ParameterError
from maquette.progress import Progress
from maquette.web.config import Config
from maquette.web.keeper import tell_parent

RUNNING, DONE, FAILED, CANCELLED = "running", "done", "failed", "cancelled"
UNFINISHED = "it ended before it was done; what was paid is stored: resume it"
"""Why a job has failed, whether it was killed, had no memory or met an error that nobody foresaw: which of these it was
may depend on the records, so that it is said to nobody."""
log = logging.getLogger("maquette.worker")


def job_key(job: str) -> str:
    """What a job is called in the ledger."""
    return f"job-{job}"


@dataclass(frozen=True, slots=True)
class JobStatus:
    """How far a job is. `share` is in thousandths."""

    state: str
    stage: str = ""
    share: int = 0
    why: str = ""
    key: str = ""


class Jobs:
    """The jobs of one table, which run one after another would; as many at once as are started."""

    def __init__(self, config: Config, table: str) -> None:
        self._config, self._table = config, table
        self._statuses: dict[str, JobStatus] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._mutex = threading.Lock()

    def start(self, job: str, request: dict[str, Any]) -> dict[str, Any]:
        """Start a job, or start it again; one that runs goes on."""
        if not (job.isalnum() and len(job) <= 40):
            raise ParameterError("expected the id of a job as letters and digits")
        with self._mutex:
            status = self._statuses.get(job)
            if status is not None and status.state == RUNNING:
                return asdict(status)
            process = subprocess.Popen(
                [sys.executable, "-m", "maquette.web.jobs"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
            )
            assert process.stdin is not None
            order = {"config": str(self._config.path), "table": self._table, "job": job, "request": request}
            process.stdin.write(json.dumps(order).encode() + b"\n")
            process.stdin.flush()  # it stays open: its end is the end of this process, and of the job
            self._processes[job] = process
            self._statuses[job] = JobStatus(RUNNING, "starting")
            threading.Thread(target=self._follow, args=(job, process), daemon=True).start()
            return asdict(self._statuses[job])

    def _follow(self, job: str, process: subprocess.Popen[bytes]) -> None:
        """Take in what a process says until it ends; of one that was cancelled, or that another follows, nothing."""
        assert process.stdout is not None
        for line in process.stdout:
            try:
                said = json.loads(line)
            except ValueError:
                continue
            if kind := said.pop("kind", None):
                log.error("internal error: %s in job %s", str(kind)[:80], job)
            self._change(job, process, **said)
        process.wait()
        self._change(job, process, state=FAILED, why=UNFINISHED)
        with self._mutex:
            if self._processes.get(job) is process:
                self._processes.pop(job)

    def _change(self, job: str, process: subprocess.Popen[bytes], **values: Any) -> None:
        """What the process that runs a job says about it."""
        with self._mutex:
            status = self._statuses[job]
            if self._processes.get(job) is process and status.state == RUNNING:
                self._statuses[job] = replace(status, **values)

    def status(self, job: str) -> dict[str, Any] | None:
        """None for a job that was not started since this worker was."""
        with self._mutex:
            status = self._statuses.get(job)
            return None if status is None else asdict(status)

    def is_running(self, key: str) -> bool:
        with self._mutex:
            return any(one.state == RUNNING and one.key == key for one in self._statuses.values())

    def any_running(self) -> bool:
        with self._mutex:
            return any(one.state == RUNNING for one in self._statuses.values())

    def cancel(self, job: str) -> dict[str, Any]:
        """End the process. What was paid stays in the ledger, and the same job can be resumed."""
        with self._mutex:
            process = self._processes.get(job)
            status = self._statuses.get(job)
            if status is not None and status.state == RUNNING:
                self._statuses[job] = replace(status, state=CANCELLED, why="cancelled by the steward")
        if process is not None:
            _end(process)
        return self.status(job) or asdict(JobStatus(CANCELLED))

    def stop(self) -> None:
        """With the worker: its jobs end too, and go on when it is back."""
        with self._mutex:
            processes = list(self._processes.values())
        for process in processes:
            process.terminate()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()


# The process of one job: a release, from the order on its standard input to a folder. Started by a
# worker.


def main() -> int:
    order = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        run(order)
    except MaquetteError as error:
        say(state=FAILED, why=str(error))
        return error.exit_code
    except Exception as error:  # its text may quote a row
        say(state=FAILED, why=UNFINISHED, kind=type(error).__name__)
        return 1
    return 0


def run(order: dict[str, Any]) -> None:
    """Release and write the folder, or find a domain and write that."""
    from maquette.web import config as configs

    config = configs.load(Path(order["config"]))
    say(key=job_key(order["job"]))
    if order["request"].get("kind") == "discovery":
        _discover(config, order)
    else:
        _release(config, order)
    say(state="done", stage="done", share=1000)


def _discover(config: Config, order: dict[str, Any]) -> None:
    """Find a domain privately; it is proposed to the steward and not in use yet."""
    from maquette.domain.entries import to_text
    from maquette.releasing.discovery import discover
    from maquette.results.folder import write_text
    from maquette.web.requests import DiscoveryRequest

    settings = config.settings.tables[order["table"]]
    request = DiscoveryRequest.model_validate(order["request"])
    say(stage="looking at the columns", share=0)
    discovery = discover(
        config.source(order["table"]),
        epsilon=request.epsilon,
        delta=request.delta,
        ledger=config.ledger(order["table"]),
        columns=request.columns,
        relation=settings.relation,
        total_epsilon=settings.epsilon,
        total_delta=settings.delta,
        key=job_key(order["job"]),
        **config.reading(order["table"]),
    )
    place = config.proposal(order["table"])
    place.parent.mkdir(parents=True, exist_ok=True)
    write_text(place, to_text(discovery.domain.to_dict()))


def _release(config: Config, order: dict[str, Any]) -> None:
    from maquette import api
    from maquette import owner as handle
    from maquette.domain import Domain
    from maquette.web.requests import ReleaseRequest

    settings = config.settings.tables[order["table"]]
    request = ReleaseRequest.model_validate(order["request"])
    domain = Domain.load(config.place(settings.domain))
    say(stage="reading the table", share=0)
    table = handle.open(
        config.source(order["table"]),
        domain=domain,
        name=order["table"],
        **config.reading(order["table"]),
    )
    release = api.release(
        table,
        request.queries(domain),
        ledger=config.ledger(order["table"]),
        relation=settings.relation,
        key=job_key(order["job"]),
        progress=_Stages(),
        **request.arguments(),
    )
    say(stage="writing the folder", share=990)
    folder = config.table_folder(order["table"]) / "releases" / f"{order['job']}.maquette"
    folder.parent.mkdir(parents=True, exist_ok=True)
    release.save(folder, replace=True)


class _Stages(Progress):
    """The stages of a release as the service stores and shows them: no count that depends on the table."""

    is_for_holder = False

    def __call__(self, what: str, share: float) -> None:
        say(stage=what, share=round(1000 * min(max(share, 0.0), 1.0)))


def say(**words: Any) -> None:
    tell_parent(words)


def _end_with_parent() -> None:
    """The worker keeps the input open as long as it lives; what runs without it would be seen by nobody."""
    while os.read(0, 4096):  # not through sys.stdin, whose lock a thread must not hold when the process ends
        pass
    os._exit(3)


if __name__ == "__main__":
    sys.exit(main())

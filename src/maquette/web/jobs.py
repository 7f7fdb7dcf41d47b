"""Releases as jobs: each in a process of its own, which can be ended at any time and goes on from the ledger.

The process holds the table, asks it through the ledger and writes a release folder. Whatever ends it, the same job
started again finds what was paid in the ledger and pays nothing twice.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from dataclasses import dataclass, replace
from typing import Any

from maquette.errors import ParameterError
from maquette.web.config import Config

RUNNING, DONE, FAILED, CANCELLED = "running", "done", "failed", "cancelled"


@dataclass(frozen=True, slots=True)
class JobStatus:
    """How far a job is. `share` is in thousandths."""

    state: str
    stage: str = ""
    share: int = 0
    why: str = ""
    key: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {
            "state": self.state,
            "stage": self.stage,
            "share": self.share,
            "why": self.why,
            "key": self.key,
        }


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
                return status.to_dict()
            process = subprocess.Popen(
                [sys.executable, "-m", "maquette.web.job"],
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
            return self._statuses[job].to_dict()

    def _follow(self, job: str, process: subprocess.Popen[bytes]) -> None:
        """Take in what a job says until it ends."""
        assert process.stdout is not None
        for line in process.stdout:
            try:
                said = json.loads(line)
            except ValueError:
                continue
            with self._mutex:
                self._statuses[job] = replace(self._statuses[job], **said)
        code = process.wait()
        with self._mutex:
            self._processes.pop(job, None)
            status = self._statuses[job]
            if status.state == RUNNING:
                why = "its process ended before it was done" + (f" (signal {-code})" if code < 0 else "")
                self._statuses[job] = replace(status, state=FAILED, why=f"{why}; resume it")

    def status(self, job: str) -> dict[str, Any] | None:
        """None for a job that was not started since this worker was."""
        with self._mutex:
            status = self._statuses.get(job)
            return None if status is None else status.to_dict()

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
            process.terminate()
            process.wait(10)
        return self.status(job) or JobStatus(CANCELLED).to_dict()

    def stop(self) -> None:
        """With the worker: its jobs end too, and go on when it is back."""
        with self._mutex:
            processes = list(self._processes.values())
        for process in processes:
            process.terminate()

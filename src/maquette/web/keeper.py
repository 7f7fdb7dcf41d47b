"""The worker of a table as a process: the front starts it, and again whenever it ends."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from maquette.errors import ParameterError

SHORTEST_PAUSE, LONGEST_PAUSE = 0.1, 10.0
"""Seconds before a worker is started again."""
log = logging.getLogger("maquette.web")


class Keeper:
    """Starts the worker of a table and starts it again whenever it ends, until it is stopped."""

    def __init__(self, config: Path, table: str, place: Path) -> None:
        self._command = [sys.executable, "-m", "maquette.web.worker", str(config), table, str(place)]
        self._table = table
        self._mutex = threading.Lock()
        self._is_stopped = threading.Event()
        self._process = self._start()
        self.restarts = 0

    @property
    def pid(self) -> int:
        return self._process.pid

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603

    def wait_ready(self) -> None:
        """Until the table is open; ParameterError with the worker's own words if it cannot be."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        words = json.loads(line) if line else {"failed": "its process ended"}
        if "failed" in words:
            self.stop()
            raise ParameterError(f"table '{self._table}': {words['failed']}")
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        """Start it again whenever it ends: at once if it had opened its table, else after longer and longer pauses."""
        pause, was_ready = SHORTEST_PAUSE, True
        while True:
            self._process.wait()
            pause = SHORTEST_PAUSE if was_ready else min(2 * pause, LONGEST_PAUSE)
            if not self._is_stopped.is_set():
                log.warning("the worker of table '%s' ended; it is started again", self._table)
                self._is_stopped.wait(pause)  # outside of the lock: who stops it does not wait for that
            with self._mutex:
                if self._is_stopped.is_set():
                    return
                self._process = self._start()
                self.restarts += 1
            assert self._process.stdout is not None
            was_ready = b'"ready"' in self._process.stdout.readline()

    def stop(self) -> None:
        """End the worker: its input is closed, then it is told."""
        with self._mutex:
            self._is_stopped.set()
            process = self._process
        if process.stdin is not None:
            process.stdin.close()
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()


def tell_parent(words: dict[str, Any]) -> None:
    """One line to the process that started this one. Where that has gone nobody listens, and this one ends soon too."""
    try:
        sys.stdout.write(json.dumps(words) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # else it is tried once more at the end

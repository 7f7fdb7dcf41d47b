"""The child's side: a server that forks a worker per order, so that no worker pays for the imports."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

Order = dict[str, Any]


def say(**values: Any) -> None:
    """One line of JSON to whoever started this process."""
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


def fork_workers(work: Callable[[Order], None], *, special: Callable[[Order], Any] | None = None) -> None:
    """Each line on stdin forks a worker; says its pid and, when it died, by which signal.

    `special` may take an order itself by returning what to say of it.
    """
    for line in sys.stdin:
        order = json.loads(line)
        told = None if special is None else special(order)
        if told is not None:
            say(**told)
            continue
        pid = os.fork()
        if pid == 0:
            work(order)
            os._exit(0)
        say(pid=pid)
        _, status = os.waitpid(pid, 0)
        say(signal=os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0)

"""The process of one job: a release, from the order on its standard input to a folder. Started by a worker."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maquette.errors import MaquetteError

if TYPE_CHECKING:
    from maquette.web.config import Config


def main() -> int:
    order = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        run(order)
    except MaquetteError as error:
        say(state="failed", why=str(error))
        return error.exit_code
    except Exception as error:  # its text may quote a row
        say(state="failed", why=f"internal error ({type(error).__name__}); resume it, or tell the developers")
        return 1
    return 0


def run(order: dict[str, Any]) -> None:
    """Release and write the folder, or find a domain and write that."""
    from maquette.web import config as configs

    config = configs.load(Path(order["config"]))
    say(key=f"job-{order['job']}")
    if order["request"].get("kind") == "discovery":
        _discover(config, order)
    else:
        _release(config, order)
    say(state="done", stage="done", share=1000)


def _discover(config: Config, order: dict[str, Any]) -> None:
    """Find a domain privately; it is proposed to the steward and not in use yet."""
    from maquette.domain.file import to_text
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
        key=f"job-{order['job']}",
        table=settings.table,
        delimiter=settings.delimiter,
        encoding=settings.encoding,
    )
    place = config.proposal(order["table"])
    place.parent.mkdir(parents=True, exist_ok=True)
    write_text(place, to_text(discovery.domain))


def _release(config: Config, order: dict[str, Any]) -> None:
    from maquette import api
    from maquette.domain import Domain
    from maquette.gate import handle
    from maquette.web.requests import ReleaseRequest

    settings = config.settings.tables[order["table"]]
    request = ReleaseRequest.model_validate(order["request"])
    domain = Domain.load(config.place(settings.domain))
    say(stage="reading the table", share=0)
    table = handle.open(
        config.source(order["table"]),
        domain=domain,
        name=order["table"],
        table=settings.table,
        delimiter=settings.delimiter,
        encoding=settings.encoding,
    )
    release = api.release(
        table,
        request.queries(domain),
        ledger=config.ledger(order["table"]),
        relation=settings.relation,
        key=f"job-{order['job']}",
        progress=_Stages(),
        **request.arguments(),
    )
    say(stage="writing the folder", share=990)
    folder = config.table_folder(order["table"]) / "releases" / f"{order['job']}.maquette"
    folder.parent.mkdir(parents=True, exist_ok=True)
    release.save(folder, replace=True)


class _Stages:
    """The stages of a release as the service stores and shows them: no count that depends on the table."""

    is_for_holder = False

    def __call__(self, what: str, share: float) -> None:
        say(stage=what, share=round(1000 * min(max(share, 0.0), 1.0)))


def say(**words: Any) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


def _end_with_parent() -> None:
    """The worker keeps the input open as long as it lives; what runs without it would be seen by nobody."""
    while os.read(0, 4096):  # not through sys.stdin, whose lock a thread must not hold when the process ends
        pass
    os._exit(3)


if __name__ == "__main__":
    sys.exit(main())

"""`maquette serve`: releases as a public site, or tables as a service; `maquette token` for its people."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maquette.cli import console
from maquette.errors import ParameterError

if TYPE_CHECKING:
    from maquette.web.auth import Door
    from maquette.web.config import Config

NEEDS = "the service needs more packages: pip install 'maquette-dp[serve]'"
Configuration = Annotated[
    Path, typer.Argument(metavar="CONFIG", help="The configuration of the service (TOML).")
]

tokens = typer.Typer(help="Tokens of the people of a service.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.command("serve")(serve)
    app.command("backup")(backup)
    app.add_typer(tokens, name="token")


def serve(
    places: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[CONFIG | RELEASE...]", help="A configuration, or release folders."),
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="A service over a made-up table.")] = False,
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder that --demo works in.")] = Path(
        "demo-service"
    ),
    host: Annotated[str | None, typer.Option(help="The address to listen on. Default: 127.0.0.1.")] = None,
    port: Annotated[
        int | None, typer.Option(help="The port, at most 65535; 0 takes a free one. Default: 8765.")
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option("--name", help="A host name that the site answers to; may be repeated."),
    ] = None,
    title: Annotated[str, typer.Option(help="What a site over releases is called.")] = "maquette",
    behind_tls: Annotated[
        bool, typer.Option("--behind-tls", help="A proxy that speaks TLS is in front of a public address.")
    ] = False,
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(
            "--trusted-proxy",
            help="The address of a proxy that is believed when it says where a browser is; may be repeated.",
        ),
    ] = None,
    requests_per_minute: Annotated[
        int, typer.Option(min=1, help="Requests that a site over releases takes from one address.")
    ] = 1200,
    browser: Annotated[bool, typer.Option(help="Open the page of --demo in a browser.")] = True,
) -> None:
    """Serve release folders to everybody, or tables to analysts who ask under a ledger.

    With release folders no table is behind the site. With a configuration analysts sign in, see prices and errors
    before they ask, and never reach a row; the steward plans releases and keeps the budget.

    \b
    Example:
      maquette serve --demo
      maquette serve people.maquette
      maquette serve census.toml
    """
    try:
        import maquette.web.app  # noqa: F401
    except ImportError as error:
        if (error.name or "maquette").startswith("maquette"):
            raise
        raise ParameterError(f"{NEEDS} ({error.name} is missing)") from None
    from maquette.web import config as configs

    options: dict[str, Any] = {
        "host": host,
        "port": port,
        "hosts": name,
        "behind_tls": behind_tls or None,
        "trusted_proxies": trusted_proxy,
    }
    options = {what: value for what, value in options.items() if value is not None}
    if demo and places:
        raise ParameterError("--demo brings its own table; leave the other places out")
    if not demo and not places:
        raise ParameterError("expected a configuration, release folders, or --demo")
    with suppress(KeyboardInterrupt):  # Ctrl-C is how it ends, and nothing was cut short
        if demo:
            _serve_tables(configs.prepare_demo(output), options, browser=browser)
        elif places and places[0].suffix == ".toml":
            if len(places) > 1:
                raise ParameterError(
                    "a configuration is served by itself; start a second service for the releases"
                )
            _serve_tables(configs.load(places[0]), options, browser=False)
        elif places:
            _serve_releases(places, options, title=title, requests_per_minute=requests_per_minute)


def _serve_releases(
    places: list[Path], options: dict[str, Any], *, title: str, requests_per_minute: int
) -> None:
    """A site without any table behind it, until it is told to end."""
    from maquette.web import config as configs
    from maquette.web.app import LOCAL, public_site
    from maquette.web.explore import Catalog
    from maquette.web.server import check_address, run

    settings = configs.listening(options)
    check_address(settings.host, behind_tls=settings.behind_tls)
    catalog = Catalog.of(places)
    app = public_site(
        catalog,
        title=title,
        hosts=(*LOCAL, settings.host, *settings.hosts),
        proxies=[str(one) for one in settings.trusted_proxies],
        requests_per_minute=requests_per_minute,
    )
    count = len(catalog.names())
    what = f"{count} release{'s'[: count > 1]}"
    run(app, host=settings.host, port=settings.port, on_start=lambda at: _say(settings.host, at, what))


def _serve_tables(config: Config, options: dict[str, Any], *, browser: bool) -> None:
    """A service with workers, until it is told to end."""
    from maquette.web.app import service_site
    from maquette.web.server import check_address, run
    from maquette.web.service import Service

    config = config.listening(options)
    settings = config.settings
    check_address(settings.host, behind_tls=settings.behind_tls)
    service = Service.start(config)

    def started(at: int) -> None:
        count = len(settings.tables)
        _say(settings.host, at, f"{count} table{'s'[: count > 1]}")
        if config.is_demo and browser:
            import webbrowser

            webbrowser.open(f"http://{settings.host}:{at}/")

    try:
        run(service_site(service), host=settings.host, port=settings.port, on_start=started)
    finally:
        service.stop()


def _say(host: str, port: int, what: str) -> None:
    console.say(f"serving {what} at http://{host}:{port}/ (process {os.getpid()}, Ctrl-C ends it)")


def backup(
    configuration: Configuration,
    output: Annotated[Path, typer.Option("-o", "--output", help="A new folder for the copies.")],
) -> None:
    """Copy ledgers, log, tokens, jobs and releases of a service into a folder, while it runs. Ledgers are verified.

    \b
    Example:
      maquette backup census.toml -o backups/2026-11-17
    """
    from maquette.web import config as configs
    from maquette.web.ledger import backup as copy_all

    for one in copy_all(configs.load(configuration), output):
        console.say(f"{one.what}: {one.detail}")


@tokens.command("new")
def new_token(
    configuration: Configuration,
    person: Annotated[str, typer.Argument(help="Somebody whom the configuration names.")],
    label: Annotated[str, typer.Option(help="What it is for.")] = "",
    days: Annotated[
        int | None, typer.Option(help="How long it is valid. Default: as the configuration says.")
    ] = None,
) -> None:
    """Make a token for somebody. It is shown once; only a digest is stored.

    \b
    Example:
      maquette token new census.toml anna --label laptop
    """
    with _door(configuration) as door:
        console.say(door.new_token(person, label=label, days=days))


@tokens.command("list")
def list_tokens(configuration: Configuration) -> None:
    """List the tokens of a service, without their secrets.

    \b
    Example:
      maquette token list census.toml
    """
    from datetime import UTC, datetime

    from maquette.web import state

    with _door(configuration) as door:
        rows = [
            (
                row["id"],
                row["person"],
                row["label"],
                datetime.fromtimestamp(row["expires"], UTC).date().isoformat(),
                "revoked" if row["revoked"] else "valid",
            )
            for row in door.store.rows(state.token)
        ]
    console.table(("id", "person", "label", "expires", "state"), rows)


@tokens.command("revoke")
def revoke_token(
    configuration: Configuration, token: Annotated[str, typer.Argument(help="The id of a token.")]
) -> None:
    """Revoke a token, and end what it signed in.

    \b
    Example:
      maquette token revoke census.toml 3f9a11c0de42
    """
    with _door(configuration) as door:
        if not door.revoke(token):
            raise ParameterError(f"there is no token '{token}'; maquette token list shows them")
    console.say(f"token {token} is revoked")


@contextmanager
def _door(configuration: Path) -> Generator[Door]:
    """The tokens of a service, while it runs or not."""
    from maquette.web import config as configs
    from maquette.web.auth import Door
    from maquette.web.state import State

    config = configs.load(configuration)
    store = State.at(config.state, config.settings.database)
    try:
        yield Door(config, store)
    finally:
        store.close()

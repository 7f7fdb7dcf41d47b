"""The command line. Loads nothing but itself until a command runs."""


def main() -> None:
    """What `maquette` starts."""
    from maquette.cli.app import app

    app(prog_name="maquette")

"""The command line. Loads nothing but itself until a command runs."""

import gc
import sys


def main() -> None:
    """What `maquette` starts.

    Most of a short command is imports, in which Python's collector of cycles would look for garbage again and again,
    and thrice more on the way out. There is none: it is asked to look seldom, and not at the end.
    """
    gc.set_threshold(100_000, *gc.get_threshold()[1:])
    from maquette.cli.app import app, leave_only

    leave_only(sys.argv[1:2])
    try:
        app(prog_name="maquette")
    finally:
        if "_duckdb" not in sys.modules:  # it complains of objects that are not collected
            gc.freeze()

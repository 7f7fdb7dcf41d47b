"""`python -m maquette.cli` is `maquette`."""

from maquette.cli import main

main()

"""`python -m maquette` is `maquette`."""

from maquette.cli import main

main()

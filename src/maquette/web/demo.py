"""The service over a made-up table, in one command: a folder with the table, its domain, and a configuration."""

from __future__ import annotations

from pathlib import Path

from maquette import demo
from maquette.web import config as configs
from maquette.web.config import Config

NAME = "serve.toml"
TEXT = """\
title = "maquette, a demonstration"
state = "state"

[tables.people]
source = "people.csv"
domain = "people.domain.json"
epsilon = 4.0
delta = 1e-9
about = "A made-up census of 20,000 people. Its rows describe no real people."

[people.stella]
role = "steward"

[people.anna]
role = "analyst"
[people.anna.tables.people]
epsilon = 1.0
questions = 100
alpha = 0.015

[people.bert]
role = "analyst"
[people.bert.tables.people]
epsilon = 0.5
questions = 100
alpha = 0.03
"""


def prepare(folder: Path, *, rows: int = demo.ROWS) -> Config:
    """Everything that the demonstration needs; what is there from before goes on."""
    if not (folder / "people.csv").exists():
        demo.write(folder, rows=rows)
    path = folder / NAME
    if not path.exists():
        path.write_text(TEXT, encoding="utf-8")
    return configs.load(path, is_demo=True)

"""Writes the golden files, by hand: `PYTHONPATH=tests python tests/golden/make.py [part...]`. No test calls it.

Made again only where a change of what users rely on is meant, and then said in CHANGELOG.md.
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from golden import cases, surface

EXPECTED = Path(__file__).parent / "expected"


def parts(folder: Path) -> dict[str, Callable[[], Any]]:
    """Every golden file and what it holds."""
    found: dict[str, Callable[[], Any]] = {
        "queries": cases.queries,
        "names": surface.names,
        "commands": lambda: surface.commands(folder),
    }
    found |= {f"release-{name}": lambda name=name: cases.release(name, folder) for name in cases.RELEASES}
    return found | {
        f"session-{name}": lambda name=name: cases.session(name, folder) for name in cases.SESSIONS
    }


def main(chosen: list[str]) -> None:
    warnings.simplefilter("ignore")
    EXPECTED.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, make in parts(Path(folder)).items():
            if not chosen or name in chosen:
                text = json.dumps(make(), indent=1, ensure_ascii=False) + "\n"
                (EXPECTED / f"{name.replace(' ', '-')}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])

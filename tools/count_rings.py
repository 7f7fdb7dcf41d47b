"""The rings of trust: which file is in which, and how long it is.

    python tools/count_rings.py            # prints the tables of docs/architecture.md
    python tools/count_rings.py --write    # puts them into the page

A test holds the page to this: every file of rings 0 to 2 by name, every package within TOLERANCE of its
lines. So a trusted package does not grow without somebody deciding it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "maquette"
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- rings: written by tools/count_rings.py -->", "<!-- end of rings -->"

TOLERANCE = 0.10
"""How far the lines of a package may be from those on the page, as a fraction of them."""

RINGS: dict[int, tuple[str, ...]] = {
    0: ("core",),
    1: ("samplers", "discovery", "vault/spark", "vault/remote"),
    2: ("vault", "domain", "schema", "owner", "_html"),
    3: (
        "__init__",
        "__main__",
        "_version",
        "accounting",
        "api",
        "audit",
        "cli",
        "demo",
        "errors",
        "lessons",
        "linked",
        "mechanisms",
        "models",
        "progress",
        "requests",
        "queries",
        "releasing",
        "results",
        "sculpt",
        "sessions",
        "tools",
        "theory",
        "verify",
        "web",
    ),
}
"""Packages and modules of each ring; where two names fit a file, the longer one counts."""

NAMES = {
    0: "core: pay, look, return",
    1: "engines: trusted by whoever uses them",
    2: "hands: which rows there are, and what they can be",
    3: "public: everything that works on released values",
}


@dataclass(frozen=True)
class Part:
    """A package or a single module of a ring."""

    ring: int
    name: str
    files: tuple[tuple[str, int], ...]
    """Path inside the package, and lines."""

    @property
    def lines(self) -> int:
        return sum(lines for _, lines in self.files)


def modules() -> dict[str, int]:
    """Every file of the library and its lines, by path without the ending."""
    files = sorted(p for pattern in ("*.py", "*.pyi") for p in SOURCE.rglob(pattern))
    return {path.relative_to(SOURCE).as_posix(): len(path.read_text("utf-8").splitlines()) for path in files}


def homes(module: str) -> list[tuple[int, str]]:
    """The rings that claim a file, those by the longest name alone."""
    stem = re.sub(r"\.pyi?$", "", module)
    claims = [
        (ring, name)
        for ring, names in RINGS.items()
        for name in names
        if stem == name or stem.startswith(f"{name}/")
    ]
    longest = max((len(name) for _, name in claims), default=0)
    return [claim for claim in claims if len(claim[1]) == longest]


def parts() -> Iterator[Part]:
    """What the rings consist of, in their order."""
    members: dict[tuple[int, str], list[tuple[str, int]]] = {
        (ring, name): [] for ring, names in RINGS.items() for name in names
    }
    for module, lines in modules().items():
        home = homes(module)
        if len(home) != 1:
            raise SystemExit(f"src/maquette/{module} is in {len(home)} rings; RINGS has to name exactly one")
        members[home[0]].append((module, lines))
    for (ring, name), files in members.items():
        if files:
            yield Part(ring, name, tuple(files))


def table() -> str:
    """The rings as they are written into the page."""
    found = list(parts())
    blocks = []
    for ring, name in NAMES.items():
        own = [part for part in found if part.ring == ring]
        count, lines = sum(len(p.files) for p in own), sum(p.lines for p in own)
        rows = [
            f"**Ring {ring}, {name}**: {count} files, {lines:,} lines",
            "",
            "| package | lines | files |",
            "|---|---|---|",
        ]
        rows += [f"| `{part.name}` | {part.lines:,} | {_listed(part)} |" for part in own]
        blocks.append("\n".join(rows))
    return "\n\n".join(blocks)


def _listed(part: Part) -> str:
    """The files of a part: by name and length where they are trusted, else by name."""
    shown = []
    for module, lines in part.files:
        name = re.sub(r"\.py$", "", module.removeprefix(f"{part.name}/"))
        if name == "__init__" and lines <= 1:
            continue
        shown.append(f"{name} {lines}" if part.ring < 3 else name)
    return ", ".join(shown)


def page_with(text: str, tables: str) -> str:
    """A page with other tables between its two marks."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{tables}\n{END}{rest.split(END)[1]}"


def main(words: list[str]) -> int:
    if "--write" in words:
        PAGE.write_text(page_with(PAGE.read_text("utf-8"), table()), encoding="utf-8")
    else:
        print(table())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

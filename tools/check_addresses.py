"""Refuse a tracked file that names a package registry: where packages come from is each machine's business."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# in halves, so that this file passes its own check
HOSTS = tuple(
    first + second
    for first, second in (
        ("pypi", ".org"),
        ("python", "hosted.org"),
        ("npm", "js.org"),
        ("npm", "js.com"),
        ("deb.", "debian.org"),
        ("conda", ".anaconda.org"),
    )
)


def offenders(files: dict[str, bytes]) -> list[str]:
    """Which files name a registry, each with the line and the host."""
    found: list[str] = []
    for name, content in files.items():
        for number, line in enumerate(content.lower().splitlines(), start=1):
            found += [f"{name}:{number}: {host}" for host in HOSTS if host.encode() in line]
    return found


def tracked() -> dict[str, bytes]:
    """Every tracked file of this repository, by name."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    names = [name for name in listing.stdout.decode().split("\0") if name]
    return {name: (ROOT / name).read_bytes() for name in names if (ROOT / name).is_file()}


def main() -> None:
    found = offenders(tracked())
    if found:
        print("these tracked files name a package registry; take the address out:", *found, sep="\n  ")
        sys.exit(1)
    print("no tracked file names a package registry")


if __name__ == "__main__":
    main()

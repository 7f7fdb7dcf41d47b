"""Fetch the scripts of others that pages use, and write them into the package with their licences and hashes.

    python tools/vendor_scripts.py [FOLDER]

FOLDER has packages that `npm pack NAME@VERSION` made; without it they are fetched. Pages take no script from anywhere
else; `tests/web/test_scripts.py` holds the files against `versions.json`.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

VENDOR = Path(__file__).parents[1] / "src" / "maquette" / "web" / "static" / "vendor"


@dataclass(frozen=True)
class Script:
    """One file of an npm package."""

    package: str
    version: str
    license: str
    inside: str
    file: str


SCRIPTS = (Script("htmx.org", "2.0.11", "0BSD", "dist/htmx.min.js", "htmx.min.js"),)


def main(arguments: list[str]) -> None:
    VENDOR.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(arguments[0]) if arguments else Path(name)
        versions = [_take(one, folder, fetch=not arguments) for one in SCRIPTS]
    (VENDOR / "versions.json").write_text(json.dumps(versions, indent=1) + "\n", encoding="utf-8")


def _take(script: Script, folder: Path, *, fetch: bool) -> dict[str, str]:
    if fetch:
        command = ["npm", "pack", "--silent", f"{script.package}@{script.version}"]
        subprocess.run(command, cwd=folder, check=True)
    with tarfile.open(folder / f"{script.package}-{script.version}.tgz") as archive:
        data = _member(archive, f"package/{script.inside}")
        license_text = _member(archive, "package/LICENSE")
    lines = [line for line in data.splitlines(keepends=True) if not line.startswith(b"//# sourceMappingURL")]
    data = b"".join(lines)
    (VENDOR / script.file).write_bytes(data)
    (VENDOR / f"{script.package}.LICENSE").write_bytes(license_text)
    return {
        "package": script.package,
        "version": script.version,
        "license": script.license,
        "file": script.file,
        "sha256": hashlib.sha256(data).hexdigest(),
    }


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    member = archive.extractfile(name)
    assert member is not None
    return member.read()


if __name__ == "__main__":
    main(sys.argv[1:])

"""Take every registry address out of uv.lock, keeping versions and hashes.

The lock then says what to install and proves it by hash; where it comes from is the business of the machine
that installs (`uv export` prints such a lock as hashed requirements without addresses).
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

PLACEHOLDER = "https://registry.invalid"

REGISTRY = re.compile(r'registry = "[^"]*"')
FILE = re.compile(r'url = "[^"]*/([^"/]+)"')
UPLOADED = re.compile(r', upload-time = "[^"]*"')


def neutral(text: str) -> str:
    """The same lock with placeholder addresses and without upload times."""
    text = REGISTRY.sub(f'registry = "{PLACEHOLDER}/simple"', text)
    text = FILE.sub(rf'url = "{PLACEHOLDER}/\1"', text)
    return UPLOADED.sub("", text)


def main() -> None:
    lock = Path(sys.argv[1] if len(sys.argv) > 1 else "uv.lock")
    lock.write_text(neutral(lock.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()

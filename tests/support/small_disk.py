"""A small disk of its own, for tests of a full one."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(place: Path, *, megabytes: int) -> Iterator[Path]:
    """Mounted where this user may mount one; otherwise the test is skipped."""
    place.mkdir()
    mount = shutil.which("mount")
    made = mount and subprocess.run(
        [mount, "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", place], capture_output=True
    )
    if not made or made.returncode:
        pytest.skip("this user may not mount a small disk")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def fill(disk: Path) -> None:
    with (disk / "ballast").open("wb", buffering=0) as stream:
        try:
            while True:
                stream.write(b"0" * 4096)
        except OSError:
            return

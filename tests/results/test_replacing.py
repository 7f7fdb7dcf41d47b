"""A release folder changes in one step: a writer that is killed leaves the old one or the new one, and no litter."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from maquette.errors import ReleaseError
from maquette.results import folder as store
from maquette.results import loading, replacing
from support.made_release import toy_release

KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from maquette.results import folder as store, replacing
from support.made_release import toy_release

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

point, place = sys.argv[1], Path(sys.argv[2])
rename = Path.rename
if point == "before the move":
    replacing.move = die
elif point == "between two renames":
    Path.rename = lambda one, other: die() if one.suffix == ".part" else rename(one, other)
elif point == "before the old one is removed":
    replacing.shutil.rmtree = die
elif point == "in a page":
    Path.replace = die
    store.write_text(place, "text")
else:
    raise SystemExit(point)
toy_release(mechanism="newer").save(place, report=False, replace=True)
"""
POINTS = {
    "before the move": "older",
    "between two renames": "older",
    "before the old one is removed": "newer",
}


def kill_a_writer(point: str, place: Path) -> None:
    tests = Path(__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", KILLED, point, place, tests], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr


def names(folder: Path) -> list[str]:
    return sorted(place.name for place in folder.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_a_killed_writer_leaves_a_whole_release_and_its_litter_is_cleared(tmp_path, point):
    place = tmp_path / "a"
    toy_release(mechanism="older").save(place, report=False)
    kill_a_writer(point, place)
    assert len(names(tmp_path)) > 1  # it was in the middle of it
    assert loading.load(place).mechanism == POINTS[point]
    toy_release(mechanism="third").save(place, report=False, replace=True)
    assert loading.load(place).mechanism == "third"
    assert names(tmp_path) == ["a"]


@pytest.mark.slow
def test_a_release_that_stepped_aside_is_found_by_the_next_writer_too(tmp_path):
    place = tmp_path / "a"
    toy_release(mechanism="older").save(place, report=False)
    kill_a_writer("between two renames", place)
    assert not place.exists()
    with pytest.raises(ReleaseError, match="holds another release"):
        toy_release(mechanism="third", receipts=()).save(place, report=False)
    assert loading.load(place).mechanism == "older"


@pytest.mark.slow
def test_a_killed_page_is_cleared_by_the_next_one(tmp_path):
    kill_a_writer("in a page", tmp_path / "report.html")
    assert len(names(tmp_path)) == 1
    store.write_text(tmp_path / "report.html", "whole")
    assert names(tmp_path) == ["report.html"]


def test_drafts_of_living_writers_stay(tmp_path):
    place = tmp_path / "a"
    with replacing.draft(place) as one, replacing.draft(place) as two:
        (one / "file").write_text("1")
        (two / "file").write_text("2")
        toy_release().save(place, report=False)
        assert (one / "file").read_text() == "1"
        assert (two / "file").read_text() == "2"
    assert names(tmp_path) == ["a"]


def test_a_writer_in_the_middle_of_two_renames_is_not_disturbed(tmp_path):
    """Nobody puts the old release back under its hands."""
    place = tmp_path / "a"
    toy_release(mechanism="older").save(place, report=False)
    with replacing.draft(place) as mine:
        place.rename(mine.with_name(f"{mine.name}.old"))
        replacing.recover(place)
        assert not place.exists()


@pytest.mark.slow
def test_a_release_that_was_deleted_does_not_come_back(tmp_path):
    place = tmp_path / "a"
    toy_release(mechanism="older").save(place, report=False)
    kill_a_writer("before the old one is removed", place)
    place.rename(tmp_path / "elsewhere")
    with pytest.raises(ReleaseError, match="no release at"):
        loading.load(place)


def test_other_files_of_like_names_stay(tmp_path):
    for name in (".b.x.part", "a.part", ".a.part", ".ab.x.part"):
        (tmp_path / name).mkdir()
    toy_release().save(tmp_path / "a", report=False)
    assert names(tmp_path) == [".a.part", ".ab.x.part", ".b.x.part", "a", "a.part"]


def test_links_are_not_followed(tmp_path):
    (tmp_path / "treasure").mkdir()
    (tmp_path / "treasure" / "file").write_text("x")
    (tmp_path / ".a.x.part").symlink_to(tmp_path / "treasure")
    toy_release().save(tmp_path / "a", report=False)
    assert (tmp_path / "treasure" / "file").exists()


def test_who_reads_between_two_renames_waits_for_the_writer(tmp_path, monkeypatch):
    """The place is empty for a moment, which no reader sees."""
    place, rename, is_aside = tmp_path / "a", Path.rename, threading.Event()
    toy_release(mechanism="older").save(place, report=False)

    def slow(self: Path, target: Path) -> Path:
        if self.suffix == ".part":
            is_aside.set()
            time.sleep(0.1)
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", slow)
    monkeypatch.setattr(replacing, "SWAP_SECONDS", 30.0)
    writer = threading.Thread(
        target=lambda: toy_release(mechanism="newer").save(place, report=False, replace=True)
    )
    writer.start()
    assert is_aside.wait(30)
    assert loading.load(place).mechanism == "newer"
    writer.join()
    assert names(tmp_path) == ["a"]


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path):
    place = tmp_path / "pipe"
    os.mkfifo(place)
    reader = os.open(place, os.O_RDONLY | os.O_NONBLOCK)
    replacing.write_text(place, "report")
    assert os.read(reader, 100) == b"report"
    os.close(reader)
    assert place.is_fifo()

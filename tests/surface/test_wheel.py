"""What is installed: the library and nothing else, with metadata that says who made it and for which Python."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The files of a wheel that was built from this tree, as text."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        return {name: archive.read(name).decode("utf-8", "replace") for name in archive.namelist()}


def metadata(wheel: dict[str, str]) -> Message:
    return message_from_string(next(text for name, text in wheel.items() if name.endswith("/METADATA")))


def test_it_holds_the_files_of_the_library_and_no_others(wheel):
    source = ROOT / "src"
    library = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in wheel if ".dist-info/" not in name} == library
    assert "maquette/py.typed" in library


def test_it_holds_no_test_double(wheel):
    """Reproducible noise and ways to kill the process are in the tests alone."""
    modules = {name: text for name, text in wheel.items() if name.endswith(".py")}
    assert len(modules) > 150
    assert [
        name for name, text in modules.items() if re.search(r"class (Seeded|Fake)|SIGKILL|CRASH_AT", text)
    ] == []
    assert [
        name for name in wheel if re.search(r"(^|/)(tests?|support|fake|seeded|conftest)[/_.]", name)
    ] == []


def test_its_metadata_names_authors_pythons_and_licence(wheel):
    head = metadata(wheel)
    assert head["Author"] == "The maquette authors"
    assert head["License-Expression"] == "Apache-2.0"
    assert head["Requires-Python"] == ">=3.11"
    pythons = {f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13)}
    assert pythons <= set(head.get_all("Classifier", []))
    assert head["Version"] == PROJECT["version"]


def test_addresses_in_the_metadata_are_none_rather_than_made_up(wheel):
    """There is no public address yet; SECURITY.md says how to report."""
    assert metadata(wheel).get_all("Project-URL") is None
    assert "## Reporting" in (ROOT / "SECURITY.md").read_text("utf-8")


def test_the_changelog_has_the_version(wheel):
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    headings = re.findall(r"^## \[([^]]+)\]", changelog, re.MULTILINE)
    assert headings[:2] == ["Unreleased", metadata(wheel)["Version"]]

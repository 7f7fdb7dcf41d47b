"""What is installed: the library and nothing else, with metadata that says who made it and for which Python."""

from __future__ import annotations

import json
import re
import site
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

pytestmark = pytest.mark.slow


def run(*words: object, cwd: Path) -> str:
    """What a program prints; it has to end with 0."""
    done = subprocess.run([str(word) for word in words], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def build(kind: str, tree: Path, folder: Path) -> Path:
    """A wheel or an sdist of a tree of sources, without a network."""
    run(sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", folder, cwd=tree)
    (built,) = folder.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return built


def names_of(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of this tree."""
    return build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def wheel(built: Path) -> dict[str, str]:
    """The files of the wheel, as text."""
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
    assert (head["Name"], PROJECT["scripts"]) == ("maquette-dp", {"maquette": "maquette.cli:main"})
    assert set(head.get_all("Provides-Extra", [])) == set(PROJECT["optional-dependencies"])


def test_addresses_in_the_metadata_are_none_rather_than_made_up(wheel):
    """There is no public address yet; SECURITY.md says how to report."""
    assert metadata(wheel).get_all("Project-URL") is None
    assert "## Reporting" in (ROOT / "SECURITY.md").read_text("utf-8")


def test_the_changelog_has_the_version(wheel):
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    headings = re.findall(r"^## \[([^]]+)\]", changelog, re.MULTILINE)
    assert headings[:2] == ["Unreleased", metadata(wheel)["Version"]]


SMOKE = """
import json, sys
from importlib.metadata import version
from pathlib import Path
import maquette as mq
from maquette import demo

demo.write(Path("."), rows=300)
domain = mq.Domain.load("people.domain.json")
table = mq.open("people.csv", domain=domain)
queries = mq.marginals(domain, k=1)
made = mq.release(table, queries, epsilon=20.0, relation="replace-one", ledger="a.ledger", certificate=0.0)
made.save("people.maquette")
found = {"home": mq.__file__, "version": version("maquette-dp"), "records": made.size.value}
found["typed"] = Path(mq.__file__).with_name("py.typed").is_file()
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def environment(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel in it; what it needs is looked up where the tests run, so no network is."""
    home = tmp_path_factory.mktemp("fresh") / "env"
    run(sys.executable, "-m", "venv", "--without-pip", home, cwd=home.parent)
    python = home / "bin" / "python"
    own = Path(run(python, "-c", "import site; print(site.getsitepackages()[0])", cwd=home.parent).strip())
    (own / "needs.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    run(
        *(
            sys.executable,
            "-m",
            "pip",
            "--python",
            python,
            "--disable-pip-version-check",
            "install",
            "--quiet",
        ),
        *("--no-index", "--no-deps", "--force-reinstall", built),
        cwd=home.parent,
    )
    return home


def test_the_wheel_works_in_a_fresh_environment(environment, tmp_path):
    found = json.loads(run(environment / "bin" / "python", "-c", SMOKE, cwd=tmp_path))
    assert Path(found["home"]).is_relative_to(environment)
    assert (found["version"], found["records"], found["typed"]) == (PROJECT["version"], 300, True)
    command = environment / "bin" / "maquette"
    assert run(command, "--version", cwd=tmp_path) == f"maquette {PROJECT['version']}\n"
    assert "records" in run(command, "answer", "people.maquette", "sex = 'female'", cwd=tmp_path)


def test_the_sources_hold_what_the_wheel_is_built_from(built, tmp_path):
    archive = build("sdist", ROOT, tmp_path)
    assert archive.name == f"maquette_dp-{PROJECT['version']}.tar.gz"
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    tree = tmp_path / archive.name.removesuffix(".tar.gz")
    assert names_of(build("wheel", tree, tmp_path)) == names_of(built)
    files = {path.relative_to(tree).as_posix() for path in tree.rglob("*") if path.is_file()}
    assert {
        "LICENSE",
        "README.md",
        "SECURITY.md",
        "CHANGELOG.md",
        "Makefile",
        "uv.lock",
        "docs/index.md",
    } <= files
    assert [name for name in files if "__pycache__" in name] == []

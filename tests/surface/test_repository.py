"""The repository: one lock for everybody, no address in it, documents that agree with each other."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from support.tools import tool

ROOT = Path(__file__).parents[2]


check_addresses = tool("check_addresses")
neutral_lock = tool("neutral_lock")
LOCK = tomllib.loads((ROOT / "uv.lock").read_text())


def test_no_tracked_file_names_a_registry():
    assert check_addresses.offenders(check_addresses.tracked()) == []


def test_the_search_for_registries_finds_one():
    host = check_addresses.HOSTS[0]
    files = {"a.txt": b"fine", "b.toml": f"x = 1\nurl = 'HTTPS://{host.upper()}/simple'".encode()}
    assert check_addresses.offenders(files) == [f"b.toml:2: {host}"]


def test_the_lock_has_placeholders_only():
    text = (ROOT / "uv.lock").read_text()
    addresses = set(re.findall(r"https?://[^/\"]+", text))
    assert addresses == {neutral_lock.PLACEHOLDER}
    assert "upload-time" not in text


def test_every_locked_file_has_a_hash():
    for package in LOCK["package"]:
        files = [*package.get("wheels", []), *([package["sdist"]] if "sdist" in package else [])]
        assert files or package["name"] == "maquette-dp"
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", file["hash"]) for file in files)


def test_neutralising_keeps_versions_and_hashes():
    written = (
        'source = { registry = "https://example.org/simple" }\n'
        'sdist = { url = "https://files.example.org/a/b/x-1.0.tar.gz", hash = "sha256:00", '
        'size = 3, upload-time = "2026-01-01T00:00:00Z" }\n'
    )
    assert neutral_lock.neutral(written) == (
        'source = { registry = "https://registry.invalid/simple" }\n'
        'sdist = { url = "https://registry.invalid/x-1.0.tar.gz", hash = "sha256:00", size = 3 }\n'
    )


def _requirement(text: str) -> tuple[str, str]:
    name, rest = re.fullmatch(r"([A-Za-z0-9_.-]+)(?:\[[^]]*\])?([^;]*)(?:;.*)?", text).groups()  # pyright: ignore[reportOptionalMemberAccess]
    return name.lower(), rest


def test_the_lock_belongs_to_this_pyproject():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    own = next(p for p in LOCK["package"] if p["name"] == "maquette-dp")
    assert own["version"] == project["project"]["version"]
    locked = {(r["name"], r.get("specifier", "")) for r in own["metadata"]["requires-dist"]}
    groups = own["metadata"]["requires-dev"].values()
    locked |= {(r["name"], r.get("specifier", "")) for group in groups for r in group}
    asked = [*project["project"]["dependencies"]]
    asked += [r for extra in project["project"]["optional-dependencies"].values() for r in extra]
    asked += [r for group in project["dependency-groups"].values() for r in group]
    wanted = {_requirement(r) for r in asked}
    sort = {(n, ",".join(sorted(s.split(",")))) for n, s in wanted}
    assert sort == {(n, ",".join(sorted(s.split(",")))) for n, s in locked}


def test_the_lock_can_be_exported_without_a_network():
    uv = ROOT / ".venv/bin/uv"
    if not uv.exists():
        pytest.skip("this environment was not made by make")
    command = [
        uv,
        "export",
        "--frozen",
        "--all-groups",
        "--all-extras",
        "--no-emit-project",
        "--offline",
        "--quiet",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "numpy==" in done.stdout
    assert "--hash=sha256:" in done.stdout
    assert "registry.invalid" not in done.stdout


def test_continuous_integration_runs_check_and_test():
    script = ROOT / ".ci/run"
    assert "make check test" in script.read_text()
    assert script.stat().st_mode & 0o111


@pytest.mark.parametrize("target", ["demo", "quick", "test", "check", "bench", "docs", "lock", "clean"])
def test_make_knows(target):
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_every_page_of_the_site_exists_and_every_page_is_in_it():
    nav = re.findall(r": ([a-z_-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(nav) == sorted(p.name for p in (ROOT / "docs").glob("*.md"))


def test_links_between_documents_lead_somewhere():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    for page in pages:
        for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


HIDDEN = {".ci/run", ".gitattributes", ".gitignore", ".importlinter"}
"""Files that people wrote although their name begins with a point; all other such files are a tool's."""


def _tracked(*options: str) -> set[str]:
    command = ["git", "ls-files", "-z", *options]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return set(listed.stdout.split("\0")) - {""}


def _hidden(paths: set[str]) -> set[str]:
    return {path for path in paths if re.search(r"(^|/)\.", path)}


def test_no_output_of_a_tool_is_tracked():
    assert _tracked("--cached", "--ignored", "--exclude-standard") == set()
    assert _hidden(_tracked()) == HIDDEN


def test_an_output_of_a_tool_would_be_noticed():
    assert _hidden(
        {".schemathesis/cache/crashes.json", "docs/.cache/a.md", "docs/a.md", "tests/a.b/c.py"}
    ) == {
        ".schemathesis/cache/crashes.json",
        "docs/.cache/a.md",
    }


@pytest.mark.parametrize(("document", "most"), [("CHANGELOG.md", 20_000), ("CONTRIBUTING.md", 5_000)])
def test_what_everybody_reads_is_short(document, most):
    assert len((ROOT / document).read_bytes()) <= most


def test_the_licence_is_apache():
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_the_layers_of_the_architecture_page_are_those_of_the_contract():
    contract = (ROOT / ".importlinter").read_text()
    layers = re.findall(
        r"^    (maquette\.[a-z_.| ]+)$", contract.split("layers =")[1].split("[")[0], re.MULTILINE
    )
    drawn = [
        " | ".join(part.strip().removeprefix("maquette.") for part in line.split("|")) for line in layers
    ]
    assert " ▸ ".join(drawn) in (ROOT / "docs/architecture.md").read_text()


def test_what_is_installed_has_no_test_doubles():
    """Reproducible noise and ways to kill the process are in the tests alone."""
    for file in (ROOT / "src").rglob("*.py"):
        text = file.read_text()
        assert not re.search(r"class Seeded|SIGKILL|CRASH_AT", text), file
    found = [
        file.name for file in (ROOT / "tests" / "support").glob("*.py") if "class Seeded" in file.read_text()
    ]
    assert "seeded.py" in found


EXAMPLES = {"mechanisms/plain.py", "queries/residues.py", "vault/json_lines.py"}
"""Files that a reader of docs/extending.md is about to write."""


def _missing_files(text: str, files: list[str]) -> set[str]:
    """Paths of modules in a text that no file of the repository ends with."""
    named = re.findall(r"`((?:\w+/)+\w+\.py)(?:::\w+)?`", text)
    return {path for path in named if not any(f"/{file}".endswith(f"/{path}") for file in files)}


def _modules() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    return listed.stdout.split()


def test_every_module_that_a_page_or_docstring_names_exists():
    modules = _modules()
    pages = [*ROOT.glob("docs/**/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]
    texts = {page: page.read_text() for page in [*pages, *(ROOT / name for name in modules)]}
    texts.pop(Path(__file__))  # names two on purpose
    missing = {path for text in texts.values() for path in _missing_files(text, modules)}
    assert {path for path in missing if not any(path.endswith(name) for name in EXAMPLES)} == set()


def test_a_module_that_is_gone_is_noticed():
    text = "see `theory/direct.py`, `theory/gone.py` and `tests/vault/test_gone.py::test_that`"
    assert _missing_files(text, ["src/maquette/theory/direct.py"]) == {
        "theory/gone.py",
        "tests/vault/test_gone.py",
    }

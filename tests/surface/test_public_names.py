"""`import maquette`: quick, and exactly the public names."""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import maquette

ROOT = Path(__file__).parents[2]
HEAVY = (
    "duckdb",
    "jinja2",
    "narwhals",
    "numba",
    "numpy",
    "opendp",
    "pandas",
    "polars",
    "pyarrow",
    "pydantic",
    "rich",
    "scipy",
    "sqlalchemy",
    "sqlglot",
    "typer",
    "vl_convert",
)


def loaded_after(statement: str) -> set[str]:
    code = f"{statement}\nimport sys, json\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_import_loads_nothing_heavy():
    loaded = loaded_after("import maquette")
    assert not loaded & set(HEAVY)
    assert {name for name in loaded if name.startswith("maquette")} == {"maquette", "maquette._version"}


def test_the_check_above_would_see_a_heavy_module():
    assert "numpy" in loaded_after("import maquette; maquette.Domain")


def test_errors_and_version_stay_light():
    assert not loaded_after(
        "import maquette; maquette.MaquetteError; maquette.__version__; dir(maquette)"
    ) & set(HEAVY)


@pytest.mark.slow
def test_version_and_help_of_the_command_line_stay_light():
    loaded = loaded_after(
        "import sys\nsys.argv = ['maquette', 'version']\nfrom maquette.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass"
    )
    assert not loaded & (set(HEAVY) - {"typer", "rich", "pydantic"})  # typer looks for pydantic itself


def test_names_are_sorted_and_there():
    assert maquette.__all__ == sorted(maquette.__all__)
    assert len(set(maquette.__all__)) == len(maquette.__all__)
    assert dir(maquette) == sorted(maquette.__all__)
    for name in maquette.__all__:
        assert getattr(maquette, name) is not None


def test_every_lazy_name_is_public_and_lives_where_it_is_said_to():
    assert {*maquette._HOME, "__version__"} == set(maquette.__all__)
    for name, home in maquette._HOME.items():
        assert getattr(maquette, name) is getattr(importlib.import_module(home), name)


def names_for_type_checkers(source: str) -> set[tuple[str, str]]:
    """What the stub exports: names, each under itself, and where from."""
    return {
        (alias.asname, str(node.module))
        for node in ast.parse(source).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }


STUB = (ROOT / "src/maquette/__init__.pyi").read_text()


def test_type_checkers_see_the_same_names():
    assert names_for_type_checkers(STUB) == {*maquette._HOME.items(), ("__version__", "maquette._version")}


def test_a_name_that_type_checkers_miss_is_noticed():
    whole = names_for_type_checkers(STUB)
    for line in (
        "    points as points,\n",
        "from maquette.linked.loading import load as load\n",
        "    KeyReused as KeyReused,\n",
    ):
        name = re.findall(r"\w+", line)[-1]
        left = names_for_type_checkers(STUB.replace(line, "", 1))
        assert {one for one, _ in whole - left} == {name}
        hidden = names_for_type_checkers(STUB.replace(f"{name} as {name}", name, 1))
        assert {one for one, _ in whole - hidden} == {name}


def test_every_name_is_written_once():
    source = (ROOT / "src/maquette/__init__.py").read_text()
    for name in maquette._HOME:
        assert source.count(f'"{name}"') == 1


def test_modules_can_be_imported_under_another_name():
    import maquette.linked.loading as loading
    import maquette.results.release as module

    assert loading.load is maquette.load
    assert module.Release is maquette.Release


def test_a_public_name_can_be_replaced(monkeypatch):
    made = maquette.release
    monkeypatch.setattr(maquette, "release", lambda: "replaced")
    assert maquette.release() == "replaced"  # pyright: ignore[reportCallIssue]
    monkeypatch.undo()
    assert maquette.release is made


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'relase'"):
        _ = maquette.relase  # pyright: ignore[reportAttributeAccessIssue]


def test_release_stays_the_function_when_its_package_is_imported():
    import maquette.api
    from maquette.results.release import Release

    assert maquette.release is maquette.api.release
    assert maquette.Release is Release


def test_every_error_is_public():
    from maquette import errors

    family = {
        n for n, c in vars(errors).items() if isinstance(c, type) and issubclass(c, errors.MaquetteError)
    }
    assert family <= set(maquette.__all__)


def test_the_version_is_the_packages():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert maquette.__version__ == project["version"]


def test_the_package_is_typed():
    assert (ROOT / "src/maquette/py.typed").exists()

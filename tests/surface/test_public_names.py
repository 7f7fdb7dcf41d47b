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
    assert set(maquette._HOME) | {"__version__", "release"} == set(maquette.__all__)
    for name, home in maquette._HOME.items():
        assert getattr(maquette, name) is getattr(importlib.import_module(home), name)


def names_for_type_checkers(source: str) -> set[tuple[str, str]]:
    """What the branch for type checkers imports: names and where from."""
    branches = [
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    ]
    return {
        (alias.asname or alias.name, str(node.module))
        for branch in branches
        for node in branch.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_type_checkers_see_the_same_names():
    seen = names_for_type_checkers((ROOT / "src/maquette/__init__.py").read_text())
    assert seen == {*maquette._HOME.items(), ("release", "maquette.api")}


def test_a_name_that_type_checkers_miss_is_noticed():
    source = (ROOT / "src/maquette/__init__.py").read_text()
    whole = names_for_type_checkers(source)
    for line in (
        "        points,\n",
        "    from maquette.results.folder import load\n",
        "        KeyReused,\n",
    ):
        name = re.findall(r"\w+", line)[-1]
        left = names_for_type_checkers(source.replace(line, "", 1))
        assert {one for one, _ in whole - left} == {name}


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

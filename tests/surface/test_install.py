"""What is installed: the base is small, extras are named where they are missing, other packages add to it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from support.tools import tool

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTENDING = (ROOT / "docs" / "extending.md").read_text("utf-8")
count_install = tool("count_install")


def run(code: str, folder: Path, *path: Path) -> str:
    """What a program prints that finds these folders first."""
    places = os.pathsep.join(str(place) for place in (*path, ROOT / "src"))
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": places},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# --- the base and the extras ---


def test_the_base_is_within_its_limit_and_every_part_has_its_row():
    page = (ROOT / "docs" / "install.md").read_text("utf-8")
    names = [re.match(r"[\w.-]+", one)[0] for one in PROJECT["dependencies"]]  # pyright: ignore[reportOptionalSubscript]
    assert list(count_install.BASE) == names
    assert set(count_install.EXTRAS) == set(PROJECT["optional-dependencies"])
    for name in (*names, *(f"`{extra}`" for extra in PROJECT["optional-dependencies"])):
        assert re.search(rf"^\| {re.escape(name)} ", page, re.M), name
    _, total = count_install.tables()
    assert 500 < total <= count_install.LIMIT


def test_what_comes_with_a_requirement_is_counted_with_it():
    assert {"duckdb"} == count_install.closure(["duckdb"])
    assert {"numba", "llvmlite", "numpy"} <= count_install.closure(["numba>=0.61"])
    assert count_install.closure(["no-package-of-this-name"]) == set()


WITHOUT = """
import json, sys
from pathlib import Path
MISSING = '''duckdb vl_convert pyspark psycopg adbc_driver_postgresql adbc_driver_manager fastapi python_calamine
xlsxwriter httpx'''
for name in MISSING.split():
    sys.modules[name] = None
import maquette as mq
from maquette import demo
demo.write(Path("."), rows=300)
domain = mq.Domain.load("people.domain.json")
people = mq.open("people.csv", domain=domain)
made = mq.release(people, mq.marginals(domain, k=1), epsilon=20.0, relation="replace-one", ledger="a.ledger")
page = Path(made.save("a.maquette") / "report.html").read_text()
chart = made.plot("age")
chart.save("age.json")
words = {"report": "Shares of age: " in page and "maquette-dp[plots]" in page}
words["bundle"] = list(chart._repr_mimebundle_())
Path("x.duckdb").write_bytes(b"x")
Path("x.xlsx").write_bytes(b"x")
for name, act in {
    "png": lambda: chart.save("age.png"),
    "html": lambda: chart.to_html(),
    "duckdb": lambda: mq.open("x.duckdb", domain=domain, table="t"),
    "excel": lambda: mq.open("x.xlsx", domain=domain),
    "postgres": lambda: mq.open("postgresql://a@localhost/b", domain=domain, table="t"),
    "spark": lambda: mq.open("spark:x", domain=domain),
    "client": lambda: mq.connect("http://localhost", token="t"),
}.items():
    try:
        act()
    except mq.MaquetteError as error:
        words[name] = str(error)
print(json.dumps(words))
"""


@pytest.mark.slow
def test_the_base_alone_releases_and_names_the_extra_for_what_it_cannot(tmp_path):
    words = json.loads(run(WITHOUT, tmp_path))
    assert words.pop("report")
    assert words.pop("bundle") == ["application/vnd.vegalite.v5+json", "text/plain"]
    extras = {"png": "plots", "html": "plots"}
    assert {
        name: f"maquette-dp[{extras.get(name, name)}]" in text for name, text in words.items()
    } == dict.fromkeys(("png", "html", "duckdb", "excel", "postgres", "spark", "client"), True)


# --- a package of somebody else ---


PROJECT_FILE = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "guest"
version = "1.0"
requires-python = ">=3.11"

[project.entry-points."maquette.mechanisms"]
plain = "guest.plain:PLAIN"
laplace = "guest.plain:PLAIN"
gone = "guest.gone:GONE"
number = "guest.plain:ROWS"

[project.entry-points."maquette.sources"]
jsonl = "guest.json_lines:JsonLines"
csv = "guest.json_lines:JsonLines"

[tool.hatch.build.targets.wheel]
packages = ["guest"]
"""
USE = """
import json
import maquette as mq
from maquette.domain import Attribute, Domain, Kind
from maquette.mechanisms.base import MECHANISMS

domain = Domain((Attribute("a", Kind.ORDINAL, codes=5), Attribute("b", Kind.CATEGORICAL, codes=2)))
queries = mq.marginals(domain, k=1)
people = [{"a": i % 5, "b": i % 2} for i in range(60)]
open("people.jsonl", "w").write("".join(json.dumps(person) + "\\n" for person in people))
open("people.csv", "w").write("a,b\\n" + "".join(f"{p['a']},{p['b']}\\n" for p in people))
options = {"epsilon": 20.0, "relation": "replace-one", "certificate": 0.0}
(forecast,) = mq.plan(queries, n=60, mechanisms=["plain"], **options).forecasts
made = mq.release(mq.open("people.jsonl", domain=domain), queries, mechanism="plain", ledger="a.ledger", **options)
found = {"forecast": forecast.guaranteed, "made": made.mechanism, "records": made.size.value}
found["own"] = type(MECHANISMS["laplace"]).__module__
found["csv"] = mq.open("people.csv", domain=domain).domain == domain
for name in ("gone", "number"):
    try:
        MECHANISMS[name]
    except mq.MechanismError as error:
        found[name] = str(error)
print(json.dumps(found))
"""


@pytest.fixture
def guest(tmp_path) -> Path:
    """Where a package of two files of the page on extending is installed, built and installed without a network."""
    files = dict(
        re.findall(
            r"^`src/maquette/\w+/(\w+\.py)`:\n\n<!-- .*? -->\n\n```python\n(.*?)^```", EXTENDING, re.M | re.S
        )
    )
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "guest").mkdir(parents=True)
    (source / "pyproject.toml").write_text(PROJECT_FILE)
    (source / "guest" / "__init__.py").write_text("")
    (source / "guest" / "plain.py").write_text(files["plain.py"] + "\nROWS = 7\n")
    (source / "guest" / "json_lines.py").write_text(files["json_lines.py"])
    for command in (
        ["hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        ["pip", "install", "--quiet", "--no-index", "--no-deps", "--disable-pip-version-check",
         "--target", str(target), str(tmp_path / "guest-1.0-py3-none-any.whl")],
    ):  # fmt: skip
        done = subprocess.run([sys.executable, "-m", *command], cwd=source, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return target


@pytest.mark.slow
def test_a_package_of_somebody_else_adds_a_mechanism_and_a_source(guest, tmp_path):
    found = json.loads(run(USE, tmp_path, guest))
    assert 0 < found["forecast"] < 1
    assert (found["made"], found["records"]) == ("plain", 60)
    assert found["own"] == "maquette.mechanisms.direct"  # nobody takes the place of what is here
    assert found["csv"]
    assert "mechanism 'gone' cannot be loaded from guest.gone" in found["gone"]
    assert "guest.plain:ROWS is no Mechanism" in found["number"]

"""Scripts of others that pages use: shipped with the package as they were made, with their licences."""

from __future__ import annotations

import hashlib
import json
import re
from html import unescape
from pathlib import Path

import pytest

from maquette.web import charts
from maquette.web.pages import STATIC, template
from maquette.web.server import POLICY

VENDOR = STATIC / "vendor"
VERSIONS = json.loads((VENDOR / "versions.json").read_text(encoding="utf-8"))
TEMPLATES = Path(STATIC).parent / "templates"


@pytest.mark.parametrize("one", VERSIONS, ids=lambda one: one["package"])
def test_every_script_is_the_one_that_was_published_and_has_its_licence(one):
    data = (VENDOR / one["file"]).read_bytes()
    assert hashlib.sha256(data).hexdigest() == one["sha256"]
    assert len(data) < 1_000_000
    assert (VENDOR / f"{one['package']}.LICENSE").read_text(encoding="utf-8").strip()


def test_there_is_no_script_that_nobody_lists():
    names = {one["file"] for one in VERSIONS} | {f"{one['package']}.LICENSE" for one in VERSIONS}
    assert {path.name for path in VENDOR.iterdir()} == names | {"versions.json"}


def test_no_page_takes_a_script_or_a_style_from_elsewhere_or_writes_one_into_itself():
    assert "unsafe" not in POLICY
    for path in TEMPLATES.glob("*.j2"):
        text = path.read_text(encoding="utf-8")
        for tag in re.findall(r"<script[^>]*>", text):
            assert 'src="/static/' in tag, (path.name, tag)
        assert not re.search(r"\b(on[a-z]+|style)=\"", text), path.name
        assert not re.search(r"\bhx-(on|vals|vars|headers)\b", text), path.name


ROWS = [
    {
        "</script><b>": "</script><script>alert(1)</script>",
        "value": 5.0,
        "error": 2.0,
        "lower": 3.0,
        "upper": 7.0,
        "below_noise": False,
        "known_by": "certified",
    },
    {
        "</script><b>": "{'signal': '1'}",
        "value": float("nan"),
        "error": None,
        "lower": None,
        "upper": None,
        "below_noise": True,
        "known_by": "nothing",
    },
]


def test_a_specification_says_errors_and_takes_names_as_words_alone():
    names = ("</script><b>",)
    made = charts.specification(ROWS, names, "count(*)")
    values = made["data"]["values"]
    assert [one["error"] for one in values] == ["± 2", "no stated error"]
    assert [one["between"] for one in values] == ["3 and 7", "not known"]
    assert values[1]["value"] is None  # no number that JSON has no word for
    fields = set(re.findall(r'"field": "([^"]*)"', json.dumps(made)))
    assert fields <= {"down", "across", "value", "lower", "upper", "text", "error", "between", "known_by"}
    page = template("parts.html.j2").module.chart(made)  # pyright: ignore[reportAttributeAccessIssue]
    assert "<script" not in page
    (inside,) = re.findall(r"data-specification='([^']*)'", page)
    assert json.loads(unescape(inside)) == made


def test_two_columns_make_a_map_whose_figures_are_named_for_the_script():
    rows = [one | {"b": i} for i, one in enumerate(ROWS)]
    made = charts.specification(rows, ("</script><b>", "b"), "share()")
    assert [layer["mark"] for layer in made["layer"]] == ["rect", "text"]
    assert made["layer"][1]["name"] == "figures"
    assert made["data"]["values"][1]["across"] == "1"

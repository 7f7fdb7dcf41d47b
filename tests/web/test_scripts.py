"""Scripts of others that pages use: shipped with the package as they were made, with their licences."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from maquette.web.pages import STATIC
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

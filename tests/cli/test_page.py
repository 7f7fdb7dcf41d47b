"""The page of the command line is what the commands say."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_is_what_the_tool_writes():
    spec = importlib.util.spec_from_file_location("make_cli_page", ROOT / "tools/make_cli_page.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    page = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
    assert tool.written(page) == page, "run: python tools/make_cli_page.py"
    assert tool.written(page.replace("--typical-rows", "--typical")) != page.replace(
        "--typical-rows", "--typical"
    )

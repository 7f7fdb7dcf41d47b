"""Modules can be read bottom-up: none imports itself in a circle, imports inside functions counted."""

from __future__ import annotations

import grimp
from benchmarks.house import circles_of, cycles


def test_no_modules_import_each_other():
    assert cycles() == []


def test_a_circle_through_an_import_inside_a_function_is_found(tmp_path, monkeypatch):
    package = tmp_path / "round_about"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "up.py").write_text("from round_about import down\n")
    (package / "down.py").write_text("def f():\n    from round_about import up\n    return up\n")
    (package / "leaf.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from round_about import user\n"
    )
    (package / "user.py").write_text("from round_about import leaf\n")
    monkeypatch.syspath_prepend(tmp_path)
    graph = grimp.build_graph("round_about", exclude_type_checking_imports=True, cache_dir=None)
    assert circles_of(graph) == [["round_about.down", "round_about.up"]]

"""What users rely on is as the golden files say: stored forms, digests, released values, answers, rows and names.

The noise is seeded, so that a release is a function of its table. Mechanisms that choose by long sums of floats may
choose otherwise on another processor: their numbers are compared loosely, unless MAQUETTE_GOLDEN_EXACT=1 says that the
files were made on this machine. `make.py` writes the files, by hand.
"""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path
from typing import Any

import pytest

from golden import cases, seam, surface

EXPECTED = Path(__file__).parent / "expected"
EXACT = os.environ.get("MAQUETTE_GOLDEN_EXACT") == "1"
RTOL, ATOL = (1e-9, 1e-12) if EXACT else (1e-7, 1e-10)
LOOSE = 0.01
"""How far numbers of mechanisms with float choices may lie apart on another processor."""
SHARE = 0.005
"""The share of rows that may lie in another cell there."""


def expected(name: str) -> Any:
    return json.loads((EXPECTED / f"{name.replace(' ', '-')}.json").read_text(encoding="utf-8"))


def differences(
    found: Any, stored: Any, where: str = "", *, rtol: float = RTOL, atol: float = ATOL
) -> list[str]:
    """Where two JSON values differ: floats by more than the tolerance, everything else at all."""
    if isinstance(stored, dict) and isinstance(found, dict):
        told = [f"{where}: fields {sorted(set(found) ^ set(stored))}"] if set(found) != set(stored) else []
        for name in stored.keys() & found.keys():
            told += differences(found[name], stored[name], f"{where}/{name}", rtol=rtol, atol=atol)
        return told
    if isinstance(stored, list) and isinstance(found, list):
        if len(found) != len(stored):
            return [f"{where}: {len(found)} values, not {len(stored)}"]
        pairs = enumerate(zip(found, stored, strict=True))
        return [d for i, (a, b) in pairs for d in differences(a, b, f"{where}/{i}", rtol=rtol, atol=atol)]
    if isinstance(stored, float) and isinstance(found, int | float) and not isinstance(found, bool):
        close = found == stored or abs(found - stored) <= atol + rtol * abs(stored)
        return [] if close else [f"{where}: {found!r}, not {stored!r}"]
    return [] if found == stored and type(found) is type(stored) else [f"{where}: {found!r}, not {stored!r}"]


def lost(found: Any, stored: Any, where: str = "") -> list[str]:
    """What was public and is not any more: names, parameters in order and defaults, options. New ones may come.

    Arguments of a command keep their order; its options (lists of spellings) are given by name, in any order.
    """
    if isinstance(stored, dict) and isinstance(found, dict):
        gone = [f"{where}/{name} is gone" for name in stored.keys() - found.keys()]
        return gone + [
            d
            for name in stored.keys() & found.keys()
            for d in lost(found[name], stored[name], f"{where}/{name}")
        ]
    if isinstance(stored, str) and isinstance(found, str):
        stored, found = stored.strip("()").split(", "), found.strip("()").split(", ")
    if isinstance(stored, list) and isinstance(found, list):
        rest = iter([one for one in found if not isinstance(one, list)])
        return [
            f"{where}: {one!r} is gone or stands elsewhere"
            for one in stored
            if one not in (found if isinstance(one, list) else rest)
        ]
    return [] if found == stored else [f"{where}: {found!r}, not {stored!r}"]


def check(found: Any, stored: Any) -> None:
    told = differences(json.loads(json.dumps(found)), stored)
    assert not told, "\n".join(told[:20])


def row_differences(found: Any, stored: Any, *, exact: bool) -> list[str]:
    """Of the small databases: their digests, or only how many rows moved between the cells of any small table."""
    if found is None or stored is None or exact:
        return differences(found, stored, "rows")
    told = differences([found["count"], found["names"]], [stored["count"], stored["names"]], "rows")
    for name, counts in stored["tables"].items():
        other = found["tables"].get(name, {})
        moved = sum(abs(counts.get(cell, 0) - other.get(cell, 0)) for cell in counts.keys() | other.keys())
        if moved > SHARE * stored["count"]:
            told.append(f"rows: {moved} counts of {name} differ")
    return told


def outline(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The chain without what a choice by floats decides: what was asked, what was paid, how much came back."""
    told = ("kind", "key", "parent", "tag", "units", "slack", "envelope")
    return [
        {name: entry[name] for name in told if name in entry}
        | {"ask": entry["body"].get("ask") if isinstance(entry["body"], dict) else None}
        | {"lengths": (entry.get("values") or {}).get("lengths")}
        for entry in entries
    ]


def release_differences(name: str, found: dict[str, Any], stored: dict[str, Any]) -> list[str]:
    """One release against its file, as closely as its mechanism allows on this machine."""
    floats = cases.mechanism_of(name) in cases.FLOATS and not EXACT
    told = row_differences(
        found["rows"], stored["rows"], exact=EXACT or cases.mechanism_of(name) in ("smalldb", "roth")
    )
    if not EXACT:  # the exact digests of floats
        found, stored = copy.deepcopy(found), copy.deepcopy(stored)
        for one in (found["model"], stored["model"]):
            (one or {}).pop("exact", None)
    if not floats:
        return told + differences(found | {"rows": None}, stored | {"rows": None})
    told += differences(outline(found["entries"]), outline(stored["entries"]), "entries")
    for part in ("document", "answers", "questions", "stated"):
        told += differences(_as_floats(found[part]), _as_floats(stored[part]), part, rtol=LOOSE, atol=LOOSE)
    return told + differences([found["stored"], found["workload"]], [stored["stored"], stored["workload"]])


def _as_floats(value: Any) -> Any:
    """Whole numbers as floats, so that they too are compared within a tolerance; sentences may say numbers."""
    match value:
        case dict():
            return {name: _as_floats(item) for name, item in value.items()}
        case list():
            return [_as_floats(item) for item in value]
        case int() if not isinstance(value, bool):
            return float(value)
        case _:
            return value


# --- the tests ------------------------------------------------------------------------------------------------------


def test_queries_and_domains_keep_their_forms_and_hashes():
    check(cases.queries(), expected("queries"))


def test_every_mechanism_has_a_golden_release():
    assert set(map(cases.mechanism_of, cases.RELEASES)) >= set(seam.mechanisms())


@pytest.mark.slow
@pytest.mark.parametrize("name", cases.RELEASES)
def test_releases_pay_ask_and_say_the_same(name, tmp_path):
    found = json.loads(json.dumps(cases.release(name, tmp_path)))
    told = release_differences(name, found, expected(f"release-{name}"))
    assert not told, "\n".join(told[:20])


@pytest.mark.slow
@pytest.mark.parametrize("name", cases.SESSIONS)
def test_sessions_pay_ask_and_say_the_same(name, tmp_path):
    check(cases.session(name, tmp_path), expected(f"session-{name}"))


@pytest.mark.slow
def test_commands_end_and_print_the_same(tmp_path):
    check(surface.commands(tmp_path), expected("commands"))


def test_public_names_and_options_are_the_same():
    told = lost(json.loads(json.dumps(surface.names())), expected("names"))
    assert not told, "\n".join(told[:20])
    assert lost({"a": "(x, *, y=2)"}, {"a": "(x, *, y=1)"})
    assert lost({"a": ["--x"]}, {"a": ["--x", "--y"]})
    assert lost({"a": [["--x"]]}, {"a": [["--x"], ["--y"]]})
    assert lost({"a": ["<x>", "<y>"]}, {"a": ["<y>", "<x>"]})
    assert not lost({"a": [["--x"], "<z>", ["--y"]]}, {"a": [["--y"], ["--x"], "<z>"]})
    assert lost({}, {"a": "value"})


# --- the comparison can fail ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "stored"),
    [
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {"b": 1}),
        ({"a": 1, "b": 1}, {"a": 1}),
        ([1.0, 2.0], [1.0, 2.0 + 1e-5]),
        ([1, 2], [1]),
        ("ask", "answer"),
        (True, 1),
        (None, 0.0),
    ],
)
def test_a_difference_is_noticed(found, stored):
    assert differences(found, stored)
    assert not differences(stored, stored)


@pytest.mark.parametrize("name", ["sculpt", "smalldb", "gaussian"])
def test_a_release_that_says_something_else_is_noticed(name):
    stored = expected(f"release-{name}")
    assert not release_differences(name, copy.deepcopy(stored), stored)
    payment = next(i for i, e in enumerate(stored["entries"]) if e.get("parent"))
    for change in (
        lambda one: one["entries"][payment].update(units=one["entries"][payment]["units"] + 1),
        lambda one: one["entries"][payment].update(tag="other"),
        lambda one: one["entries"][payment]["body"].update(ask="other"),
        lambda one: one["stated"].update(alpha=one["stated"]["alpha"] + 0.1),
        lambda one: one["questions"][0].update(value=one["questions"][0]["value"] + 0.1),
        lambda one: one["document"].pop("exactness"),
    ):
        other = copy.deepcopy(stored)
        change(other)
        assert release_differences(name, other, stored)


def test_moved_rows_are_noticed():
    stored = expected("release-sculpt")["rows"]
    other = copy.deepcopy(stored)
    cells = other["tables"]["age"]
    first, second = list(cells)[:2]
    cells[first], cells[second] = cells[first] - 5, cells[second] + 5
    assert row_differences(other, stored, exact=False)
    assert row_differences(stored | {"codes": "other"}, stored, exact=True)
    assert not row_differences(stored | {"codes": "other"}, stored, exact=False)

"""Charts of a release: what they show is what was released, in files that a browser can be trusted with."""

from __future__ import annotations

import json

import pytest

import maquette as mq
from maquette.errors import ParameterError, ReleaseError, WorkloadError
from maquette.results import charts
from maquette.results.charts import COLOURS, TONES

HOSTILE = "</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    place = tmp_path_factory.mktemp("charts")
    lines = [f"{20 + i % 40},{'a' if i % 3 else HOSTILE},{i % 2}" for i in range(4000)]
    (place / "t.csv").write_text("age,name,flag\n" + "\n".join(lines) + "\n")
    domain = mq.Domain.from_dict(
        {
            "attributes": [
                {"name": "age", "kind": "numeric", "bounds": [20, 60], "bins": 8, "integer": True},
                {"name": "name", "kind": "categorical", "categories": ["a", HOSTILE]},
                {"name": "flag", "kind": "ordinal", "categories": [0, 1]},
            ]
        }
    )
    table = mq.open(place / "t.csv", domain=domain)
    return mq.release(
        table, mq.marginals(domain, attributes=[("age", "name")]), epsilon=5.0, ledger=place / "t.ledger"
    )


def test_bars_are_the_released_shares_with_their_errors(release):
    chart = release.plot("age")
    values = chart.to_dict()["data"]["values"]
    assert [row["label"] for row in values] == [release.domain["age"].label(i) for i in range(8)]
    for code, row in enumerate(values):
        text = " and ".join(
            [f"age >= {20 + 5 * code}"] * (code > 0) + [f"age < {25 + 5 * code}"] * (code < 7)
        )
        answer = release.answer(text)
        assert row["value"] == pytest.approx(100 * answer.value)
        assert row["high"] - row["value"] == pytest.approx(100 * answer.error)
        assert "points" in row["error"]
    assert "95 %" in chart.to_dict()["title"]["subtitle"][0]


def test_heat_maps_have_a_cell_for_every_pair_and_errors_under_the_pointer(release):
    spec = release.plot("age", "name").to_dict()
    values = spec["data"]["values"]
    assert len(values) == 16
    assert sum(float(row["share"].split()[0]) for row in values) == pytest.approx(100, abs=1)
    assert all(row["error"].startswith("±") for row in values)
    assert {field["field"] for field in spec["encoding"]["tooltip"]} >= {"share", "error", "across", "down"}
    assert spec["encoding"]["x"]["title"] == "age"
    assert {row["across"] for row in values} == {release.domain["age"].label(i) for i in range(8)}


@pytest.mark.parametrize("names", [(), ("age", "age"), ("age", "name", "flag")])
def test_one_attribute_or_two_different_ones(release, names):
    with pytest.raises(WorkloadError, match="one attribute or of two"):
        release.plot(*names)


def test_what_was_not_measured_is_refused(release):
    with pytest.raises(ReleaseError, match="'flag' is not in this release"):
        release.plot("flag")


def test_files_by_their_endings(release, tmp_path):
    chart = release.plot("name")
    assert chart.save(tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    assert chart.save(tmp_path / "c.svg").read_text().startswith("<svg")
    assert json.loads(chart.save(tmp_path / "c.json").read_text()) == chart.to_dict()
    assert json.loads(chart.to_json()) == chart.to_dict()
    with pytest.raises(ParameterError, match="ends with one of"):
        chart.save(tmp_path / "c.gif")
    with pytest.raises(ReleaseError, match="cannot write"):
        chart.save(tmp_path / "missing" / "c.png")


@pytest.mark.slow
def test_no_text_of_the_table_ends_the_script_of_the_page(release):
    page = release.plot("name").to_html()
    assert HOSTILE not in page
    body = page[page.rindex("<body>") :]
    assert "<img" not in body
    start = body.index(charts._SPEC) + len(charts._SPEC)
    inside = body[start : body.index(";\n", start)]
    assert json.loads(inside) == release.plot("name").to_dict()
    assert 'src="http' not in page


def test_a_notebook_gets_the_specification_and_a_drawing(release):
    shown = release.plot("name")._repr_mimebundle_()
    assert shown[charts.MIME]["data"]["values"]
    assert "<img" not in shown["image/svg+xml"]
    assert shown["text/plain"].startswith("Chart('Shares of name")


def test_no_colour_of_a_page_is_left(release):
    for chart in (release.plot("age"), release.plot("age", "name")):
        text = chart.to_json()
        assert "var(--" not in text
        assert "currentColor" not in text


def test_colours_are_those_of_the_report():
    from importlib.resources import files

    css = files("maquette.results").joinpath("templates/report.css").read_text()
    light = css.split("@media")[0]
    for name, colour in COLOURS.items():
        assert (
            f"--{name.removeprefix('var(--').rstrip(')').replace('currentColor', 'ink')}: {colour}" in light
        )
    mixed = [_mix("#3f86c4", share) for share in (0.62, 0.4, 0.2)]
    assert list(TONES[:3]) == mixed
    assert list(TONES[4:]) == [_mix("#e0862f", share) for share in (0.2, 0.4, 0.62)]


def _mix(colour, share, page="#fdfcf9"):
    parts = zip(*([int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in (colour, page)), strict=True)
    return "#" + "".join(f"{round(a * share + b * (1 - share)):02x}" for a, b in parts)

"""Charts of a release for notebooks and files: Vega-Lite, with the look of the report and the stated errors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maquette.core._arguments import checks_arguments
from maquette.errors import ParameterError, ReleaseError, WorkloadError
from maquette.results import plots, wording
from maquette.results.answering import Estimate
from maquette.results.folder import write_text
from maquette.results.pairs import HeatMap, heat_map
from maquette.results.report import bar_of, shares_of

if TYPE_CHECKING:
    from maquette.results.release import Release

MAX_BARS = 40
"""Bars of a chart, without those of other and missing values; neighbours are put together beyond."""
MAX_LINES = 16
"""Lines of a heat map, either way, without those of other and missing values."""
FORMS = ("html", "json", "png", "svg")
WIDTH = 420
COLOURS = {
    plots.INK: "#1d2126",
    plots.QUIET: "#5a636e",
    plots.GRID: "#d9d7cf",
    plots.BAR: "#6f9fc0",
}
"""What the colours of a page are by themselves, in daylight; those of `report.css`."""
TONES = ("#87b3d8", "#b1cde4", "#d7e4ee", "#f4f2ec", "#f7e4d1", "#f1cda8", "#ebb37c")
"""Cells from much rarer than by chance to much more frequent; the report mixes them from the same two colours."""
FAINT = "#7a7d80"
_SPEC = "const spec = "
"""What stands before the specification in a page of vl_convert."""
MIME = "application/vnd.vegalite.v5+json"


@dataclass(frozen=True, eq=False, repr=False)
class Chart:
    """A finished chart: shows itself in a notebook, and is written as HTML, PNG, SVG or JSON."""

    spec: dict[str, Any]
    """The Vega-Lite specification, with its data."""
    label: str
    """What it shows, in a sentence."""

    def to_dict(self) -> dict[str, Any]:
        """The Vega-Lite specification."""
        return self.spec

    def to_json(self) -> str:
        """The Vega-Lite specification as text; Altair and every Vega editor read it."""
        return json.dumps(self.spec, ensure_ascii=False, indent=1)

    def to_svg(self) -> str:
        """The drawing by itself."""
        return plots.drawing().vegalite_to_svg(self.spec)

    def to_html(self) -> str:
        """A page of its own that needs no network, with the errors under the pointer."""
        page = plots.drawing().vegalite_to_html({"$schema": plots.SCHEMA, "mark": "point"}, bundle=True)
        # put in here and not there, where a text of the table could end the script
        before, _, rest = page.rpartition(_SPEC)
        after = rest.partition(";\n")[2]
        spec = json.dumps(self.spec).replace("<", "\\u003c")
        head = before.replace("<title>Chart</title>", f"<title>{escape(self.label)}</title>", 1)
        return f"{head}{_SPEC}{spec};\n{after}"

    @checks_arguments
    def save(self, path: str | Path) -> Path:
        """Write it; the ending of the name says how: .html, .json, .png or .svg."""
        place = Path(path)
        form = place.suffix.lower().lstrip(".")
        if form not in FORMS:
            endings = ", ".join(f".{one}" for one in FORMS)
            raise ParameterError(f"expected a file whose name ends with one of {endings}, got {place.name!r}")
        if form == "png":
            try:
                place.write_bytes(plots.drawing().vegalite_to_png(self.spec, scale=2))
            except OSError as error:
                raise ReleaseError(f"cannot write {place}: {error.strerror}") from None
        else:
            write_text(place, {"html": self.to_html, "json": self.to_json, "svg": self.to_svg}[form]())
        return place

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        picture = {"image/svg+xml": self.to_svg()} if plots.can_draw() else {}
        return {MIME: self.spec, **picture, "text/plain": repr(self)}

    def __repr__(self) -> str:
        return f"Chart({self.label!r})"


def plot(release: Release, names: Sequence[str]) -> Chart:
    """See `Release.plot`."""
    if not 1 <= len(names) <= 2 or len(set(names)) < len(names):
        raise WorkloadError(
            "a plot is of one attribute or of two different ones, such as plot('age', 'income')"
        )
    for name in names:
        if release.domain[name].name not in release.measured:
            raise ReleaseError(
                f"'{name}' is not in this release, which is about {', '.join(release.measured)}"
            )
    return _bars(release, names[0]) if len(names) == 1 else _heat(release, names[0], names[1])


def _bars(release: Release, name: str) -> Chart:
    """Shares as bars, with whiskers where an error is stated."""
    shares = list(shares_of(release, release.domain[name], most=MAX_BARS))
    if not shares:
        raise ReleaseError(
            f"this release does not cover the shares of '{name}'; a workload with its marginal would"
        )
    bars = [bar_of(label, share) for label, share in shares]
    spec = plots.marginal_spec(bars, width=WIDTH)
    for row, (_, share) in zip(spec["data"]["values"], shares, strict=True):
        row |= _words(share.value, share.error, release)
    spec["encoding"]["tooltip"] = _tooltip((("label", name),))
    spec["encoding"]["y"]["axis"] |= {"labelLimit": 180, "minExtent": 0, "maxExtent": 200}
    spec["title"] = _title(release, f"Shares of {name}", _whiskers(release, [share for _, share in shares]))
    said = ", ".join(f"{bar.label} {bar.value:.3g} %" for bar in bars)
    return Chart(_coloured(plots.whole_spec(spec)), f"Shares of {name}: {said}")


def _whiskers(release: Release, shares: Sequence[Estimate]) -> str:
    """What the whiskers mean."""
    errors = [share.error for share in shares if share.error is not None]
    if not errors:
        return "no error is stated"
    about = "each bar by itself" if any(share.alone for share in shares) else "all together"
    some = "" if len(errors) == len(shares) else "; bars without a whisker have no stated error"
    return f"whiskers hold with {wording.chance(1 - release.beta)} confidence, {about}{some}"


def _heat(release: Release, across: str, down: str) -> Chart:
    """A table of two attributes: shares in words, colours for more or less than by chance, errors under the pointer."""
    table = heat_map(release, (down, across), most=MAX_LINES)
    if table is None:
        raise ReleaseError(
            f"this release does not cover {across} and {down} together; a workload with their marginal would"
        )
    values = [
        {
            "down": label,
            "across": column,
            "text": cell.text,
            "tone": cell.tone,
            "is_sure": cell.is_sure,
            **_words(cell.value, cell.error, release),
        }
        for label, cells in table.rows
        for column, cell in zip(table.columns, cells, strict=True)
    ]
    spec = _heat_spec(values, table) | {
        "title": _title(release, f"{across} and {down}, per cent of all records", table.caption)
    }
    return Chart(
        _coloured(plots.whole_spec(spec)), f"Shares of {across} and {down} together; {table.caption}"
    )


def _heat_spec(values: list[dict[str, Any]], table: HeatMap) -> dict[str, Any]:
    def axis(field: str, title: str, order: Sequence[str], **more: Any) -> dict[str, Any]:
        look = {"ticks": False, "domain": False, "labelLimit": 180, **more}
        return {"field": field, "type": "nominal", "sort": list(order), "title": title, "axis": look}

    rows = [label for label, _ in table.rows]
    tones = list(range(-3, 4))
    return {
        "data": {"values": values},
        "width": {"step": 52},
        "height": {"step": 30},
        "encoding": {
            "x": axis("across", table.across, table.columns, orient="top", labelAngle=-40),
            "y": axis("down", table.down, rows),
            "tooltip": _tooltip((("across", table.across), ("down", table.down))),
        },
        "layer": [
            {
                "mark": {"type": "rect", "stroke": "#fdfcf9"},
                "encoding": {
                    "color": {
                        "field": "tone",
                        "type": "ordinal",
                        "scale": {"domain": tones, "range": list(TONES)},
                        "legend": {
                            "title": None,
                            "values": [-3, 0, 3],
                            "labelExpr": "['rarer than by chance', 'as often', 'more often'][(datum.value + 3) / 3]",
                        },
                    }
                },
            },
            {
                "mark": {"type": "text", "fontSize": 11},
                "encoding": {
                    "text": {"field": "text"},
                    "color": {"condition": {"test": "datum.is_sure", "value": plots.INK}, "value": FAINT},
                },
            },
        ],
    }


def _words(share: float, error: float | None, release: Release) -> dict[str, str]:
    """One share as the pointer shows it."""
    n = release.size.divisor
    if error is None:
        return {"share": wording.percent(share), "records": f"{share * n:,.0f}", "error": "not stated"}
    low, high = max(share - error, 0.0), min(share + error, 1.0)
    return {
        "share": wording.percent(share),
        "records": f"about {share * n:,.0f}",
        "error": f"± {wording.points(error)}: {wording.percent(low)} to {wording.percent(high)}",
    }


def _tooltip(keys: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    fields = [*keys, ("share", "share"), ("records", "records"), ("error", "error")]
    return [{"field": field, "type": "nominal", "title": title} for field, title in fields]


def _title(release: Release, text: str, more: str) -> dict[str, Any]:
    lines = [more] if release.watermark is None else [f"NOT PRIVATE: {release.watermark}", more]
    return {
        "text": text,
        "subtitle": lines,
        "anchor": "start",
        "color": plots.INK,
        "subtitleColor": plots.QUIET,
        "fontSize": 14,
        "subtitleFontSize": 11,
        "offset": 12,
    }


def _coloured(value: Any) -> Any:
    """The colours of a page as colours that stand by themselves."""
    if isinstance(value, dict):
        return {
            name: "#ffffff" if name == "background" and part is None else _coloured(part)
            for name, part in value.items()
        }
    if isinstance(value, list):
        return [_coloured(part) for part in value]
    return COLOURS.get(value, value) if isinstance(value, str) else value

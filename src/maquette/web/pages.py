"""Pages out of templates: every value is escaped, one that is missing is an error, and refusals are pages too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from maquette import __version__
from maquette.results import wording
from maquette.web import charts

if TYPE_CHECKING:
    from jinja2 import Template

STATIC = Path(__file__).parent / "static"


@dataclass(frozen=True, slots=True)
class Frame:
    """What every page shows around its content: the title of the site, its links, who is signed in."""

    title: str
    links: tuple[tuple[str, str], ...] = ()
    person: str | None = None
    role: str | None = None
    csrf: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)


FrameOf = Callable[[Request], Frame]


def page(request: Request, template_name: str, /, *, status: int = 200, **values: Any) -> HTMLResponse:
    """A page by the name of its template."""
    frame: Frame = request.app.state.frame_of(request)
    text = template(template_name).render(frame=frame, path=request.url.path, **values)
    return HTMLResponse(text, status_code=status)


def refusal(request: Request, status: int, why: str) -> HTMLResponse:
    """A page that says what did not work and what to do."""
    return page(request, "refusal.html.j2", status=status, why=why, code=status)


@lru_cache(maxsize=64)
def template(name: str) -> Template:
    return _environment().get_template(name)


def day(seconds: int) -> str:
    """A moment as a day (UTC)."""
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("maquette.web", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(version=__version__, wording=wording, charts=charts)
    environment.filters.update(
        points=wording.points, day=day, percent=wording.percent, chance=wording.chance, big=wording.big
    )
    return environment

"""Routes over releases: what there is, tables and charts, conditions, SQL, files. No table is behind them."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import FileResponse, HTMLResponse

from maquette.errors import MaquetteError, ReleaseError
from maquette.results.folder import REPORT
from maquette.results.release import Release
from maquette.results.report import column_entries
from maquette.web import as_code, conditions, explore
from maquette.web.pages import page

router = APIRouter(include_in_schema=False)

Names = Annotated[list[str], Query(max_length=8)]
Text = Annotated[str, Query(max_length=explore.MAX_TEXT)]


def release_of(request: Request, name: str) -> Release:
    """The release of an address, if this reader may see it."""
    if name not in request.app.state.visible_releases(request):
        raise ReleaseError(f"there is no release called '{name}' here")
    return request.app.state.catalog.release(name)


@router.get("/releases", response_class=HTMLResponse)
def releases(request: Request) -> Response:
    whole, damaged = request.app.state.catalog.readable(request.app.state.visible_releases(request))
    return page(request, "releases.html.j2", releases=whole, damaged=damaged)


@router.get("/r/{name}", response_class=HTMLResponse)
def overview(request: Request, name: str) -> Response:
    release = release_of(request, name)
    return page(
        request,
        "release.html.j2",
        name=name,
        release=release,
        columns=column_entries(release),
        sketches=request.app.state.catalog.overview(name),
    )


@router.get("/r/{name}/explore", response_class=HTMLResponse)
def tables(
    request: Request,
    name: str,
    by: Names = [],  # noqa: B006
    figure: Text = "",
    where: Text = "",
    sort: Text = "",
    shape: Annotated[str, Query(alias="as", max_length=20)] = "",
) -> Response:
    release = release_of(request, name)
    problem, shown = None, None
    try:
        names = by or list(release.measured[:1])
        shown = request.app.state.catalog.view(
            name, names, figure=figure, where=where, sort=sort, shape=shape
        )
    except MaquetteError as error:
        problem = str(error)
    return page(
        request,
        "explore.html.j2",
        name=name,
        release=release,
        figures=explore.figures(release),
        view=shown,
        chosen=list(by) if shown is None else list(shown.names),
        figure=figure,
        where=where,
        problem=problem,
        words=conditions.words(release.domain, release.measured),
        code=() if shown is None else _as_code(request, name, shown.call, shown.sql),
    )


def _as_code(request: Request, name: str, call: str, statement: str) -> as_code.Code:
    """For a program: from a service by its client, from a public site by the folder."""
    if getattr(request.app.state, "service", None) is None:
        return as_code.of_folder(name, call, statement)
    return as_code.of_release(as_code.home_of(request), name, call, statement)


@router.get("/r/{name}/sql", response_class=HTMLResponse)
def statement(request: Request, name: str, q: Text = "") -> Response:
    release = release_of(request, name)
    problem, result = None, None
    if q:
        try:
            result = explore.sql(release, q)
        except MaquetteError as error:
            problem = str(error)
    first = release.measured[0]
    example = f"select {first}, count(*) from release group by {first}"  # noqa: S608  (a text to start from)
    return page(
        request,
        "sql.html.j2",
        name=name,
        release=release,
        q=q,
        example=example,
        table=result,
        shown=None if result is None else explore.shown(result, release.domain),
        code=() if result is None else _as_code(request, name, f"sql({q!r})", q),
        problem=problem,
        query=urlencode({"q": q}),
    )


@router.get("/r/{name}/answer", response_class=HTMLResponse)
def condition(request: Request, name: str, q: Text = "") -> Response:
    release = release_of(request, name)
    problem, answer = None, None
    if q:
        try:
            answer = release.answer(q)
        except MaquetteError as error:
            problem = str(error)
    return page(
        request,
        "answer.html.j2",
        name=name,
        release=release,
        q=q,
        answer=answer,
        parts_of=conditions.parts(release.domain, q),
        code=()
        if answer is None
        else _as_code(request, name, f"answer({q!r})", f"SELECT share() FROM release WHERE {q}"),  # noqa: S608
        words=conditions.words(release.domain, release.measured),
        problem=problem,
    )


@router.get("/r/{name}/report")
def report(request: Request, name: str) -> Response:
    """The report as a file: it brings styles of its own, which this site's policy would take away."""
    release_of(request, name)
    path = request.app.state.catalog.folder(name) / REPORT
    if not path.is_file():
        raise ReleaseError("this release has no report; maquette report makes one")
    return FileResponse(path, media_type="text/html", filename=f"{name}.html")


@router.get("/r/{name}/release.zip")
def folder_file(request: Request, name: str) -> Response:
    """The whole release folder."""
    release_of(request, name)
    return explore.packed(request.app.state.catalog.folder(name), name)


@router.get("/r/{name}/files/{what}.{form}")
def files(request: Request, name: str, what: str, form: str) -> Response:
    """The rows, the answers or the dictionary, whole."""
    return _download(explore.whole_table(release_of(request, name), what), f"{name}-{what}", form)


@router.get("/r/{name}/table.{form}")
def table_file(
    request: Request,
    name: str,
    form: str,
    by: Names = [],  # noqa: B006
    figure: Text = "",
    where: Text = "",
) -> Response:
    release_of(request, name)
    shown = request.app.state.catalog.view(name, by, figure=figure, where=where)
    return _download(shown.table.arrow, "-".join([name, *shown.names]), form)


@router.get("/r/{name}/sql.{form}")
def sql_file(request: Request, name: str, form: str, q: Text = "") -> Response:
    return _download(explore.sql(release_of(request, name), q).arrow, f"{name}-sql", form)


def _download(table: Any, name: str, form: str) -> Response:
    from maquette.web.explore import short_name

    data = explore.file(table, form)
    headers = {"content-disposition": f'attachment; filename="{short_name(name)}.{form}"'}
    return Response(data, media_type=explore.MEDIA[form], headers=headers)

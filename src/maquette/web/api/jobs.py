"""Releases as jobs. Stewards only."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter, Request, Response

from maquette.web.access import service_of
from maquette.web.api.base import PAID, After, JobName, Key, Limit, TableName, Who, responses
from maquette.web.api.values import Job, Jobs
from maquette.web.requests import ReleaseRequest
from maquette.web.steward import events

router = APIRouter()


def _job(request: Request, row: dict[str, Any]) -> Job:
    return Job(
        id=row["id"],
        number=row["number"],
        table=row["table"],
        person=row["person"],
        state=row["state"],
        stage=row["stage"],
        share=row["share"] / 1000,
        why=row["why"],
        published=bool(row["published"]),
        release=service_of(request).release_of_job(row["id"]),
    )


@router.post(
    "/tables/{table}/releases", operation_id="start_release", status_code=202, responses=responses(PAID)
)
def start_release(request: Request, who: Who, table: TableName, wish: ReleaseRequest, key: Key) -> Job:
    """Begin a release as a job. Stewards only."""
    return _job(request, service_of(request).start_job(who, table, wish, key=key))


@router.get("/jobs", operation_id="list_jobs")
def list_jobs(request: Request, who: Who, after: After = 0, limit: Limit = 50) -> Jobs:
    """Jobs, the newest first. Stewards only."""
    rows = service_of(request).jobs(who, after=after, limit=limit)
    last = rows[-1]["number"] if len(rows) == limit else None
    return Jobs(items=[_job(request, row) for row in rows], next=last)


@router.get("/jobs/{job}", operation_id="get_job")
def get_job(request: Request, who: Who, job: JobName) -> Job:
    return _job(request, service_of(request).job(who, job))


@router.get(
    "/jobs/{job}/events",
    operation_id="follow_job",
    response_class=Response,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
def follow_job(request: Request, who: Who, job: JobName) -> Response:
    """Server-sent events: `progress` with the state, and `end`."""
    return events(request, who, job)


@router.post("/jobs/{job}/{action}", operation_id="change_job")
def change_job(
    request: Request, who: Who, job: JobName, action: Literal["cancel", "resume", "publish", "hide"]
) -> Job:
    """Cancel or resume a job; publish its release to the analysts of the table, or hide it."""
    service = service_of(request)
    match action:
        case "cancel":
            row = service.cancel(who, job)
        case "resume":
            row = service.resume(who, job)
        case _:
            row = service.publish(who, job, is_public=action == "publish")
    return _job(request, row)

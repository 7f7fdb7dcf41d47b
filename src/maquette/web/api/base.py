"""What every route of the interface shares: refusals, the token, the forms of names and keys, pages."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Header, Path, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.exceptions import HTTPException

from maquette.web.access import service_of, slow_down
from maquette.web.api.values import Problem
from maquette.web.auth import Person

STATUSES = {
    400: "The question, or a value in it, is not possible; the text says why.",
    401: "No valid token.",
    403: "Your role may not do this.",
    404: "It does not exist, or it is not yours.",
    413: "The request is larger than 64 KiB.",
    422: "The request does not have the form that is described here, or its key was used for something else.",
    429: "Too many requests or steps; see Retry-After.",
    503: "The table is being opened again, or the ledger cannot be written.",
}
PAID = {402: "The budget does not cover it. Nothing was read and nothing was spent."}


def responses(more: dict[int, str] | None = None) -> dict[int | str, dict[str, Any]]:
    return {
        status: {"description": text, "model": Problem, "content": {"application/problem+json": {}}}
        for status, text in (STATUSES | (more or {})).items()
    }


bearer = HTTPBearer(auto_error=False, description="A token of the steward, mq_...")


async def token_holder(
    request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]
) -> Person:
    """Whose token a request carries. Cookies do not count here, so that no other site can use them."""
    door, text = service_of(request).door, None if credentials is None else credentials.credentials
    person = None if text is None else door.by_recent_token(text)
    if person is None and text is not None:  # a look at the disk, or a slow digest
        person = await run_in_threadpool(door.by_token, text)
    if person is None:
        raise HTTPException(
            401, "expected a valid token: Authorization: Bearer mq_...", {"www-authenticate": "Bearer"}
        )
    slow_down(request, person)
    return person


Who = Annotated[Person, Depends(token_holder)]
TableName = Annotated[str, Path(max_length=40, pattern="^[a-z0-9_.-]+$", description="The name of a table.")]
ReleaseName = Annotated[
    str, Path(max_length=80, pattern="^[a-z0-9-]+$", description="The name of a release.")
]
JobName = Annotated[str, Path(max_length=40, pattern="^[0-9a-f]+$", description="The id of a job.")]
Key = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        min_length=8,
        max_length=100,
        pattern="^[A-Za-z0-9_.:-]+$",
        description="One for each wish; sent again with the same wish it costs nothing and returns the same.",
    ),
]
After = Annotated[int, Query(ge=0, le=2**53, description="`next` of the page before.")]
Limit = Annotated[int, Query(ge=1, le=500, description="Items of a page.")]

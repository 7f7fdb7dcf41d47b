"""The HTTP interface, /api/v1: the same as the pages for programs, described by OpenAPI.

A token goes in the header (`Authorization: Bearer mq_...`). What changes something takes an `Idempotency-Key`: sent
again it does nothing twice and returns the same. Refusals are problem+json.
"""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from maquette.web.access import service_of
from maquette.web.api import jobs, ledger, releases, tables
from maquette.web.api.base import Who, responses

router = APIRouter(prefix="/api/v1", responses=responses())
for part in (tables, releases, jobs, ledger):
    router.include_router(part.router)

operations = APIRouter(include_in_schema=False)


@operations.get("/metrics")
def metrics(request: Request, who: Who) -> Response:
    """Counters for Prometheus, with the token of a steward."""
    service = service_of(request)
    service.require_steward(who)
    return Response(service.metrics(), media_type="text/plain; version=0.0.4")

"""The ledger of a table and the log of who did what. Stewards only."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from maquette.web.access import service_of
from maquette.web.api.base import After, Limit, TableName, Who
from maquette.web.api.values import Entries, LedgerFacts

router = APIRouter()


@router.get("/tables/{table}/ledger", operation_id="get_ledger")
def get_ledger(request: Request, who: Who, table: TableName) -> LedgerFacts:
    """The account of a table. Stewards only."""
    return LedgerFacts(**service_of(request).steward_link(who, table).call("ledger"))


@router.get("/tables/{table}/ledger/entries", operation_id="list_entries")
def list_entries(
    request: Request, who: Who, table: TableName, after: After = 0, limit: Limit = 50
) -> Entries:
    """The chain in order. Stewards only."""
    return Entries(**service_of(request).steward_link(who, table).call("entries", after=after, limit=limit))


@router.get("/tables/{table}/audit", operation_id="list_audit")
def list_audit(
    request: Request,
    who: Who,
    table: TableName,
    before: Annotated[int | None, Query(ge=1, le=2**53)] = None,
    limit: Limit = 50,
) -> Entries:
    """The log of who did what, the newest first. Stewards only."""
    return Entries(**service_of(request).steward_link(who, table).call("audit", before=before, limit=limit))


@router.post("/tables/{table}/ledger/verify", operation_id="verify_ledger")
def verify_ledger(request: Request, who: Who, table: TableName) -> dict[str, Any]:
    """Read the whole ledger and the whole log again. Stewards only."""
    return service_of(request).steward_link(who, table).call("verify")

"""The account of a table as the steward sees it: who holds what, what was spent over time, every entry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from maquette.accounting.budget import UNITS, Cost, affordable_epsilon, percent_of
from maquette.results import wording

if TYPE_CHECKING:
    from maquette.accounting.ledger import Ledger

MAX_PAGE = 500
"""Items of a page, at most."""


class Account:
    """Views of one ledger. They read the chain and nothing else."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def ledger(self) -> dict[str, Any]:
        """The state of the account, and who holds what of it."""
        balance, budget = self._ledger.balance(), self._ledger.budget
        rest = Cost(balance.left_units, balance.slack_left)
        return {
            "name": self._ledger.name,
            "epsilon": budget.epsilon,
            "delta": budget.delta,
            "unit": budget.unit,
            "total": balance.total_units / UNITS,
            "spent": balance.charged_units / UNITS,
            "reserved": balance.reserved_units / UNITS,
            "left": balance.left_units / UNITS,
            "further": affordable_epsilon(budget, rest),
            "receipt": str(balance.head),
            "holders": self._holders(balance.total_units),
        }

    def _holders(self, total: int) -> list[dict[str, Any]]:
        """Analysts, sessions and releases: what each was charged and still holds."""
        open_now = {one.entry.key: one.left.units for one in self._ledger.open_envelopes()}
        children: dict[str, int] = {}
        tops: dict[str, dict[str, Any]] = {}
        for entry in self._ledger.entries(kind="reserve"):
            if entry.envelope:
                who = entry.body.get("analyst")
                tops[entry.key] = {"key": entry.key, "tag": entry.tag, "who": who, "created": entry.created}
            holder = entry.parent if entry.parent in tops else entry.key
            children[holder] = children.get(holder, 0) + (0 if entry.envelope else entry.units)
        return [
            top
            | {
                "spent": children.get(key, 0) / UNITS,
                "held": open_now.get(key, 0) / UNITS,
                "is_open": key in open_now,
                "percent": percent_of(children.get(key, 0), total),
            }
            for key, top in tops.items()
        ]

    def spent(self, most: int = 400) -> list[dict[str, Any]]:
        """The sum that looks were charged, after each of them; at most so many points, evenly chosen."""
        total, points = 0, list[dict[str, Any]]()
        for entry in self._ledger.entries(kind="reserve"):
            if entry.units and not entry.envelope:
                total += entry.units
                points.append({"created": entry.created, "spent": total / UNITS})
        step = max(len(points) // most, 1)
        return points[::step] + (points[-1:] if points and (len(points) - 1) % step else [])

    def entries(self, after: int = 0, limit: int = 50) -> dict[str, Any]:
        """The chain in order; one page of it. Stored answers stay in the ledger."""
        page: list[dict[str, Any]] = []
        size = min(limit, MAX_PAGE)
        for entry in self._ledger.entries(after=after):
            if len(page) == size:
                return {"items": page, "next": page[-1]["sequence"]}
            page.append(
                {
                    "sequence": entry.seq,
                    "created": entry.created,
                    "kind": entry.kind,
                    "what": wording.payment(entry.body.get("ask"), entry.tag)
                    if entry.kind == "reserve"
                    else entry.kind,
                    "question": entry.body.get("text"),
                    "key": entry.key,
                    "parent": entry.parent,
                    "amount": entry.units / UNITS,
                    "head": entry.head,
                }
            )
        return {"items": page, "next": None}

"""What privacy costs and who has paid: budgets, events, conversions and the durable ledger.

The ledger itself lives in `maquette.accounting.ledger`, which loads the database library.
"""

from maquette.core.budget import SLACK_UNITS, UNITS, Accounting, Budget, Cost, Unit, split
from maquette.core.events import (
    ComposedEvent,
    CubeEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    SelectionEvent,
    SmoothedEvent,
    SparseEvent,
)

__all__ = [
    "SLACK_UNITS",
    "UNITS",
    "Accounting",
    "Budget",
    "ComposedEvent",
    "Cost",
    "CubeEvent",
    "Event",
    "GaussianEvent",
    "LaplaceEvent",
    "PureEvent",
    "SelectionEvent",
    "SmoothedEvent",
    "SparseEvent",
    "Unit",
    "split",
]

"""The durable, append-only ledger of everything that was paid for.

ledger = Ledger.create("survey.ledger", budget=Budget(1.0), relation=Relation.ADD_REMOVE, ...)
entry = ledger.begin(Record(key, digest, event.tag, body), cost=event.cost(ledger.budget.unit), parent="release")
if entry.payload is None:
    entry = ledger.store(entry, look_at_the_data)      # pay, then look
payload = entry.payload                                # then return what the ledger holds
"""

from maquette.core.ledger.entry import Entry, Receipt, Record, step_key
from maquette.core.ledger.ledger import Ledger
from maquette.core.ledger.pace import Rate
from maquette.core.ledger.reading import Balance
from maquette.core.ledger.transaction import Envelope

__all__ = ["Balance", "Entry", "Envelope", "Ledger", "Rate", "Receipt", "Record", "step_key"]

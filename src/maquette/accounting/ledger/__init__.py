"""The durable, append-only ledger of everything that was paid for.

ledger = Ledger.create("survey.ledger", budget=Budget(1.0), relation=Relation.ADD_REMOVE, ...)
entry = ledger.reserve(key, request=digest, tag=event.tag, cost=event.cost(ledger.budget.unit), body=...)
payload = entry.payload or look_at_the_data()          # pay, then look
payload = ledger.answer(key, payload).payload          # then return what the ledger holds
"""

from maquette.accounting.ledger.entry import Entry, Rate, Receipt, Record
from maquette.accounting.ledger.ledger import Ledger
from maquette.accounting.ledger.reading import Balance
from maquette.accounting.ledger.transaction import Envelope

__all__ = ["Balance", "Entry", "Envelope", "Ledger", "Rate", "Receipt", "Record"]

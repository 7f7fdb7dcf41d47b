"""Differentially private query release: one small database that answers very many queries.

The public names below load their modules when first used, so that `import maquette` is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from maquette._version import __version__

if TYPE_CHECKING:
    from maquette.accounting.budget import Budget
    from maquette.accounting.ledger import Ledger
    from maquette.api import release
    from maquette.audit.evaluate import evaluate
    from maquette.domain import Domain, Relation
    from maquette.errors import (
        BudgetExceeded,
        DomainError,
        KeyReused,
        LedgerError,
        MaquetteError,
        MaquetteWarning,
        MechanismError,
        MemoryLedgerWarning,
        ParameterError,
        ReleaseError,
        SourceError,
        UselessAnswer,
        WeakPrivacyWarning,
        WorkloadError,
    )
    from maquette.gate.handle import Table, draft, fit_report, open
    from maquette.mechanisms.smalldb import SmallDb
    from maquette.queries import (
        Queries,
        boxes,
        conjunctions,
        halfspaces,
        marginals,
        points,
        prefixes,
        ranges,
        thresholds,
        union,
        weights,
        where,
    )
    from maquette.queries.dimension import fat_shattering_dimension, vc_dimension
    from maquette.releasing.planning import plan, required
    from maquette.results.folder import load
    from maquette.results.release import Release
    from maquette.results.statements import Answer, Certificate
    from maquette.sessions import Session
    from maquette.sessions.session import session

_HOMES = {
    "maquette.accounting.budget": ("Budget",),
    "maquette.accounting.ledger": ("Ledger",),
    "maquette.api": ("release",),
    "maquette.audit.evaluate": ("evaluate",),
    "maquette.domain": ("Domain", "Relation"),
    "maquette.errors": (
        "BudgetExceeded",
        "DomainError",
        "KeyReused",
        "LedgerError",
        "MaquetteError",
        "MaquetteWarning",
        "MechanismError",
        "MemoryLedgerWarning",
        "ParameterError",
        "ReleaseError",
        "SourceError",
        "UselessAnswer",
        "WeakPrivacyWarning",
        "WorkloadError",
    ),
    "maquette.gate.handle": ("Table", "draft", "fit_report", "open"),
    "maquette.mechanisms.smalldb": ("SmallDb",),
    "maquette.queries": (
        "Queries",
        "boxes",
        "conjunctions",
        "halfspaces",
        "marginals",
        "points",
        "prefixes",
        "ranges",
        "thresholds",
        "union",
        "weights",
        "where",
    ),
    "maquette.queries.dimension": ("fat_shattering_dimension", "vc_dimension"),
    "maquette.releasing.planning": ("plan", "required"),
    "maquette.results.release": ("Release",),
    "maquette.results.statements": ("Answer", "Certificate"),
    "maquette.results.folder": ("load",),
    "maquette.sessions": ("Session",),
    "maquette.sessions.session": ("session",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Answer",
    "Budget",
    "BudgetExceeded",
    "Certificate",
    "Domain",
    "DomainError",
    "KeyReused",
    "Ledger",
    "LedgerError",
    "MaquetteError",
    "MaquetteWarning",
    "MechanismError",
    "MemoryLedgerWarning",
    "ParameterError",
    "Queries",
    "Relation",
    "Release",
    "ReleaseError",
    "Session",
    "SmallDb",
    "SourceError",
    "Table",
    "UselessAnswer",
    "WeakPrivacyWarning",
    "WorkloadError",
    "__version__",
    "boxes",
    "conjunctions",
    "draft",
    "evaluate",
    "fat_shattering_dimension",
    "fit_report",
    "halfspaces",
    "load",
    "marginals",
    "open",
    "plan",
    "points",
    "prefixes",
    "ranges",
    "release",
    "required",
    "session",
    "thresholds",
    "union",
    "vc_dimension",
    "weights",
    "where",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'maquette' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__

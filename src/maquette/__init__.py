"""Differentially private query release: one small database that answers very many queries.

The public names below load their modules when first used, so that `import maquette` is quick. Type checkers read the
same names in `__init__.pyi`.
"""

from importlib import import_module
from typing import Any

from maquette._version import __version__ as __version__

_HOMES = {
    "maquette": ("lessons", "theory"),
    "maquette.core.budget": ("Budget",),
    "maquette.accounting.ledger": ("Ledger",),
    "maquette.api": ("release",),
    "maquette.audit.evaluate": ("evaluate",),
    "maquette.domain": ("Domain", "Relation"),
    "maquette.errors": (
        "BudgetExceeded",
        "DomainError",
        "KeyReused",
        "LedgerError",
        "LookFailed",
        "MaquetteError",
        "MaquetteWarning",
        "MechanismError",
        "MemoryLedgerWarning",
        "MissingReceiptWarning",
        "ParameterError",
        "PureCostWarning",
        "RateExceeded",
        "ReleaseError",
        "SourceError",
        "UselessAnswer",
        "WeakPrivacyWarning",
        "WorkloadError",
    ),
    "maquette.linked": ("LinkedRelease",),
    "maquette.owner": ("Table", "Tables", "draft", "fit_report", "open"),
    "maquette.mechanisms.smalldb": ("SmallDb",),
    "maquette.queries": (
        "Queries",
        "boxes",
        "conjunctions",
        "halfspaces",
        "marginals",
        "parities",
        "points",
        "prefixes",
        "ranges",
        "thresholds",
        "union",
        "weights",
        "where",
    ),
    "maquette.queries.dimension": ("fat_shattering_dimension", "shatters", "vc_dimension"),
    "maquette.queries.dimension_interval": ("dimension_interval",),
    "maquette.releasing.discovery": ("discover",),
    "maquette.releasing.planning": ("plan", "required"),
    "maquette.results.release": ("Release",),
    "maquette.results.statements": ("Answer", "Certificate"),
    "maquette.linked.loading": ("load",),
    "maquette.schema": ("Schema",),
    "maquette.sessions": ("Session",),
    "maquette.sessions.opening": ("session",),
    "maquette.tools.choose": ("choose",),
    "maquette.tools.grow": ("grow", "small_databases"),
    "maquette.tools.rules": ("best_rule",),
    "maquette.tools.sparse_vector": ("above_threshold",),
    "maquette.tools.stream": ("count_stream",),
    "maquette.tools.synthesize": ("synthesize",),
    "maquette.web.client": ("connect",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted([*_HOME, "__version__"])  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'maquette' has no attribute {name!r}")
    home = _HOME[name]
    value = import_module(f"{home}.{name}") if home == "maquette" else getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__

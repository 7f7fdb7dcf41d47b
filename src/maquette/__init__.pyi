"""The public names for type checkers: the same as in `__init__.py`, which a test compares."""

# ruff: noqa: A004, I001
from maquette import lessons as lessons, theory as theory
from maquette._version import __version__ as __version__
from maquette.core.budget import Budget as Budget
from maquette.accounting.ledger import Ledger as Ledger
from maquette.api import release as release
from maquette.audit.evaluate import evaluate as evaluate
from maquette.domain import Domain as Domain, Relation as Relation
from maquette.errors import (
    BudgetExceeded as BudgetExceeded,
    DomainError as DomainError,
    KeyReused as KeyReused,
    LedgerError as LedgerError,
    LookFailed as LookFailed,
    MaquetteError as MaquetteError,
    MaquetteWarning as MaquetteWarning,
    MechanismError as MechanismError,
    MemoryLedgerWarning as MemoryLedgerWarning,
    MissingReceiptWarning as MissingReceiptWarning,
    ParameterError as ParameterError,
    RateExceeded as RateExceeded,
    ReleaseError as ReleaseError,
    SourceError as SourceError,
    UselessAnswer as UselessAnswer,
    PureCostWarning as PureCostWarning,
    WeakPrivacyWarning as WeakPrivacyWarning,
    WorkloadError as WorkloadError,
)
from maquette.linked import LinkedRelease as LinkedRelease
from maquette.owner import (
    Table as Table,
    Tables as Tables,
    draft as draft,
    fit_report as fit_report,
    open as open,
)
from maquette.mechanisms.smalldb import SmallDb as SmallDb
from maquette.queries import (
    Queries as Queries,
    boxes as boxes,
    conjunctions as conjunctions,
    halfspaces as halfspaces,
    marginals as marginals,
    parities as parities,
    points as points,
    prefixes as prefixes,
    ranges as ranges,
    thresholds as thresholds,
    union as union,
    weights as weights,
    where as where,
)
from maquette.queries.dimension import (
    fat_shattering_dimension as fat_shattering_dimension,
    shatters as shatters,
    vc_dimension as vc_dimension,
)
from maquette.queries.dimension_interval import dimension_interval as dimension_interval
from maquette.releasing.discovery import discover as discover
from maquette.releasing.planning import plan as plan, required as required
from maquette.linked.loading import load as load
from maquette.results.release import Release as Release
from maquette.results.statements import Answer as Answer, Certificate as Certificate
from maquette.schema import Schema as Schema
from maquette.sessions import Session as Session
from maquette.sessions.opening import session as session
from maquette.tools.grow import small_databases as small_databases
from maquette.tools.choose import choose as choose
from maquette.tools.rules import best_rule as best_rule
from maquette.tools.grow import grow as grow
from maquette.tools.sparse_vector import above_threshold as above_threshold
from maquette.tools.stream import count_stream as count_stream
from maquette.tools.synthesize import synthesize as synthesize
from maquette.web.client import connect as connect

_HOME: dict[str, str]
__all__: list[str]

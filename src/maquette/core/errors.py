"""The error tree: every error and warning that a user can meet, with the numbers as attributes.

A message says what was expected, what was found and what to do next. Behind the gate no message
carries a private value, a count of rows or a row number.
"""

from __future__ import annotations


class MaquetteError(Exception):
    """The root of all errors of this package. `exit_code` is what the command line ends with.

    A message can be shown anywhere: characters that cannot be printed are escaped, and a very long one is cut.
    """

    exit_code = 2

    def __init__(self, message: str = "") -> None:
        super().__init__(presentable(message))


MAX_MESSAGE_CHARACTERS = 2000


def presentable(message: str) -> str:
    """A message on a terminal or page: nothing in it that cannot be printed, and not of any length."""
    text = str(message)
    if not text.replace("\n", "").isprintable():
        text = "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)
    if len(text) > MAX_MESSAGE_CHARACTERS:
        cut = len(text) - MAX_MESSAGE_CHARACTERS
        text = f"{text[: MAX_MESSAGE_CHARACTERS - 500]} ... ({cut:,} characters left out) ... {text[-500:]}"
    return text


class ParameterError(MaquetteError):
    """An argument outside its range: epsilon, delta, beta, a name that does not exist."""


class DomainError(MaquetteError):
    """A domain declaration that is wrong, unreviewed or does not fit the table's columns."""


class SourceError(MaquetteError):
    """A table that cannot be opened by its public structure: file, header, column types."""


class LookFailed(SourceError):
    """The machine failed while it looked at the table. The price stays charged; what failed is not said."""


class WorkloadError(MaquetteError):
    """Queries that do not fit the domain or the query language."""


class MechanismError(MaquetteError):
    """A mechanism that does not apply to this workload, budget or relation."""


class UselessAnswer(MechanismError):
    """An answer whose stated error would say nothing. Nothing was read and nothing was spent for it."""

    def __init__(self, message: str, *, error: float) -> None:
        super().__init__(message)
        self.error = error


class ReleaseError(MaquetteError):
    """A release folder that cannot be read or does not hold what was asked."""


class LedgerError(MaquetteError):
    """A ledger that cannot be read, written or trusted, or that belongs to another table."""


class KeyReused(LedgerError):
    """An idempotency key that was used before for another request."""


class BudgetExceeded(LedgerError):
    """A question that the ledger cannot pay for. Nothing was read and nothing was spent."""

    exit_code = 3

    def __init__(self, message: str, *, unit: str, needed: float, left: float) -> None:
        super().__init__(message)
        self.unit = unit
        self.needed = needed
        self.left = left


class RateExceeded(LedgerError):
    """More questions in a time than an analyst may ask. Nothing was read and nothing was spent; wait and ask again.

    `seconds` is how long to wait, in whole seconds.
    """

    exit_code = 3

    def __init__(self, message: str, *, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class MaquetteWarning(UserWarning):
    """The root of all warnings of this package: it goes on, but not as one may think."""


class MemoryLedgerWarning(MaquetteWarning):
    """A ledger in memory: what was spent is forgotten with the handle of the table."""


class MissingReceiptWarning(MaquetteWarning):
    """A ledger with entries and without its receipt: that it was replaced by an older copy would not be noticed."""


class PureCostWarning(MaquetteWarning):
    """A pure epsilon that is charged to a ledger with a delta, of which the same epsilon with a delta takes less."""


class WeakPrivacyWarning(MaquetteWarning):
    """A budget so large that its promise protects hardly anybody."""

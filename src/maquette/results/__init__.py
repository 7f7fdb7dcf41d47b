"""The finished release, its folder and its report."""

from __future__ import annotations

from maquette.results.release import Release
from maquette.results.statements import (
    Account,
    Answer,
    Certificate,
    GroupCertificate,
    Guarantee,
    RowsDistance,
    Spending,
)

__all__ = [
    "Account",
    "Answer",
    "Certificate",
    "GroupCertificate",
    "Guarantee",
    "Release",
    "RowsDistance",
    "Spending",
]

"""The finished release, its folder and its report."""

from maquette.release.release import Release
from maquette.release.statements import (
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

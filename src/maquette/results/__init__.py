"""The finished release, its folder and its report. The names below load their modules when first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'maquette.results' has no attribute {name!r}")
    return getattr(
        import_module("maquette.results." + ("release" if name == "Release" else "statements")), name
    )

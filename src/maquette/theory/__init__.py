"""What is proved about the error: one function per theorem, public numbers in, bound out.

Bounds are in counts unless the name says otherwise; `direct` states them as fractions. Logarithms are natural
and the number of queries travels as its logarithm, so that 2^64 thresholds are no special case.

The modules load when first used: `maquette.theory.smalldb.best(...)`. `theorem_of("smalldb.best")` says which theorem a
function states and where it stands; `THEOREMS` is the whole list.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maquette.theory import adaptive as adaptive
    from maquette.theory import direct as direct
    from maquette.theory import draws as draws
    from maquette.theory import epochs as epochs
    from maquette.theory import existence as existence
    from maquette.theory import guarantees as guarantees
    from maquette.theory import lower as lower
    from maquette.theory import multiplicative as multiplicative
    from maquette.theory import online as online
    from maquette.theory import overview as overview
    from maquette.theory import population as population
    from maquette.theory import ratios as ratios
    from maquette.theory import search as search
    from maquette.theory import smalldb as smalldb
    from maquette.theory import sources as sources
    from maquette.theory import tails as tails
    from maquette.theory import textbook as textbook
    from maquette.theory.existence import Facts as Facts
    from maquette.theory.existence import facts_of as facts_of
    from maquette.theory.guarantees import Setting as Setting
    from maquette.theory.overview import bounds as bounds
    from maquette.theory.overview import needs as needs
    from maquette.theory.sources import THEOREMS as THEOREMS
    from maquette.theory.sources import Theorem as Theorem
    from maquette.theory.sources import theorem_of as theorem_of

_MODULES = (
    "adaptive",
    "direct",
    "draws",
    "epochs",
    "existence",
    "guarantees",
    "lower",
    "multiplicative",
    "online",
    "overview",
    "population",
    "ratios",
    "search",
    "smalldb",
    "sources",
    "tails",
    "textbook",
)
_NAMES = {
    "Facts": "existence",
    "Setting": "guarantees",
    "THEOREMS": "sources",
    "Theorem": "sources",
    "bounds": "overview",
    "facts_of": "existence",
    "needs": "overview",
    "theorem_of": "sources",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"maquette.theory.{name}")
    if name in _NAMES:
        return getattr(import_module(f"maquette.theory.{_NAMES[name]}"), name)
    raise AttributeError(f"module 'maquette.theory' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*_MODULES, *_NAMES])

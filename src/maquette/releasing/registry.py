"""Every mechanism that can be asked for by name: one line each, loaded when it is first needed."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module

from maquette.mechanisms.base import Mechanism


class Registry(MutableMapping[str, Mechanism]):
    """Mechanisms by name. An entry is a mechanism, or the place of one as "module:object"."""

    def __init__(self, places: dict[str, str]) -> None:
        self._entries: dict[str, Mechanism | str] = dict(places)

    def __getitem__(self, name: str) -> Mechanism:
        entry = self._entries[name]
        if isinstance(entry, str):
            module, _, attribute = entry.partition(":")
            entry = getattr(import_module(module), attribute)
            assert isinstance(entry, Mechanism)
            self._entries[name] = entry
        return entry

    def __setitem__(self, name: str, mechanism: Mechanism) -> None:
        self._entries[name] = mechanism

    def __delitem__(self, name: str) -> None:
        del self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


MECHANISMS = Registry(
    {
        "laplace": "maquette.mechanisms.direct:LAPLACE",
        "linf": "maquette.mechanisms.direct:CUBE",
        "gaussian": "maquette.mechanisms.direct:GAUSSIAN",
        "histogram-laplace": "maquette.mechanisms.direct:HISTOGRAM_LAPLACE",
        "histogram-gaussian": "maquette.mechanisms.direct:HISTOGRAM_GAUSSIAN",
        "residual": "maquette.mechanisms.residual:RESIDUAL",
        "residual-cells": "maquette.mechanisms.residual:RESIDUAL_CELLS",
        "sculpt": "maquette.sculpt.mechanism:SCULPT",
        "smalldb": "maquette.mechanisms.smalldb:SMALLDB",
        "roth": "maquette.mechanisms.roth:ROTH",
        "product": "maquette.mechanisms.product:PRODUCT",
        "knorm": "maquette.mechanisms.knorm:KNORM",
        "tree": "maquette.mechanisms.tree:TREE",
        "square-root": "maquette.mechanisms.square_root:SQUARE_ROOT",
        "factorisation": "maquette.mechanisms.factorisation:FACTORISATION",
        "mw": "maquette.mechanisms.weights:MW",
        "mwem": "maquette.mechanisms.weights:MWEM",
    }
)

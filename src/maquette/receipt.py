"""A place in a ledger's chain: what every released value, release and session carries of its payment."""

from __future__ import annotations

import re
from dataclasses import dataclass

from maquette import _check
from maquette.errors import ParameterError


@dataclass(frozen=True, slots=True)
class Receipt:
    """Whoever keeps one can later tell whether the ledger was cut back or rewritten."""

    sequence: int
    head: str

    @property
    def seq(self) -> int:
        """The sequence, by the name that entries of a ledger have for it."""
        return self.sequence

    @classmethod
    def parse(cls, text: str) -> Receipt:
        """The receipt of its text form, "17:9f86d0..."."""
        if not re.fullmatch(r"[1-9][0-9]{0,17}:[0-9a-f]{64}", text):
            raise ParameterError(
                f"expected a receipt such as 17:<64 hexadecimal digits>, got {_check.shown(text)}"
            )
        sequence, head = text.split(":")
        return cls(int(sequence), head)

    def __str__(self) -> str:
        return f"{self.sequence}:{self.head}"

"""A catalogue of privacy bugs: each is planted into production code for one test, and a check must notice it."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from support.privacy_checks import Check

Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Bug:
    """How a bug is planted, and the check that notices it."""

    name: str
    plant: Plant
    check: Check


class Catalogue(list[Bug]):
    """Bugs in the order in which they are written down."""

    def bug(self, name: str, check: Check) -> Callable[[Plant], Plant]:
        def add(plant: Plant) -> Plant:
            self.append(Bug(name, plant, check))
            return plant

        return add

    @property
    def checks(self) -> dict[Check, str]:
        """Every check once, by the name of a bug that it notices."""
        return {bug.check: bug.name for bug in self}


def changed(patch: pytest.MonkeyPatch, place: object, name: str, make: Callable) -> None:
    """Replace a function by one that is made from the original."""
    patch.setattr(place, name, make(getattr(place, name)))

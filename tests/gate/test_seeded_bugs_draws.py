"""Privacy bugs planted into weighted draws, judged databases and the tree: the conformance checks catch each."""

from __future__ import annotations

import numpy as np
import pytest

from maquette.core import curator as gate
from maquette.core import prices
from maquette.core.curator import Curator
from maquette.core.measurement import NoisyCounts, Receipt, Size
from maquette.domain import Relation
from maquette.samplers import draw as production
from maquette.samplers.brackets import Scale
from maquette.theory.quantiles import law_at
from support import privacy_checks as checks
from support.privacy_cases import QUESTION_CASES, apart, steps
from support.privacy_conformance import mechanism_case
from support.privacy_doubles import CAUGHT

pytestmark = pytest.mark.privacy

ROTH = mechanism_case("roth", queries=apart, rows=2, weight="a")
TREE = mechanism_case("tree", queries=steps)
JUDGE = next(case for case in QUESTION_CASES if case.name == "judge thresholds, pure")
CHECKS = {
    "roth": checks.of_case(ROTH, Relation.ADD_REMOVE),
    "tree": checks.of_case(TREE, Relation.REPLACE_ONE),
    "judge": checks.of_case(JUDGE, Relation.ADD_REMOVE),
}


def heavy_records(patch):
    """Weights up to 8: the score moves by eight times what was paid for."""
    patch.setattr(
        production, "scale_of", lambda asked: Scale(asked.m, asked.resolution, asked.weight.grid // 8)
    )


def true_total(patch):
    """The total weight as it is, as if it were public."""

    def total(self, weight, *, price):
        held = production.weighted_view(self._engine, weight).size()
        return Size(-(-held // weight.grid), None, None)

    patch.setattr(Curator, "total", total)


def total_in_cells(patch):
    """The total counted on the grid of the weights, with noise for one record of weight 1/grid."""

    def in_cells(engine, weight):
        return np.array([production.weighted_view(engine, weight).size()])

    patch.setattr(gate, "total_weight", in_cells)


def one_node_per_level(patch):
    """A replaced record moves two nodes of every level; the gate charges for one."""
    patch.setattr(prices, "table_sensitivity", lambda relation: 1)


def exact_judgement(patch):
    """The certificate of a drawn database without noise."""

    def score_of(self, draw, *, price):
        error = production.error_of(draw.draw, draw.values, self._engine)
        return NoisyCounts(np.array([error]), law_at(price, unit=self.unit), Receipt(1, "0" * 64))

    patch.setattr(Curator, "score_of", score_of)


def fine_judgement(patch):
    """An error in tenths of a count, with noise for whole counts."""
    real = production.error_of
    patch.setattr(production, "error_of", lambda asked, values, table: 10 * real(asked, values, table))


@pytest.mark.parametrize(
    ("name", "plant"),
    [
        ("roth", heavy_records),
        ("roth", true_total),
        ("roth", total_in_cells),
        ("tree", one_node_per_level),
        ("judge", exact_judgement),
        ("judge", fine_judgement),
    ],
    ids=lambda given: given if isinstance(given, str) else given.__name__,
)
def test_the_bug_is_caught(name, plant, monkeypatch):
    plant(monkeypatch)
    with pytest.raises(CAUGHT):
        CHECKS[name]()


@pytest.mark.parametrize("name", CHECKS)
def test_the_check_passes_without_the_bug(name):
    CHECKS[name]()

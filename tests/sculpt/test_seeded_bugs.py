"""Privacy bugs that a mechanism which measures in stages invites. Planted here, each must be caught."""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from maquette.core import curator as gate
from maquette.core import prices
from maquette.core.budget import Cost
from maquette.core.curator import Curator
from maquette.core.events import SelectionEvent
from maquette.core.measurement import Size
from maquette.core.rows.engine import Engine
from maquette.domain import Relation
from maquette.sculpt.bins import Hierarchy
from support import privacy_checks as checks
from support.privacy_cases import CONCENTRATED, DELTA, LINE, pairs
from support.privacy_conformance import Case, mechanism_case
from support.privacy_doubles import CAUGHT

pytestmark = pytest.mark.privacy

AR, REP = Relation.ADD_REMOVE, Relation.REPLACE_ONE


def _opposed(curator):
    """One table and two public guesses at it; replacing a record moves one score up and the other down."""
    first, second = LINE, replace(LINE, cuts=((0, 1),))
    references = [np.array([5, 0, 0]), np.array([0, 5])]
    price = Fraction(6, 700)
    return curator.select_tables([first, second], references, np.array([0, 0]), count=1, price=price)


OPPOSED = checks.of_case(Case("opposed tables", CONCENTRATED, _opposed), REP)
WHOLE = checks.of_case(mechanism_case("sculpt", queries=pairs, delta=DELTA, rows=30, epsilon=2.0), AR)
REPLAYED = checks.of_case(mechanism_case("sculpt", queries=pairs, delta=DELTA, rows=30, epsilon=20.0), AR)


def wrong_l2(patch):
    """Replace-one moves two cells of a table, charged as one."""
    patch.setattr(prices, "table_sensitivity", lambda relation: 1)


def halved_noise(patch):
    """Half the noise that was paid for."""
    real = prices.Prices.tables

    def plan(*args, **options):
        made = real(*args, **options)
        return replace(made, widths=tuple(width / 2 for width in made.widths))

    patch.setattr(prices.Prices, "tables", plan)


def counted_twice(patch):
    """A record that is counted in two bins: the first bin holds all records."""
    real = Engine.binned

    def binned(self, tables):
        found = [counts.copy() for counts in real(self, tables)]
        for counts in found:
            counts[0] = counts.sum()
        return found

    patch.setattr(Engine, "binned", binned)


def wrong_score(patch):
    """A vector of distances charged like one distance."""
    real = gate.distance_sensitivity
    patch.setattr(gate, "distance_sensitivity", lambda count, relation: real(1, relation))


def permute_and_flip(patch):
    """Permute-and-flip run in rho and charged like the exponential mechanism."""
    real = prices.Prices.choices

    def plan(self, count, price):
        return replace(real(self, count, price), method="permute-and-flip")

    patch.setattr(prices.Prices, "choices", plan)


def choices_at_one_price(patch):
    """Several choices, one of them paid."""
    real = prices.Prices.choices

    def plan(self, count, price):
        made = real(self, 1, price)
        free = SelectionEvent(Fraction(0), made.event.events[0].method)
        return replace(made, event=replace(made.event, events=(*made.event.events, *[free] * (count - 1))))

    patch.setattr(prices.Prices, "choices", plan)


def unpaid_size(patch):
    """The true number of records, for nothing."""
    patch.setattr(Curator, "size", lambda self, *, price: Size(self._engine.size(), None, None))


def _asked_engines(patch):
    """The tables that were measured, in a list that grows: what a curator must keep to itself."""
    engines = []
    real = Curator.measure_tables

    def measure(self, binned, *, variances):
        engines.append(self._engine)
        return real(self, binned, variances=variances)

    patch.setattr(Curator, "measure_tables", measure)
    return engines


def exact_bins(patch):
    """Bins cut at the true medians."""
    engines = _asked_engines(patch)

    def from_counts(cls, domain, counts, *, max_codes=0):
        del max_codes
        true = [engines[-1].margins([(name,)])[name,].astype(float) for name in domain.names]
        return cls(domain, tuple(_cuts(table) for table in true))

    patch.setattr(Hierarchy, "from_counts", classmethod(from_counts))


def exact_levels(patch):
    """Pairs in fine or in coarse bins, as the true number of records has it."""
    engines = _asked_engines(patch)

    def resolving_levels(self, shape, heaviest, *, limit, max_cells):
        del heaviest, limit, max_cells
        coarse = engines[-1].size() % 2
        return tuple(coarse * (len(self.cuts[a]) - 1) for a in shape.attributes)

    patch.setattr(Hierarchy, "resolving_levels", resolving_levels)


def _cuts(counts):
    """Two bins, the second from the first value that any record has."""
    first = int(np.argmax(counts > 0))
    return (tuple(range(len(counts))), tuple(sorted({0, first})))


def unpaid_again(patch):
    """A second measurement of tables rides on the first one's payment."""
    real = Curator._ask
    paid = set()

    def ask(self, event, request, look, **more):
        if request["ask"] == "tables" and id(self) in paid:
            event = _Free(event)
        paid.add(id(self))
        return real(self, event, request, look, **more)

    patch.setattr(Curator, "_ask", ask)


class _Free:
    def __init__(self, event):
        self.tag, self.to_dict = event.tag, event.to_dict

    def cost(self, unit):
        return Cost(0)

    def costs(self, *args, **more):
        return (Cost(0),)


CATALOGUE: list[tuple[Callable, checks.Check]] = [
    (wrong_l2, checks.exactly("tables, rho", REP)),
    (wrong_l2, checks.exactly("tables, pure", REP)),
    (wrong_l2, checks.exactly("select tables, pure", REP)),
    (halved_noise, checks.exactly("tables, rho")),
    (halved_noise, checks.exactly("tables, pure")),
    (halved_noise, WHOLE),
    (counted_twice, checks.exactly("tables, rho")),
    (counted_twice, checks.exactly("tables, pure")),
    (wrong_score, checks.exactly("distances, rho")),
    (permute_and_flip, OPPOSED),
    (choices_at_one_price, checks.exactly("select tables, pure")),
    (unpaid_size, WHOLE),
    (exact_bins, REPLAYED),
    (exact_levels, REPLAYED),
    (unpaid_again, WHOLE),
]


@pytest.mark.parametrize(
    ("plant", "check"), CATALOGUE, ids=[f"{p.__name__}-{i}" for i, (p, _) in enumerate(CATALOGUE)]
)
def test_the_bug_is_caught(plant, check, monkeypatch):
    check()
    plant(monkeypatch)
    with pytest.raises(CAUGHT):
        check()

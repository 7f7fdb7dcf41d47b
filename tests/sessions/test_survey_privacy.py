"""A survey loses no more than it is charged, on neighbouring tables, in whatever way the ledger counts a delta."""

import pytest

from maquette.domain import Relation
from support.online_survey import weigh

pytestmark = pytest.mark.privacy


@pytest.mark.parametrize("accounting", ["zcdp", "gaussian"])
@pytest.mark.parametrize("relation", list(Relation))
def test_the_draws_of_a_survey_lose_what_is_charged_and_hardly_less(relation, accounting):
    found = weigh(relation, accounting)
    assert found.surveys == 2
    assert found.lost <= found.charged
    assert found.lost > found.charged * (1 - 1e-6)

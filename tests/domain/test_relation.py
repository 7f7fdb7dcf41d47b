"""Relations by name: two words, and no third."""

import pytest

from maquette.domain import Relation
from maquette.errors import ParameterError


def test_a_relation_is_found_by_its_name_and_by_itself():
    for relation in Relation:
        assert Relation.named(str(relation)) is relation
        assert Relation.named(relation) is relation


def test_another_word_is_refused_with_the_words_that_would_do():
    with pytest.raises(ParameterError, match="expected relation to be one of add-remove, replace-one"):
        Relation.named("swap")

"""What the core holds a reader to: as many rows of every column, and codes inside their attribute."""

import numpy as np
import pyarrow as pa
import pytest

from maquette.core.attribute import Attribute, Kind
from maquette.core.errors import SourceError
from maquette.core.rows import coding
from maquette.core.rows.loading import load
from maquette.core.rows.source import Source
from maquette.core.universe import Universe

DOMAIN = Universe((Attribute("a", Kind.ORDINAL, codes=3), Attribute("b", Kind.ORDINAL, codes=300)))


class Given(Source):
    """A reader that gives batches as they are, whatever their lengths."""

    description = "given"
    header = ("a", "b")
    likely_rows = 1

    def __init__(self, *batches):
        self._batches = batches

    def kind(self, column):
        return pa.int64()

    def batches(self, columns):
        for batch in self._batches:
            yield {name: pa.array(batch[name]) for name in columns}, 1.0


LENGTHS = {
    "the first is longer": {"a": [0, 1, 2], "b": [5, 6]},
    "the second is longer": {"a": [0], "b": [5, 6]},
    "one is empty": {"a": [], "b": [5]},
}


@pytest.mark.parametrize("limit", [None, 0])
@pytest.mark.parametrize("batch", LENGTHS.values(), ids=LENGTHS)
def test_columns_of_different_lengths_are_refused_when_the_table_is_opened(batch, limit):
    good = {"a": [0, 1], "b": [7, 8]}
    for batches in ([batch], [good, batch]):
        with pytest.raises(SourceError, match="different lengths"):
            load(Given(*batches), DOMAIN, memory_limit=limit, progress=None)


@pytest.mark.parametrize("limit", [None, 0])
def test_as_many_records_as_the_reader_gave(limit):
    batches = [{"a": [0, 1], "b": [7, 8]}, {"a": [], "b": []}, {"a": [9], "b": [None]}]
    assert load(Given(*batches), DOMAIN, memory_limit=limit, progress=None).size() == 3


def test_a_code_outside_its_attribute_becomes_the_last_cell_by_itself(monkeypatch):
    """No other record's code decides it, so that one wrong code moves one record."""
    monkeypatch.setattr(
        coding.Coder, "code", lambda self, column: np.array(column.to_pylist(), dtype=self.dtype)
    )
    codes = coding.coded(
        coding.coders(DOMAIN), {"a": pa.array([0, 2, 3, 200]), "b": pa.array([0, 299, 300, 65535])}
    )
    assert codes["a"].tolist() == [0, 2, 2, 2]
    assert codes["b"].tolist() == [0, 299, 299, 299]

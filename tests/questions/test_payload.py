"""Released whole numbers as bytes, and back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from maquette.core.measurement import pack, unpack

whole = arrays.arrays(np.int64, arrays.array_shapes(min_dims=1, max_dims=2, min_side=0, max_side=6))


@given(st.lists(whole, max_size=4))
def test_what_is_packed_comes_back(tables):
    back = unpack(pack(tables))
    assert len(back) == len(tables)
    for one, other in zip(tables, back, strict=True):
        assert other.dtype == np.int64
        assert one.shape == other.shape
        assert np.array_equal(one, other)


@pytest.mark.parametrize("edge", [0, 127, 128, -128, 2**15 - 1, 2**15, 2**31 - 1, 2**31, -(2**63), 2**63 - 1])
def test_edges_of_the_integer_types(edge):
    (back,) = unpack(pack([np.array([edge, 0, 1])]))
    assert back.tolist() == [edge, 0, 1]


def test_small_numbers_take_little_room():
    assert len(pack([np.ones(10_000, dtype=np.int64)])) < 10_500
    assert len(pack([np.full(10_000, 2**40)])) > 80_000


def test_objects_are_neither_packed_nor_loaded():
    import io

    buffer = io.BytesIO()
    np.save(buffer, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="allow_pickle"):
        unpack(buffer.getvalue())

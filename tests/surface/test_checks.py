"""Argument checks: what each lets through and what it refuses, in one wording."""

import numpy as np
import pytest

from maquette.core import _check
from maquette.errors import ParameterError


@pytest.mark.parametrize("value", [0, 0.0, 0.5, np.float64(0.25), np.nextafter(1.0, 0.0)])
def test_a_fraction_or_zero(value):
    _check.fraction_or_zero(share=value)


@pytest.mark.parametrize("value", [1, 1.0, -1e-300, float("nan"), float("inf"), True, False, "0.5", None])
def test_what_is_no_fraction_is_refused(value):
    with pytest.raises(ParameterError, match="expected 0 <= share < 1, got share="):
        _check.fraction_or_zero(share=value)


def test_a_fraction_is_not_zero():
    _check.fraction(beta=1e-300)
    with pytest.raises(ParameterError, match="expected 0 < beta < 1, got beta=0"):
        _check.fraction(beta=0)


@pytest.mark.parametrize("value", [-1e-300, float("nan"), float("inf"), True, "1", None])
def test_a_number_that_is_not_negative(value):
    _check.not_negative(weight=0)
    with pytest.raises(ParameterError, match="expected weight >= 0 and finite, got weight="):
        _check.not_negative(weight=value)


def test_why_a_folder_takes_no_file(tmp_path):
    assert _check.kept_from_writing(tmp_path) is None
    assert _check.kept_from_writing(tmp_path / "gone") == "does not exist"
    tmp_path.chmod(0o555)
    try:
        assert _check.kept_from_writing(tmp_path) == "is marked read-only"
    finally:
        tmp_path.chmod(0o755)

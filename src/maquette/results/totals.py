"""The number of records of a release as well as it is known: by measured tables where their sums know it better."""

from __future__ import annotations

from typing import NamedTuple

from maquette.mechanisms import sizing
from maquette.questions.measurement import Size
from maquette.sculpt.model import SculptModel


class Records(NamedTuple):
    """About how many records there are, and between which ends."""

    least: float
    value: float
    most: float


def records(size: Size, model: object, *, beta: float) -> Records:
    """The number of records out of a released size and the model of a release.

    Accuracy: between both ends, except with the part of beta that is set aside for the number of records
        (`sizing.SIZE_BETA`). Which of the two says it follows from the kind of model: where sculpt measured tables of
        one attribute, their sums are combined with the size by their precision (`SculptModel.total`). The other
        mechanisms measure the size as well as their answers need it, and no other residual knows it.
    """
    if isinstance(model, SculptModel):
        value, error = model.total(beta=beta)
    else:
        value, error = float(size.divisor), sizing.size_error(size, beta)
    return Records(max(value - error, 0.0), value, value + error)

"""What is believed about the table after the gate: public models, all of them post-processing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from maquette.domain import Domain
from maquette.errors import ReleaseError

if TYPE_CHECKING:
    from maquette.models.histogram import HistogramModel
    from maquette.models.residual import ResidualModel
    from maquette.models.sculpt import SculptModel


def from_arrays(
    domain: Domain, spec: dict[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> HistogramModel | ResidualModel | SculptModel:
    """A stored model: the JSON and the arrays that its `to_arrays` gave."""
    from maquette.models.histogram import HistogramModel
    from maquette.models.residual import ResidualModel
    from maquette.models.sculpt import SculptModel

    if not isinstance(spec, dict):
        raise ReleaseError("expected the model of a release as an object")
    for model in (HistogramModel, ResidualModel, SculptModel):
        if spec.get("kind") == model.kind:
            return model.from_arrays(domain, spec, arrays)
    raise ReleaseError(f"unknown kind of model {spec.get('kind')!r}; a later version may have written it")

"""Several tables that belong together, as their owner declares them."""

from maquette.core.links import Link
from maquette.schema.schema import Schema

__all__ = ["Link", "Schema"]

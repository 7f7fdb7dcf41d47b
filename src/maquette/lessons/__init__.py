"""Things one can watch: mechanisms of the theory on made-up tables, with their whole law. For teaching, never for data.

Nothing here goes through the gate: exact probabilities of a private table are themselves private. Everything takes
plain numbers and returns values that can be printed or drawn.
"""

from maquette.lessons.laws import Law, exponential, smalldb, sparse_vector
from maquette.lessons.pictures import animation, picture
from maquette.lessons.traces import (
    Attack,
    Question,
    Round,
    Sampling,
    Test,
    multiplicative_weights,
    pmw_plan,
    private_multiplicative_weights,
    reconstruction,
    sampling,
    sparse_vector_run,
)

__all__ = [
    "Attack",
    "Law",
    "Question",
    "Round",
    "Sampling",
    "Test",
    "animation",
    "exponential",
    "multiplicative_weights",
    "picture",
    "pmw_plan",
    "private_multiplicative_weights",
    "reconstruction",
    "sampling",
    "smalldb",
    "sparse_vector",
    "sparse_vector_run",
]

"""Things one can watch: mechanisms of the theory on made-up tables, with their whole law. For teaching, never for data.

Nothing here goes through the gate: exact probabilities of a private table are themselves private. Everything takes
plain numbers and returns values that can be printed or drawn.
"""

from maquette.lessons.laws import Law, exponential, laplace, randomised_response, smalldb, sparse_vector
from maquette.lessons.pictures import animation, picture
from maquette.lessons.plane import HalfPlanes, half_planes
from maquette.lessons.traces import (
    Attack,
    Puzzle,
    Question,
    Round,
    Sampling,
    Test,
    Witness,
    multiplicative_weights,
    pmw_plan,
    private_multiplicative_weights,
    puzzles,
    reconstruction,
    sampling,
    sparse_vector_run,
    witness,
)

__all__ = [
    "Attack",
    "HalfPlanes",
    "Law",
    "Puzzle",
    "Question",
    "Round",
    "Sampling",
    "Test",
    "Witness",
    "animation",
    "exponential",
    "half_planes",
    "laplace",
    "multiplicative_weights",
    "picture",
    "pmw_plan",
    "private_multiplicative_weights",
    "puzzles",
    "randomised_response",
    "reconstruction",
    "sampling",
    "smalldb",
    "sparse_vector",
    "sparse_vector_run",
    "witness",
]

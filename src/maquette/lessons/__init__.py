"""Things one can watch: mechanisms of the theory on made-up tables, with their whole law. For teaching, never for data.

Nothing here goes through the gate: exact probabilities of a private table are themselves private. Everything takes
plain numbers and returns values that can be printed or drawn.
"""

from maquette.lessons.laws import Law, exponential, smalldb, sparse_vector
from maquette.lessons.pictures import picture
from maquette.lessons.runs import Attack, Round, Sampling, multiplicative_weights, reconstruction, sampling

__all__ = [
    "Attack",
    "Law",
    "Round",
    "Sampling",
    "exponential",
    "multiplicative_weights",
    "picture",
    "reconstruction",
    "sampling",
    "smalldb",
    "sparse_vector",
]

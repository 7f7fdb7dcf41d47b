"""Small draws load the sampler, not every table library on the machine."""

import subprocess
import sys

import pytest

SCRIPT = """
import sys
from fractions import Fraction
import numpy as np
from maquette.core.noise import SystemNoise
noise, zeros = SystemNoise(), np.zeros(3, dtype=np.int64)
noise.laplace(zeros, scale=Fraction(2))
noise.gaussian(zeros, sigma=2.0)
noise.select(zeros, scale=2.0, method="exponential")
noise.select(zeros, scale=2.0, method="permute-and-flip")
print(sorted({"opendp.measurements", "opendp.prelude", "polars", "sklearn"} & set(sys.modules)))
"""


@pytest.mark.slow
def test_drawing_loads_no_table_library():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['opendp.measurements']"

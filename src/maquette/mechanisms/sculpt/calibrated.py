"""Constants of the expected errors, written by `python -m benchmarks.calibrate --fit`; see `expect`."""

SIMULATIONS = 102
OF_WHOLE_MARGINALS = 36
LARGEST = (0.2974, 0.5612, 0.1308, -0.3216, 0.1221, -0.1463, -0.1117, -0.328)
LARGEST_WITHIN = (0.72, 3.2)
MEAN_L1 = (-0.2172, 0.2239, -0.0437, 0.2159, -0.0402, -0.2709, -0.4111, -0.1243)
MEAN_L1_WITHIN = (0.6, 1.66)
CLEAR_LARGEST = (-0.4559, 0.9921)
CLEAR_LARGEST_WITHIN = (0.7, 1.21)
CLEAR_MEAN_L1 = (0.9453, 1.1403, 0.0193)
CLEAR_MEAN_L1_WITHIN = (0.97, 1.2)

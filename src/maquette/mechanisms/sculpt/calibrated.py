"""Constants of the expected errors, written by `python -m benchmarks.calibrate --fit`; see `expect`."""

SIMULATIONS = 180
OF_WHOLE_MARGINALS = 59
LARGEST = (0.1456, 0.6122, -0.0493, -0.1355, 0.1503, -0.2733, -0.1401, -0.0457)
LARGEST_WITHIN = (0.57, 1.53)
MEAN_L1 = (0.2712, 0.1564, -0.2204, 0.2474, 0.007, -0.192, -0.4829, -0.0012)
MEAN_L1_WITHIN = (0.62, 1.4)
CLEAR_LARGEST = (-0.4109, 0.9973)
CLEAR_LARGEST_WITHIN = (0.79, 1.33)
CLEAR_MEAN_L1 = (0.8693, 1.1203, 0.0133)
CLEAR_MEAN_L1_WITHIN = (0.7, 1.26)

"""Constants of the expected errors, written by `python -m benchmarks.calibrate --fit`; see `expect`."""

SIMULATIONS = 91
OF_WHOLE_MARGINALS = 33
LARGEST = (-0.1068, 0.6143, 0.01, -0.1637, 0.113, -0.1718, -0.0542, -0.1339)
LARGEST_WITHIN = (0.62, 2.77)
MEAN_L1 = (0.0647, 0.1602, -0.1279, 0.2226, -0.0215, -0.3866, -0.511, -0.0519)
MEAN_L1_WITHIN = (0.55, 1.38)
CLEAR_LARGEST = (-0.4135, 0.9875)
CLEAR_LARGEST_WITHIN = (0.68, 1.12)
CLEAR_MEAN_L1 = (0.9907, 1.0432, -0.0551)
CLEAR_MEAN_L1_WITHIN = (0.81, 1.33)

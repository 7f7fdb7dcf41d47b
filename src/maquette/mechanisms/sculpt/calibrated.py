"""Constants of the expected errors, written by `python -m benchmarks.calibrate --fit`; see `expect`."""

SIMULATIONS = 57
OF_WHOLE_MARGINALS = 18
LARGEST = (-0.848, 0.2651, -0.5262, 0.087, 0.3696, 0.0205, -0.549, 0.3849)
LARGEST_WITHIN = (0.45, 1.76)
MEAN_L1 = (1.2237, 0.0757, -0.2003, 0.137, -0.0803, -0.1602, -0.5341, -0.1294)
MEAN_L1_WITHIN = (0.71, 1.3)
CLEAR_LARGEST = 0.7364
CLEAR_LARGEST_WITHIN = (0.85, 1.21)
CLEAR_MEAN_L1 = 1.0942
CLEAR_MEAN_L1_WITHIN = (0.92, 1.35)

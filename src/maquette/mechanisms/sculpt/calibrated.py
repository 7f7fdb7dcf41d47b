"""Constants of the expected errors, written by `python -m benchmarks.calibrate --fit`; see `expect`."""

SIMULATIONS = 145
OF_WHOLE_MARGINALS = 49
LARGEST = (0.1144, 0.613, -0.0531, -0.1129, 0.109, -0.3847, -0.1834, -0.0054)
LARGEST_WITHIN = (0.5, 2.04)
MEAN_L1 = (0.2019, 0.2167, -0.1208, 0.2162, -0.0394, -0.1799, -0.4526, -0.0635)
MEAN_L1_WITHIN = (0.65, 1.43)
CLEAR_LARGEST = (-0.274, 1.0151)
CLEAR_LARGEST_WITHIN = (0.8, 1.22)
CLEAR_MEAN_L1 = (0.9774, 1.1332, 0.0111)
CLEAR_MEAN_L1_WITHIN = (0.81, 1.48)

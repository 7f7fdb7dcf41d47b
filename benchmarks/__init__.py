"""Measurements, each beside its peer in the same run: `python -m benchmarks NAME --data DIR`."""

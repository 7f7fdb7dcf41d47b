"""Rows carved out of noisy tables: denoising, nested bins, the start, the sweeps. All post-processing, all free."""

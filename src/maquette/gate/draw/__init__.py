"""Exact draws of small databases: whole numbers and random bits, from the scores to the draw."""

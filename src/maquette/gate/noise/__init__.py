"""Exact noise and private choice, and where their randomness comes from."""

from maquette.gate.noise.samplers import Noise, SystemNoise

__all__ = ["Noise", "SystemNoise"]

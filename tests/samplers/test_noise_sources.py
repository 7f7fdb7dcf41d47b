"""Production noise has no seed and no state to share; seeded noise is a type of its own and says so."""

import inspect
import os
from fractions import Fraction

import numpy as np
import pytest

from maquette.core.inversion import SystemBits
from maquette.core.noise import SystemNoise
from support.repeatable import STREAM
from support.seeded import SeededNoise

ZEROS = np.zeros(400, dtype=np.int64)


def _draws(noise) -> list[int]:
    return [
        *noise.laplace(ZEROS, scale=Fraction(50)),
        *noise.gaussian(ZEROS, sigma=50.0),
        *noise.cube(ZEROS[:20], base=Fraction(9, 10)),
        *noise.laplace(ZEROS[:20], scale=Fraction(50)),
        *noise.gaussian(ZEROS[:20], sigma=50.0),
        *(noise.select(ZEROS, scale=2.0, method=m) for m in ("exponential", "permute-and-flip")),
    ]


def test_the_tests_of_samplers_draw_what_production_draws():
    """Other tests draw from a stream of their own, in which the same words come again."""
    assert STREAM.source is None
    words = [SystemBits().words(4).tolist() for _ in range(2)]
    for _ in range(2):
        with STREAM.named("a name"):
            words.append(SystemBits().words(4).tolist())
    assert words[0] != words[1]
    assert words[2] == words[3]


def test_system_noise_takes_no_seed():
    assert not inspect.signature(SystemNoise).parameters
    assert not inspect.signature(SystemBits).parameters
    with pytest.raises(TypeError):
        SystemNoise(7)
    with pytest.raises(TypeError):
        SystemNoise(seed=7)
    assert SystemNoise().watermark is None


def test_numpy_seeds_do_not_reach_system_noise():
    np.random.seed(1)  # noqa: NPY002
    first = _draws(SystemNoise())
    np.random.seed(1)  # noqa: NPY002
    assert _draws(SystemNoise()) != first


def test_seeded_noise_repeats_itself_and_is_marked():
    assert _draws(SeededNoise(7)) == _draws(SeededNoise(7))
    assert _draws(SeededNoise(7)) != _draws(SeededNoise(8))
    assert "nothing here is private" in SeededNoise(7).watermark
    assert not isinstance(SeededNoise(7), SystemNoise)


def test_two_sources_of_system_noise_share_nothing():
    assert _draws(SystemNoise()) != _draws(SystemNoise())


def test_forked_processes_draw_different_noise():
    """Also the samplers of opendp, which keep a generator of their own."""
    noise = SystemNoise()
    _draws(noise)
    seen = [_in_child(noise) for _ in range(3)] + [_small(noise)]
    for i, one in enumerate(seen):
        for other in seen[i + 1 :]:
            assert one[0] != other[0], "the operating system's words repeat after a fork"
            assert one[1] != other[1], "the sampler for small requests repeats after a fork"
            assert one[2] != other[2], "the private choice repeats after a fork"


def _small(noise) -> list[list[int]]:
    return [
        noise.gaussian(ZEROS, sigma=50.0).tolist(),
        noise.gaussian(ZEROS[:200], sigma=50.0).tolist(),
        [noise.select(ZEROS, scale=2.0, method="exponential") for _ in range(20)],
    ]


def _in_child(noise) -> list[list[int]]:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, repr(_small(noise)).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        text = pipe.read().decode()
    os.waitpid(child, 0)
    return [[int(v) for v in part.split(",")] for part in text.strip("[]").split("], [")]

"""The seeded double marks everything it touches, down to the files."""

import numpy as np
import pytest

import maquette as mq
from maquette import api
from maquette.queries import marginals
from maquette.results import document
from support.privacy_conformance import TINY
from support.privacy_doubles import table_of
from support.seeded import SeededCurator

HISTOGRAM = (30, 0, 20, 0, 5, 10, 0, 0, 40, 0, 3, 20)
MARK = "nothing here is private"


@pytest.fixture
def made(monkeypatch):
    monkeypatch.setattr(api, "Curator", lambda *args, **given: SeededCurator(*args, **given, seed=5))
    return mq.release(table_of(TINY, HISTOGRAM), marginals(TINY, k=2), epsilon=1.0, ledger="memory")


def test_a_release_with_seeded_noise_says_so_everywhere(made, tmp_path):
    assert MARK in made.watermark
    assert MARK in repr(made)
    assert MARK in made._repr_html_()
    assert MARK in document.dump(made)["watermark"]
    made.save(tmp_path / "folder")
    assert MARK in (tmp_path / "folder" / "release.json").read_text()
    assert MARK in (tmp_path / "folder" / "report.html").read_text()
    assert mq.load(tmp_path / "folder").watermark == made.watermark


def test_a_release_with_real_noise_has_no_watermark():
    made = mq.release(table_of(TINY, HISTOGRAM), marginals(TINY, k=2), epsilon=1.0, ledger="memory")
    assert made.watermark is None
    assert MARK not in repr(made)


@pytest.mark.slow
@pytest.mark.parametrize("post", ["none", "auto"])
@pytest.mark.parametrize("mechanism", ["laplace", "linf", "histogram-laplace"])
def test_released_answers_are_fractions_however_much_noise_there_is(mechanism, post):
    made = mq.release(
        table_of(TINY, HISTOGRAM),
        marginals(TINY, k=2),
        epsilon=0.01,
        mechanism=mechanism,
        post=post,
        ledger="memory",
    )
    assert made.answers.numerators.dtype == np.int64
    assert made.answers.numerators.min() >= 0
    assert made.answers.numerators.max() <= made.answers.denominator

"""Long classes in pieces: the same answers, the same largest errors, the same digest."""

import hashlib
import importlib

import numpy as np
import pytest

from maquette.core.answers import answers_digest, count_errors
from maquette.core.rows.engine import largest_by_part
from maquette.domain import Attribute, Domain, Kind
from maquette.models import answers as held
from maquette.models.answers import Answers, SmallDatabase
from maquette.queries import boxes, marginals, union, weights
from maquette.queries.marginals import Marginals
from support.privacy_doubles import table_of

CUTTING = importlib.import_module("maquette.queries.marginals")  # the package names the function
DOMAIN = Domain(
    tuple(Attribute(name, Kind.ORDINAL, codes=size) for name, size in zip("abc", (4, 3, 2), strict=True))
)
PAIRS = marginals(DOMAIN, k=[1, 2])
MIXED = union(
    PAIRS,
    boxes(DOMAIN, [{"a": (1, 2), "c": (0, 0)}]),
    weights(DOMAIN, [[0.0, 0.25, 0.5, 0.75]], attributes=["a"]),
    marginals(DOMAIN, k=3),
)


def digest(answers: Answers) -> str:
    return answers_digest(answers.numerators, answers.denominator)


@pytest.mark.parametrize("asked", [PAIRS, MIXED])
@pytest.mark.parametrize("most", [1, 7, 12, 10_000])
def test_pieces_are_the_queries_in_order(asked, most):
    found = list(CUTTING.pieces(asked, most=most))
    starts = np.cumsum([0, *(piece.count for _, piece in found)])
    assert [start for start, _ in found] == starts[:-1].tolist()
    assert starts[-1] == asked.count
    assert [piece.text(i) for _, piece in found for i in range(piece.count)] == [
        asked.text(i) for i in range(asked.count)
    ]
    assert all(
        piece.count <= most or len(piece.margins) == 1 for _, piece in found if type(piece) is Marginals
    )
    assert len(found) > 1 or most == 10_000


def rows() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    return {a.name: rng.integers(0, a.size, 50).astype(np.uint8) for a in DOMAIN}


@pytest.mark.parametrize("asked", [PAIRS, MIXED])
def test_answers_of_rows_do_not_depend_on_the_pieces(asked, monkeypatch):
    whole = SmallDatabase(rows()).answer(asked)
    monkeypatch.setattr(CUTTING, "MAX_PIECE_QUERIES", 5)
    monkeypatch.setattr(held, "MAX_PIECE_QUERIES", 5)
    cut = SmallDatabase(rows()).answer(asked)
    assert whole.numerators.dtype == np.int64
    assert cut.numerators.dtype == np.int32
    assert cut.denominator == whole.denominator
    assert np.array_equal(cut.numerators, whole.numerators)
    assert digest(cut) == digest(whole)
    plain = hashlib.sha256(str(whole.denominator).encode() + whole.numerators.tobytes()).hexdigest()
    assert digest(whole) == plain


@pytest.mark.parametrize("asked", [PAIRS, MIXED])
def test_largest_errors_do_not_depend_on_the_pieces(asked, monkeypatch):
    counts = np.random.default_rng(4).integers(0, 9, DOMAIN.size)
    engine = table_of(DOMAIN, counts)._engine
    answers = Answers.from_fractions(np.random.default_rng(5).random(asked.count))
    groups = [(g.start, g.stop) for g in asked.groups()]
    exact = asked.on_histogram(counts.reshape(DOMAIN.shape))
    errors = count_errors(exact, asked.denominator, answers, int(counts.sum()))
    expected = [errors[a:b].max() for a, b in groups]
    assert largest_by_part(engine, asked.to_forms(), answers, groups).tolist() == expected
    monkeypatch.setattr(type(engine), "cells_per_pass", 5)
    assert len(list(asked.to_forms().pieces(DOMAIN.sizes, most=5))) > 3
    assert largest_by_part(engine, asked.to_forms(), answers, groups).tolist() == expected


def test_narrow_numerators_do_not_overflow():
    big = 2**30
    wide, narrow = (Answers(np.array([big, 3], dtype=kind), big) for kind in (np.int64, np.int32))
    exact = np.array([10, 20], dtype=np.int64)
    found = [count_errors(exact, 1, answers, 48_842).tolist() for answers in (wide, narrow)]
    assert found[0] == found[1] == [48_832, 20]

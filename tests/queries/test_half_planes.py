"""All half-spaces of a grid of two attributes, against every set of cells and every pair of records."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

import maquette as mq
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.errors import WorkloadError
from maquette.queries import from_json, halfspaces, parse_workload, to_json
from maquette.queries.dimension import shatters, vc_dimension
from maquette.queries.dimension_interval import dimension_interval
from maquette.queries.halfspaces import value
from maquette.queries.merging import merge

pytestmark = pytest.mark.law


def grid(first: int, second: int, **options) -> Domain:
    sizes = {"x": first, "y": second}
    return Domain(tuple(Attribute(n, Kind.ORDINAL, codes=size, **options) for n, size in sizes.items()))


UNEVEN = Domain(
    (
        Attribute("x", Kind.NUMERIC, edges=(0, 1, 2.5, 7)),
        Attribute("y", Kind.ORDINAL, categories=(10, 3, 4), nullable=True),
    )
)
DOMAINS = {
    "two by two": grid(2, 2),
    "three by three": grid(3, 3),
    "two by five": grid(2, 5, overflow=True),
    "three by four": grid(3, 4),
    "uneven": UNEVEN,
}


def separable(domain: Domain) -> set[frozenset[tuple[int, ...]]]:
    """The sets of declared cells that no three or four cells forbid (Radon's partitions, Kirchberger's theorem)."""
    codes = list(product(*(range(one.cells) for one in domain)))
    points = [tuple(value(one, code) for one, code in zip(domain, cell, strict=True)) for cell in codes]
    parts = [part for some in combinations(range(len(points)), 3) if (part := between(points, some))]
    parts += [part for some in combinations(range(len(points)), 4) if (part := radon(points, some))]
    masks = np.arange(2 ** len(points))
    allowed = np.ones(len(masks), dtype=bool)
    for here, there in parts:
        one, other = sum(1 << i for i in here), sum(1 << i for i in there)
        allowed &= ((masks & one) != one) | ((masks & other) != 0)
        allowed &= ((masks & other) != other) | ((masks & one) != 0)
    return {frozenset(c for i, c in enumerate(codes) if mask >> i & 1) for mask in masks[allowed].tolist()}


def area(p, q, r):
    return (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0])


def between(points, some):
    """A cell on the segment of two others, and these."""
    if area(*(points[i] for i in some)):
        return None
    first, middle, last = sorted(some, key=lambda i: points[i])
    return [middle], [first, last]


def radon(points, some):
    """The two sides of the only affine dependence of four cells of which no three are on a line."""
    p, q, r, s = (points[i] for i in some)
    signs = [area(q, r, s), -area(p, r, s), area(p, q, s), -area(p, q, r)]
    if not all(signs):
        return None
    return [i for i, sign in zip(some, signs, strict=True) if sign > 0], [
        i for i, sign in zip(some, signs, strict=True) if sign < 0
    ]


def all_records(domain: Domain) -> dict[str, np.ndarray]:
    cells = np.array(list(product(*(range(one.size) for one in domain)))).T
    return {one.name: codes for one, codes in zip(domain, cells, strict=True)}


@pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
def test_every_set_that_a_line_cuts_off_comes_once(domain):
    queries, records = halfspaces(domain, ["x", "y"]), all_records(domain)
    cells = list(zip(records["x"].tolist(), records["y"].tolist(), strict=True))
    cut = [
        frozenset(c for c, inside in zip(cells, row, strict=True) if inside)
        for row in queries.columns_of(records)
    ]
    assert len(cut) == queries.count
    assert len(set(cut)) == len(cut)
    assert set(cut) == separable(domain)


def test_the_counts_of_small_square_grids():
    """Twice the ways to part n x n points by a line, which are 1, 7, 29, 87, 201, 419."""
    assert [halfspaces(grid(n, n), ["x", "y"]).count // 2 for n in range(2, 7)] == [7, 29, 87, 201, 419]


@pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
def test_sensitivities_are_those_of_all_neighbours(domain):
    queries = halfspaces(domain, ["x", "y"])
    matrix = queries.columns_of(all_records(domain)).astype(int)
    added = matrix.sum(axis=0).max()
    replaced = np.abs(matrix[:, :, None] - matrix[:, None, :]).sum(axis=0).max()
    for relation, worst in ((Relation.ADD_REMOVE, added), (Relation.REPLACE_ONE, replaced)):
        said = queries.sensitivity(relation)
        assert (said.l1, said.l2_squared, said.linf) == (worst, worst, 1)
    form = queries.form()
    assert form.added(domain.sizes).l1 == added
    assert form.replaced(domain.sizes).l1 == replaced


@pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
def test_three_cells_are_shattered_and_no_four(domain):
    found = vc_dimension(halfspaces(domain, ["x", "y"]))
    assert found.value == 3
    assert shatters(halfspaces(domain, ["x", "y"]), found.points)


def test_a_large_grid_is_known_by_its_dimension():
    queries = halfspaces(grid(16, 16), ["x", "y"])
    assert queries.count == 40_150
    assert dimension_interval(queries, effort=1000).high == 3


def test_answers_are_those_of_the_inequalities():
    domain = grid(5, 6)
    queries = halfspaces(domain, ["y", "x"])
    rng = np.random.default_rng(4)
    rows = {"x": rng.integers(0, 5, 300), "y": rng.integers(0, 6, 300)}
    for index in rng.integers(0, queries.count, 40).tolist():
        a, b = queries.normals[index]
        plain = np.count_nonzero(a * rows["x"] + b * rows["y"] >= queries.thresholds[index])
        assert queries.on_rows(rows)[index] == plain


def test_complements_are_asked_once():
    queries = halfspaces(grid(3, 3), ["x", "y"])
    assert merge(queries).queries.count == 28 == queries.distinct()


def test_the_class_by_its_word_and_in_a_file():
    domain = DOMAINS["uneven"]
    queries = halfspaces(domain, ["x", "y"])
    assert parse_workload(domain, ["halfspaces:x,y"]) == queries
    assert parse_workload(domain, ["halfspaces: Y, x"]) == queries
    assert from_json(domain, to_json(queries)) == queries


def test_a_release_states_the_largest_error_over_all_of_them(tmp_path):
    domain = grid(6, 6)
    queries = halfspaces(domain, ["x", "y"])
    rng = np.random.default_rng(8)
    rows = {"x": rng.integers(0, 6, 3000), "y": rng.integers(2, 6, 3000)}
    table = mq.open(rows, domain, name="people")
    release = mq.release(table, queries, epsilon=1.0, beta=1e-6, ledger=tmp_path / "people.ledger")
    worst = np.abs(release.answers.fractions - queries.on_rows(rows) / 3000).max()
    assert release.rows is not None
    assert release.certificate is not None
    assert 0 < worst <= release.certificate.alpha < 0.05


@pytest.mark.parametrize(
    ("domain", "attributes", "message"),
    [
        (grid(3, 3), ["x"], "two attributes of two or more cells each, got x"),
        (grid(1, 3), ["x", "y"], "two or more cells each"),
        (grid(40, 40), ["x", "y"], "1,600 cells, more than 512; declare coarser cells"),
        (grid(20, 20), ["x", "y"], "more than 65,536 half-spaces"),
        (
            Domain((*grid(3, 3), Attribute("c", Kind.CATEGORICAL, categories=("u", "v", "w")))),
            ["x", "c"],
            "'c' is",
        ),
        (
            Domain(tuple(Attribute(n, Kind.NUMERIC, edges=tuple(2.0**i for i in range(15))) for n in "xy")),
            ["x", "y"],
            "directions, more than 4,096",
        ),
    ],
)
def test_what_is_no_grid_of_two_columns(domain, attributes, message):
    with pytest.raises(WorkloadError, match=message):
        halfspaces(domain, attributes)


def test_normals_come_with_thresholds():
    with pytest.raises(WorkloadError, match="together"):
        halfspaces(grid(3, 3), ["x", "y"], [[1, 1]])

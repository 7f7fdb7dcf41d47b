"""Every answer of a saved release says by itself what it is about."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import maquette as mq
from maquette.errors import ReleaseError
from maquette.results.answer_file import answer_tables, check_described
from maquette.results.columns import key_batches
from support.made_release import toy_domain, toy_release

DOMAIN = toy_domain()


def described(release: mq.Release, length: int = 7) -> list[dict]:
    return pa.concat_tables(answer_tables(release, length=length), promote_options="default").to_pylist()


def test_cells_of_tables_are_spelled_out():
    release = toy_release()
    rows = described(release)
    assert len(rows) == release.workload.count
    for i in (0, 3, 11, 17, release.workload.count - 1):
        row = rows[i]
        names = row["table"].split(", ")
        values = [row["value_1"], row["value_2"]][: len(names)]
        assert row["numerator"] == release.answers.numerators[i]
        assert row["share"] == pytest.approx(release.answers.fractions[i], rel=1e-6)
        query = release.workload.text(i)
        assert all(name in query for name in names)
        counted = np.ones(release.database.m, dtype=bool)
        for name, value in zip(names, values, strict=True):
            labels = [DOMAIN[name].label(c) for c in range(DOMAIN[name].size)]
            counted &= np.array([labels[c] for c in release.database.columns[name]]) == value
        assert counted.mean() == pytest.approx(release.answers.fractions[i])
        assert (row["value_2"] is None) == (len(names) == 1)


@pytest.mark.parametrize("length", [1, 7, 2**20])
def test_tables_of_any_length_say_the_same(length):
    assert described(toy_release(), length) == described(toy_release(), 2**20)


def test_other_queries_have_their_text_and_may_stand_beside_tables():
    workload = mq.union(
        mq.marginals(DOMAIN, k=1), mq.prefixes(DOMAIN, "age"), mq.where(DOMAIN, "sex = 'Male'")
    )
    rows = described(toy_release(workload))
    other = mq.marginals(DOMAIN, k=1).count
    assert rows[0]["query"] is None
    assert rows[0]["table"] == "age"
    assert [row["query"] for row in rows[other:]] == [workload.text(i) for i in range(other, workload.count)]
    assert rows[-1]["table"] is None


def test_the_error_is_the_one_that_is_stated():
    release = toy_release()
    rows = described(release)
    for group, bound in zip(release.workload.groups(), release.certificate.groups, strict=True):
        errors = {row["error"] for row in rows[group.start : group.stop]}
        assert len(errors) == 1
        assert min(bound.alpha, 0.02) < errors.pop() < min(bound.alpha, 0.02) * 1.001
    vacuous = toy_release(certificate=None, guarantee=mq.results.Guarantee(1.0, 0.05, "nothing"))
    assert {row["error"] for row in described(vacuous)} == {None}


@pytest.mark.slow
def test_attributes_with_very_many_cells_are_described():
    domain = mq.Domain.from_dict(
        {
            "attributes": [
                {"name": "x", "kind": "numeric", "bounds": [0, 2**21], "bins": 2**21, "integer": True}
            ]
        }
    )
    batches = list(key_batches(mq.marginals(domain, k=1)))
    assert sum(b.num_rows for b in batches) == 2**21
    assert batches[1].column("value_1")[0].as_py() == domain["x"].label(2**20)


def test_a_saved_release_is_described_and_an_edited_description_is_noticed(tmp_path):
    release = toy_release()
    place = release.save(tmp_path / "r") / "answers.parquet"
    stored = pq.read_table(place)
    assert stored.schema.metadata[b"denominator"] == str(release.answers.denominator).encode()
    assert stored.column_names[:2] == ["numerator", "deviation"]
    check_described(release, place)
    for name, value in (("table", "sex"), ("value_1", "Male"), ("share", 0.9), ("error", 0.0001)):
        column = stored[name].to_pylist()
        column[5] = value
        where = stored.column_names.index(name)
        pq.write_table(stored.set_column(where, name, pa.array(column)), place)
        with pytest.raises(ReleaseError, match="beside the answers"):
            check_described(release, place)
    pq.write_table(stored.drop_columns(["error"]), place)
    with pytest.raises(ReleaseError, match="beside the answers"):
        check_described(release, place)
    pq.write_table(stored.select(["numerator", "deviation"]), place)
    check_described(release, place)  # as earlier versions wrote it

"""The release object: what it shows, what it refuses, what its rows are."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from maquette.core.laws import Gaussian
from maquette.core.measurement import Size
from maquette.domain import Domain, Relation
from maquette.errors import ParameterError, ReleaseError
from maquette.models.answers import Answers, SmallDatabase
from maquette.queries import marginals
from maquette.results import Certificate, Guarantee
from maquette.results import release as release_module
from support.made_release import toy_columns, toy_domain, toy_release


def test_rows_are_decoded_with_missing_cells_as_nulls():
    release = toy_release()
    table = release.rows
    assert table.column_names == ["age", "sex", "region"]
    assert table.num_rows == 500
    codes = release.database.columns["age"]
    ages = table["age"].to_pylist()
    assert all((age is None) == (code == 9) for age, code in zip(ages, codes, strict=True))
    assert all(
        10 * code <= age < 10 * code + 10 for age, code in zip(ages, codes, strict=True) if age is not None
    )
    assert set(table["region"].to_pylist()) == {"north", "south", "west", "(other)"}
    assert table.to_pandas().shape == (500, 3)


def test_uniform_rows_stay_in_their_cells_and_differ_from_midpoints():
    release = toy_release()
    drawn = release.decode_rows(rng=np.random.default_rng(1))["age"].to_pylist()
    codes = release.database.columns["age"]
    assert all(age is None or min(age // 10, 8) == code for age, code in zip(drawn, codes, strict=True))
    assert drawn != release.rows["age"].to_pylist()


def test_categories_of_several_types_become_text():
    domain = Domain.from_dict(
        {"attributes": [{"name": "a", "kind": "categorical", "categories": ["x", 1, 2.5]}]}
    )
    release = toy_release(marginals(domain, k=1))
    assert set(release.rows["a"].to_pylist()) == {"x", "1", "2.5"}


def test_a_release_of_answers_only_says_so_when_asked_for_rows():
    release = toy_release(rows=False)
    assert release.database is None
    with pytest.raises(ReleaseError, match="answers only"):
        _ = release.rows
    assert "answers only" in repr(release)


def test_answers_must_match_the_workload():
    domain = toy_domain()
    with pytest.raises(ReleaseError, match="3 answers to 84 queries"):
        toy_release(marginals(domain, k=[1, 2]), answers=Answers(np.zeros(3, dtype=np.int64), 1))
    with pytest.raises(ReleaseError, match="one standard deviation per answer"):
        toy_release(deviations=np.zeros(3))
    with pytest.raises(ParameterError, match="0 < beta < 1"):
        toy_release(beta=1.5)


def test_the_headline_takes_the_certificate_or_where_none_was_bought_the_guarantee():
    assert toy_release().headline == (
        "Every one of these 84 answers is within 2.0 points of the truth, except with probability 5 %."
    )
    assert "within 5.0 points" in toy_release(certificate=None).headline
    vacuous = Guarantee(1.0, 0.05, "nothing")
    assert "No useful bound" in toy_release(certificate=None, guarantee=vacuous).headline
    useless = Certificate(1.0, 0.05, 500.0)  # picking the other bound now would fail more often than it says
    assert "No useful bound" in toy_release(certificate=useless).headline


def test_the_headline_of_one_query_is_singular():
    release = toy_release(marginals(toy_domain(), attributes=[()]))
    assert release.headline.startswith("The one answer is within")


def test_the_repr_states_the_facts():
    text = repr(toy_release())
    for fact in (
        "epsilon = 1, delta = 1e-06",
        "add-remove",
        "histogram-gaussian",
        "500 synthetic rows",
        "(noisy)",
    ):
        assert fact in text
    public = toy_release(size=Size(500, None, None), relation=Relation.REPLACE_ONE)
    assert "500 (public)" in repr(public)


def test_a_watermark_is_on_everything():
    release = toy_release(watermark="seeded noise")
    assert "NOT PRIVATE" in repr(release)
    assert "seeded noise" in repr(release)
    assert "seeded noise" in release._repr_html_()
    assert "seeded noise" in release.report()
    assert "NOT PRIVATE" not in repr(toy_release())


def test_the_html_repr_escapes_what_it_shows():
    release = toy_release(mechanism="<script>alert(1)</script>")
    assert "<script>" not in release._repr_html_()
    assert "&lt;script&gt;" in release._repr_html_()


def test_answers_table_has_words_answers_and_noise(monkeypatch):
    release = toy_release()
    table = release.answers_table()
    assert table.num_rows == 84
    assert table["query"][10].as_py() == release.workload.text(10)
    assert table["answer"].to_pylist() == release.answers.fractions.tolist()
    assert "deviation" not in toy_release(deviations=None).answers_table().column_names
    monkeypatch.setattr(release_module, "LARGEST_TABLE", 83)
    with pytest.raises(ReleaseError, match="too many to list at once"):
        release.answers_table()


def test_the_version_is_this_one_unless_stored():
    from maquette import __version__

    assert toy_release(version="").version == __version__
    assert toy_release(version="0.0.1").version == "0.0.1"


def test_a_release_does_not_change():
    with pytest.raises(AttributeError):
        toy_release().beta = 0.5  # pyright: ignore[reportAttributeAccessIssue]


def test_toy_columns_use_every_cell():
    domain = toy_domain()
    columns = toy_columns(domain)
    assert all(len(set(columns[a.name].tolist())) == a.size for a in domain)
    assert SmallDatabase(columns).m == 500
    assert toy_release(size=Size(0, Gaussian(Fraction(1), Fraction(1)), None)).size.divisor == 1

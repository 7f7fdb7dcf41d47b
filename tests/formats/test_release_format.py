"""Release folders of every format so far still load, and say what they said.

The folders were written once, by the version that introduced the format: format 1 in `releases/`, format 2 (classes too
large to list) in `releases_2/`. They are never made again.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from maquette.errors import ReleaseError
from maquette.queries import where
from maquette.results import document, knowledge, loading

HOMES = {
    file.parent.name: file.parent for file in sorted(Path(__file__).parent.glob("releases*/*/expected.json"))
}
MADE_UP = {("format2", "thresholds"): {"sex = 'Male'"}}
"""Questions about attributes that no measurement of the folder looked at: the version that wrote it made answers up."""
NARROWER = {
    ("histogram", "sex = 'Male'"): 0.24849414147282156,
    ("histogram", "age >= 60 and sex = 'Male'"): 0.12166221852438144,
    ("answers-only", "a0 < 7"): 0.14181153019309056,
    ("answers-only", "a3 = 4"): 0.09828021579908691,
}
"""Errors of shares of measured tables: the number of records is a part of Fieller's interval since. Those of a
histogram hold beside its certificate, with three quarters of beta; none is above what the folder said."""
EXPECTED = {
    (version, name): facts
    for version, home in HOMES.items()
    for name, facts in json.loads((home / "expected.json").read_text()).items()
}


def test_there_is_a_folder_of_every_format():
    assert {version for version, _ in EXPECTED} == {f"format{i + 1}" for i in range(document.FORMAT)}


@pytest.mark.parametrize(("version", "name"), EXPECTED)
def test_it_loads_and_says_what_it_said(version, name):
    release, facts = loading.load(HOMES[version] / name), EXPECTED[version, name]
    assert release.database is None or set(release.database.columns) == set(release.workload.attributes)
    assert release.mechanism == facts["mechanism"]
    assert release.guarantee.alpha == facts["guarantee"]
    assert (release.certificate and release.certificate.alpha) == facts["certificate"]
    assert [str(x) for x in release.answers.numerators[:5]] == facts["answers"]
    assert (release.database and release.database.m) == facts["rows"]
    assert release.version == "0.1.0"


@pytest.mark.parametrize(("version", "name"), EXPECTED)
def test_it_answers_as_it_did(version, name):
    release = loading.load(HOMES[version] / name)
    for question, (value, error, source) in EXPECTED[version, name]["questions"].items():
        if question in MADE_UP.get((version, name), ()):
            with pytest.raises(ReleaseError, match="not measured by this release"):
                release.answer(question)
            continue
        found = release.answer(question)
        assert found.value == pytest.approx(value)
        assert found.error == pytest.approx(NARROWER.get((name, question), error))
        assert found.error <= error * (1 + 1e-9)
        assert found.source == source


@pytest.mark.parametrize(
    ("question", "alone"),
    [("sex = 'Male'", 0.24415328818261728), ("age >= 60 and sex = 'Male'", 0.11715302869811248)],
)
def test_a_certificate_beside_a_histogram_takes_a_quarter_of_the_chance_and_no_more(question, alone):
    """`alone` is what the noise says with the whole chance; the first question is one of the workload's."""
    release = loading.load(HOMES["format1"] / "histogram")
    query = where(release.workload.domain, question)
    among = release.workload.count if query.attributes == ("sex",) else 1

    def error(part):
        found = release.model.estimate(query, beta=part * release.beta, among=among)
        return found[1]

    assert error(1.0) == pytest.approx(alone)
    assert release.answer(question).error == pytest.approx(error(knowledge.MODEL_PART))
    assert release.answer(question).error < 1.04 * alone


@pytest.mark.parametrize(("version", "name"), EXPECTED)
def test_it_can_be_reported_and_saved_again(version, name, tmp_path):
    release = loading.load(HOMES[version] / name)
    assert release.headline in release.report().replace("\u00a0", " ")
    again = loading.load(release.save(tmp_path / "again", report=False))
    assert document.dump(again) == document.dump(release)

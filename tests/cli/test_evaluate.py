"""`maquette evaluate` and `mq.evaluate`: true errors, marked as not private, and nothing else touched."""

from __future__ import annotations

import ast
import hashlib
import inspect
from pathlib import Path

import numpy as np
import pytest

import maquette as mq
from maquette.audit.evaluate import WARNING, compare
from maquette.errors import ReleaseError
from maquette.models.answers import Answers, Unlisted
from maquette.owner import exact_answers
from maquette.results import Certificate
from support.cli_files import Desk, call, desk, refused
from support.made_release import toy_release

ROOT = Path(__file__).parents[2]
MARK = "NOT PRIVATE, NOT FOR RELEASE"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    own = desk(tmp_path_factory.mktemp("evaluated"))
    assert own.release("--total-epsilon", 3, "--mechanism", "histogram-laplace").code == 0
    return own


def digests(*places: Path) -> dict[str, str]:
    files = [f for place in places for f in ([place] if place.is_file() else sorted(place.rglob("*")))]
    return {str(f): hashlib.sha256(f.read_bytes()).hexdigest() for f in files if f.is_file()}


def opened(own: Desk) -> tuple[mq.Release, mq.Table]:
    release = mq.load(own.place)
    return release, mq.open(own.table, domain=release.domain)


@pytest.mark.slow
def test_the_figures_are_the_true_errors(made):
    release, table = opened(made)
    found = mq.evaluate(release, table)
    truth = table._engine.answer(release.workload.to_forms()) / table._engine.size()
    off = np.abs(release.answers.fractions - truth)
    assert release.database is not None
    rows_off = np.abs(release.database.answer(release.workload).fractions - truth)
    places = list(release.workload.slices.values())  # pyright: ignore[reportAttributeAccessIssue]
    whole, first, second = found.groups
    assert (whole.name, first.name, second.name) == ("all queries", "1-way marginals", "2-way marginals")
    assert whole.answers.largest == pytest.approx(off.max())
    assert whole.answers.mean == pytest.approx(off.mean())
    assert whole.answers.l1 == pytest.approx(np.mean([off[p].sum() for p in places]))
    assert whole.rows is not None
    assert whole.rows.largest == pytest.approx(rows_off.max())
    assert whole.rows.l1 == pytest.approx(np.mean([rows_off[p].sum() for p in places]))
    ones = sum(len(off[p]) for p in places[:3])
    assert first.queries == ones
    assert first.answers.largest == pytest.approx(off[:ones].max())
    assert second.answers.mean == pytest.approx(off[ones:].mean())
    assert found.records == 400
    assert found.worst[0].rows is not None
    assert found.worst[0].rows.l1 == pytest.approx(max(rows_off[p].sum() for p in places))


def test_the_share_within_the_stated_error_can_fail():
    release = toy_release()
    exact = np.rint(release.answers.fractions * 500).astype(np.int64)
    good = compare(release, exact, denominator=1, records=500)
    assert good.groups[0].stated == 0.02
    assert good.groups[0].held == 1.0
    assert good.groups[0].intervals.held == 1.0
    assert good.groups[0].intervals.promised == 0.95
    assert good.groups[0].answers.largest < 1e-8
    shifted = exact.copy()
    shifted[: len(exact) // 2] += 30
    bad = compare(release, shifted, denominator=1, records=500)
    assert bad.groups[0].held == pytest.approx(1 - (len(exact) // 2) / len(exact))
    assert bad.groups[0].intervals.held is not None
    assert bad.groups[0].intervals.held < 0.7
    assert bad.groups[0].answers.largest == pytest.approx(0.06, abs=1e-6)


def test_nothing_is_said_to_hold_where_nothing_is_stated():
    vacuous = Certificate(1.0, 0.05, 500.0, ())
    release = toy_release(certificate=vacuous, rows=False)
    found = compare(release, np.zeros(len(release.answers), np.int64), denominator=1, records=500)
    assert found.groups[0].stated is None
    assert found.groups[0].held is None
    assert found.groups[0].rows is None
    assert found.groups[0].intervals.asked == 0
    assert found.groups[0].intervals.held is None


def test_rows_and_answers_are_told_apart():
    plain = toy_release()
    release = toy_release(answers=Answers.from_fractions(np.clip(plain.answers.fractions + 0.01, 0, 1)))
    exact = np.rint(plain.answers.fractions * 500).astype(np.int64)
    found = compare(release, exact, denominator=1, records=500).groups[0]
    assert found.rows is not None
    assert found.answers.mean == pytest.approx(0.01, abs=1e-6)
    assert found.rows.largest < 1e-8


def test_other_classes_than_marginals_have_no_l1():
    domain = toy_release().domain
    union = mq.union(mq.prefixes(domain, "age"), mq.where(domain, "sex = 'Male'"), mq.marginals(domain, k=1))
    release = toy_release(union)
    exact = np.rint(release.answers.fractions * 500).astype(np.int64)
    exact[0] += 10
    found = compare(release, exact, denominator=1, records=500)
    assert [g.answers.l1 is None for g in found.groups[1:]] == [True, True, False]
    assert found.groups[1].answers.largest == pytest.approx(0.02, abs=1e-6)
    assert found.groups[2].answers.largest < 1e-8


@pytest.mark.slow
def test_the_command_prints_marked_figures_and_writes_a_marked_page(made):
    ended = call("evaluate", made.place, made.table, "--quiet")
    assert ended.code == 0, ended
    assert ended.out.startswith(MARK)
    assert "2-way marginals" in ended.out
    assert "errors in points" in ended.out
    assert "rows" in ended.out
    page = Path(f"{made.table}.evaluation-not-private.html")
    text = page.read_text()
    assert text.count(MARK) >= 2
    assert "<svg" in text
    assert "<script" not in text
    assert "http" not in text.replace("http-equiv", "")
    assert page.stat().st_mode & 0o077 == 0
    page.unlink()


def test_the_command_in_json(made):
    ended = call(
        "evaluate", made.place, made.table, "--domain", made.domain, "--json", "--no-page", "--quiet"
    )
    assert next(iter(ended.json)) == "warning"
    assert ended.json["warning"] == WARNING
    assert ended.json["page"] is None
    assert ended.json["groups"][0]["answers"]["largest"] > 0
    assert not list(made.folder.glob("*evaluation*"))


@pytest.mark.slow
def test_the_release_and_the_ledger_stay_as_they_are(made):
    before = digests(made.place, made.ledger)
    assert call("evaluate", made.place, made.table, "--quiet", "-o", made.folder / "page.html").code == 0
    assert digests(made.place, made.ledger) == before
    assert not Path(f"{made.table}.ledger").exists()
    (made.folder / "page.html").unlink()


@pytest.mark.parametrize("inside", ["page.html", "report.html", "deep/page.html", "."])
def test_a_page_inside_a_release_folder_is_refused(made, inside):
    before = digests(made.place)
    ended = call("evaluate", made.place, made.table, "--quiet", "-o", made.place / inside)
    refused(ended, "does not belong in the release folder")
    assert digests(made.place) == before


def test_another_domain_is_refused(made, tmp_path):
    release, _ = opened(made)
    other = release.domain.project(("age", "sex"))
    other.save(tmp_path / "other.json")
    ended = call("evaluate", made.place, made.table, "--domain", tmp_path / "other.json", "--quiet")
    refused(ended, "different domains")


@pytest.mark.slow
def test_a_place_that_cannot_be_written_is_said(made):
    ended = call("evaluate", made.place, made.table, "--quiet", "-o", made.folder / "no" / "page.html")
    refused(ended, "cannot write")


@pytest.mark.slow
def test_exact_answers_are_asked_for_in_one_place_only():
    """The unpaid look has one caller; a second one would be a hole in the gate."""
    unpaid = {"exact_answers", "Truth", "is_table_of"}
    home = Path(inspect.getfile(exact_answers))
    users = set()
    for path in (ROOT / "src/maquette").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.alias(name=name) | ast.Name(id=name) | ast.Attribute(attr=name) if name in unpaid:
                    users.add(path)
    assert users == {home, ROOT / "src/maquette/audit/evaluate.py"}


def test_the_truth_does_not_show_itself(made):
    release, table = opened(made)
    assert repr(exact_answers(table, release.workload)) == f"Truth({len(release.answers):,} private answers)"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"answers": Unlisted(500), "deviations": None}, "lists no answers"),
        ({"parameters": {"weight": "age"}}, "weighs its records"),
    ],
)
def test_releases_that_cannot_be_compared_are_refused_before_the_table_is_looked_at(made, changes, words):
    table = mq.open(made.table, domain=mq.load(made.place).domain)
    with pytest.raises(ReleaseError, match=words):
        mq.evaluate(toy_release(**changes), table)


def test_an_evaluation_is_marked_in_every_form(made):
    found = mq.evaluate(*opened(made))
    assert str(found).startswith(MARK)
    assert found.page().count(MARK) >= 2
    assert next(iter(found.to_dict())) == "warning"


@pytest.mark.slow
def test_another_table_is_refused_where_the_ledger_is_at_hand(made, tmp_path):
    release, table = opened(made)
    assert mq.evaluate(release, table, ledger=made.ledger).table.startswith("known to the ledger")
    assert mq.evaluate(release, table).table.startswith("not checked")
    lines = made.table.read_text().splitlines()
    changed = tmp_path / "changed.csv"
    changed.write_text("\n".join([*lines[:-1], "11,Male,west"]) + "\n")  # one record is another
    other = mq.open(changed, domain=release.domain)
    with pytest.raises(ReleaseError, match="not the table that the release was made from"):
        mq.evaluate(release, other, ledger=made.ledger)
    assert mq.evaluate(release, other).table.startswith("not checked")  # as many records, and no ledger
    page = ("-o", tmp_path / "page.html")
    refused(call("evaluate", made.place, changed, *page), "not the table that the release was made from")
    done = call("evaluate", made.place, made.table, *page, "--json")
    assert done.json["table"].startswith("known to the ledger")


def test_another_number_of_records_is_refused_without_a_ledger(made, tmp_path):
    release, _ = opened(made)
    twice = tmp_path / "twice.csv"
    lines = made.table.read_text().splitlines()
    twice.write_text("\n".join([*lines, *lines[1:]]) + "\n")
    with pytest.raises(ReleaseError, match="another number of records"):
        mq.evaluate(release, mq.open(twice, domain=release.domain))


def test_a_ledger_that_did_not_pay_is_refused(made, tmp_path):
    release, table = opened(made)
    mq.release(table, mq.marginals(release.domain, k=1), epsilon=1.0, ledger=tmp_path / "other.ledger")
    with pytest.raises(ReleaseError, match="did not pay"):
        mq.evaluate(release, table, ledger=tmp_path / "other.ledger")

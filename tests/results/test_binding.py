# type: ignore  (annotations of tests are not checked)
"""The ledger knows everything that a release states: an edited folder is refused wherever the ledger is at hand."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import maquette as mq
from maquette import api
from maquette.accounting.ledger import Ledger
from maquette.core.budget import UNITS
from maquette.releasing.certify import SHARE
from maquette.releasing.plan import CertificateChoice, Plan, decided
from maquette.results import binding, loading
from support.cli_files import call, refused
from support.edited_folder import edit_arrays, edit_json, edit_table
from support.made_release import toy_columns, toy_domain

DOMAIN = toy_domain()
ASKED = {"epsilon": 1.0, "mechanism": "histogram-laplace", "total_epsilon": 5.0}


def table(rows: int = 400) -> mq.Table:
    coded = toy_columns(DOMAIN, rows)
    return mq.open({a.name: a.decode(coded[a.name])[0].tolist() for a in DOMAIN}, domain=DOMAIN)


def made(folder: Path, **options: object) -> mq.Release:
    return mq.release(
        table(), mq.marginals(DOMAIN, k=2), ledger=folder / "people.ledger", **(ASKED | options)
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bound")
    made(folder).save(folder / "people.maquette")
    return folder


@pytest.fixture
def own(home: Path, tmp_path: Path) -> Path:
    """A copy of the ledger and the folder of its own."""
    shutil.copytree(home, tmp_path / "home")
    return tmp_path / "home" / "people.maquette"


def first_plus_one(table: pa.Table, name: str) -> pa.Table:
    values = table[name].to_pylist()
    values[0] += 1
    place = table.column_names.index(name)
    return table.set_column(place, name, pa.array(values, type=table.schema.field(name).type))


EDITS = {
    "certificate": lambda f: edit_json(f, "release.json", lambda d: d["certificate"].update(alpha=0.001)),
    "certificate taken away": lambda f: edit_json(f, "release.json", lambda d: d.update(certificate=None)),
    "guarantee": lambda f: edit_json(f, "release.json", lambda d: d["guarantee"].update(alpha=0.001)),
    "epsilon": lambda f: edit_json(f, "release.json", lambda d: d["budget"].update(epsilon=0.1)),
    "spent": lambda f: edit_json(f, "release.json", lambda d: d["account"].update(spent=0.0)),
    "notes": lambda f: edit_json(f, "release.json", lambda d: d["notes"].append("audited")),
    "date": lambda f: edit_json(f, "release.json", lambda d: d.update(created="2020-01-01T00:00:00+00:00")),
    "a new field": lambda f: edit_json(f, "release.json", lambda d: d.update(audited=True)),
    "size": lambda f: edit_json(f, "release.json", lambda d: d["size"].update(value=10**6)),
    "domain": lambda f: edit_json(f, "domain.json", lambda d: d.update(na_values=["?"])),
    "workload": lambda f: edit_json(f, "workload.json", lambda d: d["queries"]["margins"].reverse()),
    "an answer": lambda f: edit_table(f, "answers.parquet", lambda t: first_plus_one(t, "numerator")),
    "a code": lambda f: edit_table(
        f,
        "codes.parquet",
        lambda t: t.set_column(1, "sex", pc.xor(t["sex"].cast("bool"), True).cast("uint8")),
    ),
    "a row": lambda f: edit_table(
        f, "rows.parquet", lambda t: t.set_column(1, "sex", t["sex"].take([0] * len(t)))
    ),
    "the model": lambda f: edit_arrays(f, lambda a: a["cells"].__setitem__((0, 0, 0), 1e6)),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_is_found_where_the_ledger_is_at_hand(own, edit):
    EDITS[edit](own)
    with pytest.raises(mq.ReleaseError, match="not what ledger 'dict' recorded"):
        mq.load(own)
    with pytest.raises(mq.ReleaseError, match="not what ledger 'dict' recorded"):
        mq.load(own, ledger=own.parent / "people.ledger")


def test_what_is_written_beside_the_answers_is_held_too(own):
    edit_table(own, "answers.parquet", lambda t: t.set_column(3, "value_1", t["value_1"].take([1] * len(t))))
    with pytest.raises(mq.ReleaseError, match="not what they are about"):
        mq.load(own)
    refused(
        call("ledger", "verify", own.parent / "people.ledger", "--release", own), "not what they are about"
    )


def test_an_edited_certificate_passes_no_command(own):
    EDITS["certificate"](own)
    ledger = own.parent / "people.ledger"
    refused(call("answer", own, "sex = 'Male'"), "not what ledger")
    refused(call("report", own), "not what ledger")
    refused(call("ledger", "verify", ledger, "--release", own), "not what ledger")
    moved = own.rename(own.parent.parent / "elsewhere")
    assert call("answer", moved, "sex = 'Male'").code == 0  # no ledger at hand: the docs say so
    refused(call("answer", moved, "sex = 'Male'", "--ledger", ledger), "not what ledger")
    refused(call("ledger", "verify", ledger, "--release", moved), "not what ledger")


def test_what_was_released_is_bound_wherever_it_is_saved(own):
    ledger = own.parent / "people.ledger"
    assert mq.load(own).checked == "bound"
    again = mq.load(own).save(own.parent / "again")
    assert mq.load(again).checked == "bound"
    moved = own.rename(own.parent.parent / "moved")
    assert mq.load(moved).checked == "no ledger at hand"
    assert "not checked" in mq.load(moved).facts()["ledger"]
    assert mq.load(moved, ledger=ledger).checked == "bound"
    with Ledger.open(ledger) as book:
        assert mq.load(moved, ledger=book).checked == "bound"
    done = call("ledger", "verify", ledger, "--release", moved)
    assert done.code == 0
    assert "unchanged since the release was made" in done.out
    assert call("ledger", "verify", ledger, "--release", moved, "--json").json["release"] == "bound"


def test_other_bytes_with_the_same_values_are_the_same_release(own):
    for name in ("answers.parquet", "codes.parquet", "rows.parquet"):
        edit_table(own, name, lambda t: t, compression="none", use_dictionary=False, row_group_size=100)
    assert mq.load(own).checked == "bound"


@pytest.mark.slow
def test_a_repeat_adds_nothing_to_the_ledger_until_something_else_was_spent(own):
    home = own.parent
    with Ledger.open(home / "people.ledger") as book:
        before = book.balance().head.seq
        assert made(home).save(home / "b").name == "b"
        assert book.balance().head.seq == before
        made(home, epsilon=0.5)
        made(home).save(home / "c")
        book.verify()
    assert [mq.load(home / name).checked for name in "bc"] == ["bound", "bound"]
    assert mq.load(own).checked == "bound"


def test_a_folder_of_a_version_that_bound_nothing_is_not_bound(tmp_path, monkeypatch):
    monkeypatch.setattr(api, "bind", lambda *_, **__: None)
    place = made(tmp_path).save(tmp_path / "old")
    assert mq.load(place).checked == "not bound"
    done = call("ledger", "verify", tmp_path / "people.ledger", "--release", place)
    assert done.code == 0
    assert "not bound" in done.out


def test_another_ledger_is_refused_and_one_beside_is_passed_over(own):
    home = own.parent
    mq.release(
        table(300), mq.marginals(DOMAIN, k=2), ledger=home / "other.ledger", **ASKED
    )  # the same request and key
    (home / "broken.ledger").write_text("not a ledger")
    assert mq.load(own).checked == "bound"
    with pytest.raises(mq.ReleaseError, match="did not pay"):
        mq.load(own, ledger=home / "other.ledger")
    (home / "people.ledger").rename(home.parent / "people.ledger")
    assert mq.load(own).checked == "no ledger at hand"


def test_the_digest_of_a_release_is_that_of_its_folder(home):
    loaded = mq.load(home / "people.maquette")
    assert binding.content_digest(loaded) == loading._stored(home / "people.maquette").digest()


def test_the_binding_costs_nothing_and_is_shown(home):
    with Ledger.open(home / "people.ledger") as book:
        (entry,) = [e for e in book.entries(kind="reserve") if e.tag == "binding"]
        assert (entry.units, entry.slack) == (0, 0)
        assert book.balance().head.seq == book.find(entry.key).answered.seq  # the last of the release
    assert "what the release states" in call("ledger", "show", home / "people.ledger").out


def test_a_request_that_an_earlier_version_ran_otherwise_says_what_to_do(tmp_path, monkeypatch):
    """One that decided otherwise whether the certificate is bought: the answers had another price and other noise."""

    def otherwise(plan: Plan, **options: Any) -> Plan:
        sure = decided(plan, **options)
        other = CertificateChoice(0.0 if sure.certificate.share else SHARE)
        return Plan.of(sure.request, sure.mechanism, other, paid_size=sure.paid_size)

    with monkeypatch.context() as earlier:
        earlier.setattr(api, "decided", otherwise)
        first = made(tmp_path)
    with Ledger.open(tmp_path / "people.ledger") as book:
        before = (book.receipt(), book.balance())
    with pytest.raises(mq.KeyReused, match=r"made before.*nothing was paid.*load it.*another key") as refusal:
        made(tmp_path)
    assert len(str(refusal.value)) < 500
    with Ledger.open(tmp_path / "people.ledger") as book:
        assert (book.receipt(), book.balance()) == before
    again = made(tmp_path, key="again")
    assert (again.certificate is None) != (first.certificate is None)
    assert again.account is not None
    assert again.account.spent > before[1].charged_units / UNITS


def test_a_key_of_another_request_is_refused_by_its_name(own):
    made(own.parent, key="mine")
    with pytest.raises(mq.KeyReused, match="'mine' was used before for another request; give each request"):
        made(own.parent, key="mine", beta=0.1)

"""The release folder: whole or not at all, and only as it was written."""

from __future__ import annotations

import errno
import json
import os
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from maquette.core.laws import Gaussian, Laplace
from maquette.core.measurement import Receipt, Size
from maquette.domain import Domain
from maquette.errors import ReleaseError
from maquette.models.answers import Answers
from maquette.models.histogram import HistogramModel
from maquette.queries import marginals
from maquette.results import Certificate, Guarantee, Release, answer_file, document, loading, replacing
from maquette.results import folder as store
from support.edited_folder import mend_hashes, places, value_at, write_at
from support.made_release import toy_release


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return toy_release().save(tmp_path / "toy.maquette", report=False)


def same(a: Release, b: Release) -> None:
    assert document.dump(a) == document.dump(b)
    assert np.array_equal(a.answers.numerators, b.answers.numerators)
    assert a.domain == b.domain
    assert a.workload == b.workload
    assert (a.database is None) == (b.database is None)
    if a.database is not None and b.database is not None:
        assert all(np.array_equal(a.database.columns[n], b.database.columns[n]) for n in a.domain.names)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"certificate": None, "deviations": None, "account": None},
        {"size": Size(7, None, None)},
        {"size": Size(-3, Laplace(Fraction(1, 3), Fraction(3)), None)},
        {"size": Size(9, Gaussian(Fraction(1, 3), Fraction(2, 3)), None)},
        {"size": Size.unknown()},
        {"certificate": Certificate(1.0, 0.05, float("inf"))},
        {"guarantee": Guarantee(float("inf"), 0.1, "none")},
        {"watermark": "test"},
        {"exactness": "heuristic"},
        {"parameters": {"sigma": np.float64(2.5), "share": Fraction(1, 3), "list": [1, (2, 3)]}},
    ],
)
def test_what_is_saved_is_loaded(tmp_path, changes):
    release = toy_release(**changes)
    loaded = loading.load(release.save(tmp_path / "a", report=False))
    if "parameters" in changes:
        assert loaded.parameters == {"sigma": 2.5, "share": "1/3", "list": [1, [2, 3]]}
        loaded = toy_release(**changes)
    same(release, loaded)


def test_a_release_of_answers_only_has_no_rows_file(tmp_path):
    place = toy_release(rows=False).save(tmp_path / "a", report=False)
    assert not (place / store.ROWS).exists()
    assert loading.load(place).database is None


def test_answers_over_a_large_denominator_keep_all_digits(tmp_path):
    release = toy_release(rows=False)
    wide = Answers(release.answers.numerators * 2**20 + 1, 2**50)
    saved = toy_release(rows=False, answers=wide).save(tmp_path / "a", report=False)
    assert np.array_equal(loading.load(saved).answers.numerators, wide.numerators)


def test_stored_deviations_are_never_smaller(tmp_path):
    exact = np.linspace(0.1, 0.2, toy_release().workload.count) / 3
    saved = toy_release(deviations=exact).save(tmp_path / "a", report=False)
    loaded = loading.load(saved).deviations
    assert loaded is not None
    assert (loaded.astype(np.float64) >= exact).all()
    assert (loaded <= exact * (1 + 1e-6)).all()


def test_the_document_is_plain_json_without_a_seed(folder):
    text = (folder / store.MANIFEST).read_text()
    data = json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert data["format"] == 1
    assert "seed" not in text
    assert data["software"]["version"] == "0.1.0"
    assert set(data["files"]) == {
        "answers.parquet",
        "codes.parquet",
        "domain.json",
        "release.sha256",
        "rows.parquet",
        "workload.json",
    }


def test_rows_can_be_read_without_maquette(folder):
    import pandas as pd

    frame = pd.read_parquet(folder / store.ROWS)
    assert list(frame.columns) == ["age", "sex", "region"]
    assert len(frame) == 500


def test_a_strange_parameter_is_refused_before_anything_is_moved_into_place(tmp_path):
    with pytest.raises(TypeError, match="cannot store"):
        toy_release(parameters={"engine": object()}).save(tmp_path / "a", report=False)
    assert list(tmp_path.iterdir()) == []


def test_an_older_release_is_replaced_and_nothing_else_stays(tmp_path):
    place = tmp_path / "a"
    toy_release().save(place, report=False)
    toy_release(rows=False).save(place, report=False, replace=True)
    assert loading.load(place).database is None
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_another_release_is_not_replaced_unless_that_is_asked_for(tmp_path):
    place = tmp_path / "a"
    toy_release(parameters={"key": "one"}).save(place, report=False)
    other = toy_release(parameters={"key": "two"})
    for act in (
        lambda: other.save(place, report=False),
        lambda: store.check_place(place),
        lambda: store.check_place(place, keys=["two"]),
        lambda: toy_release(parameters={"key": "one"}, receipts=(Receipt(9, "ef" * 32),)).save(place),
        lambda: toy_release(parameters={"key": "one"}, receipts=()).save(place),
    ):
        with pytest.raises(ReleaseError, match=r"holds another release, which is not overwritten.*--replace"):
            act()
    assert loading.load(place).parameters == {"key": "one"}
    store.check_place(place, keys=["one"])
    toy_release(parameters={"key": "one"}, notes=("again",)).save(place, report=False)
    assert loading.load(place).notes == ("again",)
    store.check_place(place, replace=True)
    other.save(place, report=False, replace=True)
    assert loading.load(place).parameters == {"key": "two"}


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_something_else_is_not_overwritten(tmp_path, kind):
    place = tmp_path / "thesis"
    if kind == "file":
        place.write_text("my thesis")
    else:
        place.mkdir()
        (place / "thesis.txt").write_text("my thesis")
    with pytest.raises(ReleaseError, match="not a release folder"):
        toy_release().save(place)
    with pytest.raises(ReleaseError, match="not a release folder"):
        store.check_place(place)
    kept = place if kind == "file" else place / "thesis.txt"
    assert kept.read_text() == "my thesis"


def test_an_empty_folder_is_a_fine_place(tmp_path):
    place = tmp_path / "new"
    place.mkdir()
    store.check_place(place)
    toy_release().save(place, report=False)
    assert loading.load(place).workload.count == 84


def full_disk(*_args: object, **_kwargs: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


STEPS = ((answer_file, "write"), (store, "_write_rows"), (replacing, "sync"), (replacing, "move"))


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step[1])
@pytest.mark.parametrize("before", [True, False])
def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch, step, before):
    place = tmp_path / "a"
    if before:
        toy_release(mechanism="older").save(place, report=False)
    monkeypatch.setattr(*step, full_disk)
    with pytest.raises(ReleaseError, match="No space left on device"):
        toy_release().save(place, report=False, replace=True)
    monkeypatch.undo()
    assert [p.name for p in tmp_path.iterdir()] == (["a"] if before else [])
    if before:
        assert loading.load(place).mechanism == "older"


def test_a_failed_second_rename_puts_the_old_release_back(tmp_path, monkeypatch):
    place = tmp_path / "a"
    toy_release(mechanism="older").save(place, report=False)
    rename = Path.rename

    def flaky(self: Path, target: Path) -> Path:
        if self.suffix == ".part":
            full_disk()
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", flaky)
    with pytest.raises(ReleaseError, match="No space left"):
        toy_release().save(place, report=False, replace=True)
    monkeypatch.undo()
    assert loading.load(place).mechanism == "older"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_a_place_that_cannot_be_made_is_refused(tmp_path):
    blocker = tmp_path / "file"
    blocker.write_text("")
    for act in (store.check_place, toy_release().save):
        with pytest.raises(ReleaseError, match="cannot write"):
            act(blocker / "inside" / "a")


def test_write_text_is_whole_or_nothing(tmp_path, monkeypatch):
    target = tmp_path / "report.html"
    store.write_text(target, "one")
    monkeypatch.setattr(Path, "replace", full_disk)
    with pytest.raises(ReleaseError, match="No space left"):
        store.write_text(target, "two")
    monkeypatch.undo()
    assert target.read_text() == "one"
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
    with pytest.raises(ReleaseError, match="cannot write"):
        store.write_text(tmp_path / "absent" / "r.html", "x")


def test_an_absent_or_foreign_folder_is_refused(tmp_path):
    with pytest.raises(ReleaseError, match="no release at"):
        loading.load(tmp_path / "absent")
    with pytest.raises(ReleaseError, match="not a release folder"):
        loading.load(tmp_path)


@pytest.mark.parametrize(
    "name",
    ["answers.parquet", "codes.parquet", "domain.json", "release.sha256", "rows.parquet", "workload.json"],
)
def test_every_file_is_checked(folder, name):
    file = folder / name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(ReleaseError, match=f"{name} was changed"):
        loading.load(folder)
    file.unlink()
    with pytest.raises(ReleaseError, match=f"lacks the file {name}"):
        loading.load(folder)


def rewrite(folder: Path, **changes: object) -> None:
    data = json.loads((folder / store.MANIFEST).read_text())
    kept = {k: v for k, v in (data | changes).items() if v != "gone"}
    (folder / store.MANIFEST).write_text(json.dumps(kept))
    if "files" not in changes:
        mend_hashes(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 3}, "install a newer maquette"),
        ({"format": "one"}, "expected a format number"),
        ({"format": True}, "expected a format number"),
        ({"format": "gone"}, "expected a format number"),
        ({"files": {}}, "does not list the files"),
        ({"files": "gone"}, "does not list the files"),
        ({"budget": {"epsilon": -1.0, "delta": 0.0}}, "expected epsilon > 0"),
        ({"relation": "cousins"}, "does not hold a readable release"),
        ({"size": "gone"}, "does not hold a readable release"),
        ({"beta": 2.0}, "expected 0 < beta < 1"),
    ],
)
def test_a_wrong_document_is_refused(folder, changes, message):
    rewrite(folder, **changes)
    with pytest.raises(ReleaseError, match=message):
        loading.load(folder)


def test_a_manifest_with_any_other_value_is_refused_without_a_ledger(folder):
    manifest = (folder / store.MANIFEST).read_text()
    data = json.loads(manifest)
    fields = [place for place in places(data) if not isinstance(value_at(data, place), dict | list)]
    assert {("watermark",), ("guarantee", "alpha"), ("files", store.SEAL)} <= set(fields)
    for place in fields:
        write_at(folder, place, another(value_at(data, place)))
        with pytest.raises(ReleaseError):
            loading.load(folder)
        (folder / store.MANIFEST).write_text(manifest)
    loading.load(folder)


def another(value: object) -> object:
    """As little else as can be: the next number, a letter more, a text where there was none."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return value + "x"
        case _:
            return "made with test noise"


def test_a_field_more_or_less_is_refused_without_a_ledger(folder):
    manifest = (folder / store.MANIFEST).read_text()
    for changes in ({"audited": True}, {"notes": "gone"}):
        data = {k: v for k, v in (json.loads(manifest) | changes).items() if v != "gone"}
        (folder / store.MANIFEST).write_text(json.dumps(data))
        with pytest.raises(ReleaseError, match=r"release.json was changed"):
            loading.load(folder)


def test_a_folder_of_an_earlier_version_has_no_seal_and_a_seal_is_not_dropped(folder):
    listed = json.loads((folder / store.MANIFEST).read_text())["files"]
    rewrite(folder, files={name: listed[name] for name in listed if name != store.SEAL}, watermark="edited")
    with pytest.raises(ReleaseError, match=r"release.json was changed"):
        loading.load(folder)
    (folder / store.SEAL).unlink()
    assert loading.load(folder).watermark == "edited"


def test_files_outside_the_folder_are_refused(folder):
    listed = json.loads((folder / store.MANIFEST).read_text())["files"]
    rewrite(folder, files=listed | {"../secret": "00"})
    with pytest.raises(ReleaseError, match="lacks the file"):
        loading.load(folder)


def test_a_document_that_is_not_json_is_refused(folder):
    (folder / store.MANIFEST).write_text("{")
    with pytest.raises(ReleaseError, match="cannot be read as JSON"):
        loading.load(folder)
    (folder / store.MANIFEST).write_text("[]")
    with pytest.raises(ReleaseError, match="expected a format number"):
        loading.load(folder)


def test_codes_outside_the_domain_are_refused(tmp_path):
    release = toy_release()
    release.database.columns["sex"][3] = 9  # pyright: ignore[reportOptionalMemberAccess]
    with pytest.raises(ReleaseError, match="'sex' lies outside"):
        loading._read_codes(_codes_file(release, tmp_path), release.domain, {"rows": 500})


def _codes_file(release: Release, tmp_path: Path) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    assert release.database is not None
    pq.write_table(pa.table(release.database.columns), tmp_path / "codes.parquet")
    return tmp_path / "codes.parquet"


def test_a_saved_release_answers_like_the_first(folder):
    first, second = toy_release(), loading.load(folder)
    for query in ("sex = 'Male'", "age >= 60 and sex = 'Male'", "region = 'west' or age < 20"):
        assert first.answer(query) == second.answer(query)


def test_a_million_noisy_answers_take_eight_bytes_each_with_their_keys(tmp_path):
    columns = [{"name": name, "kind": "ordinal", "size": 100} for name in "abc"]
    workload = marginals(Domain.from_dict({"attributes": columns}), k=3)
    noisy = np.random.default_rng(0).integers(0, 2**30, workload.count)
    release = toy_release(
        workload, rows=False, answers=Answers(noisy, 2**30), deviations=np.full(10**6, 0.01)
    )
    place = release.save(tmp_path / "a", report=False)
    assert (place / store.ANSWERS).stat().st_size < 8.4 * 10**6
    assert np.array_equal(loading.load(place).answers.numerators, noisy)


def test_a_model_is_stored_and_answers_as_before(tmp_path):
    release = toy_release()
    cells = np.arange(80.0).reshape(10, 2, 4)
    model = HistogramModel(
        release.domain, release.domain.names, cells, Gaussian(Fraction(1), Fraction(9)), release.size
    )
    first = toy_release(model=model, certificate=None)
    second = loading.load(first.save(tmp_path / "a", report=False))
    answer = second.answer("sex = 'Male' and age >= 60")
    assert answer.source == "model"
    assert answer == first.answer("sex = 'Male' and age >= 60")


def test_an_unknown_model_is_refused(tmp_path):
    class Strange:
        def to_arrays(self):
            return {"kind": "strange"}, {}

    place = toy_release(model=Strange()).save(tmp_path / "a", report=False)
    with pytest.raises(ReleaseError, match="strange"):
        loading.load(place)

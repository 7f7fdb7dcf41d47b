"""Folders that a stranger wrote: whatever is in them, reading and asking ends well or with an error of this package."""

from __future__ import annotations

import json
import random
import shutil
import traceback
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import maquette as mq
from maquette.errors import MaquetteError
from maquette.results import document, loading
from maquette.results import folder as store
from support import hostile_folder
from support.edited_folder import edit_json, mend_hashes
from support.made_release import toy_columns, toy_domain

FORMATS = Path(__file__).parents[1] / "formats"
MUTATIONS = 300
QUESTIONS = ("sex = 'Male'", "age >= 30", "age >= 30 and sex = 'Female' and region = 'west'", "key <= 10")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Every kind of model, rows and format."""
    return make_folders(tmp_path_factory.mktemp("good"))


def make_folders(home: Path) -> list[Path]:
    domain, found = toy_domain(), []
    coded = toy_columns(domain, 400)
    columns = {a.name: a.decode(coded[a.name])[0].tolist() for a in domain}
    for mechanism in ("sculpt", "residual", "histogram-laplace"):
        table = mq.open(columns, domain=domain)
        made = mq.release(
            table,
            mq.marginals(domain, k=2),
            epsilon=2.0,
            delta=0.0 if "laplace" in mechanism else 1e-6,
            mechanism=mechanism,
            ledger="memory",
            groups=True,
        )
        found.append(made.save(home / mechanism, report=False))
    for stored in (
        "releases/format1/union",
        "releases/format1/answers-only",
        "releases_2/format2/thresholds",
    ):
        found.append(Path(shutil.copytree(FORMATS / stored, home / Path(stored).name)))
    return found


def use(folder: Path, *, report: bool) -> str:
    """Read and ask; anything but an error of this package escapes."""
    try:
        made = mq.load(folder)
    except MaquetteError as error:
        return "refused" if len(str(error)) <= 3_000 else "refused at length"
    asked = "asked"
    for question in QUESTIONS:
        try:
            str(made.answer(question))
        except MaquetteError as error:
            asked = "asked in part" if len(str(error)) <= 3_000 else "refused at length"
    repr(made), made.headline, made.facts()
    if report:
        made.report()
    made.save(folder.with_name("again"), report=False, replace=True)
    return asked


def outcomes(folders: list[Path], scratch: Path, seeds: range) -> tuple[Counter[str], list[str]]:
    seen: Counter[str] = Counter()
    wrong: list[str] = []
    for seed in seeds:
        rng = random.Random(seed)
        folder = scratch / "folder"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(rng.choice(folders), folder)
        done = hostile_folder.mutate(folder, rng)
        try:
            seen[use(folder, report=seed % 25 == 0)] += 1
        except Exception as error:  # every kind is a finding
            seen["untyped"] += 1
            place = traceback.extract_tb(error.__traceback__)[-1]
            wrong.append(f"{seed}: {done}: {error!r:.120} at {place.filename}:{place.lineno}")
    return seen, wrong


@pytest.mark.slow
def test_mutations_end_in_typed_errors(folders, tmp_path):
    seen, wrong = outcomes(folders, tmp_path, range(MUTATIONS))
    assert not wrong, "\n".join(wrong)
    assert not seen["refused at length"]
    assert seen["refused"] > MUTATIONS / 2
    assert seen["asked"] + seen["asked in part"] > MUTATIONS / 20  # the harness reaches the questions


def copied(folders: list[Path], name: str, tmp_path: Path) -> Path:
    (one,) = [folder for folder in folders if folder.name == name]
    return Path(shutil.copytree(one, tmp_path / name))


def test_a_header_of_72_tebibytes_is_refused_before_memory_is_taken(folders, tmp_path):
    folder = copied(folders, "histogram-laplace", tmp_path)
    with np.load(folder / "model.npz") as stored:
        arrays = dict(stored)
    hostile_folder._raw(folder / "model.npz", arrays, "cells", "huge")
    mend_hashes(folder)
    with pytest.raises(mq.ReleaseError, match="something else than arrays"):
        loading.load(folder)
    hostile_folder._raw(folder / "model.npz", arrays, "cells", "huge", more=False)
    mend_hashes(folder)
    with pytest.raises(mq.ReleaseError, match="declares another size"):
        loading.load(folder)


@pytest.mark.slow
def test_rows_that_nothing_declares_are_not_read(folders, tmp_path, monkeypatch):
    folder = copied(folders, "union", tmp_path)
    hostile_folder.bomb(folder, 2**26)
    assert (folder / "answers.parquet").stat().st_size < 2**20
    mend_hashes(folder)
    monkeypatch.setattr("pyarrow.parquet.ParquetFile.read", lambda *_, **__: pytest.fail("read"))
    with pytest.raises(mq.ReleaseError, match="rows where the release declares"):
        loading.load(folder)


def test_what_does_not_fit_into_memory_is_refused(folders, tmp_path, monkeypatch):
    folder = copied(folders, "histogram-laplace", tmp_path)

    class Little:
        available = 1_000

    monkeypatch.setattr("psutil.virtual_memory", lambda: Little)
    with pytest.raises(mq.ReleaseError, match="GB of memory are free"):
        loading.load(folder)


@pytest.mark.parametrize("depth", [document.MAX_DEPTH, 2_000, 100_000])
@pytest.mark.parametrize("name", ["release.json", "domain.json", "workload.json"])
def test_deep_documents_are_refused(folders, tmp_path, name, depth):
    folder = copied(folders, "union", tmp_path)
    text = (folder / name).read_text(encoding="utf-8")
    (folder / name).write_text(text.replace("{", '{"deep": ' + "[" * depth + "]" * depth + ",", 1))
    if name != "release.json":
        mend_hashes(folder)
    with pytest.raises(mq.ReleaseError, match=r"nested deeper|cannot be read as JSON"):
        loading.load(folder)


@pytest.mark.parametrize("text", ["\ud800", "\udfff tail", "a\ud83d"])
def test_half_characters_are_refused(folders, tmp_path, text):
    folder = copied(folders, "union", tmp_path)
    edit_json(folder, "release.json", lambda d: d.update(notes=["\U0001f600 is whole"]))
    assert loading.load(folder).notes == ("\U0001f600 is whole",)
    edit_json(folder, "release.json", lambda d: d.update(notes=[text]))
    with pytest.raises(mq.ReleaseError, match="cannot be read as JSON"):
        loading.load(folder)


def test_numbers_too_small_for_words_are_refused(folders, tmp_path):
    folder = copied(folders, "union", tmp_path)
    edit_json(folder, "release.json", lambda d: d["guarantee"].update(alpha=1e-320))
    with pytest.raises(mq.ReleaseError, match=r"guarantee\.alpha"):
        loading.load(folder)


def test_long_documents_are_refused_unread(folders, tmp_path, monkeypatch):
    folder = copied(folders, "union", tmp_path)
    monkeypatch.setattr(document, "MAX_TEXT", 100)
    with pytest.raises(mq.ReleaseError, match="more than the 100"):
        loading.load(folder)


def test_messages_are_bounded(folders, tmp_path):
    folder = copied(folders, "union", tmp_path)
    edit_json(folder, "release.json", lambda d: d.update(relation="r" * 10**6))
    with pytest.raises(mq.ReleaseError) as raised:
        loading.load(folder)
    assert len(str(raised.value)) < 3_000
    text = json.loads((folder / "domain.json").read_text())
    text["attributes"][0]["kind"] = "k" * 10**6
    (folder / "domain.json").write_text(json.dumps(text))
    mend_hashes(folder)
    with pytest.raises(mq.ReleaseError) as raised:
        loading.load(folder)
    assert len(str(raised.value)) < 3_000


@pytest.mark.parametrize("value", ["<script>", 0, -1, None, 1.5, [], True])
def test_a_denominator_is_a_whole_number(folders, tmp_path, value):
    folder = copied(folders, "union", tmp_path)
    edit_json(folder, "release.json", lambda d: d["answers"].update(denominator=value))
    with pytest.raises(mq.ReleaseError, match=r"answers\.denominator"):
        loading.load(folder)


def test_a_sparse_file_is_not_hashed(folders, tmp_path, monkeypatch):
    folder = copied(folders, "union", tmp_path)
    with (folder / "workload.json").open("ab") as stream:
        stream.truncate(20 * 10**9)
    hashed = store.file_hash
    monkeypatch.setattr(
        loading, "file_hash", lambda p: pytest.fail("hashed") if p.name == "workload.json" else hashed(p)
    )
    with pytest.raises(mq.ReleaseError, match="20,000,000,000 bytes"):
        loading.load(folder)

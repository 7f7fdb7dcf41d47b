"""The public site over release folders: every page, every file, and what it refuses."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import threading

import httpx
import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest

import maquette as mq
from maquette.domain import Attribute, Domain, Kind
from maquette.errors import ParameterError, ReleaseError
from maquette.web import asking, explore
from maquette.web import explore as catalogs
from maquette.web.app import public_site
from maquette.web.explore import Catalog, short_name
from maquette.web.once import MadeOnce
from maquette.web.server import MAX_BODY, check_address
from support.browser import served
from support.edited_folder import mend_hashes, places, write_at
from support.made_release import toy_release

OWN = re.compile(r'<script src="/static/[a-z/.-]+\.js" defer></script>')


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return toy_release().save(tmp_path_factory.mktemp("site") / "Toy survey.maquette")


@pytest.fixture(scope="module")
def client(folder):
    with served(public_site(Catalog.of([folder]))) as home, httpx.Client(base_url=home) as client:
        yield client


PAGES = (
    "/releases",
    "/r/toy-survey",
    "/r/toy-survey/explore",
    "/r/toy-survey/explore?by=age",
    "/r/toy-survey/explore?by=age&by=sex",
    "/r/toy-survey/explore?by=age&by=sex&by=region&by=",
    "/r/toy-survey/explore?by=sex&figure=mean(age)&where=region%20%3D%20'north'",
    "/r/toy-survey/sql",
    "/r/toy-survey/sql?q=select sex, count(*) from t group by sex",
    "/r/toy-survey/answer?q=age >= 60",
    "/r/toy-survey/report",
)


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_there_under_a_strict_policy(client, path):
    reply = client.get(path)
    assert reply.status_code == 200
    policy = reply.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert reply.headers["x-content-type-options"] == "nosniff"


def test_pages_hold_no_style_and_no_script_of_their_own(client):
    for path in PAGES[:-1]:
        text = client.get(path).text
        assert " style=" not in text
        assert "<style" not in text
        for script in re.findall(r"<script.*?</script>", text):
            assert OWN.fullmatch(script), script
        assert "http://" not in text
        assert "https://" not in text


def test_bars_and_cells_show_the_certified_error(client):
    bars = client.get("/r/toy-survey/explore?by=sex").text
    assert bars.count('class="fill"') == 2
    assert "±" in bars
    cells = client.get("/r/toy-survey/explore?by=age&by=sex").text
    assert cells.count("<small>±") == 10 * 2


def test_the_answer_is_a_sentence_with_its_error(client):
    text = client.get("/r/toy-survey/answer?q=sex = 'Male'").text
    assert "of the records" in text
    assert "within 1.0 points" in text or "points" in text
    assert "free" in text


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_files_hold_the_table_of_the_page(client, folder, form):
    read = {"csv": pyarrow.csv.read_csv, "parquet": pyarrow.parquet.read_table}[form]
    release = toy_release()
    table = read(io.BytesIO(client.get(f"/r/toy-survey/table.{form}?by=sex").content))
    assert table["count"].to_pylist() == pytest.approx(release.table("sex")["count"].to_pylist())
    rows = read(io.BytesIO(client.get(f"/r/toy-survey/files/rows.{form}").content))
    assert rows.num_rows == release.rows.num_rows
    answers = read(io.BytesIO(client.get(f"/r/toy-survey/files/answers.{form}").content))
    assert answers.num_rows == release.workload.count
    result = read(io.BytesIO(client.get(f"/r/toy-survey/sql.{form}?q=select count(*) from t").content))
    assert result.num_rows == 1


def test_the_link_to_a_file_names_the_table_that_is_shown(client):
    text = client.get("/r/toy-survey/explore").text
    assert "/r/toy-survey/table.csv?by=age" in text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/r/nobody", 404),
        ("/r/nobody/explore", 404),
        ("/r/toy-survey/explore?by=height", 400),
        ("/r/toy-survey/explore?where=height > 3", 400),
        ("/r/toy-survey/explore?figure=max(age)", 400),
        ("/r/toy-survey/sql?q=drop table t", 400),
        ("/r/toy-survey/sql?q=select * from read_csv('/etc/passwd')", 400),
        ("/r/toy-survey/answer?q=1 = 1; --", 400),
        ("/r/toy-survey/answer?q=" + "(" * 500, 400),
        ("/r/toy-survey/answer?q=" + "x" * 5000, 422),
        ("/r/toy-survey/files/passwd.csv", 400),
        ("/r/toy-survey/files/rows.exe", 400),
        ("/r/..%2f..%2fetc/explore", 404),
        ("/static/..%2fapp.py", 404),
        ("/static/%2e%2e/app.py", 404),
        ("/nowhere", 404),
    ],
)
def test_what_cannot_be_is_refused_in_words(client, path, status):
    reply = client.get(path)
    assert reply.status_code == status
    assert "Traceback" not in reply.text
    assert "content-security-policy" in reply.headers


def test_another_host_is_refused(client):
    reply = client.get("/releases", headers={"host": "evil.example"})
    assert reply.status_code == 421
    assert client.get("/releases", headers={"host": "LOCALHOST:9"}).status_code == 200


def test_a_large_body_is_refused_before_it_is_read(client):
    assert client.post("/releases", content=b"x" * (MAX_BODY + 1)).status_code == 413
    pieces = (b"x" * 1024 for _ in range(MAX_BODY // 1024 + 2))
    assert client.post("/releases", content=pieces).status_code in (405, 413)


def test_a_failure_says_nothing_and_keeps_the_policy(folder, caplog, monkeypatch):
    catalog = Catalog.of([folder])
    monkeypatch.setattr(catalog, "release", lambda name: 1 / 0)
    with served(public_site(catalog)) as home, httpx.Client(base_url=home) as client:
        reply = client.get("/r/toy-survey")
    assert reply.status_code == 500
    assert "division" not in reply.text
    assert "content-security-policy" in reply.headers
    assert "ZeroDivisionError" in caplog.text
    assert "division" not in caplog.text


def test_a_folder_of_releases_is_a_catalog(tmp_path):
    for name in ("a.maquette", "b.maquette", "A!.maquette"):
        toy_release().save(tmp_path / name, report=False)
    assert Catalog.of([tmp_path]).names() == ["a", "a-2", "b"]
    with pytest.raises(ReleaseError, match="no release folder"):
        Catalog.of([tmp_path / "nothing"])


def test_a_damaged_release_is_refused_at_the_start(folder, tmp_path):
    other = toy_release().save(tmp_path / "x.maquette", report=False)
    (other / "rows.parquet").write_bytes(b"no parquet")
    with pytest.raises(ReleaseError):
        Catalog.of([other])


def test_names_in_addresses_are_plain():
    assert short_name("Ünï/../<script>") == "n-script"
    assert short_name("...") == "release"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "survey.example"])
def test_a_public_address_needs_a_word_about_tls(host):
    with pytest.raises(ParameterError, match="TLS"):
        check_address(host, behind_tls=False)
    check_address(host, behind_tls=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "[::1]", "localhost"])
def test_an_address_of_this_machine_needs_none(host):
    check_address(host, behind_tls=False)


def test_a_table_is_made_once_and_made_again_for_another_release(folder, monkeypatch):
    catalog, calls = Catalog.of([folder]), []
    whole = explore.view
    monkeypatch.setattr(explore, "view", lambda *a, **k: calls.append(a) or whole(*a, **k))
    (name,) = catalog.names()
    first = catalog.view(name, ["sex"])
    assert catalog.view(name, ["sex"]) is first
    assert len(calls) == 1
    assert catalog.view(name, ["sex"], where="age < 30").table.to_pylist() != first.table.to_pylist()
    catalog.add(name, folder)  # another release under this name
    assert catalog.view(name, ["sex"]) is not first
    monkeypatch.setattr(catalogs, "MAX_VIEWS", 2)
    for by in ("age", "region", "sex"):
        catalog.view(name, [by])
    assert len(catalog._views) == 2


# --- files that a spreadsheet opens ---------------------------------------------------------------------------------

RUNS = (
    "=1+1", "+cmd|' /C calc'!A0", "-2+3+cmd|' /C calc'!A0", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\uff1d1+1",
    "=1;2", "-", "+", "--5", "-5 apples", "-1e", "=", "-5\n=1",
)  # fmt: skip
STAYS = ("-5", "+3", "-0.5", "-.5", "-1e-9", "5", "a=1", "", "[-20, -10)", "it's", "a@b", "'x", "-5.")


@pytest.mark.parametrize("text", [*RUNS, *STAYS])
def test_a_text_that_a_spreadsheet_would_run_is_a_text_in_every_csv_file(text):
    """Both writers: files of releases, and results of questions; cells and names of columns."""
    expected = f"'{text}" if text in RUNS else text
    assert explore.plain_cell(text) == expected
    column = pyarrow.array([text, None, "plain"])
    kinds = (column, column.cast(pyarrow.large_string()), column.dictionary_encode())
    for texts in kinds:
        table = pyarrow.table({text: texts, "number": [-1.5, None, 2.0]})
        lines = list(csv.reader(io.StringIO(explore.file(table, "csv").decode(), newline="")))
        assert lines[0] == [expected, "number"]
        assert [line[0] for line in lines[1:]] == [expected, "", "plain"]
        assert [line[1] for line in lines[1:]] == ["-1.5", "", "2"]
    reply = bytes(asking._csv("a.csv", [text, "b"], [[text, -1.5], [f"a;{text}", None]]).body).decode()
    assert [line[0] for line in csv.reader(io.StringIO(reply, newline=""))] == [
        expected,
        expected,
        f"a;{text}",
    ]
    assert (
        f'"a;{text}"' in reply
    )  # quoted: a spreadsheet that parts at semicolons finds no cell of its own there


def test_rows_of_a_release_run_nowhere(tmp_path):
    domain = Domain((Attribute("=cmd", Kind.CATEGORICAL, categories=("=1+1", "-5", "-5+1")),))
    table = mq.open({"=cmd": ["=1+1", "-5", "-5+1"] * 50}, domain=domain, name="x", allow_unreviewed=True)
    release = mq.release(table, mq.marginals(domain, 1), epsilon=50.0, ledger="memory", mechanism="laplace")
    release.save(tmp_path / "x.maquette", report=False)
    with served(public_site(Catalog.of([tmp_path / "x.maquette"]))) as home:
        for path in ("files/rows.csv", "table.csv?by=%3Dcmd", "files/dictionary.csv", "files/answers.csv"):
            text = httpx.get(f"{home}/r/x/{path}").text
            cells = [cell for line in csv.reader(io.StringIO(text, newline="")) for cell in line]
            assert cells
            assert not [cell for cell in cells if cell in ("=cmd", "=1+1", "-5+1")], path
        rows = pyarrow.parquet.read_table(io.BytesIO(httpx.get(f"{home}/r/x/files/rows.parquet").content))
        assert set(rows["=cmd"].to_pylist()) <= {"=1+1", "-5", "-5+1"}  # exact, for programs


# --- one release and the others -------------------------------------------------------------------------------------


def test_while_one_folder_is_read_the_others_are_shown(folder, tmp_path, monkeypatch):
    other = toy_release().save(tmp_path / "other.maquette", report=False)
    catalog = Catalog({"slow": folder, "quick": other})
    is_reading, may_go_on = threading.Event(), threading.Event()
    read = explore.load

    def slowly(place):
        if place == folder:
            is_reading.set()
            assert may_go_on.wait(30)
        return read(place)

    monkeypatch.setattr(explore, "load", slowly)
    results: list[object] = []
    threads = [threading.Thread(target=lambda: results.append(catalog.release("slow"))) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert is_reading.wait(30)
    done = threading.Thread(target=lambda: (catalog.view("quick", ["sex"]), catalog.add("third", other)))
    done.start()
    done.join(30)
    is_alone = not done.is_alive()
    may_go_on.set()
    for thread in [*threads, done]:
        thread.join(30)
    assert is_alone
    assert results[0] is results[1]  # read once
    assert catalog.release("slow") is results[0]


def test_what_is_made_is_made_once_for_each_name_and_again_after_a_failure():
    made: MadeOnce[str] = MadeOnce()
    with pytest.raises(ZeroDivisionError):
        made.get("a", lambda: str(1 // 0))
    assert made.get("a", lambda: "first") == "first"
    assert made.get("a", lambda: "second") == "first"
    assert made.items() == [("a", "first")]

    def replaced() -> str:
        made.forget("b")  # another one came under this name while it was made
        return "old"

    assert made.get("b", replaced) == "old"
    assert made.get("b", lambda: "new") == "new"


def test_a_damaged_release_hides_none_of_the_others(folder, tmp_path):
    other = toy_release().save(tmp_path / "other.maquette", report=False)
    catalog = Catalog.of([folder, other])
    catalog.add("other", other)  # read anew
    (other / "rows.parquet").write_bytes(b"no parquet")
    with served(public_site(catalog)) as home:
        listing = httpx.get(f"{home}/releases")
        assert listing.status_code == 200
        assert "synthetic rows" in listing.text
        assert "This release cannot be read" in listing.text
        assert httpx.get(f"{home}/r/other").status_code == 404


@pytest.mark.slow
def test_whatever_a_manifest_says_no_page_runs_it(folder, tmp_path):
    """A script at every place of the manifest: the folder is refused, or pages show it as a text."""
    manifest = json.loads((folder / "release.json").read_text())
    script, shown, refused = "<script>alert(1)</script>", 0, 0
    copy = tmp_path / "x.maquette"
    for place in places(manifest):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy)
        write_at(copy, place, script)
        if place[0] != "files":
            mend_hashes(copy)
        try:
            catalog = Catalog.of([copy])
        except ReleaseError:
            refused += 1
            continue
        with served(public_site(catalog)) as home, httpx.Client(base_url=home) as client:
            for path in ("/releases", "/r/x", "/r/x/explore?by=sex", "/r/x/answer?q=age > 3", "/r/x/sql"):
                reply = client.get(path)
                shown += "&lt;script&gt;alert" in reply.text
                assert script not in reply.text, (place, path)
    assert refused > 20
    assert shown > 0

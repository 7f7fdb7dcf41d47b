"""The public site over release folders: every page, every file, and what it refuses."""

from __future__ import annotations

import io
import re

import httpx
import pyarrow.csv
import pyarrow.parquet
import pytest

from maquette.errors import ParameterError, ReleaseError
from maquette.web import explore
from maquette.web import explore as catalogs
from maquette.web.app import public_site
from maquette.web.explore import Catalog, short_name
from maquette.web.server import MAX_BODY, check_address
from support.browser import served
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

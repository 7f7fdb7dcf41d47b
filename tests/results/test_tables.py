"""Tables and SQL of a release: frames with values spelled out, errors beside, in the order that was asked for."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import zipfile
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import maquette as mq
from maquette.queries.classes import CLASSES
from maquette.results import export as export_module
from maquette.results.export import dictionary, long_form
from maquette.results.statements import Certificate
from maquette.results.tables import LABEL, short_statement
from results.test_figures import coded, release_of, share
from support.cli_files import call, refused
from support.made_release import toy_release

SHOWN = coded(np.random.default_rng(1))
RELEASE = release_of(SHOWN, 0.01)


def test_a_table_of_counts():
    table = RELEASE.table("sex", "rooms")
    assert table.column_names == [
        "sex",
        "rooms",
        "value",
        "count",
        "error",
        "lower",
        "upper",
        "below_noise",
        "known_by",
    ]
    assert len(table) == 8
    row = table.to_pylist()[5]
    assert (row["sex"], row["rooms"]) == ("m", "2")
    assert row["value"] == row["count"] == pytest.approx(400 * share(SHOWN, sex={1}, rooms={1}))
    assert (row["lower"], row["upper"]) == pytest.approx((row["value"] - 4, row["value"] + 4))
    assert "comparisons" in row["known_by"]


def test_missing_and_other_values_have_groups():
    assert [row["age"] for row in RELEASE.table("age")][-1] == "(missing)"
    assert [row["pay"] for row in RELEASE.table("pay")][-1] == "(other)"


def test_small_cells_are_marked():
    table = RELEASE.table("age", "rooms")
    for row in table:
        assert row["below_noise"] == (row["count"] <= 4 + 1e-9)
    assert any(row["below_noise"] for row in table)


def test_figures_of_a_numeric_attribute():
    table = RELEASE.table(by=["sex"], values="mean(rooms)", where="age >= 30")
    assert table["value"].to_pylist()[0] == pytest.approx(
        np.mean(
            [
                [1, 2, 3, 4.5][c]
                for c in SHOWN["rooms"][(SHOWN["age"] >= 3) & (SHOWN["age"] < 6) & (SHOWN["sex"] == 0)]
            ]
        )
    )
    assert any("where a value lies inside its cell" in note for note in table.notes)
    assert any("nearest bound" in note for note in table.notes)
    assert any(
        "without a declared value of pay" in note for note in RELEASE.table("sex", values="sum(pay)").notes
    )


def test_names_are_given_once():
    with pytest.raises(mq.WorkloadError, match="once"):
        RELEASE.table("sex", by=["age"])
    assert RELEASE.table(by="sex").to_pylist() == RELEASE.table("sex").to_pylist()


def test_other_libraries_read_tables():
    table = RELEASE.table("sex")
    assert isinstance(table.to_pandas(), pd.DataFrame)
    assert isinstance(table.to_polars(), pl.DataFrame)
    assert pa.table(table).num_rows == 2
    assert "known_by" in repr(table)
    assert "<table>" in table._repr_html_()


def test_long_tables_are_cut_short_when_they_are_shown():
    text = repr(toy_release(mq.marginals(RELEASE.domain, k=4)).table("age", "pay", "rooms", "sex"))
    assert "... 194 more rows" in text
    assert (
        len(text.splitlines()) == 33
    )  # head, 30 rows, what is left out, what the label of the statement means


def test_sql_selects_orders_and_limits():
    table = RELEASE.sql(
        "select rooms, count(*) as n, avg(pay), median(age) from t where sex = 'f' group by rooms "
        "order by n desc limit 2"
    )
    assert table.column_names[:5] == ["rooms", "n", "n error", "n lower", "n upper"]
    assert table.column_names[-1] == "known_by"
    counts = sorted((400 * share(SHOWN, sex={0}, rooms={c}) for c in range(4)), reverse=True)
    assert table["n"].to_pylist() == pytest.approx(counts[:2])
    by_rooms = RELEASE.sql("select count(*), rooms from t group by rooms order by rooms desc")
    assert by_rooms["rooms"].to_pylist() == ["[4, 5]", "3", "2", "1"]


def test_sql_without_groups_has_one_row():
    (row,) = RELEASE.sql("select count(*), share() as part, count(age) from t where sex = 'm'")
    assert row["count(*)"] == pytest.approx(400 * share(SHOWN, sex={1}))
    assert row["part"] == pytest.approx(share(SHOWN, sex={1}))
    assert row["count(age)"] == pytest.approx(400 * share(SHOWN, sex={1}, age=set(range(6))))


def test_two_columns_of_one_name_are_told_apart():
    names = RELEASE.sql("select count(*), count(*) from t").column_names
    assert "count(*) 2" in names


def test_names_that_were_asked_for_stay_and_errors_go_elsewhere():
    table = RELEASE.sql('select count(*) as "n error", count(*) as n, share() as known_by from t')
    (row,) = table.to_pylist()
    assert row["n error"] == row["n"] == 400
    assert row["n error 2"] == 0
    assert isinstance(row["known_by"], str)
    asked = RELEASE.sql("select SEX, COUNT( Age ), Avg(rooms) from t group by sex order by avg(rooms)")
    assert [asked.column_names[i] for i in (0, 1, 5)] == ["SEX", "COUNT( Age )", "Avg(rooms)"]


def test_figures_of_nobody_are_null():
    (row,) = RELEASE.sql(
        "select avg(age) m, sum(age) s, count(age) n, median(age) q from t where age is null"
    )
    assert (row["m"], row["m lower"], row["q"], row["q lower"]) == (None, None, None, None)
    assert (row["s"], row["n"], row["n upper"]) == (0, 0, 0)
    (row,) = RELEASE.sql("select count(*) n, share() s from t where age < 10 and age >= 20")
    assert (row["n"], row["n error"], row["s"]) == (0, 0, 0)


def test_a_figure_may_have_a_condition_of_its_own():
    rows = RELEASE.sql(
        "select sex, count(*) filter (where rooms = 2) as two, share(rooms = 2) as part, "
        "avg(case when rooms = 2 then 1 else 0 end) as among, mean(rooms) filter (where sex = 'f') as m "
        "from t group by sex"
    ).to_pylist()
    plain = RELEASE.sql("select sex, count(*) as n from t where rooms = 2 group by sex").to_pylist()
    for i, (row, other) in enumerate(zip(rows, plain, strict=True)):
        assert (row["two"], row["two error"]) == (other["n"], other["n error"])
        assert row["part"] == pytest.approx(share(SHOWN, sex={i}, rooms={1}))
        inside, all_of = share(SHOWN, sex={i}, rooms={1}), share(SHOWN, sex={i})
        assert row["among"] == pytest.approx(inside / all_of)
        assert row["among lower"] <= (inside - 0.01) / all_of + 1e-12
        assert row["among upper"] >= (inside + 0.01) / all_of - 1e-12
    assert rows[0]["m"] is not None
    assert rows[1]["m"] is None
    nobody = RELEASE.sql("select count(*) filter (where sex = 'm') n from t where sex = 'f'").to_pylist()
    assert nobody[0]["n"] == nobody[0]["n upper"] == 0


def test_quantiles_of_all_levels():
    (row,) = RELEASE.sql(
        "select quantile(rooms, 0) a, quantile(rooms, 1) b, "
        "percentile_cont(0.25) within group (order by rooms) c, quantile(rooms, 0.25) d from t"
    )
    assert (row["a"], row["b"]) == (1, 5)
    assert row["c"] == row["d"]


def test_a_value_that_is_not_declared_counts_nobody_with_a_note():
    table = RELEASE.sql("select count(*) as n from t where sex = 'x'")
    assert table.to_pylist()[0]["n"] == 0
    assert any("'x' is no category of 'sex'" in note for note in table.notes)
    answer = RELEASE.answer("sex in ('f', 'x', null)")
    assert answer.value == RELEASE.answer("sex = 'f'").value
    assert any("'x' is no category of 'sex'" in note for note in answer.notes)
    assert RELEASE.answer("sex not in ('f', null)").value == 0
    assert RELEASE.answer("1 = 1").value == 1
    assert RELEASE.table("sex", values="share(sex = 'x')")["value"].to_pylist() == [0, 0]
    with pytest.raises(mq.WorkloadError, match="no category"):
        mq.where(RELEASE.domain, "sex = 'x'")  # a workload is not asked about what cannot be


def test_releases_without_certified_classes_have_tables_too():
    release = toy_release()
    table = release.table("age", "sex")
    assert table["error"].to_pylist()[0] is not None
    assert "workload" in table["known_by"].to_pylist()[0]
    assert table["value"].to_pylist()[3] == pytest.approx(
        500 * float(release.answers.fractions[mq.marginals(release.domain, k=1).count + 3])
    )
    three = release.table("age", "sex", "region")  # nobody looked at it: between what its parts allow
    assert all("its parts on fewer attributes" in text for text in three["known_by"].to_pylist())
    assert all(row["lower"] == 0 < row["upper"] for row in three)


def test_an_export_holds_everything(tmp_path):
    place = RELEASE.export(
        tmp_path / "out", forms=["csv", "parquet", "xlsx"], tables=[("sex",), ("sex", "rooms")]
    )
    names = {path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()}
    assert names == {
        "datapackage.json",
        "croissant.json",
        "report.html",
        "dictionary.csv",
        "rows.csv",
        "rows.parquet",
        "answers.csv",
        "answers.parquet",
        "tables/sex.csv",
        "tables/sex.parquet",
        "tables/sex_rooms.csv",
        "tables/sex_rooms.parquet",
        "release.xlsx",
    }
    package = json.loads((place / "datapackage.json").read_text())
    assert package["privacy"]["epsilon"] == RELEASE.budget.epsilon
    for resource in package["resources"]:
        file = place / resource["path"]
        assert file.is_file()
        if resource["format"] == "csv":
            read = pyarrow.csv.read_csv(file)
            assert read.column_names == [field["name"] for field in resource["schema"]["fields"]]
    answers = pq.read_table(place / "answers.parquet")
    assert answers.num_rows == RELEASE.workload.count
    assert answers["share"].to_numpy() == pytest.approx(RELEASE.answers.fractions, abs=1e-7)
    with zipfile.ZipFile(place / "release.xlsx") as book:
        listed = book.read("xl/workbook.xml").decode()
    assert re.findall(r'sheet name="([^"]*)"', listed) == ["about", "rows", "dictionary", "sex", "sex_rooms"]


def test_an_export_describes_itself_to_catalogues(tmp_path):
    release = replace(RELEASE, certificate=Certificate(0.012, 0.05, 4.8))
    place = release.export(tmp_path / "out", forms=["csv", "parquet"], tables=[("sex",)])
    said = json.loads((place / "croissant.json").read_text("utf-8"))
    assert said["conformsTo"] == "http://mlcommons.org/croissant/1.0"
    properties = {one["name"]: one["value"] for one in said["additionalProperty"]}
    assert properties["epsilon"] == RELEASE.budget.epsilon
    assert "differential privacy" in properties["statement"]
    assert properties["certified_error"] == 0.012
    assert RELEASE.certificates
    for one in RELEASE.certificates:
        assert properties[f"certified_errors_of_classes: {one.says}"] == one.alpha
    package = json.loads((place / "datapackage.json").read_text("utf-8"))
    assert package["privacy"]["certified_error"] == 0.012
    files = {one["@id"]: one for one in said["distribution"]}
    assert set(files) == {one["path"] for one in package["resources"]}
    for path, one in files.items():
        assert hashlib.sha256((place / path).read_bytes()).hexdigest() == one["sha256"]
    terms = {"@type", "@id", "@context", *said["@context"]}
    for records in said["recordSet"]:
        for field in records["field"]:
            source = field["source"]
            assert source["fileObject"]["@id"] in files
            assert {"source", "dataType", "fileObject", "extract", "column", "field"} <= terms
        (path,) = {field["source"]["fileObject"]["@id"] for field in records["field"]}
        columns = [field["source"]["extract"]["column"] for field in records["field"]]
        read = pyarrow.csv.read_csv if path.endswith(".csv") else pq.read_table
        assert read(place / path).column_names == columns


def test_the_dictionary_explains_every_value():
    rows = dictionary(RELEASE).to_pylist()
    assert len(rows) == sum(RELEASE.domain[name].size for name in RELEASE.measured)
    assert {"column": "age", "kind": "numeric", "value": "(missing)", "meaning": "no value"} in rows
    assert {"column": "age", "kind": "numeric", "value": "[0, 10)", "meaning": "values from 0 to 10"} in rows


def test_the_long_form_has_counts_and_ends():
    rows = pa.concat_tables(long_form(toy_release())).to_pylist()
    assert set(rows[0]) == {"table", "value_1", "value_2", "share", "count", "error", "lower", "upper"}
    for row in rows:
        assert row["count"] == pytest.approx(500 * row["share"], rel=1e-5)
        assert 0 <= row["lower"] <= row["share"] <= row["upper"] <= 1


def test_an_export_is_not_overwritten_unless_asked(tmp_path):
    release = toy_release()
    release.export(tmp_path / "out")
    with pytest.raises(mq.ReleaseError, match="holds an export"):
        release.export(tmp_path / "out")
    release.export(tmp_path / "out", replace=True)
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "file").write_text("x")
    with pytest.raises(mq.ReleaseError, match="is no export"):
        release.export(tmp_path / "else", replace=True)
    wrong: list[Any] = [{"forms": ["pdf"]}, {"forms": []}, {"tables": [("age",), ("age",)]}, {"tables": [()]}]
    for bad in wrong:
        with pytest.raises(mq.ParameterError):
            release.export(tmp_path / "new", **bad)
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_commands_show_tables_and_write_files(tmp_path):
    place = RELEASE.save(tmp_path / "r")
    shown = call("table", place, "sex", "--values", "mean(rooms)", "--where", "age >= 30")
    assert shown.code == 0
    assert "known_by" in shown.out
    as_json = json.loads(call("sql", place, "select sex, count(*) from t group by sex", "--json").out)
    assert [row["sex"] for row in as_json["rows"]] == ["f", "m"]
    as_csv = call("sql", place, "select sex, count(*) from t group by sex", "--csv").out
    assert as_csv.splitlines()[0].startswith('"sex","count(*)"')
    refused(call("sql", place, "select max(age) from t"), "MAX is not supported")
    refused(call("table", place, "nobody"), "unknown attribute 'nobody'")
    refused(call("table", place, "sex", "--where", "rom = 2"), "did you mean 'rooms'?")
    refused(call("table", place, "sxe"), "did you mean 'sex'?")
    written = call(
        "export", place, "-o", tmp_path / "out", "--parquet", "--table", "sex,rooms", "--all-tables"
    )
    assert written.code == 0
    assert (tmp_path / "out" / "tables" / "age_sex.parquet").is_file()
    refused(call("export", place, "-o", tmp_path / "out"), "holds an export")
    refused(call("export", place, "-o", tmp_path / "other", "--table", "sex,"), "joined by commas")


def test_a_sheet_is_not_longer_than_programs_read(tmp_path, monkeypatch):
    monkeypatch.setattr(export_module, "MAX_SHEET", 399)
    with pytest.raises(mq.ReleaseError, match=r"too long for a sheet.*rows \(400 rows\)"):
        RELEASE.export(tmp_path / "out", forms=["xlsx"])
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_tables_do_not_load_pandas(tmp_path):
    place = RELEASE.save(tmp_path / "r")
    code = f"import sys, maquette; maquette.load({str(place)!r}).table('sex'); print('pandas' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert done.stdout.strip() == "False"


def test_statements_are_short_in_a_printed_table_and_said_in_full_below():
    table = RELEASE.table("sex")
    (said,) = set(table["known_by"].to_pylist())
    label = short_statement(said)
    assert len(label) <= LABEL < len(said)
    for shown in (repr(table), table._repr_html_()):
        assert shown.count(said) == 1
        assert f"{label}: {said}" in shown
    assert table.statements == {label: said}


@pytest.mark.parametrize(
    ("statement", "label"),
    [
        ("answered before", "answered before"),
        *((f"certified for {one.says}", one.name) for one in CLASSES.values()),
        ("certified for every query of the workload", "workload"),
        ("from the noise that was drawn for the measured tables", "noise of the measured tables"),
        ("put together from 4 questions whose errors add up", "put together from 4 questions..."),
    ],
)
def test_labels_of_statements(statement, label):
    assert short_statement(statement) == label

"""The draft of a domain: guesses that fit the table, marked as unreviewed."""

from __future__ import annotations

import datetime
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maquette.domain import Domain, Kind
from maquette.domain.remarks import check
from maquette.domain.review import MISSING_WORDS, SCALES, named_numbers, usual_scale
from maquette.errors import DomainError, SourceError
from maquette.owner import open as open_table
from maquette.vault.draft import draft_domain, round_bounds
from maquette.vault.readers import open_engine
from support.cli_files import call

CSV = """age,sex,income,smoker,note,score,empty
31,Female,20500.5,yes,word0,?,
44,Male,1000.25,no,word1,3,
17,Female,,yes,word2,4,
"""


def long_table() -> str:
    head, *rows = CSV.splitlines()
    return "\n".join([head, *(row.replace(",word", f",word{i}") for i in range(60) for row in rows)]) + "\n"


@pytest.fixture
def path(tmp_path):
    (tmp_path / "t.csv").write_text(long_table())
    return tmp_path / "t.csv"


def test_kinds_bounds_and_lists_are_guessed(path):
    domain = draft_domain(path)
    assert domain.names == ("age", "sex", "income", "smoker", "score")
    assert (domain["age"].kind, domain["age"].integer, domain["age"].nullable) == (Kind.NUMERIC, True, True)
    assert (domain["age"].bounds, domain["age"].bins) == ((0, 100), 100)
    assert (domain["sex"].kind, domain["sex"].categories) == (Kind.BOOLEAN, ("Female", "Male"))
    assert domain["sex"].overflow
    assert domain["income"].nullable
    assert not domain["income"].integer
    assert domain["income"].bounds == (0, 22000)
    assert (domain["smoker"].kind, domain["smoker"].codes) == (Kind.BOOLEAN, 2)
    assert domain["score"].nullable
    assert domain.na_values == MISSING_WORDS


def test_a_draft_says_what_it_is_and_is_refused_until_reviewed(path, tmp_path):
    domain = draft_domain(path)
    assert not domain.reviewed
    assert "private rows" in domain.notes["draft"]
    assert check(domain)[0].severity == "error"
    with pytest.raises(DomainError, match="unreviewed draft"):
        open_table(path, domain=domain)
    domain.save(tmp_path / "d.json")
    assert Domain.load(tmp_path / "d.json") == domain
    assert open_table(path, domain=domain, allow_unreviewed=True).domain == domain


def test_columns_that_cannot_be_guessed_are_left_out_with_the_reason(path):
    left_out = draft_domain(path).notes["left_out"]
    assert set(left_out) == {"note", "empty"}
    assert "more than 100 different texts" in left_out["note"]["why"]
    assert "holds no value" in left_out["empty"]["why"]
    assert all("risk" in note for note in left_out.values())
    table = pa.table({"x": [1], "list": [[1]], "bytes": [b"a"], " y": [1]})
    left_out = draft_domain(table).notes["left_out"]
    assert set(left_out) == {"list", "bytes", " y"}
    assert not any("risk" in note for note in left_out.values())  # their types and names say it


def test_tokens_of_the_owner_mean_missing():
    rows = {"x": [*(str(i) for i in range(200)), "unknown"]}
    with pytest.raises(DomainError, match=r"no column .* could be drafted"):
        draft_domain(rows)
    domain = draft_domain(rows, na_values=["unknown"])
    assert domain["x"].nullable
    assert domain.na_values == (*MISSING_WORDS, "unknown")


def test_typed_columns_are_guessed_too():
    table = pa.table(
        {
            "flag": [True, False, None],
            "day": [datetime.date(2020, 1, 1)] * 3,
            "kind": pa.array(["a", "b", None]).dictionary_encode(),
            "value": [0.5, float("nan"), 2.5],
        }
    )
    domain = draft_domain(table)
    assert domain["flag"].kind is Kind.BOOLEAN
    assert domain["day"].categories == ("2020-01-01",)
    assert domain["kind"].categories == ("a", "b")
    assert domain["value"].bounds == (0, 2.6)
    assert domain["value"].nullable


def test_an_empty_table_cannot_be_drafted(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n")
    with pytest.raises(DomainError, match="write the domain by hand"):
        draft_domain(tmp_path / "t.csv")


def test_columns_of_one_name_are_refused(tmp_path):
    (tmp_path / "t.csv").write_text("a,a\n1,2\n")
    with pytest.raises(SourceError, match="several columns of one name"):
        draft_domain(tmp_path / "t.csv")


def test_no_value_of_the_table_overflows_its_own_draft(path):
    domain = draft_domain(path)
    engine = open_engine(path, domain)
    for a in domain:
        if a.overflow_cell is not None:
            assert engine.margins([(a.name,)])[(a.name,)][a.overflow_cell] == 0


@given(st.floats(-1e9, 1e9), st.floats(0, 1e9))
def test_bounds_are_round_and_around(low, width):
    below, above = round_bounds(low, low + width)
    assert below <= low
    assert low + width < above
    assert above - below <= max(1.3 * width, abs(low + width) / 1000 * 1.3 + 2, 4)  # from 0 to 3: below 4


def test_codes_scales_and_usual_numbers_are_told_apart():
    n = 60
    table = pa.table(
        {
            "region_code": [(1, 2, 4)[i % 3] for i in range(n)],
            "rooms": [1 + i % 5 for i in range(n)],
            "party": [7 + i % 2 for i in range(n)],
            "health": [("Poor", "Very good", "Excellent")[i % 3] for i in range(n)],
            "trust": [("LOW", "HIGH", "MEDIUM")[i % 3] for i in range(n)],
            "answer": [("low", "high")[i % 2] for i in range(n)],
            "Age": [i / 2 for i in range(n)],
            "age_of_house": [i * 10 for i in range(n)],
            "villages": [i * 10 for i in range(n)],
            "hours_per_week": [20 + i % 40 for i in range(n)],
        }
    )
    domain = draft_domain(table)
    assert (domain["region_code"].kind, domain["region_code"].categories) == (Kind.CATEGORICAL, (1, 2, 4))
    assert (domain["rooms"].kind, domain["rooms"].categories) == (Kind.ORDINAL, (1, 2, 3, 4, 5))
    assert (domain["party"].kind, domain["party"].categories) == (Kind.BOOLEAN, (7, 8))
    assert domain["health"].kind is Kind.ORDINAL
    assert domain["health"].categories == ("Poor", "Fair", "Good", "Very good", "Excellent")
    assert domain["trust"].categories == ("VERY LOW", "LOW", "MEDIUM", "HIGH", "VERY HIGH")
    assert domain["answer"].categories == ("high", "low")
    assert (domain["Age"].bounds, domain["Age"].integer) == ((0, 100), False)
    assert domain["age_of_house"].bounds == (0, 600)  # larger than ages are: from the table
    assert domain["villages"].bounds == (0, 600)
    assert (domain["hours_per_week"].bounds, domain["hours_per_week"].integer) == ((0, 100), True)
    notes = domain.notes["columns"]
    assert set(notes) == set(domain.names)
    assert all("risk" in note for note in notes.values())  # rows have decided each of them
    assert "known without the table" in notes["Age"]["from"]


def drafted(name, values):
    return draft_domain({name: np.asarray(values)})[name]


def test_few_values_of_a_usual_kind_are_not_spread_over_all_of_it():
    """The latitudes of a city had two cells out of 180, codes of age groups nine out of a hundred years."""
    rng = np.random.default_rng(3)
    latitude = drafted("latitude", rng.uniform(40.5, 40.9, 900))
    assert (latitude.bounds, latitude.bins) == ((40.5, 40.91), 50)
    for name in ("lon", "Longitude", "pickup_long", "pickupLongitude", "LNG", "start lng"):
        usual = named_numbers(name)
        assert usual is not None
        assert usual.words == "longitudes"
        assert drafted(name, rng.uniform(-120, 120, 900)).bounds == (-180, 180)
        assert drafted(name, rng.uniform(-74.05, -73.75, 900)).bins == 50
    for name in ("how_long", "along", "lonely", "plate", "flat"):
        assert named_numbers(name) is None
    codes = drafted("age", rng.integers(1, 10, 900))
    assert (codes.kind, codes.categories) == (Kind.ORDINAL, tuple(range(1, 10)))
    assert drafted("age", rng.integers(0, 95, 900)).bounds == (0, 100)
    years = drafted("year", rng.integers(2007, 2010, 900))
    assert (years.kind, years.categories) == (Kind.ORDINAL, (2007, 2008, 2009))
    assert drafted("year", rng.integers(1990, 2020, 900)).cells <= 50
    assert drafted("birth_year", rng.integers(1930, 2010, 900)).bounds == (1900, 2050)
    days = drafted("yday", rng.integers(1, 367, 900))
    assert (days.bounds, days.integer) == ((0.5, 366.5), True)
    assert drafted("month", rng.integers(1, 13, 900)).label(11) == "12"


def test_whole_numbers_are_those_of_the_type_and_not_of_the_values():
    whole, texts = np.arange(200), [str(i) for i in range(200)]
    assert drafted("x", whole).integer
    assert not drafted("x", whole.astype(float)).integer
    assert not draft_domain({"x": texts})["x"].integer
    assert draft_domain({"age": texts[:90]})["age"].integer  # ages are whole, whatever the table holds
    assert not drafted("age", whole[:90].astype(float)).integer


def test_a_draft_is_for_its_owner_until_it_is_reviewed(path, tmp_path):
    ended = call("domain", "draft", path, "-o", tmp_path / "d.json")
    assert "columns were read from private rows and may identify people: sex, income" in ended.out

    def mode() -> int:
        return (tmp_path / "d.json").stat().st_mode & 0o777

    assert mode() == 0o600
    accept = [word for name in ("sex", "income", "smoker") for word in ("--accept", f"{name}=known")]
    assert call("domain", "review", tmp_path / "d.json", "--by", "Ann", *accept).code == 0
    assert mode() == 0o600
    Domain.load(tmp_path / "d.json").save(tmp_path / "copy.json")
    assert (tmp_path / "copy.json").stat().st_mode & 0o777 == 0o600
    rest = ("--accept", "age=known", "--drop", "score")
    assert call("domain", "review", tmp_path / "d.json", "--by", "Ann", *rest).code == 0
    assert mode() != 0o600
    reviewed = json.loads((tmp_path / "d.json").read_text())
    assert set(reviewed) == {"attributes", "na_values", "reviews"}


def test_the_notes_of_a_draft_end_with_it(path):
    """However it becomes reviewed: by the tool, by an edited file, by replacing the mark."""
    draft = draft_domain(path)
    assert {"draft", "columns", "left_out"} <= set(draft.notes)
    assert replace(draft, reviewed=True).notes == {}
    assert Domain.from_dict(draft.to_dict() | {"reviewed": True, "source": "x"}).notes == {"source": "x"}
    found = {"columns": {"age": {"how": "discovered", "what": "number"}}}
    assert Domain(draft.attributes, notes=found).notes == found


def test_every_scale_is_recognised_by_itself():
    for scale in SCALES:
        assert set(usual_scale(scale) or ()) >= set(scale)
        assert len(set(scale)) == len(scale)

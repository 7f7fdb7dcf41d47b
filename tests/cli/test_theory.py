"""`maquette bound`, `dimension` and `audit reconstruct` on their good and bad days."""

from __future__ import annotations

import json
import math

import pytest

from maquette.cli.bound import whole
from maquette.errors import ParameterError
from support.cli_files import CANARY, call, desk, refused

SIZES = ("bound", "--universe", "2^24", "--queries", "1e6", "--n", "1e5", "--epsilon", "1")


# --- bound -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_bound_prints_every_bound():
    ended = call(*SIZES, "--vc", 10, "--alpha", 0.05)
    assert ended.code == 0
    for name in ("best of all forms", "form a", "closed form", "histogram-laplace", "wrong", "lower bound"):
        assert name in ended.out
    assert "in points" in ended.out
    assert " 22.63 " in ended.out
    assert "6,903,061" in ended.out


@pytest.mark.slow
def test_bound_in_json():
    told = call(*SIZES, "--delta", 1e-6, "--alpha", 0.05, "--json").json
    best = told["bounds"][0]
    assert (best["group"], best["rows"]) == ("SmallDB", 339)
    assert best["alpha"] == pytest.approx(0.22633662)
    assert told["rows_needed"]["gaussian"] == 460217
    assert {line["group"] for line in told["bounds"]} == {
        "SmallDB",
        "direct noise",
        "mean square error",
        "multiplicative weights",
        "online",
        "order of magnitude",
        "textbook SmallDB",
    }
    assert told["epsilon_needed"]["gaussian"] == pytest.approx(5.388, rel=1e-3)
    assert told["queries_log10"]["histogram-laplace"] is None


@pytest.mark.slow
def test_bound_knows_the_span_of_the_weights():
    sizes = ("bound", "--universe", 64, "--queries", 50, "--n", 5000, "--epsilon", 1, "--json")
    wide, narrow = (
        {line["name"]: line["alpha"] for line in call(*sizes, *more).json["bounds"]}
        for more in ((), ("--span", 0.25))
    )
    for name in ("best of all forms", "closed form", "laplace", "histogram-laplace", "mw", "pmw", "roth"):
        assert narrow[name] == pytest.approx(wide[name] / 4)
    refused(call(*sizes, "--span", 1.5), "span <= 1")
    refused(call(*sizes, "--span", 0), "span")


@pytest.mark.slow
def test_bound_of_a_class_without_end():
    sizes = ("bound", "--universe", "2^1000", "--n", "1e9", "--epsilon", 1, "--queries", "inf")
    told = call(*sizes, "--vc", 10, "--alpha", 0.5, "--json").json
    alphas = {line["name"]: line["alpha"] for line in told["bounds"]}
    assert alphas["best of all forms"] == pytest.approx(0.096203, rel=1e-4)
    assert told["queries_log10"]["mw"] == "any"  # the VC dimension leaves finitely many behaviours
    fat = call(*sizes, "--fat", 3, "--gamma", "1/100").out
    assert "a cover of the class" in fat
    assert "fat-shattering dimension 3 at 1/100" in fat
    refused(call(*sizes), "VC dimension, a cover or a shape")
    refused(call(*sizes, "--fat", 3), "together with --gamma")
    refused(call(*sizes, "--fat", 3, "--gamma", "2"), "gamma <= 1/2")


@pytest.mark.slow
def test_bound_of_a_domain_uses_the_structure_of_its_queries(tmp_path):
    own = desk(tmp_path)
    told = call("bound", "-d", own.domain, "--prefixes", "age", "--n", 20000, "--epsilon", 1, "--json").json
    assert told["bounds"][0]["remark"] == "form f"
    general = call("bound", "-d", own.domain, "--marginals", 2, "--n", 20000, "--epsilon", 1, "--json").json
    assert general["bounds"][0]["remark"] in ("form a", "form b", "form c")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["svg", "png", "html", "json"])
def test_bound_draws_a_plot(tmp_path, kind):
    place = tmp_path / f"bounds.{kind}"
    ended = call(*SIZES, "--plot", place)
    assert ended.code == 0
    assert str(place) in ended.out
    content = place.read_bytes()
    starts = {"svg": b"<svg", "png": b"\x89PNG", "html": b"<!DOCTYPE html>", "json": b"{"}
    assert content.startswith(starts[kind])
    if kind == "svg":
        assert b"SmallDB" in content
    if kind == "html":
        assert b'src="http' not in content  # everything is inside
    if kind == "json":
        assert len(json.loads(content)["hconcat"]) == 3


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--universe", "2^x", "--queries", 5, "--n", 10, "--epsilon", 1), "2^24"),
        (("--universe", 5, "--n", 10, "--epsilon", 1), "--queries"),
        (("--universe", 5, "--queries", 0, "--n", 10, "--epsilon", 1), "at least one query"),
        (("--universe", 5, "--queries", 5, "--n", 0, "--epsilon", 1), "n to be a whole number"),
        (("--universe", 5, "--queries", 5, "--n", 10, "--epsilon", 0), "epsilon > 0"),
        (("--universe", 5, "--queries", 5, "--n", 10, "--epsilon", "nan"), "epsilon > 0"),
        (("--universe", 5, "--queries", 5, "--n", 10, "--epsilon", 1, "--beta", 1), "0 < beta < 1"),
        (("--universe", 5, "--queries", 5, "--n", 10, "--epsilon", 1, "--delta", 1), "0 <= delta < 1"),
        (("--universe", 5, "--queries", 5, "--n", 10, "--epsilon", 1, "--shape", "x"), "thresholds"),
        (("--universe", 5, "--queries", 5, "--n", 10, "--epsilon", 1, "--relation", "x"), "add-remove"),
        (("--universe", 5, "--queries", 5, "--n", 10, "--epsilon", 1, "--plot", "x.gif"), ".svg"),
    ],
)
def test_bound_refuses(words, expected):
    refused(call("bound", *words), expected)


@pytest.mark.slow
def test_a_plot_that_cannot_be_written_is_refused(tmp_path):
    refused(call(*SIZES, "--plot", tmp_path / "nowhere" / "x.json"), "cannot write the plot")


def test_bound_refuses_both_ways_of_giving_sizes(tmp_path):
    own = desk(tmp_path)
    words = ("bound", "-d", own.domain, "--prefixes", "age", "--universe", 5, "--n", 10, "--epsilon", 1)
    refused(call(*words), "either --domain")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12),
        ("1_000", 1000),
        ("1,000", 1000),
        ("1e6", 10**6),
        ("2.5e3", 2500),
        ("2^64", 2**64),
        ("10**2", 100),
    ],
)
def test_numbers_as_people_write_them(text, value):
    assert whole(text, "n") == value


@pytest.mark.parametrize("text", ["", "x", "-3", "1.5", "1.55e1", "nan", "2^999999999", "1e99999999", "inf"])
def test_what_is_no_whole_number(text):
    with pytest.raises(ParameterError, match="whole number"):
        whole(text, "n")


def test_astronomical_sizes_have_bounds():
    told = call(
        "bound", "--universe", "10^400", "--queries", "10^400", "--n", "1e9", "--epsilon", 1, "--json"
    ).json
    assert 0 < told["bounds"][0]["alpha"] < 1
    assert all(math.isfinite(line["alpha"]) for line in told["bounds"])


# --- dimension ---------------------------------------------------------------------------------------------------


def test_dimension_shows_a_shattered_set(tmp_path):
    own = desk(tmp_path)
    ended = call("dimension", "-d", own.domain, "--ranges", "age")
    assert ended.code == 0
    assert "VC dimension 2, by closed form" in ended.out
    assert "A query for each labelling" in ended.out
    told = call("dimension", "-d", own.domain, "--marginals", 1, "--gamma", "1/4", "--json").json
    assert told["method"] == "search"
    assert len(told["witnesses"]) == 2 ** told["value"]
    assert told["levels"] == ["1/4"] * told["value"]


def test_dimension_by_words_matrix_and_interval(tmp_path):
    bits = [{"name": f"b{i}", "kind": "ordinal", "size": 2, "nullable": False} for i in range(30)]
    place = tmp_path / "bits.json"
    place.write_text(json.dumps({"attributes": bits}))
    parities = call("dimension", "-d", place, "--class", "parities:b0,b1,b2", "--json").json
    assert parities["value"] == 3
    wide = call("dimension", "-d", place, "--class", "conjunctions:3")
    assert "VC dimension from 3 to 12" in wide.out
    assert "d <= log2 4,525 = 12.14" in wide.out
    spaces = call("dimension", "-d", place, "--class", "halfspaces:b0 + b1 >= 1; b0 - b1 >= 1", "--json").json
    assert spaces["value"] == 1
    matrix = tmp_path / "weights.csv"
    matrix.write_text("0,0\n0,1/2\n1/2,0\n1/2,1/2\n")
    ended = call("dimension", "--matrix", matrix, "--gamma", "1/4")
    assert "fat-shattering dimension at 1/4 2, by search: 4 queries" in ended.out
    refused(call("dimension", "--matrix", matrix), "gamma for real weights")
    refused(call("dimension", "--matrix", tmp_path / "none.csv"), "cannot read the matrix")
    refused(call("dimension", "--gamma", "1/4"), "--domain with queries, or --matrix")


def test_dimension_refuses(tmp_path):
    own = desk(tmp_path)
    refused(call("dimension", "-d", own.domain), "no queries")
    refused(call("dimension", "-d", own.domain, "--prefixes", "age", "--gamma", "0.7"), "gamma")
    refused(call("dimension", "-d", own.domain, "--prefixes", "age", "--gamma", "much"), "gamma")


# --- audit -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_reconstruction_of_made_up_people():
    words = (
        "--epsilon",
        0.1,
        "--mechanism",
        "laplace",
        "--trials",
        2,
        "--bits",
        24,
        "--points",
        4,
        "--json",
        "-q",
    )
    told = call("audit", "reconstruct", *words).json
    assert told["warning"] is None  # nobody stands behind made-up people
    assert "proves nothing" in told["note"]
    found = told["findings"]
    exact = [one for one in found if one["answers"] == "exact"]
    private = [one for one in found if one["answers"] == "laplace"]
    assert len(exact) == len(private) == 3
    assert all(one["recovered"] == 1.0 and one["limit"] is None for one in exact)
    assert all(one["limit"] == pytest.approx(1 / (1 + math.exp(-0.2))) for one in private)
    linear = [one for one in private if one["attack"] != "shattered set"]
    assert all(one["recovered"] < 0.9 for one in linear)


def test_reconstruction_in_words():
    ended = call("audit", "reconstruct", "--attack", "shattered set", "--points", 4, "--trials", 1, "-q")
    assert ended.code == 0
    assert "at most if private" in ended.out
    assert "refutes" in ended.out
    assert "owner" not in ended.out


@pytest.mark.slow
def test_reconstruction_of_the_people_behind_a_release(tmp_path):
    own = desk(tmp_path)
    assert own.release("--total-epsilon", 3).code == 0
    words = ("audit", "reconstruct", own.place, "--people", own.table, "--secret", "sex")
    assert "owner's eyes only" in call(*words, "--json").json["warning"]
    ended = call(*words)
    assert ended.code == 0
    assert "least squares" in ended.out
    assert "linear program" in ended.out
    assert "owner's eyes" in ended.out
    assert CANARY not in ended.out


def test_audit_refuses(tmp_path):
    refused(call("audit", "reconstruct", "--attack", "guessing"), "least squares")
    refused(call("audit", "reconstruct", "--points", 5, "-q", "--attack", "shattered set"), "even number")
    refused(call("audit", "reconstruct", "--secret", "sex"), "RELEASE")
    refused(call("audit", "reconstruct", "--epsilon", 0), "epsilon")
    refused(call("audit", "reconstruct", tmp_path), "--people")
    words = ("--people", tmp_path / "people.csv", "--secret", "sex")
    refused(call("audit", "reconstruct", tmp_path, *words, "--attack", "shattered set"), "least squares")
    refused(call("audit", "reconstruct", tmp_path, *words), "release")


@pytest.mark.slow
def test_plan_of_a_session(tmp_path):
    own = desk(tmp_path)
    words = ("plan", "-d", own.domain, "--online", "--n", 10**6, "--epsilon", 1)
    assert "questions on the guarantee of pmw is the better one" in call(*words).out
    told = call(*words, "--alpha", 0.2, "--json").json
    assert told["questions"] > 1
    assert told["affordable_questions_log10"] > 1
    refused(call("plan", "-d", own.domain, "--online", "--epsilon", 1), "--n, a public figure")


@pytest.mark.slow
def test_plan_online_says_what_a_session_would_do(tmp_path):
    """By the settings of a session that is opened on a table of this size."""
    own = desk(tmp_path)
    words = ("plan", "-d", own.domain, "--online", "--n", 20_000, "--json")
    pure = call(*words, "--epsilon", 1).json["session"]
    assert pure["tables_share"] is None
    assert pure["far_guesses"] >= 4
    rho = call(*words, "--epsilon", 1, "--delta", 1e-6).json["session"]
    assert rho["error"] < pure["error"] < 0.1
    assert rho["measured_answers"] > pure["measured_answers"] >= 100
    told = call("plan", "-d", own.domain, "--online", "--n", 20_000, "--epsilon", 1, "--delta", 1e-6).out
    assert f"states errors of at most {100 * rho['error']:.3g} points" in told
    few = call("plan", "-d", own.domain, "--online", "--n", 300, "--epsilon", 0.1, "--alpha", 0.02).out
    assert "a session cannot be opened: alpha=0.02 cannot be guaranteed" in few

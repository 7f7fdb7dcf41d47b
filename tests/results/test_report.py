"""The report: one file, nothing from outside, everything that is stated, nothing that is not."""

from __future__ import annotations

import itertools
import re
from html.parser import HTMLParser

import numpy as np
import pytest

import maquette as mq
from maquette.domain import Domain
from maquette.queries import marginals, prefixes
from maquette.results import (
    Account,
    Certificate,
    Guarantee,
    Spending,
    covering,
    knowledge,
    pairs,
    plots,
    report,
)
from maquette.results.report import group_errors
from support.made_release import toy_domain, toy_release

VOID = {"meta", "br", "img", "link", "hr", "input"}


class Page(HTMLParser):
    """Collects tags, and complains when they do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("style", "title"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).replace("\u00a0", " ").split())


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(toy_release().report())


def test_it_nests_and_is_self_contained(page):
    assert page.open == []
    names = {tag for tag, _ in page.tags}
    assert not names & {"script", "link", "iframe", "img", "object"}
    for _, attributes in page.tags:
        assert not any(name.startswith("on") for name in attributes)
        assert not any(name in ("src", "href", "xlink:href") for name in attributes)
    policy = next(a["content"] for tag, a in page.tags if tag == "meta" and a.get("http-equiv"))
    assert policy.startswith("default-src 'none'")


def test_no_address_is_in_it():
    assert not re.search(r"https?://", toy_release().report())


def test_it_states_what_the_release_states(page):
    text = page.text
    assert toy_release().headline in text
    for fact in (
        "histogram-gaussian",
        "epsilon = 1, delta = 1e-06",
        "500 synthetic rows",
        "released with noise",
        "Gaussian noise in every cell, union bound",
        "the histogram was projected to the simplex",
        "cd" * 32,
        toy_domain().fingerprint,
        "exact",
        "10⁻⁶",
        "sigma",
    ):
        assert fact in text, fact


def test_plots_carry_a_sentence_for_those_who_do_not_see_them(page):
    labels = [a["aria-label"] or "" for tag, a in page.tags if tag == "svg"]
    assert len(labels) == 3
    assert labels[0].startswith("Shares of age: [0, 10)")
    assert all(a.get("role") == "img" for tag, a in page.tags if tag == "svg")
    (budget,) = [a["aria-label"] or "" for _, a in page.tags if a.get("class") == "stack"]
    assert budget.replace("\u00a0", " ").endswith("left 64.0 %")


def test_headings_do_not_skip_a_level(page):
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in itertools.pairwise(levels))


def test_what_comes_from_files_is_escaped():
    nasty = "<script>alert('x')</script>"
    columns = [{"name": nasty, "kind": "categorical", "categories": [nasty, "b"]}]
    release = toy_release(
        marginals(Domain.from_dict({"attributes": columns}), k=1),
        mechanism=nasty,
        notes=(nasty,),
        parameters={nasty: nasty, "deep": {nasty: [nasty]}},
        account=Account(nasty, "rho", 1.0, 0.5),
        watermark=nasty,
        certificate=None,
        guarantee=Guarantee(0.5, 0.05, nasty),
    )
    text = release.report()
    assert "<script" not in text
    assert Page(text).open == []
    assert nasty in Page(text).text


def test_the_watermark_is_the_first_thing(page):
    text = Page(toy_release(watermark="a seeded test double made this").report()).text
    assert text.startswith("Not private. a seeded test double made this")
    assert "Not private" not in page.text


def test_groups_have_their_own_statements():
    rows = group_errors(toy_release())
    assert [row.name for row in rows] == ["all queries", "1-way marginals", "2-way marginals"]
    assert [row.certified for row in rows] == [0.02, 0.01, 0.02]
    assert [row.guaranteed for row in rows] == [0.05] * 3
    deviations = toy_release().deviations
    assert deviations is not None
    assert rows[1].typical == pytest.approx(float(np.median(deviations[:16])))


def test_unknown_things_are_left_out():
    release = toy_release(
        certificate=Certificate(1.0, 0.05, 500.0),
        guarantee=Guarantee(1.0, 0.05, "vacuous"),
        deviations=None,
        account=None,
        spending=(),
        rows=False,
    )
    rows = group_errors(release)
    assert all(row.certified is None and row.guaranteed is None and row.typical is None for row in rows)
    page = Page(release.report())
    assert "No useful bound" in page.text
    assert "Nothing was paid" in page.text
    assert "answers only" in page.text
    assert "bars without a whisker have no stated error" in page.text


def test_bars_of_a_long_attribute_are_bundled():
    columns = [
        {"name": "x", "kind": "numeric", "bounds": [0, 1000], "bins": 100, "nullable": True, "overflow": True}
    ]
    attribute = Domain.from_dict({"attributes": columns})["x"]
    found = list(pairs.bundles(attribute, report.MAX_BARS))
    assert len(found) == 14
    assert [code for _, codes in found for code in codes] == list(range(102))
    assert found[0][0] == "0 – 90"
    assert [label for label, _ in found[-2:]] == ["(other)", "(missing)"]


def test_bars_have_the_released_shares_and_proved_whiskers():
    release = toy_release()
    bars = {
        name: report.bar_of(name, share) for name, share in report.shares_of(release, release.domain["sex"])
    }
    assert bars["Male"].value == pytest.approx(100 * release.answer("sex = 'Male'").value)
    assert bars["Male"].high == pytest.approx(bars["Male"].value + 1.0)
    only_rows = toy_release(marginals(toy_domain(), attributes=[("age",)]))
    assert not list(report.shares_of(only_rows, only_rows.domain["sex"]))  # nobody measured it
    nothing = toy_release(marginals(toy_domain(), attributes=[("age",)]), rows=False)
    assert [panel.name for panel in report.panels(nothing)] == ["age"]


@pytest.mark.parametrize("most", [2**16, 0])
@pytest.mark.parametrize("overflow", [False, True])
def test_the_bar_of_missing_values_has_a_whisker(overflow, most, monkeypatch):
    """Prefixes say how many values are not declared: that is one bar's error, so there is one bar."""
    for module in (knowledge, covering):  # an attribute of more cells is not compared cell by cell
        monkeypatch.setattr(module, "MAX_COMPARED_CELLS", most)
    columns = [
        {"name": "x", "kind": "ordinal", "categories": [*"abcd"], "nullable": True, "overflow": overflow}
    ]
    release = toy_release(prefixes(Domain.from_dict({"attributes": columns}), "x"))
    bars = [report.bar_of(*one) for one in report.shares_of(release, release.domain["x"])]
    assert bars[-1].label == ("(other or missing)" if overflow else "(missing)")
    assert all(bar.low is not None for bar in bars)
    assert "bars without a whisker" not in Page(release.report()).text


def test_a_public_size_and_a_pure_budget_are_told():
    from maquette.core.budget import Budget
    from maquette.core.measurement import Size
    from maquette.domain import Relation

    release = toy_release(size=Size(500, None, None), relation=Relation.REPLACE_ONE, budget=Budget(0.5))
    text = Page(release.report()).text
    assert "any one record says something else" in text
    assert "500, public" in text
    assert "apart from a chance" not in text


def test_it_can_be_written_to_a_file(tmp_path):
    text = toy_release().report(tmp_path / "r.html")
    assert (tmp_path / "r.html").read_text(encoding="utf-8") == text


def test_payments_of_one_kind_are_added_up(page):
    assert "noisy answers 2 35.0 % 97.22 %" in page.text
    assert "certificate 1 1.0 % 2.78 %" in page.text


def test_payments_have_plain_labels():
    assert Spending("laplace", 0.1, "epsilon").label == "noisy answers"
    assert Spending("laplace", 0.1, "epsilon", asked="something new").label == "something new"


def test_crumbs_of_a_budget_are_nothing():
    assert Account("a", "rho", 1.0, 1.0 - 1e-9).left == 0.0
    assert Account("a", "rho", 1.0, 0.999).left == pytest.approx(0.001)


@pytest.mark.parametrize("top", [0.003, 0.9, 1.0, 3.99, 4.0, 15.0, 19.9, 50.0, 85.0, 100.0])
def test_ticks_are_few_and_round(top):
    found = plots.ticks(top)
    assert found[0] == 0
    assert 2 <= len(found) <= 4 + 1
    assert found[-1] <= top
    assert found[-1] > top / 2


def test_nothing_has_one_tick():
    assert plots.ticks(0.0) == [0.0]


def test_errors_are_bars_with_a_length_that_says_something():
    bars = report.error_bars(toy_release())
    assert [(bar.name, bar.error) for bar in bars] == [
        ("All queries", 0.02),
        ("1-way marginals", 0.01),
        ("2-way marginals", 0.02),
    ]
    assert [bar.length for bar in bars] == [100.0, 50.0, 100.0]
    assert bars[0].records == pytest.approx(0.02 * toy_release().size.divisor)


def test_certificates_of_classes_come_first():
    from maquette.queries.classes import CLASSES
    from maquette.results.statements import ClassCertificate

    first, second = list(CLASSES)[:2]
    certificates = (
        ClassCertificate(first, 0.04, 0.05, 20.0, "rows"),
        ClassCertificate(second, 0.03, 0.05, 15.0, "rows"),
    )
    bars = report.error_bars(toy_release(certificates=certificates))
    assert [bar.error for bar in bars[:2]] == [0.03, 0.04]
    assert bars[0].name.lower() == CLASSES[second].says.lower()
    assert bars[1].length == 100.0


def test_bars_that_say_the_same_are_one():
    release = toy_release(certificate=Certificate(0.02, 0.05, 10.0), deviations=None)
    assert [bar.name for bar in report.error_bars(release)] == ["All queries"]
    nothing = toy_release(certificate=None, guarantee=Guarantee(1.0, 0.05, "vacuous"))
    assert report.error_bars(nothing) == []


def test_the_budget_is_in_percent_and_says_what_it_is_still_good_for(page):
    from maquette.core.budget import UNITS, Unit, epsilon_for_units

    release = toy_release()
    assert release.account is not None
    text = report.account_in_words(release.account, delta=1e-6)
    assert text.startswith("36.0 % spent, 0.0 % reserved, 64.0 % left; ")
    epsilon = epsilon_for_units(round(0.064 * UNITS), Unit.RHO, delta=1e-6)
    assert text.endswith(f"one more release could have up to epsilon = {epsilon:g}, delta = 1e-06")
    assert f"epsilon = {epsilon:g}, delta = 10⁻⁶" in page.text


def test_the_columns_are_listed_and_hashes_are_folded_away(page):
    entries = {entry.name: entry for entry in report.column_entries(toy_release())}
    assert entries["sex"].values.startswith("Female, Male") or entries["sex"].values.startswith(
        "Male, Female"
    )
    assert "bins" in entries["age"].values
    source = toy_release().report()
    digest = source.index(toy_domain().fingerprint)
    opened, closed = source.rindex("<details>", 0, digest), source.rindex("</details>", 0, digest)
    assert opened > closed


def test_the_example_can_be_asked():
    release = toy_release()
    example = report._example(release)
    assert example in Page(release.report()).text.replace("\u00a0", " ")
    assert release.answer(example).value >= 0


def related_release():
    """Answers of a two-way table in which one value goes with one other, and a table that is flat."""
    import dataclasses

    from maquette.models.answers import Answers

    columns = [
        {"name": "a", "kind": "categorical", "categories": ["x", "y"]},
        {"name": "b", "kind": "categorical", "categories": ["u", "v"]},
        {"name": "c", "kind": "categorical", "categories": ["s", "t"]},
    ]
    workload = marginals(Domain.from_dict({"attributes": columns}), k=2)
    release = toy_release(workload, rows=False, model=None, deviations=None)
    tables: dict[tuple[str, ...], list[int]] = {
        ("a", "b"): [400, 100, 95, 405],
        ("a", "c"): [250, 250, 250, 250],
        ("b", "c"): [0, 495, 250, 255],
    }
    numerators = np.concatenate([tables[margin] for margin in workload.slices])
    return dataclasses.replace(release, answers=Answers(numerators, 1000))


def test_heat_maps_show_the_strongest_tables_first():
    maps = pairs.heat_maps(related_release())
    assert [(one.down, one.across) for one in maps] == [("a", "b"), ("b", "c")]  # the flat one is left out
    (first, cells), _ = maps[0].rows
    assert first == "x"
    assert [cell.text for cell in cells] == ["40.0", "10.0"]
    assert [cell.tone for cell in cells] == [3, -3]
    assert maps[0].error == pytest.approx(0.01)
    assert maps[0].caption == "every cell within 1.0 points, all together"


def test_a_map_whose_errors_hold_one_by_one_says_so(monkeypatch):
    import dataclasses

    real = pairs.estimate

    def for_one_cell(release, query):
        result = real(release, query)
        return None if result is None else dataclasses.replace(result, alone=True)

    monkeypatch.setattr(pairs, "estimate", for_one_cell)
    for one in pairs.heat_maps(related_release()):
        assert one.caption.startswith("each cell by itself within 1.0 points")


def test_cells_below_their_error_are_pale():
    maps = {(one.down, one.across): one for one in pairs.heat_maps(related_release())}
    (_, cells), _ = maps["b", "c"].rows
    assert [cell.is_sure for cell in cells] == [False, True]
    assert cells[0].tone == -1
    assert "faint" in related_release().report()


def test_without_marginals_there_is_no_heat_map():
    assert pairs.heat_maps(toy_release(prefixes(toy_domain(), "age"))) == []


@pytest.mark.slow
def test_every_bar_that_the_workload_covers_has_a_whisker(tmp_path):
    import pyarrow as pa

    domain = mq.Domain.from_dict(
        {
            "attributes": [
                {"name": "x", "kind": "numeric", "bounds": [0, 4096], "bins": 4096, "nullable": True}
            ]
        }
    )
    values = [None if i % 5 == 0 else float(7 * i % 4096) for i in range(3000)]
    table = mq.open(pa.table({"x": values}), domain=domain)
    release = mq.release(
        table, mq.ranges(domain, "x"), epsilon=8.0, mechanism="smalldb", ledger=tmp_path / "x.ledger"
    )
    shares = dict(report.shares_of(release, domain["x"]))
    assert "(missing)" in shares
    assert all(share.error is not None for share in shares.values())


def test_the_report_of_a_folder_links_to_its_files_and_no_other_does(tmp_path):
    from maquette.results.folder import FILES

    release = toy_release()
    assert "<a href" not in release.report()
    place = release.save(tmp_path / "out.maquette")
    page = (place / "report.html").read_text()
    links = re.findall(r'<a href="([^"]+)"', page)
    assert links
    assert set(links) <= set(FILES)
    assert all((place / name).is_file() for name in links)
    exported = release.export(tmp_path / "files", tables=[("sex",)])
    links = re.findall(r'<a href="([^"]+)"', (exported / "report.html").read_text())
    assert {"dictionary.csv", "answers.csv", "tables/sex.csv"} <= set(links)
    assert all((exported / name).is_file() for name in links)


@pytest.mark.parametrize("queries", [mq.prefixes, mq.ranges])
def test_other_and_missing_values_have_one_bar_where_only_both_together_have_an_error(queries):
    ages = {
        "name": "age",
        "kind": "numeric",
        "bounds": [0, 10],
        "bins": 5,
        "nullable": True,
        "overflow": True,
    }
    domain = mq.Domain.from_dict({"attributes": [ages]})
    book = mq.Ledger.memory(
        budget=mq.Budget(1.0, 1e-6),
        relation=mq.Relation.ADD_REMOVE,
        domain_fingerprint=domain.fingerprint,
        name="test",
    )
    table = mq.open({"age": [1.0, 4.0, 9.0, 30.0, None] * 200}, domain=domain, name="people")
    release = mq.release(table, queries(domain, "age"), epsilon=1.0, delta=1e-6, ledger=book)
    shares = dict(report.shares_of(release, domain["age"]))
    assert list(shares)[-1] == "(other or missing)"
    assert len(shares) == 6
    assert all(share.error is not None for share in shares.values())

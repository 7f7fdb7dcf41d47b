"""What a notebook shows: short in a line, escaped in HTML, whatever the table calls its columns and values."""

from __future__ import annotations

from dataclasses import replace

import pytest

import maquette as mq
from maquette.queries import predicates, weights
from maquette.results.statements import Certificate, ClassCertificate, GroupCertificate

HOSTILE = "<script>alert('x')</script>"
QUOTED = f'"{HOSTILE}"'
DOMAIN = mq.Domain.from_dict(
    {
        "attributes": [
            {"name": HOSTILE, "kind": "categorical", "categories": ["a", f"b{HOSTILE}"]},
            {"name": "age", "kind": "numeric", "bounds": [0, 100], "bins": 10},
        ]
    }
)
IS_A = f"{QUOTED} = 'a'"


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    place = tmp_path_factory.mktemp("notebook")
    lines = [f"{'a' if i % 3 else 'c'},{i % 100}" for i in range(3000)]
    (place / "t.csv").write_text(f'"{HOSTILE}",age\n' + "\n".join(lines) + "\n")
    return mq.open(place / "t.csv", domain=DOMAIN, name=HOSTILE), place / "t.ledger"


@pytest.fixture(scope="module")
def shown(table):
    handle, ledger = table
    release = mq.release(handle, mq.marginals(DOMAIN, k=2), epsilon=2.0, ledger=ledger, total_epsilon=8.0)
    session = mq.session(handle, epsilon=4.0, alpha=0.1, queries=20, ledger=ledger)
    answer = session.ask(IS_A)
    group = GroupCertificate(HOSTILE, 3, 0.01, 30.0)
    queries = {
        "marginals": mq.marginals(DOMAIN, k=2),
        "workload": mq.marginals(DOMAIN, k=1) + mq.prefixes(DOMAIN, "age"),
        "predicate": mq.where(DOMAIN, IS_A),
        "predicates": predicates(DOMAIN, [IS_A, "age < 10"]),
        "weights": weights(DOMAIN, [[1, 0]], attributes=[HOSTILE]),
    }
    return queries | {
        "domain": DOMAIN,
        "table": handle,
        "answer": release.answer(IS_A),
        "certificate": Certificate(0.02, 0.05, 60.0, (group,)),
        "class": ClassCertificate("one attribute", 0.02, 0.05, 60.0, 1.0, "rows"),
        "guarantee": release.guarantee,
        "plan": mq.plan(mq.marginals(DOMAIN, k=2), n=3000, epsilon=1.0),
        "release": replace(release, notes=(HOSTILE,)),
        "frame": release.table(HOSTILE),
        "session": session,
        "session answer": answer,
        "session frame": session.sql(f"select {QUOTED}, count(*) from t group by 1"),
    }


QUERIES = ["marginals", "workload", "predicate", "predicates", "weights"]
STATEMENTS = ["answer", "certificate", "class", "session answer"]
FRAMES = ["frame", "session frame", "plan", "release", "session"]
NAMES = [*QUERIES, *STATEMENTS, *FRAMES, "domain", "table"]


@pytest.mark.parametrize("name", NAMES)
def test_html_is_there_and_escaped(shown, name):
    html = shown[name]._repr_html_()
    assert "<table" in html
    assert "<script" not in html
    assert html.count("<table>") == html.count("</table>") == 1


@pytest.mark.parametrize("name", [*QUERIES, *STATEMENTS, "domain", "guarantee", "session"])
def test_a_line_is_short(shown, name):
    text = repr(shown[name])
    assert "\n" not in text
    assert len(text) < 250


def test_a_long_class_of_queries_is_cut():
    many = predicates(DOMAIN, [f"age < {10 * i}" for i in range(1, 9)] * 20)
    union = many + mq.where(DOMAIN, " or ".join(f"age < {10 * i}" for i in range(1, 9)) + " or age >= 90")
    assert len(repr(union)) < 150
    assert "more" in many._repr_html_()


def test_prices_are_shown_in_percent_and_errors_in_points(shown):
    assert "% left" in repr(shown["session"])
    assert "points" in repr(shown["answer"])
    assert "points" in shown["session answer"]._repr_html_()
    assert "points" in repr(shown["plan"])


# --- values of other libraries, and progress, in a running notebook ---


def test_rows_show_themselves_and_other_arrow_tables_as_before(table):
    import pyarrow as pa
    from IPython.testing.globalipapp import start_ipython

    shell = start_ipython()
    formatter = shell.display_formatter.formatters["text/html"]
    formatter.enabled = True  # as in a notebook; a terminal shows text alone
    handle, ledger = table
    release = mq.release(handle, mq.marginals(DOMAIN, k=2), epsilon=2.0, ledger=ledger, total_epsilon=8.0)
    rows = release.rows
    html = formatter(rows)
    assert "no row is a person" in html
    assert "<script>" not in html
    assert formatter(pa.table({"a": [1]})) is None
    formatter.for_type(pa.Table, lambda _: "others")
    again = mq.load(release.save(ledger.with_name("t.maquette")))
    assert "no row is a person" in formatter(again.rows)
    assert formatter(pa.table({"a": [1]})) == "others"


def test_progress_is_one_line_that_goes_on_in_its_place(monkeypatch):
    from IPython import display

    from maquette.progress import InNotebook, Stage

    told: list[str] = []

    class Place:
        def update(self, html):
            told.append(html.data)

    def show(html, display_id):
        told.append(f"first {html.data}")
        return Place()

    monkeypatch.setattr(display, "display", show)
    watcher = InNotebook()
    watcher.expect([Stage("reading", 1.0), Stage("<fitting>", 1.0)])
    watcher("reading", 0.5)
    watcher("<fitting>: 3 of 4", 2.0)
    watcher("else", 0.0)
    assert [line.partition(" <progress")[0] for line in told] == [
        "first 1 of 2: reading",
        "2 of 2: &lt;fitting&gt;: 3 of 4",
        "else",
    ]
    assert "value='1.000'" in told[1]

"""`maquette ask` and the ledger's view of sessions, on the command line."""

import json

import pytest
from typer.testing import CliRunner

from maquette.accounting.ledger import Ledger, Receipt
from maquette.cli.app import app
from support.cli_files import call, refused, write_domain, write_table


@pytest.fixture
def desk(tmp_path):
    table, domain = write_table(tmp_path, rows=4000), write_domain(tmp_path)
    ledger = tmp_path / "people.ledger"

    def ask(*words):
        return call("ask", table, "--domain", domain, "--epsilon", 2, "--ledger", ledger, "-q", *words)

    return ask, ledger, table, domain


def test_a_question_is_answered_with_its_error_cost_and_receipt(desk):
    ask, ledger, *_ = desk
    ended = ask("--alpha", 0.2, "sex = 'Male'")
    assert ended.code == 0
    assert "± " in ended.out
    assert "(paid)" in ended.out
    assert "of the session's budget left" in ended.out
    again = ask("--alpha", 0.2, "sex <> 'Female'")
    assert "(cached)" in again.out
    receipt = ended.out.split("receipt ")[1].split()[0]
    Ledger.open(ledger).verify(Receipt.parse(receipt))


def test_json_is_one_document_with_all_answers(desk):
    ask, *_ = desk
    found = ask("--json", "--alpha", 0.2, "sex = 'Male'", "sex = 'Male' and age < 30", "TRUE").json
    assert [a["kind"] for a in found["answers"]] == ["paid", "paid", "free"]
    one = found["answers"][0]
    assert abs(one["value"] - 0.4) <= one["error"] <= 0.2
    assert set(one["receipt"]) == {"seq", "head"}
    assert one["left"] < 2.0
    assert found["session"].startswith("session-")


def test_a_forecast_costs_nothing(desk):
    ask, ledger, *_ = desk
    ended = ask("--forecast", "--alpha", 0.2, "sex = 'Male'")
    assert "% of the budget" in ended.out
    assert not any(e.parent for e in Ledger.open(ledger).entries(kind="reserve"))


def test_an_exhausted_budget_ends_with_3_and_says_so(desk):
    ask, *_ = desk
    words = ("--alpha", 0.2, "--queries", 1)
    assert ask(*words, "sex = 'Male'").code == 0
    refused(ask(*words, "age < 30"), "takes 1 questions", code=3)
    assert ask(*words, "sex = 'Female'").code == 0


def test_what_cannot_be_read_is_refused_before_a_ledger_is_made(desk):
    ask, ledger, *_ = desk
    refused(ask("height > 3"), "height")
    refused(ask("--alpha", 3, "sex = 'Male'"), "alpha")
    assert not ledger.exists()


@pytest.mark.slow
def test_questions_from_a_pipe_go_one_per_line(desk):
    _, ledger, table, domain = desk
    words = ["ask", str(table), "--domain", str(domain), "--epsilon", "2", "--alpha", "0.2", "-q"]
    text = "sex = 'Male'\n\nnonsense = 3\n:forecast age < 10\n:budget\n:history\n:magic\n:help\n:quit\nage < 20\n"
    done = CliRunner().invoke(app, [*words, "--ledger", str(ledger)], input=text)
    assert done.exit_code == 2  # two lines could not be read
    assert done.stdout.count("(paid)") == 1
    assert "measured: at most" in done.stdout or "if it fails: at most" in done.stdout
    assert "number of records" in done.stdout
    assert "nonsense" in done.stderr
    assert ":magic" in done.stderr


def test_a_pipe_that_exhausts_the_budget_ends_with_3(desk):
    _, ledger, table, domain = desk
    words = ["ask", str(table), "--domain", str(domain), "--epsilon", "2", "--alpha", "0.2", "--queries", "1"]
    text = "sex = 'Male'\nage < 30\nsex = 'Female'\n"
    done = CliRunner().invoke(app, [*words, "--ledger", str(ledger), "-q", "--json"], input=text)
    assert done.exit_code == 3
    first, _, rest = done.stdout.partition("\n}\n")
    assert json.loads(f"{first}}}")["kind"] == "paid"
    assert json.loads(rest)["kind"] == "cached"  # the lines after the refused one are still answered
    assert "refused" in done.stderr


def test_the_prompt_writes_synthetic_rows(desk, tmp_path):
    _, ledger, table, domain = desk
    words = ["ask", str(table), "--domain", str(domain), "--epsilon", "2", "--alpha", "0.2", "-q"]
    target = tmp_path / "rows.csv"
    text = f"sex = 'Male'\n:synthetic 25 {target}\n:synthetic many x\n"
    done = CliRunner().invoke(app, [*words, "--ledger", str(ledger)], input=text)
    assert done.exit_code == 2
    assert len(target.read_text().splitlines()) == 26
    assert "such as :synthetic 1000" in done.stderr


def test_a_terminal_shows_the_price_and_asks_before_it_pays(desk, monkeypatch):
    from maquette.cli import ask as asking
    from maquette.cli import options, prompt
    from maquette.requests import Payer, SessionRequest

    lines = iter(["sex = 'Male'", "sex = 'Male'", "sex = 'Male'", ":quit"])
    agreed = iter([False, True, False, True])  # not the size; the size but not the question; the question
    monkeypatch.setattr(prompt.sys, "stdin", type("Tty", (), {"isatty": lambda self: True})())
    monkeypatch.setattr(prompt.typer, "confirm", lambda text, default: next(agreed))
    monkeypatch.setattr("builtins.input", lambda prompt: next(lines))
    said: list[str] = []
    monkeypatch.setattr(prompt.console, "say", lambda text="": said.append(text))
    _, ledger, table, domain = desk
    asking.ask(
        table=options.TableFile(source=str(table), domain=domain),
        wish=SessionRequest(epsilon=2.0, alpha=0.2),
        questions=asking.Questions(),
        payer=Payer(ledger=str(ledger)),
        reading=options.TableReading(),
        shown=options.Shown(quiet=True),
    )
    assert sum("(paid)" in line for line in said) == 1
    assert next(agreed, None) is None
    assert any("of the session's budget left" in line for line in said)


@pytest.mark.slow
def test_the_ledger_shows_sessions_their_questions_and_spending_over_time(desk, tmp_path):
    ask, ledger, *_ = desk
    ask("--alpha", 0.3, "sex = 'Male'", "age < 30", "age < 60")
    shown = call("ledger", "show", ledger)
    assert "session" in shown.out
    assert "number of records" in shown.out
    assert "sex = 'Male'" in shown.out
    assert "threshold" not in shown.out
    plot = tmp_path / "spent.svg"
    assert call("ledger", "show", ledger, "--plot", plot).code == 0
    assert plot.read_text().startswith("<svg")
    refused(call("ledger", "show", ledger, "--plot", tmp_path / "spent.doc"), ".svg")
    found = call("ledger", "show", ledger, "--json").json
    assert "sex = 'Male'" in [p["question"] for p in found["payments"]]


def test_points_of_the_plot_end_at_the_balance(desk):
    from maquette.cli.ledger_views import ASIDE, LOOKED, points

    ask, ledger, *_ = desk
    ask("--alpha", 0.3, "sex = 'Male'", "age < 30")
    book = Ledger.open(ledger)
    found = points(book)
    last = {p["what"]: p["amount"] for p in found}
    assert last[ASIDE] == book.spent_units / 10**12
    assert 0 < last[LOOKED] < last[ASIDE]
    assert [p["amount"] for p in found if p["what"] == LOOKED] == sorted(
        p["amount"] for p in found if p["what"] == LOOKED
    )


def test_the_plot_is_in_percent_of_the_ledger(desk):
    from maquette.cli.ledger_views import ASIDE, specification

    ask, ledger, *_ = desk
    ask("--alpha", 0.3, "sex = 'Male'")
    book = Ledger.open(ledger)
    plot = specification(book)
    last = [one["percent"] for one in plot["data"]["values"] if one["what"] == ASIDE][-1]
    assert last == pytest.approx(100 * book.spent_units / book.total_units)
    assert plot["layer"][0]["encoding"]["y"]["title"] == "percent of the ledger"


def test_a_ledger_that_was_cut_back_fails_the_receipt_of_a_session(desk):
    import shutil

    ask, ledger, *_ = desk
    ask("--alpha", 0.3, "sex = 'Male'")
    with Ledger.open(ledger) as book:
        book.verify()
    old = ledger.with_suffix(".old")
    shutil.copy(ledger, old)
    receipt = ask("--json", "--alpha", 0.3, "age < 30").json["answers"][0]["receipt"]
    text = f"{receipt['seq']}:{receipt['head']}"
    assert call("ledger", "verify", ledger, "--receipt", text).code == 0
    refused(call("ledger", "verify", old, "--receipt", text), "cut back")


QUESTIONS = """# what we want to know
sex = 'Male'

sex = 'Male' and age < 30
sex <> 'Male'
TRUE
"""


def test_a_file_of_questions_is_answered_in_order(desk, tmp_path):
    ask, *_ = desk
    file = tmp_path / "questions.txt"
    file.write_text(QUESTIONS)
    found = ask("--json", "--alpha", 0.2, "--file", file, "age < 60").json["answers"]
    assert [a["kind"] for a in found] == ["paid", "paid", "paid", "cached", "free"]
    assert found[3]["value"] == 1 - found[1]["value"]
    shown = ask("--alpha", 0.2, "-f", file)
    assert shown.code == 0
    assert shown.out.count("(cached)") == 3
    assert "of the session's budget left" in shown.out


def test_a_line_that_cannot_be_read_is_named_before_a_ledger_is_made(desk, tmp_path):
    ask, ledger, *_ = desk
    file = tmp_path / "questions.txt"
    file.write_text(QUESTIONS + "height > 3\n")
    refused(ask("--file", file), "line 7")
    refused(ask("--file", tmp_path / "none.txt"), "cannot read the questions")
    file.write_bytes(b"\xff\xfe\x00")
    refused(ask("--file", file), "not UTF-8")
    assert not ledger.exists()


def test_an_empty_file_asks_nothing_and_opens_no_prompt(desk, tmp_path):
    ask, *_ = desk
    file = tmp_path / "questions.txt"
    file.write_text("# nothing\n")
    ended = ask("--file", file, "--json")
    assert ended.code == 0
    assert ended.json["answers"] == []


def test_refused_questions_of_a_file_are_told_in_their_places(desk, tmp_path):
    ask, *_ = desk
    file = tmp_path / "questions.txt"
    file.write_text("sex = 'Male'\nage < 30\nsex = 'Female'\n")
    ended = ask("--alpha", 0.2, "--queries", 1, "--file", file)
    assert ended.code == 3
    assert "takes 1 questions" in ended.err
    assert ended.out.count("(paid)") == ended.out.count("(cached)") == 1
    found = ask("--json", "--alpha", 0.2, "--queries", 1, "--file", file)
    assert found.code == 3
    assert [a.get("why") is None for a in found.json["answers"]] == [True, False, True]


@pytest.mark.slow
def test_an_answer_that_would_say_nothing_is_refused_unless_it_is_wanted(tmp_path):
    table, domain = write_table(tmp_path, rows=60), write_domain(tmp_path)
    ledger = tmp_path / "people.ledger"
    words = ["ask", table, "--domain", domain, "--epsilon", 0.5, "--ledger", ledger, "-q"]
    ended = call(*words, "age < 30")
    assert ended.code == 2
    assert "no better than a guess" in ended.err
    assert "--allow-useless" in ended.err
    units = [e.units for e in Ledger.open(ledger).entries(kind="reserve") if e.parent]
    told = call(*words, "--forecast", "age < 30")
    assert "would be refused: its error would be so large" in told.out
    assert call(*words, "age < 30").code == 2
    assert [e.units for e in Ledger.open(ledger).entries(kind="reserve") if e.parent] == units
    done = CliRunner().invoke(app, [str(w) for w in words], input="age < 30\n")
    assert done.exit_code == 2
    wanted = call(*words, "--allow-useless", "age < 30")
    assert wanted.code == 0
    assert "(paid)" in wanted.out

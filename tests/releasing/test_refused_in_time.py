"""What cannot be used is refused before it is reserved, replaced or read; what is odd is said."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import maquette as mq
from maquette.accounting.ledger import Ledger
from maquette.domain import Attribute, Domain, Kind
from maquette.errors import MechanismError, ParameterError
from maquette.results import loading
from support.cli_files import Desk, call, refused, write_domain, write_table
from support.made_release import toy_columns, toy_domain

DOMAIN = toy_domain()
QUERIES = mq.marginals(DOMAIN, k=1)


def table() -> mq.Table:
    coded = toy_columns(DOMAIN, 60)
    return mq.open({a.name: a.decode(coded[a.name])[0].tolist() for a in DOMAIN}, domain=DOMAIN)


@pytest.fixture
def own(tmp_path) -> Desk:
    return Desk(tmp_path, write_table(tmp_path), write_domain(tmp_path))


def unread(monkeypatch) -> None:
    """From here on a table that is opened fails the test."""
    monkeypatch.setattr("maquette.owner.open", lambda *_, **__: pytest.fail("the table was opened"))


# --- keys ---


@pytest.mark.parametrize("length", [181, 195, 196, 199, 200, 201, 1000])
def test_a_key_whose_parts_would_be_too_long_reserves_nothing(tmp_path, length):
    place = tmp_path / "x.ledger"
    with pytest.raises(ParameterError, match="characters"):
        mq.release(table(), QUERIES, epsilon=1.0, ledger=place, key="k" * length)
    with pytest.raises(ParameterError, match="characters"):
        mq.session(table(), epsilon=1.0, alpha=0.5, ledger=place, key="k" * length)
    with Ledger.open(place) as book:
        assert (book.spent_units, book.balance().reserved_units) == (0, 0)
        assert [entry.kind for entry in book.entries()] in (["open"], ["open", "bind"])


def test_the_longest_key_works(tmp_path):
    made = mq.release(table(), QUERIES, epsilon=1.0, ledger=tmp_path / "x.ledger", key="k" * 180)
    assert made.parameters["key"] == "k" * 180
    assert loading.load(made.save(tmp_path / "a"), ledger=tmp_path / "x.ledger").checked == "bound"


# --- memory ---


@pytest.mark.parametrize("mechanism", ["sculpt", "residual", "gaussian"])
def test_what_has_no_room_on_the_machine_is_refused_before_payment(tmp_path, monkeypatch, mechanism):
    """By the memory of the machine and the public sizes: the rows have no say, nor has what is free."""
    domain = Domain(tuple(Attribute(f"a{i}", Kind.ORDINAL, codes=150) for i in range(4)), reviewed=True)
    wide = mq.open({a.name: [0, 1, 2] for a in domain}, domain=domain)
    place = tmp_path / "x.ledger"
    many = mq.marginals(domain, k=3)
    assert many.count == 4 * 150**3
    have = SimpleNamespace(total=1_000 * 10**6)
    monkeypatch.setattr("maquette.releasing.planning.psutil.virtual_memory", lambda: have)
    with pytest.raises(
        MechanismError, match=r"about [\d,]+ MB for 13,500,000 answers.*has 1,000 MB.*Nothing was paid"
    ):
        mq.release(wide, many, epsilon=1.0, delta=1e-9, mechanism=mechanism, ledger=place)
    assert not place.exists()


@pytest.mark.parametrize("rows", [1, 3000])
def test_what_has_no_room_under_the_limit_is_refused_before_payment(tmp_path, rows):
    """By public sizes alone: a table of one record is refused with the same words as one of many."""
    domain = Domain(tuple(Attribute(f"a{i}", Kind.ORDINAL, codes=150) for i in range(4)), reviewed=True)
    values = {a.name: [7] * rows for a in domain}
    place, many = tmp_path / "x.ledger", mq.marginals(domain, k=3)
    ask = {"epsilon": 1.0, "delta": 1e-9, "mechanism": "sculpt", "ledger": place}
    with pytest.raises(MechanismError) as error:
        mq.release(mq.open(values, domain=domain, memory_limit=10**9), many, **ask)
    assert str(error.value) == (
        "mechanism 'sculpt' takes about 972 MB for 13,500,000 answers beside rows and counted tables, and the memory "
        "limit of 1,000 MB leaves 375 MB for them; set a limit of 2,592 MB (memory_limit= in bytes, --memory in MB), "
        "or ask for smaller or fewer tables (fewer attributes together, coarser cells). Nothing was paid"
    )
    assert not place.exists()


def test_a_small_release_has_room_under_any_limit(tmp_path):
    """A limit of 0 says that rows are to be read anew for every question."""
    columns = toy_columns(DOMAIN, 60)
    values = {a.name: a.decode(columns[a.name])[0].tolist() for a in DOMAIN}
    streamed = mq.open(values, domain=DOMAIN, memory_limit=0)
    made = mq.release(streamed, QUERIES, epsilon=1.0, ledger=tmp_path / "x.ledger")
    assert len(made.answers.fractions) == QUERIES.count


# --- folders ---


@pytest.mark.slow
def test_a_command_replaces_another_release_only_if_asked_to(own, monkeypatch):
    assert own.release("--total-epsilon", 3).code == 0
    before = loading.load(own.place).parameters["key"]
    assert own.release("--total-epsilon", 3, replace=False).code == 0  # the same command again
    with monkeypatch.context() as patch:
        unread(patch)
        refused(own.release("--key", "other", replace=False), "holds another release", "--replace")
    assert loading.load(own.place).parameters["key"] == before
    with Ledger.open(own.ledger) as book:
        assert book.find("other") is None  # nothing was reserved or paid
    assert own.release("--key", "other").code == 0
    assert loading.load(own.place).parameters["key"] == "other"


@pytest.mark.slow
def test_a_release_of_another_ledger_is_refused_before_it_is_paid(own, monkeypatch, tmp_path):
    """The same request has the same key in every ledger; what another one paid for is another release."""
    assert own.release("--total-epsilon", 3).code == 0
    elsewhere = tmp_path / "second.ledger"
    with monkeypatch.context() as patch:
        unread(patch)
        again = own.release("--ledger", elsewhere, "--total-epsilon", 3, replace=False)
        refused(again, "holds another release", "--replace")
    assert not elsewhere.exists()


# --- totals ---


@pytest.mark.slow
@pytest.mark.parametrize("options", [("--total-epsilon", 5), ("--total-delta", 1e-6)])
def test_a_total_that_is_not_the_ledgers_is_refused(own, options):
    assert own.release("--total-epsilon", 3).code == 0
    refused(own.release("--key", "b", *options), "was made with a total of epsilon=3", "fixed")
    asked = ("ask", own.table, "--domain", own.domain, "--ledger", own.ledger, "--epsilon", 1, "sex = 'Male'")
    refused(call(*asked, *options), "was made with a total of epsilon=3")
    with Ledger.open(own.ledger) as book:
        assert book.find("b") is None
    assert own.release("--key", "b", "--total-epsilon", 3).code == 0


# --- weak budgets ---


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "delta", "words"), [(1e6, 0.0, "hardly anybody"), (1.0, 0.5, "one record in 2")]
)
def test_weak_budgets_are_warned_of(own, epsilon, delta, words):
    with pytest.warns(mq.WeakPrivacyWarning, match=words) as seen:
        mq.release(table(), QUERIES, epsilon=epsilon, delta=delta, ledger="memory")
    assert seen[0].filename == __file__
    with pytest.warns(mq.WeakPrivacyWarning, match=words):
        mq.session(table(), epsilon=epsilon, delta=delta, alpha=0.5, ledger="memory")
    done = own.release("--delta", delta, epsilon=epsilon)
    assert done.code == 0
    assert done.err.count("warning: ") == 1
    assert words in done.err
    made = call(
        "ledger", "create", own.folder / "y", "--domain", own.domain, "--epsilon", epsilon, "--delta", delta
    )
    assert words in made.err


def test_usual_budgets_are_not_warned_of():
    for budget in (mq.Budget(10.0, 1e-3), mq.Budget(1.0), mq.Budget(0.1, 1e-9)):
        assert budget.weaknesses == ()


# --- before the table is read ---


@pytest.mark.parametrize("option", [("--mechanism", "magic"), ("--relation", "cousins"), ("--post", "haste")])
def test_unknown_words_are_refused_before_the_table_is_opened(own, monkeypatch, option):
    unread(monkeypatch)
    refused(own.release(*option), f"expected {option[0][2:]}")
    if option[0] != "--post":
        asked = (
            "ask",
            own.table,
            "--domain",
            own.domain,
            "--ledger",
            own.ledger,
            "--epsilon",
            1,
            "sex = 'Male'",
        )
        refused(call(*asked, *option), f"expected {option[0][2:]}")
    assert not own.ledger.exists()


def test_marginals_of_no_attribute_are_refused(own, monkeypatch):
    with pytest.raises(mq.WorkloadError, match="no attribute"):
        mq.release(table(), mq.marginals(DOMAIN, k=0), epsilon=1.0, ledger="memory")
    unread(monkeypatch)
    usual = ("--domain", own.domain, "--epsilon", 1, "--marginals", 0)
    refused(call("release", own.table, *usual, "--ledger", own.ledger), "--marginals 1 or more")
    refused(call("plan", *usual, "--n", 100), "--marginals 1 or more")
    assert not own.ledger.exists()

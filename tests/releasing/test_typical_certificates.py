# type: ignore  (annotations of tests are not checked)
"""Typical errors of a release: what is drawn and bought, what is said, and that it holds."""

import json
from dataclasses import replace

import numpy as np
import pytest

import maquette as mq
from maquette.core.combinations import axes_of
from maquette.core.rows.engine import typical_errors
from maquette.core.typical import Conjunctions, TypicalQuestion
from maquette.models.answers import generator
from maquette.owner import engine_of
from maquette.queries import typical
from maquette.queries.typical import TYPICAL, QuestionKind
from maquette.releasing.certify import certify_typical, share_of_beta
from releasing.test_class_certificates import DOMAIN, PAIRS, columns, decided, ledger, made

SOME = ("nine in ten questions", "half of questions", "average pair")
ASKED = ["workload", "any combination", *SOME]


@pytest.fixture(scope="module")
def release():
    return made(6_000, certificate=ASKED)


# --- the law --------------------------------------------------------------------------------------------------------


def test_questions_follow_the_law(release):
    released = release.distribution.rows()
    axes = axes_of(DOMAIN, released.names)
    kind = TYPICAL["nine in ten questions"]
    drawn = kind.draw(axes, released.codes, np.random.default_rng(2))
    assert len(drawn) == typical.QUESTIONS
    sizes = np.array([axis.size for axis in axes])
    whole = (drawn.low == 0) & (drawn.high == sizes[drawn.columns] - 1)
    pairs = [zip(columns, wholes, strict=True) for columns, wholes in zip(drawn.columns, whole, strict=True)]
    orders = [len({int(column) for column, is_whole in pair if not is_whole}) for pair in pairs]
    assert set(orders) <= {0, 1, 2, 3, 4}
    assert len(set(orders)) >= 4
    shares = drawn.counts(released.codes, np.ones(len(released.codes), dtype=np.int64)) / len(released.codes)
    assert shares.min() >= typical.LEAST_SHARE
    is_value = drawn.low == drawn.high
    ordered = np.array([axis.ordered for axis in axes])[drawn.columns]
    declared = np.array([axis.declared for axis in axes])[drawn.columns]
    assert (is_value | whole | (ordered & (drawn.high < declared))).all()


@pytest.mark.parametrize("part", [0.5, 0.9])
@pytest.mark.parametrize("chance", [1e-2, 1e-5, 1e-9])
def test_the_rank_leaves_a_small_chance_to_be_unlike_the_kind(part, chance):
    kind = next(one for one in TYPICAL.values() if isinstance(one, QuestionKind) and one.part == part)
    rank = kind.rank(2_000, chance=chance)
    assert rank >= round(2_000 * (part + 0.05))
    simulated = np.random.default_rng(1).binomial(2_000, part, size=200_000)
    assert (simulated >= rank).mean() <= 2 * chance + 2e-5


def test_questions_that_hardly_anybody_meets_are_not_drawn():
    domain = mq.Domain.from_dict({"attributes": [{"name": "id", "kind": "categorical", "size": 900}]})
    rows = np.arange(900, dtype=np.uint16)[:, None]
    kind = TYPICAL["nine in ten questions on one column"]
    assert kind.draw(axes_of(domain, ("id",)), rows, np.random.default_rng(1)) is None


# --- what is bought -------------------------------------------------------------------------------------------------


def bought(n):
    return decided(n).certificate.classes


def test_they_are_bought_where_they_are_expected_to_be_worth_it():
    assert not set(bought(800)) & set(TYPICAL)
    few = [name for name in bought(20_000) if name in TYPICAL]
    assert 1 <= len(few) <= 3
    assert "average triple" not in few  # the workload has pairs only


def test_the_same_request_is_free_and_says_the_same():
    book = ledger()
    first = made(3_000, book=book, certificate=ASKED)
    spent = book.balance().charged_units
    again = made(3_000, book=book, certificate=ASKED)
    assert again.quality == first.quality
    assert [one.name for one in first.quality] == list(SOME)
    assert book.balance().charged_units == spent


def test_a_table_elsewhere_is_refused_by_name():
    table = replace(mq.open(columns(3_000), domain=DOMAIN, name="people"), lists_records=False)
    with pytest.raises(mq.ParameterError, match="stay where they are"):
        mq.release(table, PAIRS, ledger=ledger(), certificate="average pair", epsilon=1.0, delta=1e-6)


# --- what is said ---------------------------------------------------------------------------------------------------


def test_an_answer_says_both_and_blurs_nothing():
    large = made(60_000, certificate=ASKED)
    large = replace(large, quality=tuple(replace(one, alpha=1e-4) for one in large.quality))
    answer = large.answer("age >= 4 and member = 1 and region = 2")
    said = "nine in ten within 0.010 points and half of all within 0.010 points"
    assert answer.typical == f"of random questions like it {said}"
    assert "±" in str(answer).split(";")[0]
    assert str(answer).endswith(answer.typical)
    for text in ("age in (1, 3, 8)", "not (age = 3 and member = 1)", "age >= 4 or member = 1"):
        assert large.answer(text).typical is None
    assert large.answer("age = 0 and region = 3 and member = 1").typical is None  # hardly anybody
    without = replace(large, quality=tuple(replace(one, alpha=0.9) for one in large.quality))
    assert without.answer("age >= 4 and member = 1 and region = 2").typical is None


def test_facts_and_report_say_them(release, tmp_path):
    assert "nine in ten random questions on one to four columns within" in str(release)
    place = release.save(tmp_path / "one", report=True)
    assert (
        "the mean over all tables of two columns of their total variation"
        in (place / "report.html").read_text()
    )
    again = mq.load(place)
    assert again.quality == release.quality
    text = "age >= 4 and member = 1 and region = 2"
    assert again.answer(text) == release.answer(text)
    plain = made(2_000, certificate=["workload"]).save(tmp_path / "two", report=False)
    assert "quality" not in json.loads((plain / "release.json").read_text())


@pytest.mark.parametrize("edit", [{"over": 0}, {"name": "average table"}, {"alpha": -1.0}, {"beta": 0.0}])
def test_folders_with_others_are_refused(release, tmp_path, edit):
    place = release.save(tmp_path / "one", report=False)
    stored = json.loads((place / "release.json").read_text())
    stored["quality"][0] |= edit
    (place / "release.json").write_text(json.dumps(stored))
    with pytest.raises(mq.MaquetteError):
        mq.load(place)


# --- and holds ------------------------------------------------------------------------------------------------------


class Listener:
    """A curator that remembers what it was asked, and what it would have answered."""

    unit = mq.Budget(1.0, 1e-6, "gaussian").unit

    def __init__(self, curator):
        self.asked = []

    def typical_errors(self, released, statistics, *, price):
        self.asked.append(TypicalQuestion.of(DOMAIN, released, statistics).request())
        raise StopIteration


def requests(release):
    listener = Listener(None)
    terms = {"size": release.size, "price": 0.001, "beta": 0.01, "together": 0.05, "certificates": 4}
    with pytest.raises(StopIteration):
        certify_typical(listener, SOME, release.distribution, key="one", **terms)
    return listener.asked


def test_what_is_asked_follows_from_released_values_alone(release, monkeypatch):
    """And a sample that is drawn from the records instead is noticed: neighbours with the same rows ask differently."""
    assert requests(release) == requests(release)
    honest = QuestionKind.draw

    def asked_of(table):
        codes = np.repeat(*engine_of(mq.open(table, domain=DOMAIN)).distinct_records(DOMAIN.names), axis=0)
        monkeypatch.setattr(
            QuestionKind, "draw", lambda self, axes, rows, rng: honest(self, axes, codes, rng)
        )
        return requests(release)

    table = columns(300)
    neighbour = {name: column[:-1] for name, column in table.items()}
    planted = asked_of(table), asked_of(neighbour)
    assert planted[0] != planted[1]
    monkeypatch.setattr(QuestionKind, "draw", honest)
    assert requests(release) == requests(release)


def shares_within(release, records):
    """Of fresh questions of each kind, the part within the stated bound; of tables, whether the mean is."""
    released, engine = release.distribution.rows(), records
    n = engine.size()
    axes = axes_of(DOMAIN, released.names)
    found = []
    for one in release.quality:
        if isinstance(one.kind, QuestionKind):
            fresh = one.kind.draw(axes, released.codes, generator(f"fresh {n}"))
            codes, times = engine.distinct_records(released.names)
            gaps = np.abs(of(fresh, codes, times) / n - of(fresh, released.codes) / len(released.codes))
            found.append((gaps <= one.alpha).mean() - one.kind.part)
        else:
            statistic = one.kind.statistic(DOMAIN, released, rng=None, chance=0.5)
            (true,) = typical_errors(engine, TypicalQuestion.of(DOMAIN, released, [statistic]))
            found.append(one.alpha - (true - 1) / n)
    return found


def of(questions: Conjunctions, codes, times=None):
    return questions.counts(codes, np.ones(len(codes), dtype=np.int64) if times is None else times)


@pytest.mark.slow
@pytest.mark.accuracy
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_no_kind_is_farther_off_more_often_than_stated(relation):
    """Over 200 releases at beta = 0.2; the part of a kind within its bound is seen on fresh questions."""
    runs, beta, n = 200, 0.2, 1_000
    engine, failed = engine_of(mq.open(columns(n), domain=DOMAIN)), 0
    for _ in range(runs):
        one = made(n, beta=beta, relation=relation, certificate=ASKED)
        failed += (
            min(shares_within(one, engine)) < -0.01
        )  # what 2,000 fresh questions may be unlike their kind
    each = share_of_beta(beta, len(ASKED)) * len(SOME)
    assert failed <= runs * each + 3 * np.sqrt(runs * each)


def test_a_release_keeps_what_it_says(release):
    engine = engine_of(mq.open(columns(6_000), domain=DOMAIN))
    assert min(shares_within(made(6_000, beta=1e-9, certificate=ASKED), engine)) >= 0

"""One SELECT over one table: what is supported is read, everything else is refused by name."""

from __future__ import annotations

import contextlib
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maquette.domain import Domain
from maquette.errors import MaquetteError, WorkloadError
from maquette.results.select import SUPPORTED, Item, figure, parse_select

DOMAIN = Domain.from_dict(
    {
        "attributes": [
            {"name": "age", "kind": "numeric", "bounds": [0, 100], "bins": 10, "integer": True},
            {"name": "region", "kind": "categorical", "categories": ["a", "b", "c"]},
            {"name": "member", "kind": "boolean", "categories": ["no", "yes"]},
            {"name": "income", "kind": "numeric", "bounds": [0, 1000], "bins": 10},
            {"name": "hours per week", "kind": "numeric", "bounds": [0, 100], "bins": 10},
        ]
    }
)


def test_the_parts_of_a_statement():
    selection = parse_select(
        DOMAIN,
        "select region, count(*), avg(income) as pay from people where age >= 30 and region <> 'b' "
        "group by region order by 2 desc, region limit 3;",
    )
    assert selection.items == (
        Item("region", "region"),
        Item("count(*)", figure="count"),
        Item("pay", "income", "mean"),
    )
    assert selection.by == ("region",)
    assert selection.where == "age >= 30 AND region <> 'b'"
    assert selection.order == ((1, True), (0, False))
    assert selection.limit == 3


@pytest.mark.parametrize(
    ("text", "item"),
    [
        ("count(*)", Item("count(*)", figure="count")),
        ("COUNT(age) AS n", Item("n", "age", "count")),
        ("share()", Item("share()", figure="share")),
        ("sum(income)", Item("sum(income)", "income", "sum")),
        ("mean(income)", Item("mean(income)", "income", "mean")),
        ("median(age)", Item("median(age)", "age", "quantile", Fraction(1, 2))),
        ("quantile(age, 0.9)", Item("quantile(age, 0.9)", "age", "quantile", Fraction(9, 10))),
        ("quantile_cont(age, .25) q", Item("q", "age", "quantile", Fraction(1, 4))),
        ('avg("hours per week")', Item('avg("hours per week")', "hours per week", "mean")),
        ("COUNT( 1 )", Item("COUNT( 1 )", figure="count")),
        ("Avg(Income)", Item("Avg(Income)", "income", "mean")),
        ("quantile(age, 0)", Item("quantile(age, 0)", "age", "quantile", Fraction(0))),
        ("quantile(age, 1)", Item("quantile(age, 1)", "age", "quantile", Fraction(1))),
        (
            "percentile_cont(0.9) within group (order by age)",
            Item("percentile_cont(0.9) within group (order by age)", "age", "quantile", Fraction(9, 10)),
        ),
        (
            "percentile_disc(0.9) within group (order by age desc) q",
            Item("q", "age", "quantile", Fraction(1, 10)),
        ),
        ("count(*) filter (where age < 30) n", Item("n", figure="count", where="age < 30")),
        ("avg(income) filter (where age < 30) m", Item("m", "income", "mean", where="age < 30")),
        ("share(age < 30 and region = 'a') s", Item("s", figure="share", where="age < 30 AND region = 'a'")),
        ("avg(case when age < 30 then 1 else 0 end) p", Item("p", figure="part", where="age < 30")),
        ("avg(case when age < 30 then 1.0 else 0.0 end) p", Item("p", figure="part", where="age < 30")),
        ("sum(case when age < 30 then 1 else 0 end) n", Item("n", figure="count", where="age < 30")),
        ("count(case when age < 30 then 1 end) n", Item("n", figure="count", where="age < 30")),
        ("count_if(age < 30) n", Item("n", figure="count", where="age < 30")),
    ],
)
def test_figures(text, item):
    assert figure(DOMAIN, text) == item
    assert parse_select(DOMAIN, f"select {text} from t").items == (item,)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "expected a SELECT"),
        ("select * from t", "would list people"),
        ("select region from t", "neither a figure nor after GROUP BY"),
        ("select region from t group by region", "at least one figure"),
        ("select count(distinct age) from t", "DISTINCT"),
        ("select distinct region, count(*) from t group by 1", "DISTINCT"),
        ("select count(*) from t, u", "JOINS"),
        ("select count(*) from t join u on 1 = 1", "JOINS"),
        ("select count(*) from (select 1)", "one table after FROM"),
        ("select count(*) from read_csv('x')", "a function after FROM"),
        ("select count(*) from t tablesample (10 percent)", "one table after FROM"),
        ("with a as (select 1) select count(*) from a", "WITH"),
        ("select count(*) over () from t", "WINDOW"),
        ("select count(*) from t having count(*) > 1", "HAVING"),
        ("select count(*) from t union select 2", "UNION"),
        ("select count(*) from t; drop table t", "got SELECT and DROP"),
        ("delete from t", "DELETE"),
        ("select max(age) from t", "MAX"),
        ("select sum(age + 1) from t", "in place of an attribute"),
        ("select sum(distinct age) from t", "in place of an attribute"),
        ("select sum(region) from t", "'region' is categorical, not numeric"),
        ("select sum(agee) from t", "agee"),
        ("select count(*) from t limit 1 offset 2", "OFFSET"),
        ("select count(*) from t limit 1 + 1", "LIMIT takes a whole number"),
        ("select count(*) from t order by random()", "ORDER BY"),
        ("select count(*) from t order by 2", "ORDER BY 2"),
        ("select count(*) from t group by 2", "GROUP BY 2"),
        ("select age, count(*) from t group by age, age", "twice"),
        ("select age, count(*) from t group by rollup(age)", "in place of an attribute"),
        ("select count(*) from t group by all", "GROUP BY ALL"),
        ("select quantile(age, 1.5) from t", "from 0 to 1"),
        ("select quantile(age, 'x') from t", "from 0 to 1"),
        ("select frobnicate(age) from t", "frobnicate"),
        ("select count(*)", "expected FROM"),
        ("select avg(case when age < 30 then 1 end) from t", "CASE WHEN condition THEN 1 ELSE 0 END"),
        ("select avg(case when age < 30 then 2 else 0 end) from t", "CASE WHEN condition THEN 1 ELSE 0 END"),
        ("select count(case age when 3 then 1 end) from t", "CASE WHEN condition THEN 1 END"),
        ("select share(age < 3) filter (where age < 9) from t", "a condition of its own"),
        (
            "select percentile_cont(0.5) within group (order by age, income) from t",
            "other than one attribute",
        ),
        ("select avg(member) from t", "AVG(CASE WHEN member = 'yes' THEN 1 ELSE 0 END)"),
        ("select sum(member) from t", "SUM(CASE WHEN member = 'yes' THEN 1 ELSE 0 END)"),
        ("select avg(incme) from t", "did you mean 'income'?"),
        ("select count(*) from t where (((", "cannot read this SQL"),
        ("select " + ", ".join(["count(*)"] * 65) + " from t", "1 to 64 columns"),
        ("select count(*) from t -- " + "x" * 5000, "4096 characters"),
    ],
)
def test_everything_else_is_refused_by_name(text, words):
    with pytest.raises(WorkloadError) as refused:
        parse_select(DOMAIN, text)
    assert words in str(refused.value)


def test_a_refusal_says_what_is_supported():
    with pytest.raises(WorkloadError) as refused:
        parse_select(DOMAIN, "select max(age) from t")
    assert SUPPORTED in str(refused.value)


@pytest.mark.parametrize("text", ["age", "count(*), share()", "frob(", "mean(region)"])
def test_what_is_no_figure_is_refused(text):
    with pytest.raises(WorkloadError):
        figure(DOMAIN, text)


WORDS = st.from_regex(
    r"\A(select|count|\(|\*|\)|from|t|where|group by|order by|limit|region|age|income|,|;|avg|sum|share|'a'|1|0\.5|"
    r"desc|as|having|distinct|union|join|over|null|and|or|not|case|when|end|in|between)\Z"
)


@pytest.mark.law
@given(st.lists(WORDS, max_size=25).map(" ".join))
def test_any_words_are_read_or_refused(text):
    with contextlib.suppress(MaquetteError):
        parse_select(DOMAIN, text)

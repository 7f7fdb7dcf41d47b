"""`maquette plan`: mechanisms ranked by their error, or what sessions can promise; from public numbers only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maquette.cli import console, options
from maquette.errors import ParameterError
from maquette.requests import PlanRequest, ReleaseRequest, SessionRequest, WorkloadWords

if TYPE_CHECKING:
    from maquette.accounting.ledger import Balance
    from maquette.core.budget import Budget, Cost
    from maquette.domain import Domain
    from maquette.linked.forecast import LinkedForecast
    from maquette.mechanisms.base import ClassForecast, Forecast
    from maquette.queries.base import Queries
    from maquette.releasing.planning import Requirement
    from maquette.releasing.ranking import Comparison
    from maquette.schema import Schema

MARK = "→"
"""Beside the mechanism that a release takes by itself."""
_HEAD = ("", "mechanism", "guaranteed", "expected", "stated by", "time", "memory", "rows", "remark")


def register(app: typer.Typer) -> None:
    app.command("plan")(options.grouped(plan))


def plan(
    *,
    files: options.Declaration,
    wish: PlanRequest,
    workload: WorkloadWords,
    ledger: Annotated[
        str | None, typer.Option(help="A ledger, to see how much of it such a release would take.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Also list the mechanisms that cannot do this, and why.")
    ] = False,
    online: Annotated[
        bool, typer.Option("--online", help="For a session: error against the number of questions.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Rank the mechanisms by their error, from public inputs only. Spends nothing, opens no table.

    \b
    Example:
      maquette plan --domain people.domain.json --marginals 3 --n 20000 --epsilon 1 --delta 1e-9
      maquette plan --domain people.domain.json --online --n 20000 --epsilon 1
      maquette plan --schema census.schema.json --marginals 2 --n 20000 --epsilon 1 --delta 1e-9
    """
    from maquette.core.budget import Budget
    from maquette.domain import Domain
    from maquette.releasing.planning import plan as make_plan
    from maquette.releasing.planning import required

    declared = files.declared()
    if not isinstance(declared, Domain):
        _plan_tables(declared, wish, workload, online=online, ledger=ledger, as_json=as_json)
        return
    if online:
        say_online(declared, wish, as_json=as_json)
        return
    queries = options.read_workload(workload, declared)
    public = asdict(wish)
    alpha, weight = public.pop("alpha"), public.pop("weight")
    if alpha is not None:
        if (wish.n is None) == (wish.epsilon is None):
            raise ParameterError(
                "with --alpha give exactly one of --n and --epsilon; the other one is computed"
            )
        _say_required(required(queries, alpha=alpha, **public), as_json=as_json)
        return
    if wish.n is None or wish.epsilon is None:
        raise ParameterError("a plan needs --n and --epsilon (or --alpha and one of them)")
    ranked, budget = make_plan(queries, weight=weight, **public), Budget(wish.epsilon, wish.delta)
    if as_json:
        share = {} if ledger is None else {"ledger": _share(ledger, budget)}
        console.say_json(ranked.to_dict() | share)
        return
    say_plan(ranked, queries, every=every)
    if ledger is not None:
        _say_share(ledger, budget)


def _plan_tables(
    schema: Schema,
    wish: PlanRequest,
    workload: WorkloadWords,
    *,
    online: bool,
    ledger: str | None,
    as_json: bool,
) -> None:
    """Several tables: what is expected of each, and what other limits would change."""
    from maquette.linked.forecast import forecast

    if online or wish.alpha is not None or wish.weight is not None or wish.rows_per_person != 1:
        raise ParameterError("--online, --alpha, --weight and --rows-per-person are for one table")
    if wish.n is None or wish.epsilon is None:
        raise ParameterError(f"a plan needs --epsilon and --n, the number of units (rows of '{schema.unit}')")
    request = ReleaseRequest(
        epsilon=wish.epsilon, delta=wish.delta, relation=wish.relation, beta=wish.beta, typical_rows=wish.n
    )
    expected = forecast(schema, options.order_of(workload), request)
    if as_json:
        console.say_json(
            expected.to_dict() | ({} if ledger is None else {"ledger": _share(ledger, expected.budget)})
        )
        return
    _say_tables(expected, schema, beta=wish.beta)
    if ledger is not None:
        _say_share(ledger, expected.budget)


def _say_tables(expected: LinkedForecast, schema: Schema, *, beta: float) -> None:
    from maquette.results import wording

    budget = wording.budget(expected.budget.epsilon, expected.budget.delta)
    console.say(
        f"Plan for {len(expected.views)} tables: {expected.units:,} units (rows of '{schema.unit}'), {budget}"
    )
    head = ("table", "rows", "of a unit", "epsilon", "mechanism", "guaranteed", "certified", "expected")
    rows = [
        (name, f"{one.rows:,}", f"{one.unit_rows:,}", f"{one.epsilon:.3g}", *_errors(one.forecast))
        for name, one in expected.views.items()
    ]
    console.table(head, rows, right=(1, 2, 3, 5, 6, 7))
    console.say(
        "Errors are the largest over all queries of a table, in points (percent of its rows): guaranteed for all "
        f"tables together except with probability {wording.chance(beta)}; what a certificate would state, and "
        "expected, are typical, and no promise. Rows of tables that point to others are guessed by half their limit."
    )
    limits = [
        (name, f"{most:,}", view, *_errors(one))
        for name, tried in expected.limits.items()
        for most, views in tried.items()
        for view, one in views.items()
    ]
    if limits:
        console.say("With another limit (at most so many rows under one of the parent), and as many rows:")
        console.table(
            ("limit of", "at most", "table", "mechanism", "guaranteed", "certified", "expected"),
            limits,
            right=(1, 4, 5, 6),
        )
        console.say("A smaller limit leaves out the rows beyond it, which these errors do not count.")


def _errors(one: Forecast) -> tuple[str, ...]:
    return one.mechanism, _points(one.guaranteed), _points(one.certified), _points(one.expected)


def _share(location: str, budget: Budget) -> dict[str, Any]:
    """What a release with this budget takes of a ledger, and the epsilon that would fit at its delta, for scripts."""
    from maquette.accounting.charges import affordable_epsilon, release_cost
    from maquette.accounting.ledger import Ledger

    with Ledger.open(location) as book:
        balance = book.balance()
        rest = balance.left
        payable = budget.pure or not book.budget.pure
        cost = (
            release_cost(replace(budget, accounting=book.budget.accounting), book.budget) if payable else None
        )
        return {
            "name": book.name,
            "takes": None if cost is None else float(cost.share_of(book.budget.whole)),
            "left": _share_left(balance, cost),
            "affordable_epsilon": affordable_epsilon(book.budget, rest),
            "affordable_delta": book.budget.delta,
        }


def _share_left(balance: Balance, cost: Cost | None) -> float:
    """Of the part that a cost is charged to."""
    if (cost is not None and cost.pure) or not balance.total_units:
        return balance.left.pure / balance.pure_total
    return balance.left_units / balance.total_units


def _say_share(location: str, budget: Budget) -> None:
    """How much of a ledger a release with this budget takes, and whether it is there."""
    from maquette.accounting.charges import pure_in_words, release_cost, shares_in_words, what_fits
    from maquette.accounting.ledger import Ledger

    with Ledger.open(location) as book:
        if not budget.pure and book.budget.pure:
            console.say(f"ledger '{book.name}' counts pure epsilon and cannot pay for a delta")
            return
        balance = book.balance()
        cost = release_cost(replace(budget, accounting=book.budget.accounting), book.budget)
        rest = balance.left
        share, left = (shares_in_words(one, book.budget.whole) for one in (cost, rest))
        is_there = cost.units <= rest.units and cost.pure <= rest.pure
        fits = "" if is_there else f": {what_fits(book.budget, rest, delta=budget.delta)}"
        console.say(f"It takes {share} of ledger '{book.name}', of which {left} is left{fits}.")
        note = pure_in_words(book.budget, budget, lambda one: release_cost(one, book.budget))
        if note is not None:
            console.say(f"Note: {note}.")


def _say_required(requirements: Sequence[Requirement], *, as_json: bool) -> None:
    if as_json:
        console.say_json([asdict(one) for one in requirements])
        return
    rows = [
        (
            one.mechanism,
            "–" if one.n is None else f"{one.n:,}",
            "–" if one.epsilon is None else f"{one.epsilon:g}",
            one.refusal or ("out of reach" if one.n is None or one.epsilon is None else ""),
        )
        for one in requirements
    ]
    console.table(("mechanism", "n", "epsilon", "remark"), rows, right=(1, 2))


def say_plan(plan: Comparison, queries: Queries, *, every: bool) -> None:
    """The mechanisms that can do it, best guarantee first, errors in points; refusals with `every`."""
    from maquette.releasing.ranking import preferred
    from maquette.results import wording

    able = [forecast for forecast in plan.forecasts if forecast.refusal is None]
    refused = [forecast for forecast in plan.forecasts if forecast.refusal is not None]
    chosen = preferred(plan, queries) if able else None
    budget = wording.budget(plan.epsilon, plan.delta)
    persons = f", {plan.rows_per_person} records per person" if plan.rows_per_person > 1 else ""
    console.say(f"Plan for {plan.workload}: n = {plan.n:,}, {budget}, {plan.relation} neighbours{persons}")
    if able:
        rows = [_cells(one, is_chosen=one.mechanism == chosen) for one in able]
        console.table(_HEAD, rows, right=(2, 3, 5, 6))
        console.say(
            f"{MARK} is what a release uses unless you name another. Errors are the largest over all queries, in "
            "points (percent of all records): "
            f"guaranteed except with probability {wording.chance(plan.beta)}; expected is typical, and no promise."
        )
    for one in able:
        if one.mechanism == chosen and one.classes:
            console.say(
                f"It would also certify, with these expected errors: {'; '.join(map(_class, one.classes))}."
            )
    if every or not able:
        for one in refused:
            console.say(f"  {one.mechanism} cannot do this: {one.refusal}")
    elif refused:
        names = ", ".join(one.mechanism for one in refused)
        console.say(f"Not for this workload and budget: {names}; --all says why.")


def _cells(forecast: Forecast, *, is_chosen: bool) -> tuple[str, ...]:
    return (
        MARK if is_chosen else "",
        forecast.mechanism,
        _points(forecast.guaranteed),
        _points(forecast.expected),
        forecast.stated or "-",
        "< 1 s" if forecast.seconds < 1 else console.duration(forecast.seconds),
        f"{forecast.megabytes:,.0f} MB",
        "yes" if forecast.gives_rows else "answers only",
        forecast.notes[0] if forecast.notes else "",
    )


def _class(one: ClassForecast) -> str:
    """A class of questions with the bound that it is expected to have."""
    return one.says if one.expected is None else f"{one.says} within {_points(one.expected)} points"


def _points(error: float | None) -> str:
    if error is None:
        return "-"
    return "none" if error >= 1 else f"{100 * error:.2g}"


def say_online(domain: Domain, wish: PlanRequest, *, as_json: bool) -> None:
    """Error against the number of questions; from how many on PMW beats fresh noise; what a session would do."""
    from maquette.theory import guarantees, overview
    from maquette.theory.existence import Facts

    n, epsilon, alpha = wish.n, wish.epsilon, wish.alpha
    if n is None or epsilon is None:
        raise ParameterError("plan --online needs --n, a public figure, and --epsilon")
    setting = overview.Setting(
        facts=Facts(universe=domain.size, log_queries=0.0),
        n=n,
        epsilon=epsilon,
        delta=wish.delta,
        beta=wish.beta,
    )
    session = _session(
        domain, n, SessionRequest(epsilon=epsilon, delta=wish.delta, beta=wish.beta, alpha=alpha)
    )
    crossing = overview.crossover(setting)
    affordable = None
    if alpha is not None:
        needed = overview.needs_of(guarantees.guarantee("pmw"), setting, alpha=alpha)
        affordable = None if needed.log_queries is None else needed.log_queries / math.log(10)
    if as_json:
        console.say_json(
            asdict(crossing)
            | {"session": session}
            | ({} if alpha is None else {"alpha": alpha, "affordable_questions_log10": affordable})
        )
        return
    console.say(
        "Largest error of all answers in points (percent of all records), "
        f"except with probability {100 * wish.beta:g} %"
    )
    console.table(
        ["questions", "pmw", "fresh noise"],
        [[f"{k:,}", _in_points(ours), _in_points(fresh)] for k, ours, fresh in crossing.lines],
        right=(0, 1, 2),
    )
    if crossing.questions is None:
        console.say("fresh noise is guaranteed to be better for any number of questions here")
    else:
        console.say(f"from {crossing.questions:,} questions on the guarantee of pmw is the better one")
    if alpha is not None:
        said = "not one" if affordable is None else f"10^{affordable:,.1f}"
        console.say(f"questions that pmw can answer within {100 * alpha:g} points: {said}")
    console.say("guarantees hold for the worst table; sessions usually do better (docs: online sessions)")
    console.say()
    for line in _in_words(session):
        console.say(line)


def _session(domain: Domain, n: int, wish: SessionRequest) -> dict[str, Any]:
    """What a session of the default kind would run with on so many records, under replace-one."""
    from maquette.core.measurement import Size
    from maquette.domain import Relation
    from maquette.errors import MechanismError
    from maquette.mechanisms.online import largest_error
    from maquette.sessions.rules import Rules

    rules = replace(Rules.of(replace(wish, relation=Relation.REPLACE_ONE), domain), measure_first=True)
    public = rules.public(domain, Size(n, None, None))
    try:
        settings = rules.settings(public)
    except MechanismError as error:
        return {"refusal": str(error)}
    assert settings.measure is not None
    survey = settings.survey
    tests = None
    if settings.terms is not None:
        tests = settings.epochs * settings.terms.cap
    return {
        "questions": wish.queries,
        "error": largest_error(settings),
        "measured_answers": int(public.price / settings.measure.price),
        "far_guesses": tests,
        "tables_first": None if survey is None else len(survey.ones),
        "tables_over_two": None if survey is None else survey.two_variance is not None,
        "tables_share": None if survey is None else float(survey.price / public.price),
    }


def _in_words(session: dict[str, Any]) -> list[str]:
    if "refusal" in session:
        return [f"a session cannot be opened: {session['refusal']}"]
    lines = [
        f"a session states errors of at most {_in_points(session['error'])} points for up to {session['questions']:,} "
        f"questions and can pay for {session['measured_answers']:,} measured answers"
    ]
    if session["far_guesses"] is not None:
        lines.append(
            f"answers of its model are free; the budget pays for tests until {session['far_guesses']:,} of them fail"
        )
    if session["tables_share"] is not None:
        share = f"{100 * session['tables_share']:.3g} % of its budget"
        one = session["tables_first"] == 1 and not session["tables_over_two"]
        which = "one table over all attributes" if one else "tables over one and two attributes"
        free = "every product of intervals is free" if one else "questions about small groups are free"
        lines.append(f"it buys {which} first, for {share}; then {free}")
    return lines


def _in_points(error: float) -> str:
    return f"{100 * error:.3g}" if error < 1 else "none"

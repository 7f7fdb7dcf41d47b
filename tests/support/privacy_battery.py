"""All kinds of privacy checks in small, each a call without arguments: what a mutant of the package must pass, or not.

Each check ends quietly, or says how it ended: a *leak* is what only a check of privacy can find (neighbouring tables
told apart, a private input that moved farther than was charged, a look before its payment). *Broken* is whatever else
goes wrong: code that cannot be loaded, or that raises on all tables alike.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Literal

from support.privacy_doubles import CAUGHT, Touched

Check = Callable[[], object]
Ended = Literal["holds", "leak", "broken"]

HERE = str(Path(__file__).parents[1])
_ALIKE = re.compile("no error of this package|not an error of this package")
"""Words of a check that met an exception of the language, the same on both tables."""


def checks() -> Iterator[tuple[str, Check]]:
    """Every check by name, the quick and sharp ones first; what they need is loaded when they are reached."""
    yield "gate fuzz", _fuzz(range(400, 404))
    yield from _questions()
    yield "gate fuzz on a ledger", _fuzz(range(100, 101), ledger="real")
    yield "gate fuzz with samplers", _fuzz(range(200, 201), real=True)
    yield from _lies()
    yield from _observables()
    yield from _small()
    yield from _mechanisms()
    yield from _replays()


def run(names: Collection[str]) -> dict[str, tuple[Ended, str]]:
    """Some checks in turn, with what each found, up to the first leak."""
    found: dict[str, tuple[Ended, str]] = {}
    for name, check in checks():
        if name in names:
            found[name] = ended(check)
            if found[name][0] == "leak" or len(found) == len(names):
                break
    return found


def ended(check: Check) -> tuple[Ended, str]:
    """How a check ended, and in which words."""
    try:
        check()
    except (*CAUGHT, Touched) as error:
        own = traceback.extract_tb(error.__traceback__)[-1].filename.startswith(HERE)
        words = f"{type(error).__name__}: {error}"[:300]
        return ("leak" if own and not _ALIKE.search(str(error)) else "broken"), words
    except Exception as error:
        return "broken", f"{type(error).__name__}: {error}"[:300]
    return "holds", ""


def _fuzz(seeds: range, **options: object) -> Check:
    from support.gate_fuzz import fuzz

    return lambda: fuzz(seeds, **options)  # type: ignore[arg-type]


def _questions() -> Iterator[tuple[str, Check]]:
    from maquette.domain import Relation
    from support import privacy_checks
    from support.privacy_cases import QUESTION_CASES

    for number, case in enumerate(QUESTION_CASES):
        relation = list(Relation)[number % 2]
        yield f"exact: {case.name}, {relation}", privacy_checks.of_case(case, relation)


def _lies() -> Iterator[tuple[str, Check]]:
    from hostile import test_lying_draws, test_lying_queries
    from support.lying_draws import WEIGHTS
    from support.lying_queries import LIES

    for number, lie in enumerate(LIES):
        yield f"lies: {lie}", lambda lie=lie, at=number: test_lying_queries.ask(lie, range(at, at + 1))
    for number, lie in enumerate(WEIGHTS):
        yield (
            f"weights that lie: {lie}",
            lambda lie=lie, at=number: test_lying_draws.ask(
                lie, "nothing but the sensitivity", range(at, at + 1)
            ),
        )


def _observables() -> Iterator[tuple[str, Check]]:
    from support.observed_run import observe
    from support.observed_worlds import CHANNELS

    for number, world in enumerate(CHANNELS["curator"]):
        yield (
            f"observables: {world}",
            lambda world=world, at=number: observe(range(at, at + 2), worlds=[world]),
        )
    for number, world in enumerate(CHANNELS["session"]):
        yield (
            f"observables of a session: {world}",
            lambda world=world, at=number: observe(range(at, at + 1), worlds=[world], channel="session"),
        )


def _small() -> Iterator[tuple[str, Check]]:
    from support import privacy_checks as small

    for check in (
        small.noise_is_fresh,
        small.releases_differ,
        small.pays_first,
        small.stays_charged,
        small.refusals_say_nothing,
        small.same_key_same_answer,
        small.samples_fit,
    ):
        yield check.__name__, check


def _mechanisms() -> Iterator[tuple[str, Check]]:
    from maquette.domain import Relation
    from support import privacy_checks
    from support.privacy_cases import MECHANISM_CASES

    for number, case in enumerate(MECHANISM_CASES):
        relation = list(Relation)[number % 2]
        yield f"mechanism: {case.name}, {relation}", privacy_checks.of_case(case, relation)


def _replays() -> Iterator[tuple[str, Check]]:
    from support import privacy_checks

    for mechanism, delta, source in (
        ("laplace", 0.0, "csv"),
        ("sculpt", 1e-6, "csv"),
        ("residual", 1e-6, "arrow"),
    ):
        yield f"replay: {mechanism}", privacy_checks.replayed(mechanism, delta=delta, source=source)

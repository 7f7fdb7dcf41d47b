"""Every public function and method, called with one hostile argument at a time.

Functions are those of `maquette.__all__`; methods are those of the values that working calls return, and of what these
return in turn. Arguments of a working call follow from a parameter's name, so that a new function is called without
being named here; where one has a parameter that no other has, `GOOD` learns its name.
"""

from __future__ import annotations

import contextlib
import inspect
import re
import resource
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import maquette as mq
from maquette.errors import MaquetteError
from support import hostile_values
from support.kept_streams import put_back
from support.made_release import toy_columns, toy_domain

SECONDS = 20
"""Of processor time that one call may take."""
BYTES = 4 * 2**30
"""Of memory, beyond what the process has already."""


class TooLong(BaseException):
    """A call that did not end in time; nothing that it may catch."""


@contextlib.contextmanager
def limits(seconds: float = SECONDS) -> Iterator[None]:
    """A limit of processor time and of memory."""

    def stop(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGPROF, stop)
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)  # what is reserved and never used does not count
    used = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_DATA, (used + BYTES, hard))
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


@dataclass(frozen=True)
class Target:
    """Something to call, with arguments that work."""

    name: str
    call: Callable[..., Any]
    good: dict[str, Any]
    parameters: tuple[inspect.Parameter, ...]
    """Those that can be replaced."""


@dataclass
class Found:
    """What came of all calls."""

    calls: int = 0
    accepted: int = 0
    wrong: list[str] = field(default_factory=list)


class Stage:
    """A small private table and what belongs to it, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.domain = domain = toy_domain()
        coded = toy_columns(domain, 300)
        columns = {a.name: a.decode(coded[a.name])[0].tolist() for a in domain}
        self.table = mq.open(columns, domain=domain)
        self.queries = mq.marginals(domain, k=1)
        self.ledger = mq.Ledger.memory(
            budget=mq.Budget(1e6),
            relation=mq.Relation.ADD_REMOVE,
            domain_fingerprint=domain.fingerprint,
            name="people",
        )
        self.made = mq.release(self.table, self.queries, epsilon=1.0, ledger=self.ledger)
        path = folder / "people.csv"
        rows = zip(*columns.values(), strict=True)
        path.write_text("\n".join(",".join(map(str, row)) for row in [columns, *rows]) + "\n")
        self.made.save(folder / "made", report=False)
        domain.save(folder / "domain.json")
        self.source = path
        self.count = 0

    def fresh(self) -> str:
        self.count += 1
        return f"name-{self.count}"

    def own(self) -> dict[tuple[str, str], Any]:
        """Arguments whose name means something else elsewhere."""
        return {
            ("open", "domain"): self.domain,
            ("discover", "epsilon"): 50.0,
            ("discover", "ledger"): self.folder / f"{self.fresh()}.ledger",
            ("evaluate", "ledger"): None,
            ("load", "ledger"): None,
            ("conjunctions", "width"): 1,
            ("marginals", "k"): 1,
            ("Domain.load", "path"): self.folder / "domain.json",
            ("load", "path"): self.folder / "made",
            ("grow", "rows"): 3,
            ("synthesize", "answers"): np.full(self.queries.count, 20.0),
            ("choose", "candidates"): self.queries,
            ("weights", "matrix"): np.full((2, 2), 0.5),
            ("weights", "attributes"): ["sex"],
            ("halfspaces", "attributes"): ["age"],
            ("halfspaces", "normals"): [[1.0]],
            ("halfspaces", "thresholds"): [3.0],
            ("points", "attributes"): ["sex"],
            ("ranges", "attributes"): ["age"],
            ("union", "queries"): [self.queries],
            ("required", "epsilon"): None,
            ("required", "n"): 100_000,
            ("best_rule", "rules"): ["age >= 30", "age >= 3"],
            ("best_rule", "label"): "age >= 4",
            ("parities", "attributes"): ["sex"],
            ("shatters", "points"): [(0,)],
            ("shatters", "queries"): mq.points(self.domain, ["sex"]),
            ("lessons.laplace", "count"): 5,
            ("lessons.laplace", "neighbour"): 6,
            ("lessons.randomised_response", "yes"): 1,
            ("lessons.randomised_response", "neighbour"): 2,
            ("lessons.randomised_response", "people"): 3,
            ("lessons.half_planes", "points"): [(0, 0), (3, 1), (1, 4)],
        }

    def good(self, owner: str, name: str, hint: object) -> Any:
        """An argument that works, by the name of its parameter; `owner` where a name means several things."""
        own = self.own()
        if (owner, name) in own:
            return own[owner, name]
        toy = {
            "table": [3, 1, 2],
            "neighbour": [3, 1, 1],
            "queries": [[1, 0, 0], [0, 1, 1]],
            "scores": [3, 1, 2],
            "counts": [3, 9, 2],
            "rows": 2,
            "epsilon": 1.0,
            "beta": 0.05,
            "trace": mq.lessons.multiplicative_weights([3, 1, 2], [[1, 0, 0]]),
            "what": mq.lessons.exponential([1, 2], [1, 3], epsilon=1.0),
        }
        if owner.startswith("lessons.") and name in toy:
            return toy[name]
        usual = {
            "table": self.table,
            "domain": self.domain,
            "queries": self.queries,
            "workload": self.queries,
            "source": self.source,
            "release": self.made,
            "path": self.folder / self.fresh(),
            "location": self.folder / f"{self.fresh()}.ledger",
            "ledger": self.ledger,
            "epsilon": 1.0,
            "delta": 0.0,
            "alpha": 0.1,
            "gamma": 0.25,
            "n": 1000,
            "threshold": 50,
            "rows": 5,
            "sizes": [5],
            "time": "age",
            "width": 2,
            "attribute": "age",
            "given": [{"age": (1, 3)}],
            "normals": [[1.0]],
            "predicate": "age >= 30",
            "query": "age >= 30",
            "statement": "select sex, count(*) from t group by sex",
            "url": "http://127.0.0.1:9",
            "token": "t",
            "budget": mq.Budget(1.0),
            "relation": mq.Relation.ADD_REMOVE,
            "domain_fingerprint": self.domain.fingerprint,
            "name": "age",
            "names": ["age"],
            "data": self.domain.to_dict(),
            "index": 0,
            "attributes": self.domain.attributes,
        }
        return usual.get(name, GUESSES.get(str(hint)))


GUESSES: dict[str, Any] = {"str": "age", "int": 2, "float": 0.5, "bool": True}


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public functions, and the classes that a user makes values of."""
    for name in mq.__all__:
        thing = getattr(mq, name)
        if isinstance(thing, ModuleType):
            yield from _of_module(name, thing)
        elif inspect.isfunction(thing):
            yield name, thing


def _of_module(name: str, module: ModuleType) -> Iterator[tuple[str, Callable[..., Any]]]:
    for member in getattr(module, "__all__", ()):
        thing = getattr(module, member)
        if inspect.isfunction(thing):
            yield f"{name}.{member}", thing


def methods(value: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public methods of a value, those that have arguments."""
    kind = value if inspect.isclass(value) else type(value)
    for name, member in inspect.getmembers_static(kind):
        if name.startswith("_"):
            continue
        is_bound = isinstance(member, (staticmethod, classmethod))
        if (is_bound or (inspect.isfunction(member) and not inspect.isclass(value))) and not _on_arrays(
            member
        ):
            yield f"{kind.__name__}.{name}", getattr(value, name)


def _on_arrays(member: Any) -> bool:
    """Arithmetic on coded columns is for mechanisms, runs in their innermost loops and trusts its caller."""
    hints = inspect.get_annotations(getattr(member, "__func__", member))
    return any(
        re.search(r"\b(Columns|NDArray|Tables)\b", str(hint))
        for name, hint in hints.items()
        if name != "return"
    )


def arguments_of(call: Callable[..., Any]) -> tuple[inspect.Parameter, ...]:
    return tuple(
        p for p in inspect.signature(call).parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD
    )


def target(stage: Stage, name: str, call: Callable[..., Any]) -> Target:
    parameters = arguments_of(call)
    good = {
        p.name: stage.good(name, p.name, p.annotation)
        for p in parameters
        if p.default is inspect.Parameter.empty or p.name == "ledger" or (name, p.name) in stage.own()
    }
    return Target(name, call, good, parameters)


def run(one: Target, given: dict[str, Any]) -> Any:
    """The call with these arguments by name; those that have none by place."""
    several = [p.name for p in one.parameters if p.kind is inspect.Parameter.VAR_POSITIONAL]
    places = [v for name in several for v in _listed(given.pop(name))]
    if several:
        first = [
            given.pop(p.name) for p in one.parameters if p.kind is p.POSITIONAL_OR_KEYWORD and p.name in given
        ]
        return one.call(*first, *places, **given)
    return one.call(**given)


def _listed(value: Any) -> list[Any]:
    return value if type(value) is list else [value]


def use(value: Any) -> Any:
    """Look at a result: generators run when they are read."""
    if inspect.isgenerator(value):
        return [item for item, _ in zip(value, range(1000), strict=False)]
    return value


def targets(stage: Stage) -> Iterator[Target]:
    """All functions, and the methods of everything that they return."""
    seen: set[type] = set()
    waiting: list[Any] = [mq.Domain, mq.Ledger, stage.made, stage.domain, stage.queries, stage.table]
    for name, call in functions():
        one = target(stage, name, call)
        yield one
        waiting.append(base(one))
    while waiting:
        value = waiting.pop(0)
        kind = value if inspect.isclass(value) else type(value)
        if inspect.isclass(value) or (kind not in seen and kind.__module__.startswith("maquette.")):
            if not inspect.isclass(value):
                seen.add(kind)
            for name, call in methods(value):
                one = target(stage, name, call)
                if one.parameters:
                    yield one
                    waiting.append(base(one))
        elif isinstance(value, (list, tuple)):
            waiting += value[:1]


def base(one: Target) -> Any:
    """What the working call returns; the error where it does not work."""
    try:
        return use(run(one, dict(one.good)))
    except Exception as error:
        return error


def attack(one: Target, found: Found, *, every: int = 1, offset: int = 0, seconds: float = SECONDS) -> None:
    """Replace one argument after the other."""
    place = 0
    for parameter in one.parameters:
        for name in hostile_values.values():
            place += 1
            if (place + offset) % every:
                continue
            value = hostile_values.values()[name]
            is_function = re.search(r"Callable|Progress", str(parameter.annotation))
            if is_function and name in ("raising object", "class"):
                continue  # what such a function raises is its own
            given = one.good | {parameter.name: value}
            found.calls += 1
            moved: list[str] = []
            try:
                with put_back() as moved, limits(seconds), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    use(run(one, dict(given)))
                found.accepted += 1
            except MaquetteError as error:
                if len(str(error)) > 3_000:
                    found.wrong.append(f"{one.name}({parameter.name}={name}): a message of {len(str(error))}")
            except hostile_values.Called:
                found.wrong.append(f"{one.name}({parameter.name}={name}): a hostile object was asked")
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                last = traceback.extract_tb(error.__traceback__)[-1]
                what = type(error).__name__
                with contextlib.suppress(Exception):
                    what = f"{what}: {error}"[:100]
                found.wrong.append(
                    f"{one.name}({parameter.name}={name}): {what} at {last.filename.split('/src/')[-1]}:{last.lineno}"
                )
            if moved:
                found.wrong.append(f"{one.name}({parameter.name}={name}): took {', '.join(moved)}")

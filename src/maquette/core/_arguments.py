"""Arguments of public functions, held against the types that the functions declare, before anything else is done.

A type in a signature is then a promise in both directions: what is of another type is refused in words, and what comes
in has no surprises: texts can be written to a file, numbers are numbers, lists end. Ranges of numbers and names that
have to exist are checked where they are used, by `_check`.
"""

from __future__ import annotations

import builtins
import inspect
import re
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial, wraps
from numbers import Integral, Real
from pathlib import PurePath
from typing import Any, Literal, NamedTuple, TypeVar, Union, cast, get_args, get_origin

from maquette.core._check import LARGEST, is_writable, listed, no_path, shown
from maquette.core.errors import ParameterError

F = TypeVar("F", bound=Callable[..., Any])

MAX_DEPTH = 8
"""No argument is a list of lists deeper than this."""


class Wrong(Exception):
    """A value that is not of its type."""


class Kind(NamedTuple):
    """A declared type: its words, and a function that returns the value as it is used or raises `Wrong`."""

    words: str
    take: Callable[[Any], Any]


def checks(*only: str, lists: Sequence[str] = ()) -> Callable[[F], F]:
    """A decorator: the same function, which refuses arguments that are not of their declared types.

    Without names all arguments are held against their types; with names these alone, where the function has better
    words for the others. `lists` are arguments of which it can say everything, once they are lists of plain values.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function).parameters
        places = [
            p.name for p in signature.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        variadic = [p.name for p in signature.values() if p.kind is p.VAR_POSITIONAL]

        @cache
        def kinds() -> dict[str, Kind]:  # when it is first called: the types may not be there yet
            plain = {name: Kind("a list", partial(_listed, parameter=signature[name])) for name in lists}
            return plain | {
                p.name: _kind(p.annotation, _Names(vars(sys.modules[function.__module__])))
                for p in signature.values()
                if p.annotation is not p.empty
                and p.kind is not p.VAR_KEYWORD
                and (not only or p.name in only)
            }

        @wraps(function)
        def run(*arguments: Any, **named: Any) -> Any:
            declared = kinds()
            names = places + variadic * (len(arguments) - len(places))
            positional = [_take(name, value, declared) for name, value in zip(names, arguments, strict=False)]
            more = arguments[len(positional) :]  # too many, of which Python itself complains
            return function(
                *positional, *more, **{name: _take(name, value, declared) for name, value in named.items()}
            )

        return cast("F", run)

    return decorate


checks_arguments = checks()
"""All arguments."""


def _take(name: str, value: Any, kinds: Mapping[str, Kind]) -> Any:
    kind = kinds.get(name)
    if kind is None:
        return value
    try:
        return kind.take(value)
    except Wrong as wrong:
        raise ParameterError(
            f"expected {name} to be {kind.words}, got {wrong}{_advice(kind.words)}"
        ) from None


_WORDS = {"Queries": "a class of queries", "type": "a class"}
_ADVICE = {
    "a Domain": "; use Domain.load(path)",
    "a Table": "; use mq.open(source, domain=domain)",
    "a Release": "; use mq.release(...) or mq.load(path)",
    "a class of queries": '; use mq.marginals(domain, k=2) or mq.where(domain, "age >= 60")',
}


def _advice(words: str) -> str:
    return next((said for start, said in _ADVICE.items() if words.startswith(start)), "")


def described(value: Any) -> str:
    """What was found: numbers and texts as they are, of everything else the type, for it may hold private rows."""
    if value is None or type(value) in (bool, int, float, complex, str):
        return shown(value)
    return f"a value of type {type(value).__name__}"


# Types as they stand in signatures; names that are imported for type checkers alone stand for classes of that name.


class _Absent(type):
    """A class that this function's module does not import: known by its name."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _absent(name)

    def __getitem__(cls, _: Any) -> Any:
        return cls


@cache
def _absent(name: str) -> Any:
    return _Absent(name, (), {})


class _Names(dict[str, Any]):
    """The names of a module, of Python, and any other."""

    def __missing__(self, name: str) -> Any:
        return getattr(builtins, name) if hasattr(builtins, name) else _absent(name)


def _kind(declared: Any, names: _Names) -> Kind:  # one case per form that a type can have
    if isinstance(declared, str):
        declared = eval(declared, {}, names)  # noqa: S307  (a text of our own source)
    origin, parts = get_origin(declared), get_args(declared)
    if declared is None or declared is type(None):
        return Kind("None", _none)
    if origin in (Union, types.UnionType):
        kinds = [_kind(part, names) for part in parts]
        if any(kind.take is _path for kind in kinds):  # a text beside a path is one
            kinds = [kind if kind.take is not _text else Kind("a path", _place) for kind in kinds]
        return _either(kinds)
    if origin is Literal:
        words = sorted(part for part in parts if isinstance(part, str))
        return Kind(f"one of {', '.join(words)}", partial(_word, words=parts))
    if declared in _SIMPLE:
        return _SIMPLE[declared]
    holder = origin or declared
    if holder in (tuple, list, Sequence, Iterable, frozenset, set):
        return _list_of(_kind(parts[0], names) if parts else _ANY, sequence=holder is Sequence)
    if holder in (dict, Mapping):
        return _mapping(*([_kind(part, names) for part in parts] if parts else [_ANY, _ANY]))
    if holder is Callable:
        return Kind("a function", _function)
    if isinstance(holder, type) and (issubclass(holder, PurePath) or holder.__name__ == "Path"):
        return Kind("a path", _path)
    if isinstance(holder, type):
        return _instance(holder)
    return _ANY


def _instance(kind: type) -> Kind:
    if kind.__name__ in ("NDArray", "ndarray", "ArrayLike"):
        return Kind("an array of numbers", _array)
    if not isinstance(kind, _Absent) and getattr(kind, "_is_protocol", False):
        return _ANY

    def take(value: Any) -> Any:
        if isinstance(kind, _Absent):
            fits = any(base.__name__ == kind.__name__ for base in type(value).__mro__)
        else:
            fits = issubclass(type(value), kind)
        if not fits:
            raise Wrong(described(value))
        return value

    return Kind(_WORDS.get(kind.__name__, f"a {kind.__name__}"), take)


def _either(kinds: Sequence[Kind]) -> Kind:
    """The first that fits; if none does, what the one says that came farthest."""

    def take(value: Any) -> Any:
        said: list[str] = []
        for kind in kinds:
            try:
                return kind.take(value)
            except Wrong as wrong:
                said.append(str(wrong))
        whole = described(value)
        raise Wrong(next((one for one in said if one != whole), whole))

    return Kind(" or ".join(dict.fromkeys(kind.words for kind in kinds)), take)


def _list_of(item: Kind, *, sequence: bool) -> Kind:
    """A list; whatever else can be read item by item is read once, into a tuple."""

    def take(value: Any) -> Any:
        kind = cast("type[Any]", type(value))
        if kind.__name__ == "ndarray" and value.ndim:
            return _array_of(item, value)
        if issubclass(kind, (str, bytes, bytearray, PurePath)) or (
            sequence and issubclass(kind, (Mapping, set))
        ):
            raise Wrong(described(value))
        items = _items(value)
        checked = tuple(_item(item, one, place) for place, one in enumerate(items))
        return value if issubclass(kind, (list, tuple)) else checked

    single = re.fullmatch(r"a ([\w ]+)", item.words)
    return Kind(f"a list of {single[1]}s" if single and " or " not in item.words else "a list", take)


def _listed(value: Any, *, parameter: inspect.Parameter) -> Any:
    """A list of plain values; a single text, and a number where one may stand, are left to the function's own words."""
    kind = cast("type[Any]", type(value))
    allowed = (str, Real) if "int |" in str(parameter.annotation) else (str,)
    if value is parameter.default or issubclass(kind, allowed):
        return value
    if issubclass(kind, (bytes, Real)):
        raise Wrong(described(value))
    items = _items(value)
    if not _is_plain(items, MAX_DEPTH):
        raise Wrong("one that holds other things than texts, numbers, lists and dictionaries")
    return items


def _is_plain(items: Iterable[Any], levels: int) -> bool:
    for one in items:
        kind = cast("type[Any]", type(one))
        if issubclass(kind, Mapping):
            if not _is_plain((*one.keys(), *one.values()), levels - 1):
                return False
        elif issubclass(kind, (list, tuple)):
            if not levels or not _is_plain(one, levels - 1):
                return False
        elif one is not None and not issubclass(kind, (str, bytes, Real)) and kind.__name__ != "ndarray":
            return False
    return True


def _items(value: Any) -> Sequence[Any]:
    if issubclass(type(value), (list, tuple)):
        return value
    try:
        return listed(value=value)
    except ParameterError:
        raise Wrong(described(value)) from None


def _item(kind: Kind, value: Any, place: int) -> Any:
    try:
        return kind.take(value)
    except Wrong as wrong:
        text = str(wrong)
        raise Wrong(
            text if text.startswith("a list with") else f"a list with {text} in place {place}"
        ) from None


def _mapping(key: Kind, item: Kind) -> Kind:
    def take(value: Any) -> Any:
        if not issubclass(type(value), Mapping):
            raise Wrong(described(value))
        for name, one in value.items():
            try:
                key.take(name)
                item.take(one)
            except Wrong as wrong:
                raise Wrong(f"one that holds {wrong}") from None
        return value

    return Kind("a dictionary", take)


def _anything(value: Any) -> Any:
    return value


def _none(value: Any) -> None:
    if value is not None:
        raise Wrong(described(value))


def _truth(value: Any) -> bool:
    if type(value).__name__ not in ("bool", "bool_"):
        raise Wrong(described(value))
    return bool(value)


def _whole(value: Any) -> int:
    if type(value) is bool or not issubclass(type(value), Integral):
        raise Wrong(described(value))
    number = int(value)
    if abs(number) >= LARGEST:
        raise Wrong("one with more than 300 digits")
    return number


def _number(value: Any) -> Any:
    """As a float, but for whole numbers and fractions, which stay exact."""
    kind = cast("type[Any]", type(value))
    if kind is bool or not issubclass(kind, Real):
        raise Wrong(described(value))
    if value != value:
        raise Wrong("NaN")
    if abs(value) >= LARGEST and not issubclass(kind, float):
        raise Wrong("one with more than 300 digits")
    return value if kind.__module__ in ("builtins", "fractions") else float(value)


def _text(value: Any) -> str:
    if not issubclass(type(value), str):
        raise Wrong(described(value))
    if not is_writable(value):
        raise Wrong(f"{shown(value)}, which has characters that no file can hold")
    return value


def _path(value: Any) -> Any:
    if not issubclass(type(value), PurePath):
        raise Wrong(described(value))
    return _place(value)


def _place(value: Any) -> Any:
    if not issubclass(type(value), (str, PurePath)):
        raise Wrong(described(value))
    why = no_path(str(value))
    if why is not None:
        raise Wrong(f"one of which {why}")
    return value


def _word(value: Any, *, words: tuple[Any, ...]) -> Any:
    if not issubclass(type(value), (str, int)) or value not in words:
        raise Wrong(described(value))
    return value


def _function(value: Any) -> Any:
    if not callable(value):
        raise Wrong(described(value))
    return value


def _array(value: Any) -> Any:
    """An array, or lists of numbers that make one."""
    if type(value).__name__ == "ndarray" and not value.ndim:
        raise Wrong(described(value))
    return _LISTS.take(value)


def _array_of(item: Kind, value: Any) -> Any:
    """An array of numbers as it is, without a look at each; of other things the items."""
    if value.dtype.kind not in "biuf":
        return tuple(_item(item, one, place) for place, one in enumerate(value.tolist()))
    if (value != value).any():
        raise Wrong("an array with NaN in it")
    if value.ndim == 1:
        for one in value[:1].tolist():
            _item(item, one, 0)
    return value


def _nested(levels: int) -> Kind:
    numbers = Kind("a number", _number)
    return _list_of(_either([numbers, _nested(levels - 1)]) if levels else numbers, sequence=True)


_ANY = Kind("anything", _anything)
_LISTS = _nested(MAX_DEPTH)
_SIMPLE: dict[Any, Kind] = {
    bool: Kind("True or False", _truth),
    int: Kind("a whole number", _whole),
    float: Kind("a number", _number),
    str: Kind("a text", _text),
    Any: _ANY,
    object: _ANY,
}

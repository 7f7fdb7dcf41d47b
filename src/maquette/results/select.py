"""One SELECT over one table, read through a whitelist: which groups, which figures, which condition, in which order.

Nothing is evaluated and no SQL is built for any database: the statement is parsed by sqlglot, every part that is not
listed below is refused by name, and the condition goes through the reader of predicates (`queries/sql_parse.py`).

    SELECT item [AS name], ... FROM table [WHERE predicate] [GROUP BY attribute, ...]
        [ORDER BY item [DESC], ...] [LIMIT number]
    item: attribute | COUNT(*) | COUNT(attribute) | SHARE() | SUM(attribute) | AVG(attribute) | MEDIAN(attribute)
        | QUANTILE(attribute, number)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from maquette.domain import Domain, Kind
from maquette.errors import WorkloadError
from maquette.queries import names

SqlTree = Any
"""A node of sqlglot's; its types move between versions."""
Figure = Literal["count", "share", "sum", "mean", "quantile"]

MAX_CHARACTERS = 4096
MAX_ITEMS = 64
SUPPORTED = (
    "supported is one SELECT over one table: attributes, COUNT(*), COUNT(attribute), SHARE(), SUM, AVG, MEDIAN and "
    "QUANTILE(attribute, 0.9) of numeric attributes, WHERE, GROUP BY attributes, ORDER BY, LIMIT"
)
_FIGURES: dict[str, tuple[Figure, Fraction | None]] = {
    "Sum": ("sum", None),
    "Avg": ("mean", None),
    "Median": ("quantile", Fraction(1, 2)),
    "Quantile": ("quantile", None),
    "ApproxQuantile": ("quantile", None),
    "PercentileCont": ("quantile", None),
}
_PARTS = frozenset(["expressions", "from_", "from", "where", "group", "order", "limit", "kind"])


@dataclass(frozen=True, slots=True)
class Item:
    """One column of the result: an attribute of the groups, or a figure."""

    name: str
    attribute: str | None = None
    figure: Figure | None = None
    """None for an attribute that the records are grouped by."""
    level: Fraction | None = None
    """Of a quantile: the share of the records below it."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What a SELECT asks for."""

    items: tuple[Item, ...]
    by: tuple[str, ...]
    where: str | None
    order: tuple[tuple[int, bool], ...]
    """Places among the items and whether the largest come first."""
    limit: int | None


def parse_select(domain: Domain, text: str) -> Selection:
    """The selection that a statement states; `WorkloadError` for everything outside the grammar."""
    tree = _tree(text)
    for part, value in tree.args.items():
        if value and part not in _PARTS:
            raise _refuse(part.strip("_").replace("_", " ").upper())
    if tree.args.get("kind"):
        raise _refuse(f"SELECT AS {tree.args['kind']}")
    _check_source(tree)
    by = _by(domain, tree)
    items = tuple(_item(domain, node) for node in tree.expressions)
    if not items or len(items) > MAX_ITEMS:
        raise WorkloadError(f"expected 1 to {MAX_ITEMS} columns in a SELECT, got {len(items)}")
    _check_groups(items, by)
    where = tree.args.get("where")
    return Selection(
        items=items,
        by=by,
        where=None if where is None else where.this.sql(),
        order=_order(domain, tree, items),
        limit=_limit(tree),
    )


def is_select(text: object) -> bool:
    """Does it begin like a SELECT, rather than like a condition?"""
    return isinstance(text, str) and text.split(maxsplit=1)[:1] != [] and text.split()[0].lower() == "select"


def figure(domain: Domain, text: str) -> Item:
    """One figure by itself, as in `values="mean(income)"`; "mean" may be said for AVG."""
    tree = _tree(f"SELECT {text} FROM t")  # noqa: S608  (parsed, never run)
    if len(tree.expressions) != 1:
        raise WorkloadError(f"expected one figure such as count(*) or mean(income), got {text!r}")
    item = _item(domain, tree.expressions[0])
    if item.figure is None:
        raise WorkloadError(
            f"'{item.name}' is an attribute; write which figure of it you want, such as mean({item.name})"
        )
    return item


def _tree(text: str) -> SqlTree:
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    if not isinstance(text, str) or not text.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
        raise WorkloadError(f"expected a SELECT as text; {SUPPORTED}")
    if len(text) > MAX_CHARACTERS:
        raise WorkloadError(f"a SELECT may have {MAX_CHARACTERS} characters, got {len(text)}")
    try:
        trees = [tree for tree in sqlglot.parse(text) if tree is not None]
    except (SqlglotError, RecursionError, ValueError) as error:
        first = str(error).split("\n")[0][:120]
        raise WorkloadError(f"cannot read this SQL ({first}); {SUPPORTED}") from None
    if len(trees) != 1 or type(trees[0]) is not exp.Select:
        words = " and ".join(type(tree).__name__.upper() for tree in trees[:3]) or "nothing"
        raise WorkloadError(f"expected one SELECT, got {words}; {SUPPORTED}")
    return trees[0]


def _check_source(tree: SqlTree) -> None:
    from sqlglot import exp

    source = tree.args.get("from_") or tree.args.get("from")
    if source is None:
        raise WorkloadError(
            "expected FROM and the name of the table; any name will do, a release holds one table"
        )
    table = source.this
    if type(table) is not exp.Table or any(
        value for part, value in table.args.items() if part not in ("this", "alias", "db", "catalog")
    ):
        raise _refuse("anything but one table after FROM")
    if not isinstance(table.this, exp.Identifier):
        raise _refuse("a function after FROM")


def _by(domain: Domain, tree: SqlTree) -> tuple[str, ...]:
    group = tree.args.get("group")
    if group is None:
        return ()
    if any(value for part, value in group.args.items() if part != "expressions"):
        raise _refuse("GROUP BY ALL, ROLLUP, CUBE or GROUPING SETS")
    by = tuple(_by_name(domain, tree, node) for node in group.expressions)
    if len(set(by)) < len(by):
        raise WorkloadError("an attribute stands twice after GROUP BY")
    return by


def _by_name(domain: Domain, tree: SqlTree, node: SqlTree) -> str:
    """An attribute after GROUP BY, by its name or by its place in the SELECT."""
    place = _whole(node)
    if place is None:
        return _attribute(domain, node)
    if not 1 <= place <= len(tree.expressions):
        raise WorkloadError(f"GROUP BY {place}: the SELECT has {len(tree.expressions)} columns")
    return _attribute(domain, _without_alias(tree.expressions[place - 1]))


def _item(domain: Domain, node: SqlTree) -> Item:
    from sqlglot import exp

    plain = _without_alias(node)
    name = str(node.alias) if isinstance(node, exp.Alias) else _spelling(plain)
    if isinstance(plain, exp.Star):
        raise WorkloadError(f"SELECT * would list people; name attributes or figures. {SUPPORTED}")
    if isinstance(plain, exp.Column):
        attribute = _attribute(domain, plain)
        return Item(str(node.alias) if isinstance(node, exp.Alias) else attribute, attribute)
    if isinstance(plain, exp.Count):
        if plain.args.get("big_int") and len(plain.args) > 2 and plain.expressions:
            raise _refuse("COUNT of several attributes")
        if isinstance(plain.this, exp.Star) or plain.this is None:
            return Item(name, figure="count")
        if isinstance(plain.this, exp.Distinct):
            raise _refuse("COUNT(DISTINCT ...)")
        return Item(name, _attribute(domain, plain.this), "count")
    if isinstance(plain, exp.Anonymous):
        return _named_figure(domain, plain, name)
    kind, level = _FIGURES.get(type(plain).__name__, (None, None))
    if kind is None:
        raise _refuse(type(plain).__name__.upper())
    if kind == "quantile" and level is None:
        level = _level(plain.args.get("quantile") or plain.args.get("expression"))
    return Item(name, _numeric(domain, plain.this), kind, level)


def _named_figure(domain: Domain, node: SqlTree, name: str) -> Item:
    """Functions that sqlglot has no class for: SHARE(), MEAN(x), QUANTILE(x, level)."""
    word, arguments = str(node.this).lower(), node.expressions
    if word == "share" and not arguments:
        return Item(name, figure="share")
    if word in ("mean", "median") and len(arguments) == 1:
        numeric = _numeric(domain, arguments[0])
        return (
            Item(name, numeric, "mean") if word == "mean" else Item(name, numeric, "quantile", Fraction(1, 2))
        )
    if word in ("quantile", "quantile_cont", "percentile") and len(arguments) == 2:
        return Item(name, _numeric(domain, arguments[0]), "quantile", _level(arguments[1]))
    raise _refuse(f"the function {word}")


def _check_groups(items: tuple[Item, ...], by: tuple[str, ...]) -> None:
    for item in items:
        if item.figure is None and item.attribute not in by:
            raise WorkloadError(
                f"'{item.attribute}' is neither a figure nor after GROUP BY; single records cannot be listed. Add "
                f"GROUP BY {names.quote(item.attribute or '')}"
            )
    if all(item.figure is None for item in items):
        raise WorkloadError("expected at least one figure, such as COUNT(*)")


def _order(domain: Domain, tree: SqlTree, items: tuple[Item, ...]) -> tuple[tuple[int, bool], ...]:
    order = tree.args.get("order")
    return () if order is None else tuple(_ordered(node, items) for node in order.expressions)


def _ordered(node: SqlTree, items: tuple[Item, ...]) -> tuple[int, bool]:
    place = _whole(node.this)
    if place is not None:
        if not 1 <= place <= len(items):
            raise WorkloadError(f"ORDER BY {place}: the SELECT has {len(items)} columns")
        return place - 1, bool(node.args.get("desc"))
    word = _spelling(node.this)
    for i, item in enumerate(items):
        if word.lower() in (item.name.lower(), (item.attribute or "").lower() if item.figure is None else ""):
            return i, bool(node.args.get("desc"))
    raise WorkloadError(f"ORDER BY {word}: give a column of the SELECT, by its name or number")


def _limit(tree: SqlTree) -> int | None:
    limit = tree.args.get("limit")
    if limit is None:
        return None
    count = _whole(limit.expression)
    if count is None:
        raise WorkloadError("LIMIT takes a whole number")
    return count


def _attribute(domain: Domain, node: SqlTree) -> str:
    from sqlglot import exp

    if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
        raise _refuse(f"{_spelling(node)} in place of an attribute")
    word = str(node.this.this)
    attribute = names.attribute(domain, word) if node.this.args.get("quoted") else names.find(domain, word)
    return attribute.name


def _numeric(domain: Domain, node: SqlTree) -> str:
    name = _attribute(domain, node)
    if domain[name].kind is not Kind.NUMERIC:
        numeric = [a.name for a in domain if a.kind is Kind.NUMERIC]
        listed = ", ".join(numeric) or "none"
        raise WorkloadError(
            f"'{name}' is {domain[name].kind}, not numeric; the numeric attributes are {listed}"
        )
    return name


def _level(node: SqlTree) -> Fraction:
    from sqlglot import exp

    try:
        level = Fraction(str(node.this)) if isinstance(node, exp.Literal) else None
    except ValueError:
        level = None
    if level is None or not 0 < level < 1:
        raise WorkloadError(
            "the level of a quantile is a number between 0 and 1, such as QUANTILE(income, 0.9)"
        )
    return level


def _whole(node: SqlTree) -> int | None:
    from sqlglot import exp

    if isinstance(node, exp.Literal) and not node.args["is_string"] and str(node.this).isdigit():
        return int(str(node.this))
    return None


def _without_alias(node: SqlTree) -> SqlTree:
    from sqlglot import exp

    return node.this if isinstance(node, exp.Alias) else node


def _spelling(node: SqlTree) -> str:
    from sqlglot import exp

    if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier):
        return str(node.this.this)
    return node.sql().lower()


def _refuse(what: str) -> WorkloadError:
    return WorkloadError(f"{what} is not supported; {SUPPORTED}")

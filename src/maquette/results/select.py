"""One SELECT over one table, read through a whitelist: which groups, which figures, which condition, in which order.

Nothing is evaluated and no SQL is built for any database: the statement is parsed by sqlglot, every part that is not
listed below is refused by name, and the condition goes through the reader of predicates (`queries/sql_parse.py`).

    SELECT item [AS name], ... FROM table [WHERE predicate] [GROUP BY attribute, ...]
        [ORDER BY item [DESC], ...] [LIMIT number]
    item: attribute | figure [FILTER (WHERE predicate)]
    figure: COUNT(*) | COUNT(attribute) | SHARE() | SUM(attribute) | AVG(attribute) | MEDIAN(attribute)
        | QUANTILE(attribute, number) | PERCENTILE_CONT(number) WITHIN GROUP (ORDER BY attribute)
        | SHARE(predicate), the share of all records that meet it, as SHARE() FILTER (WHERE predicate)
        | AVG(CASE WHEN predicate THEN 1 ELSE 0 END), the share of the group that meets it
        | SUM or COUNT of such a CASE, as COUNT(*) FILTER (WHERE predicate)

A column has the words in which it was asked as its name, or what stands after AS.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

from maquette.core import _check
from maquette.domain import Domain, Kind
from maquette.errors import WorkloadError
from maquette.queries import names

SqlTree = Any
"""A node of sqlglot's; its types move between versions."""
Figure = Literal["count", "share", "part", "sum", "mean", "quantile"]

MAX_CHARACTERS = 4096
MAX_ITEMS = 64
SUPPORTED = (
    "supported is one SELECT over one table: attributes, COUNT(*), COUNT(attribute), SHARE(), SUM, AVG, MEDIAN and "
    "QUANTILE(attribute, 0.9) of numeric attributes, each with FILTER (WHERE ...), AVG(CASE WHEN ... THEN 1 ELSE 0 "
    "END), WHERE, GROUP BY attributes, ORDER BY, LIMIT"
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
    where: str | None = None
    """A condition of this figure alone; of a part, what is counted as one."""


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
    words = _words(text, len(tree.expressions))
    items = tuple(_item(domain, node, word) for node, word in zip(tree.expressions, words, strict=True))
    if not items or len(items) > MAX_ITEMS:
        raise WorkloadError(f"expected 1 to {MAX_ITEMS} columns in a SELECT, got {len(items)}")
    _check_groups(items, by)
    where = tree.args.get("where")
    return Selection(
        items=items,
        by=by,
        where=None if where is None else where.this.sql(),
        order=_order(tree, items),
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
    item = _item(domain, tree.expressions[0], text.strip())
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


def _words(text: str, count: int) -> list[str | None]:
    """The columns of a SELECT as they were written; None for each where they cannot be told apart."""
    from sqlglot.errors import SqlglotError
    from sqlglot.tokens import Tokenizer

    try:
        tokens = Tokenizer().tokenize(text)
    except SqlglotError:
        return [None] * count
    words: list[str | None] = []
    start, depth = tokens[0].end + 1, 0
    for token in tokens[1:]:
        kind = token.token_type.name
        depth += (kind == "L_PAREN") - (kind == "R_PAREN")
        if depth == 0 and kind in ("COMMA", "FROM"):
            words.append(" ".join(text[start : token.start].split()))
            start = token.end + 1
            if kind == "FROM":
                break
    return words if len(words) == count else [None] * count


def _item(domain: Domain, node: SqlTree, words: str | None) -> Item:
    """One column; `words` are those in which it was asked."""
    from sqlglot import exp

    plain = _without_alias(node)
    if isinstance(plain, exp.Star):
        raise WorkloadError(f"SELECT * would list people; name attributes or figures. {SUPPORTED}")
    if isinstance(plain, exp.Column):
        attribute = _attribute(domain, plain)
        return Item(str(node.alias) if isinstance(node, exp.Alias) else _spelling(plain), attribute)
    name = str(node.alias) if isinstance(node, exp.Alias) else words or _spelling(plain)
    return replace(_figure(domain, plain), name=name)


def _figure(domain: Domain, node: SqlTree) -> Item:
    """A figure without its name."""
    from sqlglot import exp

    match node:
        case exp.Filter():
            inner = _figure(domain, node.this)
            if inner.where is not None:
                raise _refuse("FILTER on a figure with a condition of its own")
            return replace(inner, where=node.expression.this.sql())
        case exp.Count():
            return _count(domain, node)
        case exp.CountIf():
            return Item("", figure="count", where=node.this.sql())
        case exp.Sum() | exp.Avg() if isinstance(node.this, exp.Case):
            kind = "count" if isinstance(node, exp.Sum) else "part"
            return Item("", figure=kind, where=_one_or_nothing(node.this, otherwise="0"))
        case exp.WithinGroup():
            return _within_group(domain, node)
        case exp.Anonymous():
            return _named_figure(domain, node)
        case _:
            pass
    kind, level = _FIGURES.get(type(node).__name__, (None, None))
    if kind is None:
        raise _refuse(type(node).__name__.upper())
    if kind == "quantile" and level is None:
        level = _level(node.args.get("quantile") or node.args.get("expression"))
    return Item("", _numeric(domain, node.this, node), kind, level)


def _count(domain: Domain, node: SqlTree) -> Item:
    from sqlglot import exp

    inner = node.this
    if node.args.get("big_int") and len(node.args) > 2 and node.expressions:
        raise _refuse("COUNT of several attributes")
    if inner is None or isinstance(inner, (exp.Star, exp.Literal)):  # COUNT(1) counts all records too
        return Item("", figure="count")
    if isinstance(inner, exp.Distinct):
        raise _refuse("COUNT(DISTINCT ...)")
    if isinstance(inner, exp.Case):
        return Item("", figure="count", where=_one_or_nothing(inner, otherwise="NULL"))
    return Item("", _attribute(domain, inner), "count")


def _one_or_nothing(node: SqlTree, *, otherwise: str) -> str:
    """The condition of CASE WHEN condition THEN 1 ELSE 0 END; COUNT takes one without ELSE."""
    from sqlglot import exp

    branches, default = node.args.get("ifs") or [], node.args.get("default")
    last = "NULL" if default is None or isinstance(default, exp.Null) else _number(default)
    fits = len(branches) == 1 and node.this is None and _number(branches[0].args["true"]) == "1"
    if not fits or last != otherwise:
        ending = "" if otherwise == "NULL" else " ELSE 0"
        raise _refuse(f"{node.sql()}: only CASE WHEN condition THEN 1{ending} END is read here; it")
    return branches[0].this.sql()


def _number(node: SqlTree) -> str | None:
    """A literal number in its shortest form."""
    from sqlglot import exp

    if not isinstance(node, exp.Literal) or node.args["is_string"]:
        return None
    return str(Fraction(str(node.this)))


def _within_group(domain: Domain, node: SqlTree) -> Item:
    """PERCENTILE_CONT(level) WITHIN GROUP (ORDER BY attribute [DESC])."""
    from sqlglot import exp

    order = node.expression.expressions if isinstance(node.expression, exp.Order) else []
    if not isinstance(node.this, (exp.PercentileCont, exp.PercentileDisc)) or len(order) != 1:
        raise _refuse(f"{type(node.this).__name__.upper()} WITHIN GROUP of other than one attribute")
    level = _level(node.this.this)
    falling = bool(order[0].args.get("desc"))
    return Item("", _numeric(domain, order[0].this, node), "quantile", 1 - level if falling else level)


def _named_figure(domain: Domain, node: SqlTree) -> Item:
    """Functions that sqlglot has no class for: SHARE(), MEAN(x), QUANTILE(x, level)."""
    word, arguments = str(node.this).lower(), node.expressions
    if word == "share" and len(arguments) < 2:
        return Item("", figure="share", where=arguments[0].sql() if arguments else None)
    if word in ("mean", "median") and len(arguments) == 1:
        numeric = _numeric(domain, arguments[0], node)
        return Item("", numeric, "mean") if word == "mean" else Item("", numeric, "quantile", Fraction(1, 2))
    if word in ("quantile", "quantile_cont", "percentile") and len(arguments) == 2:
        return Item("", _numeric(domain, arguments[0], node), "quantile", _level(arguments[1]))
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


def _order(tree: SqlTree, items: tuple[Item, ...]) -> tuple[tuple[int, bool], ...]:
    order = tree.args.get("order")
    columns = [_spelling(_without_alias(node)) for node in tree.expressions]
    return () if order is None else tuple(_ordered(node, items, columns) for node in order.expressions)


def _ordered(node: SqlTree, items: tuple[Item, ...], columns: list[str]) -> tuple[int, bool]:
    place = _whole(node.this)
    if place is not None:
        if not 1 <= place <= len(items):
            raise WorkloadError(f"ORDER BY {place}: the SELECT has {len(items)} columns")
        return place - 1, bool(node.args.get("desc"))
    word = _spelling(node.this)
    for i, (item, column) in enumerate(zip(items, columns, strict=True)):
        own = (item.attribute or "") if item.figure is None else column
        if word.lower() in (item.name.lower(), column.lower(), own.lower()):
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


def _numeric(domain: Domain, node: SqlTree, whole: SqlTree) -> str:
    """A numeric attribute; of one with two values a share is what was meant."""
    attribute = domain[_attribute(domain, node)]
    if attribute.kind is Kind.NUMERIC:
        return attribute.name
    said = f"'{attribute.name}' is {attribute.kind}, not numeric"
    if attribute.cells == 2:
        case = f"CASE WHEN {names.quote(attribute.name)} = {names.literal(attribute, 1)} THEN 1 ELSE 0 END"
        figure = "SUM" if type(whole).__name__ == "Sum" else "AVG"
        raise WorkloadError(f"{said}; for those with its second value write {figure}({case})")
    listed = ", ".join(a.name for a in domain if a.kind is Kind.NUMERIC) or "none"
    raise WorkloadError(f"{said}; the numeric attributes are {listed}")


def _level(node: SqlTree) -> Fraction:
    from sqlglot import exp

    try:
        level = _check.exact(str(node.this)) if isinstance(node, exp.Literal) else None
    except ValueError:
        level = None
    if level is None or not 0 <= level <= 1:
        raise WorkloadError("the level of a quantile is a number from 0 to 1, such as QUANTILE(income, 0.9)")
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

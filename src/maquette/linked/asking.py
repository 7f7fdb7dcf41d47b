"""Which table a question is about: a condition by its columns, a SELECT by the tables that it joins.

A join along declared keys is the view of the table farthest from the unit's, which has the columns of all tables above
it; so the statement is asked of that view, with its columns' names there and without the joins.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from maquette.errors import WorkloadError
from maquette.queries import where as read_condition
from maquette.results.select import figure
from maquette.schema import Schema

SqlTree = Any
"""A node of sqlglot's; its types move between versions."""


def table_of_condition(schema: Schema, condition: str) -> str:
    """The first table whose view has all the columns of a condition."""
    return _first(schema, lambda name: read_condition(schema.domain(name), condition, undeclared=True))


def table_of_columns(schema: Schema, names: Iterable[str], condition: str | None, values: str | None) -> str:
    """The same for groups, a condition and a figure together."""
    columns = set(names)

    def check(name: str) -> None:
        domain = schema.domain(name)
        for column in columns:
            domain[column]
        if condition is not None:
            read_condition(domain, condition, undeclared=True)
        if values is not None:
            figure(domain, values)

    return _first(schema, check)


def _first(schema: Schema, check: Any) -> str:
    errors: list[Exception] = []
    for name in schema.names:
        try:
            check(name)
        except Exception as error:
            errors.append(error)
        else:
            return name
    if len(schema.names) > 1 and all(_is_unknown(error) for error in errors):
        raise WorkloadError(
            f"no table has all of these columns, with those of the tables above it: {advice(schema)}; {errors[-1]}"
        ) from None
    raise next(error for error in reversed(errors) if not _is_unknown(error)) from None


def _is_unknown(error: Exception) -> bool:
    return "unknown attribute" in str(error)


def advice(schema: Schema) -> str:
    """What is refused across tables, and what is asked instead."""
    return (
        f"a question is about the rows of one table and what stands above them; of units with at least one child such "
        f"that ..., declare whether there is one as a column of '{schema.unit}'"
    )


def plain_select(schema: Schema, statement: str) -> tuple[str, str]:
    """The table whose rows a SELECT is about, and the statement as its view is asked it."""
    import sqlglot
    from sqlglot import exp

    try:
        (tree,) = sqlglot.parse(statement)
    except Exception:
        raise WorkloadError("expected one SELECT statement") from None
    if not isinstance(tree, exp.Select):
        raise WorkloadError("expected one SELECT statement")
    start = tree.args.get("from_") or tree.args.get("from")
    if start is None or not isinstance(start.this, exp.Table):
        raise WorkloadError(f"FROM names one of the tables {', '.join(schema.names)}")
    joins = list(tree.args.get("joins") or ())
    if any(not isinstance(join.this, exp.Table) for join in joins):
        raise WorkloadError(f"JOIN names one of the tables {', '.join(schema.names)}")
    tables = _aliases(schema, [start.this, *(join.this for join in joins)])
    deepest = max(tables.values(), key=lambda name: len(schema.ancestors(name)))
    _check_chain(schema, tables, deepest)
    for join in joins:
        _check_join(schema, tables, join)
    tree.set("joins", None)
    for column in list(tree.find_all(exp.Column)):
        column.replace(exp.column(_spelled(schema, tables, column), quoted=True))
    start.set("this", exp.to_table(deepest))
    return deepest, tree.sql()


def _aliases(schema: Schema, tables: list[SqlTree]) -> dict[str, str]:
    """What each table is called in the statement."""
    named: dict[str, str] = {}
    for table in tables:
        match = [name for name in schema.names if name.lower() == table.name.lower()]
        if not match:
            raise WorkloadError(f"unknown table '{table.name}'; the schema has {', '.join(schema.names)}")
        if match[0] in named.values():
            raise WorkloadError(
                f"table '{match[0]}' is joined with itself: pairs of rows of one unit are not in this release"
            )
        named[(table.alias or table.name).lower()] = match[0]
    return named


def _check_chain(schema: Schema, tables: dict[str, str], deepest: str) -> None:
    """Every joined table stands above the deepest one, and none is left out between them."""
    above = (deepest, *schema.ancestors(deepest))
    apart = [name for name in tables.values() if name not in above]
    if apart:
        raise WorkloadError(
            f"tables '{deepest}' and '{apart[0]}' both hang on others: a row of one does not belong to a row of the "
            f"other; {advice(schema)}"
        )
    last = max(above.index(name) for name in tables.values())
    missing = [name for name in above[: last + 1] if name not in tables.values()]
    if missing:
        raise WorkloadError(f"join table '{missing[0]}', which stands between the others")


def _check_join(schema: Schema, tables: dict[str, str], join: SqlTree) -> None:
    """Along a declared key, so that each row of the lower table has the one row above it."""
    from sqlglot import exp

    side = " ".join(str(join.args.get(part) or "") for part in ("method", "side", "kind")).split()
    condition = join.args.get("on")
    if any(word.upper() not in ("INNER",) for word in side) or join.args.get("using"):
        raise WorkloadError(
            f"expected JOIN ... ON with a declared key, got {' '.join(side)} JOIN; {_keys(schema)}"
        )
    if isinstance(condition, exp.EQ):
        both = [_place(tables, column) for column in (condition.left, condition.right)]
        if set(both) in _key_pairs(schema):
            return
    raise WorkloadError(f"tables are joined along declared keys; {_keys(schema)}")


def _place(tables: dict[str, str], column: SqlTree) -> tuple[str, str] | None:
    from sqlglot import exp

    if not isinstance(column, exp.Column):
        return None
    return tables.get(column.table.lower(), ""), column.name


def _key_pairs(schema: Schema) -> list[set[tuple[str, str] | None]]:
    return [
        {(link.name, link.refers), (link.parent, schema[link.parent].key or "")}
        for link in schema.links
        if link.parent is not None and link.refers is not None
    ]


def _keys(schema: Schema) -> str:
    pairs = [
        f"{link.name}.{link.refers} = {link.parent}.{schema[link.parent].key}"
        for link in schema.links
        if link.parent is not None
    ]
    return f"these are {', '.join(pairs)}"


def _spelled(schema: Schema, tables: dict[str, str], column: SqlTree) -> str:
    """What a column is called in the view."""
    name = column.name
    if not column.table:
        homes = [table for table in tables.values() if _has(schema, table, name)]
        if len(homes) > 1:
            raise WorkloadError(
                f"column '{name}' is in {' and '.join(homes)}; say of which, as {homes[0]}.{name}"
            )
        return schema.spelling(homes[0], name) if homes else name  # the view says what it has
    if column.table.lower() not in tables:
        raise WorkloadError(f"unknown table '{column.table}'; the statement has {', '.join(tables)}")
    table = tables[column.table.lower()]
    link = schema[table]
    if name in (link.key, link.refers):
        raise WorkloadError(f"'{name}' is a key, and keys are not released; {advice(schema)}")
    return schema.spelling(table, name)


def _has(schema: Schema, table: str, name: str) -> bool:
    return name in schema.own(table) or name in schema.own_columns(table)

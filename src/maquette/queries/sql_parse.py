"""SQL predicates: guarded, parsed by sqlglot, and read through a whitelist into a condition.

Nothing is evaluated and no SQL is built from the input. The guards look at the tokens before the parser does: it
takes seconds for long lists and fails on deep nesting.

    predicate: TRUE | FALSE | NOT predicate | predicate AND predicate | predicate OR predicate | ( predicate )
        | attribute (= | <> | != | < | <= | > | >=) literal      (or the literal first)
        | attribute [NOT] BETWEEN literal AND literal
        | attribute [NOT] IN ( literal, ... )
        | attribute IS [NOT] NULL
        | literal (= | <> | != | < | <= | > | >=) literal        (a constant such as 1 = 1)
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from maquette.core.values import MAX_EXPONENT
from maquette.domain import Attribute, Domain
from maquette.errors import WorkloadError
from maquette.queries import names, sql_compare
from maquette.queries.names import MAX_LITERALS
from maquette.queries.sql_cells import Group, Parsed, Tree, leaf, settle
from maquette.queries.sql_compare import Reading, Value

SqlTree = Any
"""A node of sqlglot's; its types move between versions."""

MAX_CHARACTERS = 4096
"""Characters of a predicate."""
MAX_DEPTH = 32
"""Parentheses and NOTs inside one another."""
MAX_NODES = 256
"""Comparisons and connectives of a predicate."""
MAX_SUGGESTED = 8
"""Values that a refusal lists."""
MAX_NUMBER = 10**300
"""Largest absolute value of a number in a predicate."""

_KEYWORDS = frozenset(["AND", "OR", "NOT", "BETWEEN", "IN", "IS", "NULL", "TRUE", "FALSE"])
_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r\n]+)
  | (?P<string>'(?:[^']|'')*')
  | (?P<quoted>"(?:[^"]|"")+")
  | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE](?P<exponent>[+-]?[0-9]+))?(?!\w))
  | (?P<word>[^\W\d]\w*)
  | (?P<sign><>|!=|<=|>=|[=<>])
  | (?P<minus>[+-](?=\s*[0-9.]))
  | (?P<open>\()
  | (?P<close>\))
  | (?P<comma>,)
    """,
    re.VERBOSE,
)


_PATTERNS = frozenset(["LIKE", "ILIKE", "RLIKE", "REGEXP", "GLOB"])


def parse(domain: Domain, text: str, *, undeclared: bool = False) -> Parsed:
    """The conditions that a predicate states; `WorkloadError` for everything outside the grammar.

    With `undeclared`, no record equals a value that is not declared, and a remark says so; else it is refused.
    """
    _guard(domain, text)
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        tree = sqlglot.parse_one(text, into=exp.Condition)
    except (SqlglotError, RecursionError, ValueError):
        raise WorkloadError(
            f"cannot read the predicate {_short(text)!r}; write for example: age >= 60 AND sex = 'Female'"
        ) from None
    reader = _Reader(domain, undeclared)
    parsed = settle(domain, reader.read(tree, negated=False))
    return replace(parsed, remarks=tuple(dict.fromkeys(reader.remarks)))


def _guard(domain: Domain, text: str) -> None:
    """Length, characters, words, nesting and lists, before any parsing."""
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise WorkloadError(f"expected a predicate as text, got {type(text).__name__}")
    if len(text) > MAX_CHARACTERS:
        raise WorkloadError(f"a predicate may have {MAX_CHARACTERS} characters, got {len(text)}")
    depth = _Depth()
    place = 0
    while place < len(text):
        token = _TOKEN.match(text, place)
        if token is None:
            raise WorkloadError(f"unexpected {text[place]!r} in the predicate {_short(text)!r}")
        place = token.end()
        if (token["word"] or "").upper() in _PATTERNS:
            raise _pattern(domain, text, token)
        _check_token(domain, token)
        depth.after(token)
    if place == 0 or not text.strip():
        raise WorkloadError("expected a predicate, got an empty text; TRUE counts all records")


def _pattern(domain: Domain, text: str, token: re.Match[str]) -> WorkloadError:
    """What to write in the place of LIKE: those values of the attribute before it that fit the pattern behind it."""
    before = re.search(r'(?:"([^"]+)"|([^\W\d]\w*))(?:\s+not)?\s*\Z', text[: token.start()], re.IGNORECASE)
    word = (before[1] or before[2]) if before else ""
    attribute = next((a for a in domain if a.name.casefold() == word.casefold()), None)
    name = "attribute" if attribute is None else names.quote(attribute.name)
    behind = re.match(r"\s*'([^']*)'", text[token.end() :])
    form = "" if behind is None else re.escape(behind[1]).replace("%", ".*").replace("_", ".")
    values = () if attribute is None else attribute.categories or ()
    fitting = [value for value in values if re.fullmatch(form, str(value), re.IGNORECASE | re.DOTALL)]
    listed = ", ".join(names.spell(value) for value in (fitting or values)[:MAX_SUGGESTED]) or "'a', 'b'"
    return WorkloadError(
        f"{token[0].upper()} is not part of the query language, which compares with whole values; list those that you "
        f"mean: {name} IN ({listed})"
    )


def _check_token(domain: Domain, token: re.Match[str]) -> None:
    word = token["word"]
    if word is not None and word.upper() not in _KEYWORDS:
        if word.upper() in names.RESERVED:
            raise WorkloadError(
                f"{_short(word)} is not part of the query language; write an attribute of this name in double quotes"
            )
        names.find(domain, word)
    if token["exponent"] is not None and abs(int(token["exponent"])) > MAX_EXPONENT:
        raise WorkloadError(f"the number {_short(token[0])} is out of range")


@dataclass(slots=True)
class _Depth:
    """How deep the tokens so far are nested, and how long the lists are."""

    _opened: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    _nots: int = 0
    _commas: int = 0

    def after(self, token: re.Match[str]) -> None:
        match token.lastgroup:
            case "open":
                self._opened.append((self._nots, self._commas))
                self._nots = self._commas = 0
            case "close":
                if not self._opened:
                    raise WorkloadError("a ) without its ( in the predicate")
                self._nots, self._commas = self._opened.pop()
            case "comma":
                self._commas += 1
            case "word" if token[0].upper() == "NOT":
                self._nots += 1
            case "word" if token[0].upper() in ("AND", "OR"):
                self._nots = 0
            case _:
                return
        if len(self._opened) + sum(nots for nots, _ in self._opened) + self._nots > MAX_DEPTH:
            raise WorkloadError(f"a predicate may be nested {MAX_DEPTH} deep; this one is deeper")
        if self._commas >= MAX_LITERALS:
            raise WorkloadError(f"a list may have {MAX_LITERALS} values; this one has more")


@dataclass(slots=True)
class _Reader:
    """Walks the whitelisted part of a sqlglot tree. NOT is pushed down to the sets of values."""

    domain: Domain
    undeclared: bool = False
    nodes: int = 0
    remarks: list[str] = field(default_factory=list[str])

    def read(self, tree: SqlTree, *, negated: bool) -> Tree:
        from sqlglot import exp

        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise WorkloadError(f"a predicate may have {MAX_NODES} comparisons and connectives")
        match tree:
            case exp.Paren():
                return self.read(tree.this, negated=negated)
            case exp.Not():
                return self.read(tree.this, negated=not negated)
            case exp.And() | exp.Or():
                parts = tuple(self.read(part, negated=negated) for part in tree.flatten())
                return Group(isinstance(tree, exp.And) != negated, parts)
            case exp.Boolean():
                return Group(bool(tree.this) != negated, ())
            case _:
                return self._comparison(tree, negated=negated)

    def _comparison(self, tree: SqlTree, *, negated: bool) -> Tree:
        from sqlglot import exp

        match tree:
            case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
                return self._signed(tree, negated=negated)
            case exp.Between() if not tree.args.get("symmetric"):
                attribute = self._attribute(tree.this)
                low = self._compare(attribute, ">=", tree.args["low"])
                high = self._compare(attribute, "<=", tree.args["high"])
                return Group(
                    not negated, tuple(leaf(attribute, (one,), negated=negated) for one in (low, high))
                )
            case exp.In() if not any(tree.args.get(arg) for arg in ("query", "unnest", "field", "is_global")):
                attribute = self._attribute(tree.this)
                if not tree.expressions:
                    raise WorkloadError(f"expected at least one value in the list of '{attribute.name}'")
                some = [item for item in tree.expressions if not isinstance(item, exp.Null)]
                if not some or (negated and len(some) < len(tree.expressions)):
                    return Group(False, ())  # whether a value is NULL is unknown, and so is NOT of it
                listed = tuple(self._compare(attribute, "=", item) for item in some)
                return leaf(attribute, listed, negated=negated)
            case exp.Is() if isinstance(tree.expression, exp.Null):
                attribute = self._attribute(tree.this)
                return leaf(attribute, (sql_compare.is_null(attribute),), negated=negated)
            case _:
                raise _outside(tree)

    def _signed(self, tree: SqlTree, *, negated: bool) -> Tree:
        from sqlglot import exp

        sign = _SIGNS[type(tree).__name__]
        left, right = tree.this, tree.expression
        if not isinstance(left, exp.Column) and not isinstance(right, exp.Column):
            return Group(_holds(_value(left), sign, _value(right)) != negated, ())
        if not isinstance(left, exp.Column):
            left, right, sign = right, left, _FLIPPED.get(sign, sign)
        attribute = self._attribute(left)
        if sign == "<>":
            sign, negated = "=", not negated
        return leaf(attribute, (self._compare(attribute, sign, right),), negated=negated)

    def _compare(self, attribute: Attribute, sign: str, tree: SqlTree) -> Reading:
        from sqlglot import exp

        if isinstance(tree, exp.Column):
            raise self._no_value(attribute, sign, tree)
        value = _value(tree)
        try:
            return sql_compare.compare(attribute, sign, value)
        except sql_compare.NotDeclared as error:
            if not self.undeclared or sign != "=":
                raise
            self.remarks.append(f"{error}: counted as no record")
            return sql_compare.undeclared(attribute, value)

    def _no_value(self, attribute: Attribute, sign: str, tree: SqlTree) -> WorkloadError:
        """A name where a value should stand: most often text in double quotes."""
        word = tree.name
        if word in self.domain:
            return WorkloadError(
                f"two attributes cannot be compared ('{attribute.name}' and '{word}'); compare each with values"
            )
        text = f"{names.quote(attribute.name)} {sign} {names.spell(word)}"
        return WorkloadError(f"double quotes are for names of attributes; put text in single quotes: {text}")

    def _attribute(self, tree: SqlTree) -> Attribute:
        from sqlglot import exp

        if not isinstance(tree, exp.Column) or not isinstance(tree.this, exp.Identifier) or tree.table:
            raise _outside(tree)
        word = str(tree.this.this)
        if tree.this.args.get("quoted"):
            return names.attribute(self.domain, word)
        return names.find(self.domain, word)


def _holds(left: Value, sign: str, right: Value) -> bool:
    """Two literals compared."""
    if type(left) is not type(right):
        raise WorkloadError(
            "the two sides of a comparison without an attribute must be of one kind, such as 1 = 1"
        )
    low: Any = left
    return {
        "=": low == right,
        "<>": low != right,
        "<": low < right,
        "<=": low <= right,
        ">": low > right,
        ">=": low >= right,
    }[sign]


_SIGNS = {"EQ": "=", "NEQ": "<>", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _value(tree: SqlTree) -> Value:
    from sqlglot import exp

    match tree:
        case exp.Literal():
            return str(tree.this) if tree.args["is_string"] else _number(str(tree.this))
        case exp.Neg() if isinstance(tree.this, exp.Literal) and not tree.this.args["is_string"]:
            return -_number(str(tree.this.this))
        case exp.Boolean():
            return bool(tree.this)
        case exp.Null():
            raise WorkloadError("nothing equals NULL; write IS NULL or IS NOT NULL")
        case _:
            raise _outside(tree)


def _number(text: str) -> Fraction:
    try:
        number = Fraction(text)
    except ValueError:
        raise WorkloadError(f"cannot read {_short(text)!r} as a number") from None
    if number > MAX_NUMBER:
        raise WorkloadError(f"the number {_short(text)} is out of range")
    return number


def _outside(tree: SqlTree) -> WorkloadError:
    return WorkloadError(
        f"{type(tree).__name__.upper()} is not part of the query language; compare attributes with values by "
        "= <> < <= > >= BETWEEN IN, IS NULL, joined by AND OR NOT"
    )


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."

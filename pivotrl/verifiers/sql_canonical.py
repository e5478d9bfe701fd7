"""The form that equivalent SQL statements share, as nested tuples of what sqlglot's parser found.

No schema is known, and nothing is computed: each rule holds for any tables and for the three values of SQL's logic.

- Unquoted identifiers lose their case; a quoted one equals the unquoted one of the same letters.
- Tables and subqueries are named by their place, so that aliases do not matter; where a query reads one table, its
  columns need no qualifier. Common table expressions are named by their place, too. The names of a result's columns,
  and the order of columns, tables and ORDER BY, are real.
- AND and OR: operands in any order, once each. NOT moves inwards. `a = b` and `b = a`, `a < b` and `b > a`, BETWEEN and
  its two comparisons, IN and its OR of `=` are the same; so are lists of GROUP BY in any order.
- INNER and OUTER are noise; CROSS JOIN is the comma. COUNT(1) is COUNT(*). OFFSET 0 is none.
  Parentheses say nothing that the tree lacks.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar

from sqlglot import exp

Form = Any
"""A string, number or None, or a tuple of forms; comparable by ==, sortable by repr."""

_FLIPPED = {exp.GT: exp.LT, exp.GTE: exp.LTE}
_OPPOSITE = {
    exp.EQ: exp.NEQ,
    exp.NEQ: exp.EQ,
    exp.LT: exp.GTE,
    exp.LTE: exp.GT,
    exp.GT: exp.LTE,
    exp.GTE: exp.LT,
    exp.And: exp.Or,
    exp.Or: exp.And,
}
_SYMMETRIC = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ)
_NOISE = {"comments", "_type", "big_int"}
"""Arguments in which the parser notes what it works with itself."""


@dataclass(slots=True)
class _Scope:
    """What a name before a dot, or after FROM, may mean."""

    outer: "_Scope | None" = None
    depth: int = 0
    sources: dict[str, int] = field(default_factory=dict)
    tables: dict[str, str] = field(default_factory=dict)
    """Common table expressions by name, with those of outer queries."""
    bare: bool = False
    """Whether the query reads one source, so that its columns need no qualifier (SQL looks for them there first)."""
    results: set[str] = field(default_factory=set)
    """Names that the query gives to its results: without a qualifier, ORDER BY and GROUP BY mean them."""


def canonical(statement: exp.Expr, any_case: bool, quoted_values: bool = False) -> Form:
    """The canonical form of one parsed statement.

    Args:
        any_case: quoted identifiers have no case either (MySQL, SQLite, T-SQL).
        quoted_values: where a value stands, `"x"` is the text 'x' (SQLite takes what names no column for one).

    Raises RecursionError for trees deeper than Python's stack.
    """
    return _Canonical(any_case, quoted_values).form(statement, _Scope())


class _Canonical:
    def __init__(self, any_case: bool, quoted_values: bool):
        self._any_case, self._quoted_values = any_case, quoted_values

    def form(self, node: Any, scope: _Scope) -> Form:
        """The form of a node, of a list of nodes, or of a plain value."""
        if isinstance(node, list):
            return tuple(self.form(item, scope) for item in node)
        if not isinstance(node, exp.Expr):
            return str(node)
        special = self._SPECIAL.get(type(node))
        if special:
            return special(self, node, scope)
        if isinstance(node, exp.Query | exp.Delete) or node.args.get("with_"):
            scope = self._scope_of(node, scope)
        return self._generic(node, scope)

    def _generic(self, node: exp.Expr, scope: _Scope, **known: Form) -> Form:
        """A node's class and its arguments; `known` are those whose form is decided already, None leaves one out."""
        parts = [
            (name, known.pop(name) if name in known else self.form(value, scope))
            for name, value in node.args.items()
            if name not in _NOISE and value is not None and value is not False and value != []
        ]
        parts += known.items()
        return (type(node).__name__, *sorted((part for part in parts if part[1] is not None), key=lambda part: part[0]))

    # Names

    def name(self, node: Any) -> str:
        """The one spelling of an identifier, or of whatever stands in its place."""
        text = node.name if isinstance(node, exp.Expr) else str(node)
        quoted = isinstance(node, exp.Identifier) and node.args.get("quoted")
        return text if quoted and not self._any_case else text.lower()

    def _scope_of(self, node: exp.Expr, outer: _Scope) -> _Scope:
        """The scope inside a query that stands in `outer`."""
        scope = _Scope(outer, outer.depth + 1, {}, dict(outer.tables))
        with_ = node.args.get("with_")
        for index, table in enumerate(with_.expressions if with_ else ()):
            scope.tables[self.name(table.args["alias"].this)] = f"with {scope.depth}.{index}"
        found = [node.args.get("from_"), *(node.args.get("joins") or ()), *(node.args.get("laterals") or ())]
        if isinstance(node, exp.Update | exp.Delete):
            found = [node.this, *(node.args.get("using") or ()), *found]
        found = [item.this if isinstance(item, exp.From | exp.Join) else item for item in found if item]
        for index, item in enumerate(found):
            alias = item.args.get("alias")
            named = alias.this if isinstance(alias, exp.TableAlias) else item.this
            if isinstance(named, exp.Identifier):
                scope.sources[self.name(named)] = index
        aliases = [item for item in node.expressions if isinstance(item, exp.Alias) and not self._is_own_name(item)]
        scope.results = {self.name(item.args["alias"]) for item in aliases}
        joined = any(isinstance(item, exp.Table) and item.args.get("joins") for item in found)
        scope.bare = len(found) == 1 and not joined
        return scope

    def _identifier(self, node: exp.Identifier, scope: _Scope) -> Form:
        return self.name(node)

    def _column(self, node: exp.Column, scope: _Scope) -> Form:
        table = node.args.get("table")
        if self._quoted_values and table is None and _is_quoted_value(node):
            return ("text", node.name)
        if table is None or node.args.get("db"):
            return self._generic(node, scope)
        name, place = self.name(table), scope
        while place is not None and name not in place.sources:
            place = place.outer
        if place is None:
            return self._generic(node, scope, table=name)
        shadowed = isinstance(node.this, exp.Star) or self.name(node.this) in scope.results
        if place is scope and place.bare and not shadowed:
            return self._generic(node, scope, table=None)
        return self._generic(node, scope, table=f"{place.depth}.{place.sources[name]}")

    def _table(self, node: exp.Table, scope: _Scope) -> Form:
        known = {"alias": self._columns_of(node, scope)}
        if isinstance(node.this, exp.Identifier) and not node.args.get("db"):
            known["this"] = scope.tables.get(self.name(node.this), self.name(node.this))
        return self._generic(node, scope, **known)

    def _offset(self, node: exp.Offset, scope: _Scope) -> Form:
        none = isinstance(node.expression, exp.Literal) and node.expression.this == "0"
        return None if none else self._generic(node, scope)

    def _columns_of(self, node: exp.Expr, scope: _Scope) -> Form:
        """What remains of a table's alias: the names that it gives to columns."""
        alias = node.args.get("alias")
        columns = alias.args.get("columns") if isinstance(alias, exp.TableAlias) else None
        return self.form(columns, scope) if columns else None

    def _subquery(self, node: exp.Subquery, scope: _Scope) -> Form:
        inside = scope
        if isinstance(node.parent, exp.From | exp.Join):  # such a query does not see its neighbours
            inside = _Scope(None, scope.depth, {}, scope.tables)
        known = {"this": self.form(node.this, inside), "alias": self._columns_of(node, scope)}
        form = self._generic(node, scope, **known)
        return known["this"] if len(form) == 2 else form

    def _cte(self, node: exp.CTE, scope: _Scope) -> Form:
        inside = _Scope(None, scope.depth, {}, scope.tables)
        return self._generic(node, scope, this=self.form(node.this, inside), alias=self._columns_of(node, scope))

    def _alias(self, node: exp.Alias, scope: _Scope) -> Form:
        return self.form(node.this, scope) if self._is_own_name(node) else self._generic(node, scope)

    def _is_own_name(self, node: exp.Alias) -> bool:
        """Whether it is `a AS a`."""
        alias, column = node.args.get("alias"), node.this
        named = isinstance(alias, exp.Identifier) and isinstance(column, exp.Column)
        return named and self.name(alias) == self.name(column.this)

    # Values

    def _literal(self, node: exp.Literal, scope: _Scope) -> Form:
        return ("text" if node.is_string else "number", node.this)

    def _boolean(self, node: exp.Boolean, scope: _Scope) -> Form:
        return ("boolean", str(node.this))

    def _paren(self, node: exp.Paren, scope: _Scope) -> Form:
        return self.form(node.this, scope)

    def _anonymous(self, node: exp.Anonymous, scope: _Scope) -> Form:
        return self._generic(node, scope, this=str(node.this).lower())

    def _count(self, node: exp.Count, scope: _Scope) -> Form:
        one = isinstance(node.this, exp.Literal) and not node.this.is_string
        return self._generic(node, scope, this=("Star",) if one else self.form(node.this, scope))

    # Clauses

    def _update(self, node: exp.Update, scope: _Scope) -> Form:
        scope = self._scope_of(node, scope)
        return self._generic(node, scope, expressions=self._assignments(node.expressions, scope))

    def _set_item(self, node: exp.SetItem, scope: _Scope) -> Form:
        return self._generic(node, scope, this=self._assignments([node.this], scope))

    def _assignments(self, nodes: list[exp.Expr], scope: _Scope) -> Form:
        """Here `=` is no comparison: its sides have their order."""
        return tuple(
            self._generic(node, scope) if isinstance(node, exp.EQ) else self.form(node, scope) for node in nodes
        )

    def _join(self, node: exp.Join, scope: _Scope) -> Form:
        kind = (node.args.get("kind") or "").upper()
        return self._generic(node, scope, kind=None if kind in ("", "INNER", "OUTER", "CROSS") else kind)

    def _on_conflict(self, node: exp.OnConflict, scope: _Scope) -> Form:
        return self._generic(node, scope, expressions=self._assignments(node.expressions, scope))

    def _group(self, node: exp.Group, scope: _Scope) -> Form:
        return self._generic(node, scope, expressions=_any_order(self.form(node.expressions, scope)))

    # Logic

    def _predicate(self, node: exp.Expr, scope: _Scope, negated: bool = False) -> Form:
        """A condition, or its negation, with NOT moved inwards."""
        while isinstance(node, exp.Paren | exp.Not):
            negated ^= isinstance(node, exp.Not)
            node = node.this
        kind = type(node)
        if kind is exp.Between and not node.args.get("symmetric"):
            bounds = [self._compare(exp.GTE, node.this, node.args["low"], scope, negated)]
            bounds.append(self._compare(exp.LTE, node.this, node.args["high"], scope, negated))
            return _all_of(exp.Or if negated else exp.And, bounds)
        if kind is exp.In and isinstance(node.this, exp.Column) and set(node.args) <= {"this", "expressions"}:
            values = [self._compare(exp.EQ, node.this, value, scope, negated) for value in node.expressions]
            return _all_of(exp.And if negated else exp.Or, values)
        kind = _OPPOSITE.get(kind, kind) if negated else kind
        if kind in (exp.And, exp.Or):
            return _all_of(kind, self._operands(node, type(node), scope, negated))
        if kind in _SYMMETRIC or kind in _OPPOSITE:
            return self._compare(kind, node.this, node.expression, scope)
        if kind is exp.In:
            form = self._generic(node, scope, expressions=_any_order(self.form(node.expressions, scope)) or None)
        else:
            form = self._generic(node, scope) if kind is exp.Between else self.form(node, scope)
        return ("Not", form) if negated else form

    def _operands(self, node: exp.Expr, kind: type, scope: _Scope, negated: bool) -> list[Form]:
        """The operands of a chain of one connector, which the parser nests to any depth."""
        found, waiting = [], [node]
        while waiting:
            item = waiting.pop()
            bare = item
            while isinstance(bare, exp.Paren):
                bare = bare.this
            if type(bare) is kind:
                waiting += [bare.expression, bare.this]
            else:
                found.append(self._predicate(item, scope, negated))
        return found

    def _compare(self, kind: type, left: exp.Expr, right: exp.Expr, scope: _Scope, negated: bool = False) -> Form:
        kind = _OPPOSITE[kind] if negated else kind
        sides = (self.form(left, scope), self.form(right, scope))
        if kind in _SYMMETRIC:
            sides = _any_order(sides, once=False)
        elif kind in _FLIPPED:
            kind, sides = _FLIPPED[kind], sides[::-1]
        return (kind.__name__, *sides)

    _SPECIAL: ClassVar[dict[type, Any]] = {
        exp.Identifier: _identifier,
        exp.Column: _column,
        exp.Table: _table,
        exp.Subquery: _subquery,
        exp.CTE: _cte,
        exp.Alias: _alias,
        exp.Literal: _literal,
        exp.Boolean: _boolean,
        exp.Paren: _paren,
        exp.Anonymous: _anonymous,
        exp.Count: _count,
        exp.Offset: _offset,
        exp.Update: _update,
        exp.SetItem: _set_item,
        exp.Join: _join,
        exp.Group: _group,
        exp.OnConflict: _on_conflict,
        **dict.fromkeys((*_OPPOSITE, *_SYMMETRIC, exp.Not, exp.Between, exp.In), _predicate),
    }


def _is_quoted_value(node: exp.Column) -> bool:
    """Whether a column is a quoted name in the place of a value: behind a comparison, in a list, in VALUES."""
    if not (isinstance(node.this, exp.Identifier) and node.this.args.get("quoted")):
        return False
    parent, key = node.parent, node.arg_key
    if isinstance(parent, exp.In | exp.Between):
        return key != "this"
    if isinstance(parent, exp.Tuple):
        return isinstance(parent.parent, exp.Values)
    return isinstance(parent, exp.Predicate) and key == "expression"


def _all_of(kind: type, operands: list[Form]) -> Form:
    """A flat AND or OR of operands, some of which may be such themselves."""
    flat: list[Form] = []
    for operand in operands:
        flat += operand[1:] if operand[0] == kind.__name__ else (operand,)
    flat = _any_order(flat)
    return flat[0] if len(flat) == 1 else (kind.__name__, *flat)


def _any_order(forms: Any, once: bool = True) -> Form:
    return tuple(sorted(set(forms) if once else forms, key=repr))

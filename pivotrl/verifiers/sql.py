"""`sql`: do two texts hold the same SQL statements?

Both are parsed (sqlglot), never run, and compared in the canonical form of `sql_canonical`: statements in their order.
Where no dialect is given, the first of generic SQL, SQLite's and T-SQL that reads both is taken. What does not parse,
or is beyond the caps, equals only the same text, but for white space and the semicolon at its end.
"""

import logging
import re
from functools import cache, lru_cache
from typing import Any

from pydantic import field_validator
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect, Dialects
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.parser import Parser

from pivotrl.trajectories.faults import excerpt
from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import Difference
from pivotrl.verifiers.content import ContentParams, ContentVerifier
from pivotrl.verifiers.sql_canonical import Form, canonical

LONGEST_SQL = 10_000
"""Characters that are parsed."""
DEEPEST_SQL = 32
"""Brackets within each other that are parsed, those in quotes counted."""
MOST_STEPS = 10
"""Tokens that the parser may move over, for each token of the text. Real SQL takes less than 2; where sqlglot goes back
and tries again, inside of what it tries again, its time is exponential."""
MOST_NODES = 10_000
"""Nodes of a syntax tree."""
LONGEST_TEXT = 1_000_000
"""Characters that are compared where nothing is parsed."""
TRIED = ("", "sqlite", "tsql")
_ANY_CASE = ("mysql", "sqlite", "tsql")
"""Dialects in which quotes do not give an identifier a case."""

_QUOTED = re.compile(r"""('[^']*'|"[^"]*"|`[^`]*`)""")
_SPACE = re.compile(r"\s+")

logging.getLogger("sqlglot").setLevel(logging.CRITICAL)  # it warns of what it cannot parse, once a verdict


class SqlParams(ContentParams):
    """Parameters of `sql`."""

    dialect: str | None = None
    """One of sqlglot's: postgres, mysql, sqlite, bigquery, snowflake, duckdb, tsql, ...; null: see the module."""

    @field_validator("dialect")
    @classmethod
    def _known(cls, value: str | None) -> str | None:
        known = [dialect.value for dialect in Dialects if dialect.value]
        if value is not None and value not in known:
            raise ValueError(f"{value!r} is not a dialect; write one of {', '.join(known)}")
        return value


class SqlVerifier(ContentVerifier):
    """See the module's docstring. In a message, the SQL is its one fenced code block."""

    PARAMS = SqlParams
    ARGUMENTS = ("sql", "query", "sql_query", "statement", "statements", "sql_statement", "q", "command")
    FENCED = True

    def compare(self, expected: Any, actual: Any, settings: SqlParams, attempt: Attempt) -> Difference | None:
        return compare(expected, actual, settings.dialect)


def compare(expected: Any, actual: Any, dialect: str | None = None) -> Difference | None:
    """None where both hold the same statements; `actual` may be anything."""
    if not isinstance(expected, str) or not isinstance(actual, str):
        return Difference("other_type", f"SQL is text, not {excerpt(actual)}")
    if expected == actual:
        return None
    if len(actual) > LONGEST_TEXT:
        return Difference("too_long", f"{len(actual)} characters of SQL; {LONGEST_TEXT} are compared")
    unread = expected
    for name in TRIED if dialect is None else (dialect,):
        wanted = _statements_of_expert(expected, name)
        found = None if wanted is None else _statements(actual, name)
        if wanted is not None and found is not None:
            return _difference(wanted, found, actual)
        unread = expected if wanted is None and unread is expected else actual
    if _collapsed(expected) == _collapsed(actual):
        return None
    return Difference("not_parsed", f"no SQL that is understood: {excerpt(unread)}")


def _difference(wanted: tuple[Form, ...], found: tuple[Form, ...], actual: str) -> Difference | None:
    if wanted == found:
        return None
    if len(wanted) != len(found):
        return Difference("other_list_length", f"{len(found)} statements instead of {len(wanted)}")
    left, right = next(pair for pair in zip(wanted, found) if pair[0] != pair[1])
    if left[0] != right[0]:
        return Difference("other_value", f"{right[0].upper()} instead of {left[0].upper()}: {excerpt(actual)}")
    parts = sorted({part[0].rstrip("_") for part in set(left[1:]) ^ set(right[1:]) if isinstance(part, tuple)})
    return Difference("other_value", f"other {', '.join(map(str, parts))}: {excerpt(actual)}")


def _collapsed(text: str) -> str:
    """Without needless white space (in quotes, and between lines where a comment ends with its line, it is needed) and
    without the semicolons at the end."""
    pieces = _QUOTED.split(text)
    space = _one_space if "--" in text else " "
    pieces[::2] = [_SPACE.sub(space, piece) for piece in pieces[::2]]
    return "".join(pieces).strip().rstrip("; \n")


def _one_space(space: re.Match[str]) -> str:
    return "\n" if "\n" in space[0] else " "


def _statements(text: str, dialect: str) -> tuple[Form, ...] | None:
    """The canonical forms of a text's statements; None where it cannot be parsed, or must not be."""
    if len(text) > LONGEST_SQL or not _is_flat(text) or not _is_clean(text):
        return None
    try:
        trees = [tree for tree in _parsed(text, dialect) if not isinstance(tree, exp.Semicolon)]
        if not trees or any(isinstance(node, exp.Command) for tree in trees for node in tree.walk()):
            return None
        return tuple(canonical(tree, dialect in _ANY_CASE, dialect == "sqlite") for tree in trees)
    except (SqlglotError, RecursionError, ValueError, ArithmeticError, LookupError, TypeError, AttributeError):
        return None  # a parser of 30 dialects is not free of faults on text that is none of them


_statements_of_expert = lru_cache(maxsize=1024)(_statements)
"""The K samples of a turn are compared with one text."""


def _is_clean(text: str) -> bool:
    """Whether the text is characters: no zero bytes, no half pairs."""
    return "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)


def _is_flat(text: str) -> bool:
    """Whether no more brackets are open at once than the cap allows."""
    depth = 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}" and depth > 0)
        if depth > DEEPEST_SQL:
            return False
    return True


class _TooManySteps(SqlglotError):
    """Unlike a ParseError, not caught inside the parser."""


@cache
def _parser_of(dialect: str) -> type[Parser]:
    """The dialect's parser, with a limit on its steps."""

    class Bounded(Dialect.get_or_raise(dialect).parser_class):  # type: ignore[misc]
        steps_left = 0

        def _advance(self, times: int = 1) -> None:
            self.steps_left -= 1
            if self.steps_left < 0:
                raise _TooManySteps
            super()._advance(times)

    return Bounded


def _parsed(text: str, dialect: str) -> list[exp.Expr]:
    kind = Dialect.get_or_raise(dialect)
    tokens = kind.tokenize(text)
    # Without an error level of IMMEDIATE the parser goes on after an error, over whatever follows.
    parser = _parser_of(dialect)(dialect=kind, error_level=ErrorLevel.IMMEDIATE, max_nodes=MOST_NODES)
    parser.steps_left = MOST_STEPS * len(tokens) + 100
    return [tree for tree in parser.parse(tokens, text) if tree is not None]

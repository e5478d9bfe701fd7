"""Python source as its syntax tree: without comments, docstrings and formatting; literals by value and type.

Only `ast.parse` looks at the text: nothing is compiled to code, executed or imported. Its parser and its tree builder
recurse in C, so that size and nesting are limited before (CPython 3.11 answers with MemoryError and RecursionError
below those limits, which are caught).
"""

import ast
import re
import warnings
from textwrap import dedent

LONGEST = 100_000
"""Characters that are parsed: some 0.4 s. A longer text is compared by its tokens."""
DEEPEST = 100
"""Open brackets, or levels of indentation."""

Tree = tuple
"""The nodes in preorder, flat: names of classes and fields, constants with their types, and ends of lists."""

_BRACKETS = re.compile(r"[()\[\]{}]")
_INDENTATION = re.compile(r"^[ \t]+(?=\S)", re.MULTILINE)
_FIRST_WORD = re.compile(r"\s*(@|[a-z]*)")
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_UNREAD = {"ctx", "kind", "type_comment", "type_ignores"}
_END = object()


def tree_of(text: str) -> Tree | None:
    """The tree of a module, or of a snippet cut out of one (then with the frame that made it one); None where it does
    not parse or is beyond the limits.

    A snippet may be indented as a whole, end after a `:`, begin with `elif`, `else`, `except`, `finally` or `case`, be
    a decorator alone, or be the entries of a dict.
    """
    if len(text) > LONGEST or _too_deep(text):
        return None
    text = text.removeprefix("\ufeff").strip("\n")
    if text[:1] in " \t":  # only then: dedent also touches lines inside strings
        text = dedent(text)
    for name, before, after in _frames(text):
        module = _parse(before + text + after)
        if module is not None:
            return (name, *_flatten(module))
    return None


def _frames(text: str) -> list[tuple[str, str, str]]:
    """What to put before and after a snippet so that it is a module, likeliest first."""
    frames = [("module", "", "")]
    last = text.rstrip().rpartition("\n")[2]
    body = "\n" + " " * (len(last) - len(last.lstrip()) + 1) + "pass"
    after = body if last.endswith(":") else ""
    if after:
        frames.append(("header", "", after))
    first = _FIRST_WORD.match(text).group(1)
    if first in ("elif", "else"):
        frames.append(("else", "if 1:\n pass\n", after))
    if first in ("except", "finally", "else"):
        frames.append(("except", "try:\n pass\n" + ("except E:\n pass\n" if first == "else" else ""), after))
    if first == "case":
        frames.append(("case", "match 1:\n" + " case 0:\n  pass\n", after))
    if first == "@":
        frames.append(("decorator", "", "\ndef f():\n pass"))
    if text[:1] in "\"'*" and ":" in text:
        frames.append(("entries", "{\n", "\n}"))
    return frames


def _too_deep(text: str) -> bool:
    depth = deepest = 0
    for bracket in _BRACKETS.findall(text):
        depth = depth + 1 if bracket in "([{" else max(depth - 1, 0)
        deepest = max(deepest, depth)
    if deepest > DEEPEST:
        return True
    return len(set(map(len, _INDENTATION.findall(text)))) > DEEPEST


def _parse(text: str) -> ast.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an escape such as "\d" warns
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            # ValueError: a null byte, or a lone surrogate (UnicodeEncodeError)
            return None


def _flatten(module: ast.Module) -> Tree:
    """Without recursion: a chain of a few thousand operators is a tree as deep."""
    result: list = []
    stack: list = [module]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Constant):
            result += (type(node.value), _constant(node.value))
        elif isinstance(node, ast.AST):
            result.append(type(node))
            fields = [name for name in node._fields if name not in _UNREAD]
            for name in reversed(fields):
                value = getattr(node, name, None)
                stack.append(_body(node, value) if name == "body" and isinstance(value, list) else value)
        elif isinstance(node, list):
            stack.append(_END)
            stack.extend(reversed(node))
        else:
            result.append(node)
    return tuple(result)


def _constant(value: object) -> object:
    """A form that is equal where the values are, and their signs."""
    return repr(value) if isinstance(value, float | complex) else value


def _body(node: ast.AST, body: list) -> list:
    """Without the docstring. A body of nothing else becomes `pass`. A module of nothing else is a snippet that holds a
    string, and keeps it; so does one that goes on with another string, as those do that stand one below the other
    inside of brackets."""
    if isinstance(node, ast.Module):
        if len(body) < 2 or (isinstance(body[1], ast.Expr) and _begins_with_string(body[1].value)):
            return body
    elif not isinstance(node, _DEFINITIONS):
        return body
    first = body[0] if body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return body[1:] or [ast.Pass()]
    return body


def _begins_with_string(node: ast.expr) -> bool:
    while True:
        if isinstance(node, ast.BinOp | ast.Compare):
            node = node.left
        elif isinstance(node, ast.Attribute | ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call):
            node = node.func
        elif isinstance(node, ast.BoolOp):
            node = node.values[0]
        elif isinstance(node, ast.IfExp):
            node = node.body
        elif isinstance(node, ast.Tuple) and node.elts:
            node = node.elts[0]
        else:
            return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))

"""Lists and pipelines of the syntax tree as one flat row, whichever way the grammar grouped them.

tree-sitter-bash hangs a redirection on the whole list before it. The shell's own grammar is simpler: stages with their
redirections, `|` between them, `&&` and `||` between those.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from tree_sitter import Node

from pivotrl.verifiers.shell.forms import Unparsed

_BETWEEN = frozenset(("|", "|&", "&&", "||", "!"))


@dataclass
class Stage:
    """A command (None: there are only redirections), with the redirections that the grammar put elsewhere."""

    node: Node | None
    redirects: list[Node] = field(default_factory=list)


def flatten(statement: Node, children: Callable[[Node], list[Node]]) -> list[Stage | str]:
    """Stages, with `|`, `|&`, `&&`, `||` and `!` between them. Raises Unparsed.

    Args:
        children: of a node, checked (`WordReader.children`).
    """
    row: list[Stage | str] = []
    waiting: list[Node | str | list[Node]] = [statement]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            row.append(item)
        elif isinstance(item, list):
            if isinstance(row[-1], str):
                raise Unparsed("a redirection of nothing")
            row[-1].redirects.extend(redirect for redirect in item if redirect.type != "comment")
        elif item.type in ("list", "pipeline", "negated_command"):
            waiting.extend(reversed(_parts(children(item))))
        elif item.type == "redirected_statement":
            body = item.child_by_field_name("body")
            if body is None:
                row.append(Stage(None))
                waiting.append(children(item))
            else:
                waiting.append(children(item)[1:])
                waiting.append(body)
        else:
            row.append(Stage(item))
    return row


def _parts(nodes: list[Node]) -> list[Node | str]:
    """Operators as text, comments and line ends left out."""
    parts: list[Node | str] = []
    for node in nodes:
        if node.type in _BETWEEN:
            parts.append(node.type)
        elif node.is_named:
            if node.type != "comment":
                parts.append(node)
        elif node.type != "\n":
            raise Unparsed(node.type)
    return parts

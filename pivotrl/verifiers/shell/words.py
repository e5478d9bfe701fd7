"""A word of the syntax tree as a canonical word: quotes taken away, expansions and active characters kept apart."""

import re
from collections.abc import Callable
from typing import Any

from tree_sitter import Node

from pivotrl.verifiers.shell.forms import Script, Unparsed, Word
from pivotrl.verifiers.shell.heredocs import MARK, HereDocument, written_out
from pivotrl.verifiers.shell.paths import Scope
from pivotrl.verifiers.shell.quoting import Marks

EXPANSIONS = frozenset(
    ("simple_expansion", "expansion", "command_substitution", "arithmetic_expansion", "process_substitution")
)
WORDS = EXPANSIONS | frozenset(
    ("word", "number", "string", "raw_string", "ansi_c_string", "concatenation", "brace_expression", "array")
)
_SHELL_WORDS = WORDS | {"command_name"}
_PLAIN_NAME = re.compile(r"\$\{(\w+|[@*#?$!-])\}")
_LITERAL = re.compile(r"[A-Za-z0-9_./=+:@%^-]+")

ReadScript = Callable[[list[Node], Scope, int], Script]
"""Reads the statements of a substitution: `syntax.read_script`, handed in, as the two need each other."""


class WordReader:
    """Reads the words of one text.

    Args:
        source: the text that was parsed, in UTF-8.
        documents: the here-documents that were taken out of it.
        read_script: for what stands in `$(...)`.
    """

    def __init__(self, source: bytes, documents: list[HereDocument], read_script: ReadScript):
        self._source, self._documents, self._read_script = source, documents, read_script

    def text(self, start: int, end: int) -> str:
        """The source between two byte offsets, here-documents included."""
        text = self._source[start:end].decode("utf-8", "surrogateescape")
        return written_out(text, self._documents) if self._documents else text

    def here_document(self, node: Node) -> HereDocument | None:
        """The here-document that a redirection's target stands for; None where it is a file."""
        if not self._documents:
            return None
        found = MARK.fullmatch(self._source[node.start_byte : node.end_byte].decode("utf-8", "surrogateescape"))
        return self._documents[int(found[1])] if found else None

    def children(self, node: Node, one_line: bool = False) -> list[Node]:
        """The children, once it is sure that white space stands between them, and nothing else.

        The grammar passes over some of what it does not know, and takes a line's continuation for white space where
        the shell joins words. Raises Unparsed.

        Args:
            one_line: the words of a simple command, which no line end parts; two without white space between them
                are one.
        """
        children = node.children
        end, before = node.start_byte, None
        for child in children:
            start = child.start_byte
            if start != end:
                self._check_gap(end, start, one_line)
            elif one_line and before in _SHELL_WORDS and child.type in _SHELL_WORDS:
                raise Unparsed("a word that the parser cut")
            end, before = child.end_byte, child.type
        if end != node.end_byte and children:
            self._check_gap(end, node.end_byte, one_line)
        return children

    def _check_gap(self, start: int, end: int, one_line: bool) -> None:
        gap = self._source[start:end]
        if gap == b" ":
            return
        plain = gap.replace(b"\\\n", b"")
        if not plain or plain.strip(b" \t" if one_line else b" \t\n"):
            raise Unparsed("text that the parser passed over")

    def word(self, node: Node, scope: Scope, depth: int, split: bool = True) -> Word:
        """The canonical word.

        Args:
            split: an unquoted expansion is split into words here; in an assignment it is not, and quotes around it
                say nothing.
        """
        kind = node.type
        if kind == "word" or kind == "number":
            text = self.text(node.start_byte, node.end_byte)
            if _LITERAL.fullmatch(text):
                return text
        marks = Marks()
        self._collect(node, marks, scope, depth, not split)
        return marks.word()

    def _collect(self, node: Node, marks: Marks, scope: Scope, depth: int, quoted: bool) -> None:
        kind, start, end = node.type, node.start_byte, node.end_byte
        if kind == "raw_string":
            marks.append(self.text(start + 1, end - 1))
        elif kind == "string":
            self._double_quoted(node, marks, scope, depth)
        elif kind == "ansi_c_string":
            marks.ansi(self.text(start + 2, end - 1))
        elif kind == "concatenation":
            position = start
            for child in node.children:
                if child.start_byte != position:
                    marks.unquoted(self.text(position, child.start_byte))
                self._collect(child, marks, scope, depth, quoted)
                position = child.end_byte
        elif kind in EXPANSIONS:
            marks.append(self._expansion(node, kind, scope, depth, quoted))
        elif kind == "array":
            marks.append(("raw", self.text(start, end)))
        elif not node.named_child_count or kind == "brace_expression":
            marks.unquoted(self.text(start, end))
        else:
            raise Unparsed(kind)

    def _double_quoted(self, node: Node, marks: Marks, scope: Scope, depth: int) -> None:
        position = node.start_byte + 1
        for child in node.named_children:
            if child.type in EXPANSIONS:
                marks.double_quoted(self.text(position, child.start_byte))
                marks.append(self._expansion(child, child.type, scope, depth, True))
                position = child.end_byte
        marks.double_quoted(self.text(position, node.end_byte - 1))

    def _expansion(self, node: Node, kind: str, scope: Scope, depth: int, quoted: bool) -> tuple[Any, ...]:
        text = self.text(node.start_byte, node.end_byte)
        if kind == "simple_expansion":
            return ("$", text[1:], quoted)
        if kind == "expansion":
            plain = _PLAIN_NAME.fullmatch(text)
            return ("$", plain[1], quoted) if plain else ("${", text, quoted)
        if kind == "arithmetic_expansion":
            return ("$((", text, quoted)
        if text.startswith("`") and "\\" in text:
            return ("`", text, quoted)
        if not text.startswith(("$(", "`", "<(", ">(")):
            raise Unparsed("a substitution")
        inner = self.children(node)[1:-1]
        opens = "<(" if kind == "process_substitution" else "$("
        direction = text[0] if opens == "<(" else ""
        return (opens, direction, self._read_script(inner, Scope(scope.directory), depth + 1), quoted)

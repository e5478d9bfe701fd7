"""A command's text to a syntax tree, after the checks that keep the parser fast and its answer trustworthy."""

import re
from functools import cache

import tree_sitter
import tree_sitter_bash
from tree_sitter import Node

from pivotrl.verifiers.shell.forms import Unparsed
from pivotrl.verifiers.shell.heredocs import HereDocument, extract

LONGEST_COMMAND = 20_000
"""Characters of a command that is parsed; a longer one is only ever equal to itself."""
MOST_REPEATED = 1_500
"""Times that one of the characters `|`, `(`, `[`, `{`, `<`, "`" may occur: the parser's time grows with their square
where the text is no shell."""

_ODD = re.compile(r"[^\n\t\x20-\x7e\u00a1-\u1fff\u2010-\u2027\u2030-\u205e\u2070-\u2fff\u3001-\ud7ff\uf900-\ufefe]")
"""Control characters, carriage returns, lone surrogates, and white space that the shell takes for letters: the parser
and the shell do not agree about them. Characters beyond U+FFFF are checked apart."""


@cache
def _language() -> tree_sitter.Language:
    return tree_sitter.Language(tree_sitter_bash.language())


def parse(text: str) -> tuple[Node, bytes, list[HereDocument]]:
    """The tree's root, the UTF-8 text that its offsets count in, and the here-documents taken out of it. Raises
    Unparsed."""
    if any(found[0] < "\U00010000" for found in _ODD.finditer(text)):
        raise Unparsed("a control character, a lone surrogate, or a space that is none")
    plain, documents = extract(text)
    if any(plain.count(character) > MOST_REPEATED for character in "|([{<`"):
        raise Unparsed("too many brackets")
    source = plain.encode()
    root = tree_sitter.Parser(_language()).parse(source).root_node
    if root.has_error:
        raise Unparsed("not a whole command of the shell")
    return root, source, documents

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
LONGEST_SCRIPT = 8_000
"""Bytes of a command without its here-documents, beyond which it counts as not parsed."""
MOST_REPEATED = 1_500
"""Times that one of the characters `|`, `(`, `[`, `{`, `<`, "`" may occur outside here-documents: the parser's time
grows with their square where the text is no shell."""
_CHUNK, MOST_READS = 4096, 64
"""The parser reads the text in pieces of so many bytes, and so often. The scripts of a Linux system need 16 readings
at most; text that is no shell makes it read the rest anew at each token."""
MOST_STEPS = 0.1
"""Reports of progress (one in 100 steps of the parser) a byte of text, beyond the first 100. The same scripts need
0.01, and commands of one letter 0.05."""

_ODD = re.compile(r"[^\n\t\x20-\x7e\u00a1-\u1fff\u2010-\u2027\u2030-\u205e\u2070-\u2fff\u3001-\ud7ff\uf900-\ufefe]")
"""Control characters, carriage returns, lone surrogates, and white space that the shell takes for letters: the parser
and the shell do not agree about them. Characters beyond U+FFFF are checked apart."""
_TWO_BYTES, _THREE_BYTES = re.compile("[\u0080-\u07ff]"), re.compile("[\u0800-\uffff]")
_FOUR_BYTES = re.compile("[\U00010000-\U0010ffff]")


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
    if len(source) > LONGEST_SCRIPT:
        raise Unparsed(f"more than {LONGEST_SCRIPT} bytes outside here-documents")
    root = _root(shadow(plain).encode())
    if root is None or root.has_error:
        raise Unparsed("not a whole command of the shell")
    return root, source, documents


def shadow(text: str) -> str:
    """The text with other characters of as many bytes for those that are not ASCII.

    The grammar's scanner asks C's `isalpha` and the like about every character, which read a table of 256 entries: far
    beyond it the process dies. To the shell, such characters are parts of words and no letters of a name.
    """
    if text.isascii():
        return text
    return _FOUR_BYTES.sub("\u00a1\u00a1", _THREE_BYTES.sub("\u0964", _TWO_BYTES.sub("\u00a1", text)))


def _root(source: bytes) -> Node | None:
    """The tree's root; None where the parser was stopped. What stops it are counts, so that equal texts fare alike."""
    reads, steps = 0, 0

    def read(offset: int, _: object) -> bytes:
        nonlocal reads
        reads += 1
        return source[offset : offset + _CHUNK] if reads <= MOST_READS else b""

    def stop(_: int, __: bool) -> bool:
        nonlocal steps
        steps += 1
        return reads > MOST_READS or steps > 100 + MOST_STEPS * len(source)

    try:
        tree = tree_sitter.Parser(_language()).parse(read, progress_callback=stop)
    except ValueError:  # it was stopped
        return None
    return tree.root_node if reads <= MOST_READS else None

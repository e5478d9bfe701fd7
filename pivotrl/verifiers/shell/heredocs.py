"""Here-documents taken out of a text before it is parsed: the grammar loses white space in them, and their place.

Each leaves `< MARK` where it was opened, where MARK is a private-use character, a number and another such character;
neither occurs in a text that is parsed (`parse`).
"""

import re
from typing import NamedTuple

from pivotrl.verifiers.shell.forms import Unparsed
from pivotrl.verifiers.shell.quoting import unescape_here_document

_OPEN, _CLOSE = "\ue000", "\ue001"
MOST_DOCUMENTS = 100
"""Here-documents of one command; the end of each is looked for line by line."""
MARK = re.compile(f"{_OPEN}([0-9]+){_CLOSE}")
_SPECIAL = re.compile(r"[\\'\"`$(){}<#\n]")
_SPECIAL_IN_DOUBLE = re.compile(r"[\\\"`$]")
_DELIMITER = re.compile(r"[ \t]*((?:\\.|'[^'\n]*'|\"[^\"\n]*\"|[^\s\\'\"`$;&|<>()#])+)")
_ANSI_END = re.compile(r"(?:[^\\']|\\.)*'", re.DOTALL)
_TABS = re.compile(r"^\t+", re.MULTILINE)
_QUOTES = re.compile(r"\\(.)|['\"]")


class HereDocument(NamedTuple):
    """What stands between the opening's line and the delimiter."""

    body: str
    expands: bool
    """The delimiter was not quoted, and the shell expands something in the body."""

    def said(self) -> str | tuple[str, str]:
        return ("expanded", self.body) if self.expands else self.body


def extract(text: str) -> tuple[str, list[HereDocument]]:
    """The text without its here-documents, and these. Raises Unparsed where one has no end, or a quote has none."""
    if "<<" not in text:
        return text, []
    reader = _Extractor(text)
    return reader.run(), reader.found


class _Extractor:
    """One pass over a text, with a stack of what it is inside of: `"`, `(`, "`", `{` or `((`."""

    def __init__(self, text: str):
        self.found: list[HereDocument] = []
        self._text, self._at, self._kept = text, 0, 0
        self._stack: list[str] = []
        self._pieces: list[str] = []
        self._waiting: list[tuple[str, bool, bool]] = []

    def run(self) -> str:
        text = self._text
        while True:
            inside = self._stack[-1] if self._stack else ""
            special = (_SPECIAL_IN_DOUBLE if inside == '"' else _SPECIAL).search(text, self._at)
            if special is None:
                break
            self._at = special.end()
            self._step(special[0], special.start(), inside)
        if self._waiting:
            raise Unparsed("a here-document that does not begin")
        return "".join((*self._pieces, text[self._kept :]))

    def _step(self, character: str, start: int, inside: str) -> None:
        text = self._text
        if character == "\\":
            self._at += 1
        elif character == "$":
            self._dollar(inside)
        elif character == '"':
            if inside == '"':
                self._stack.pop()
            else:
                self._stack.append('"')
        elif character == "`":
            if inside == "`":
                self._stack.pop()
            else:
                self._stack.append("`")
        elif character == "'":
            end = text.find("'", self._at)
            if end < 0:
                raise Unparsed("a quote without an end")
            self._at = end + 1
        elif character == "(":
            double = text.startswith("(", self._at)
            self._stack.append("((" if double else "(")
            self._at += double
        elif character == ")":
            if inside == "((" and text.startswith(")", self._at):
                self._stack.pop()
                self._at += 1
            elif inside in ("(", "(("):
                self._stack[-1:] = ["("] if inside == "((" else []
        elif character == "{":
            if text.startswith("${", max(start - 1, 0)):
                self._stack.append("{")
        elif character == "}":
            if inside == "{":
                self._stack.pop()
        elif character == "#":
            if inside not in ("{", "((") and (start == 0 or text[start - 1] in " \t\n;&|()"):
                end = text.find("\n", start)
                self._at = len(text) if end < 0 else end
        elif character == "\n":
            self._bodies()
        elif inside not in ("{", "((") and text.startswith("<", self._at):
            self._open(start)

    def _dollar(self, inside: str) -> None:
        text, at = self._text, self._at
        if text.startswith("((", at):
            self._stack.append("((")
            self._at += 2
        elif text.startswith("(", at):
            self._stack.append("(")
            self._at += 1
        elif text.startswith("{", at):
            self._stack.append("{")
            self._at += 1
        elif text.startswith("'", at) and inside != '"':
            end = _ANSI_END.match(text, at + 1)
            if end is None:
                raise Unparsed("a quote without an end")
            self._at = end.end()

    def _open(self, start: int) -> None:
        """`<<` or `<<-` with its delimiter; `<<<` is left as it is."""
        at = self._at + 1
        if self._text.startswith("<", at):
            self._at = at + 1
            return
        if len(self.found) + len(self._waiting) == MOST_DOCUMENTS:
            raise Unparsed("too many here-documents")
        strips = self._text.startswith("-", at)
        opening = _DELIMITER.match(self._text, at + strips)
        if opening is None:
            raise Unparsed("a here-document without a delimiter")
        delimiter = _QUOTES.sub(lambda found: found[1] or "", opening[1])
        mark = f"< {_OPEN}{len(self.found) + len(self._waiting)}{_CLOSE}"
        self._pieces += (self._text[self._kept : start], mark)
        self._kept = self._at = opening.end()
        self._waiting.append((delimiter, delimiter == opening[1], strips))

    def _bodies(self) -> None:
        """At the end of a line: the bodies of the here-documents that it opened."""
        if not self._waiting:
            return
        self._pieces.append(self._text[self._kept : self._at])
        for delimiter, plain, strips in self._waiting:
            start, end = self._end(delimiter, strips)
            body = self._text[self._at : start]
            if strips:
                body = _TABS.sub("", body)
            said = unescape_here_document(body) if plain else body
            self.found.append(HereDocument(body if said is None else said, said is None))
            self._at = self._kept = end
        self._waiting.clear()

    def _end(self, delimiter: str, strips: bool) -> tuple[int, int]:
        """Where the delimiter's line starts and ends."""
        start = self._at
        while start < len(self._text):
            end = self._text.find("\n", start) + 1 or len(self._text)
            line = self._text[start:end].removesuffix("\n")
            if (line.lstrip("\t") if strips else line) == delimiter:
                return start, end
            start = end
        raise Unparsed("a here-document without an end")


def written_out(text: str, documents: list[HereDocument]) -> str:
    """A piece of the text in which the here-documents stand again, so that two pieces are equal only where they are."""
    return MARK.sub(lambda found: repr(documents[int(found[1])]), text)

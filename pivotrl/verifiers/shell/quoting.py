"""Quotes and escapes taken away: the text between the expansions of a word, as parts of a canonical word."""

import re
from itertools import pairwise
from typing import Any

from pivotrl.verifiers.shell.forms import Unparsed, Word, join

_UNQUOTED = re.compile(r"\\(.?)|([*?\[\]{},])|[^\\*?\[\]{},]+", re.DOTALL)
_IN_DOUBLE = re.compile(r'\\([$`"\\\n])')
_EXPANDS = re.compile(r"(?<!\\)(?:\\\\)*(?:`|\$[A-Za-z0-9_@*#?$!({'\"-])")
"""An expansion that the parser did not see: not one of ours to call literal."""
_EXPANDS_IN_DOUBLE = re.compile(r"(?<!\\)(?:\\\\)*(?:`|\$[A-Za-z0-9_@*#?$!({-])")
_ANSI = re.compile(r"\\(?:([abeEfnrtv\\'\"?])|x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|([0-7]{1,3})|(.?))", re.DOTALL)
_ANSI_LETTERS = dict(zip("abeEfnrtv\\'\"?", "\a\b\x1b\x1b\f\n\r\t\v\\'\"?"))


class Marks(list[Any]):
    """Parts of a word that is read: literals, expansions, and one-element tuples for characters that may be active."""

    def unquoted(self, text: str) -> None:
        """Add text outside quotes. Raises Unparsed where an expansion hides in it."""
        if text.isalnum():
            self.append(text)
            return
        if ("$" in text or "`" in text) and _EXPANDS.search(text):
            raise Unparsed("an expansion in a plain word")
        if not self and text.startswith("~"):
            user, slash, text = text.partition("/")
            self.append(("~", user))
            text = slash + text
        for found in _UNQUOTED.finditer(text):
            if found[2]:
                self.append((found[2],))
            elif found[1] is None:
                self.append(found[0])
            elif found[1] != "\n":
                self.append(found[1] or "\\")

    def double_quoted(self, text: str) -> None:
        """Add text between double quotes. Raises Unparsed as above."""
        if ("$" in text or "`" in text) and _EXPANDS_IN_DOUBLE.search(text):
            raise Unparsed("an expansion in a string")
        self.append(_IN_DOUBLE.sub(_after_backslash, text) if "\\" in text else text)

    def ansi(self, text: str) -> None:
        """Add what stands between $' and '."""
        plain = _ANSI.sub(_ansi_character, text) if "\\" in text else text
        self.append(("$'", text) if "\0" in plain else plain)

    def word(self) -> Word:
        """The canonical word: characters that turned out not to be active are literal."""
        if len(self) == 1 and isinstance(self[0], str):
            return self[0]
        marks = "".join(part[0] for part in self if not isinstance(part, str) and len(part) == 1)
        inactive = ""
        if marks:
            if not ("[" in marks and "]" in marks[marks.index("[") :]):
                inactive += "[]"
            if not self._has_braces():
                inactive += "{},"
            elif any(part[0] == "$" and after == ("{",) for part, after in pairwise(self)):
                raise Unparsed("$a{b,c}")  # braces come first: $ab $ac
        return join(tuple(part[0] if len(part) == 1 and part[0] in inactive else part for part in self))

    def _has_braces(self) -> bool:
        """Whether some `{` is followed by `,` or `..`, and then by `}`."""
        state = 0
        for part in self:
            if part == ("{",):
                state = max(state, 1)
            elif state == 1 and (part == (",",) or (isinstance(part, str) and ".." in part)):
                state = 2
            elif state == 2 and part == ("}",):
                return True
        return False


def _after_backslash(found: re.Match[str]) -> str:
    return "" if found[1] == "\n" else found[1]


def _ansi_character(found: re.Match[str]) -> str:
    """One escape of $'...'; NUL stands for one that is not decoded here (`\\cx`, a byte above 127, an unknown one)."""
    if found[1]:
        return _ANSI_LETTERS[found[1]]
    code = int(found[2] or found[3] or "0", 16) if not found[4] else int(found[4], 8)
    if found[3]:
        return "\0" if 0xD800 <= code < 0xE000 else chr(code)
    return chr(code) if 0 < code < 128 else "\0"


def unescape_here_document(text: str) -> str | None:
    """What a here-document with an unquoted delimiter says; None where the shell would expand something in it."""
    if not ("$" in text or "`" in text or "\\" in text):
        return text
    if _EXPANDS_IN_DOUBLE.search(text):
        return None
    return re.sub(r"\\([$`\\\n])", _after_backslash, text)

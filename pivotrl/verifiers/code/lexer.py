"""Source without a parser: what is left of a text when the white space that does not matter is gone.

For languages that have no parser here, and for snippets and files that do not parse. Every step consumes what it looks
at, so that the time is linear in the text.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest

LONGEST = 200_000
"""Characters that are read (some 0.4 s); what a longer text says further on is one token."""


@dataclass(frozen=True)
class Rules:
    """What a lexer has to know of a language."""

    line_comments: tuple[str, ...] = ()
    block_comment: tuple[str, str] | None = None
    quotes: str = "\"'"
    """Open a string that ends at the same quote; a backslash escapes. A ' that is not among them opens a character."""
    triple_quotes: bool = False
    operators: bool = False
    """`a+b` is `a + b`. Off: only the amount of white space is free, not whether there is any."""
    newlines: bool = True
    """A line's end outside of ( ) and [ ] ends a statement. Off: it is white space."""
    indentation: bool = False
    """Lines nest by indentation."""
    comments_in_words: bool = True
    """`a#b` is a word and a comment. Off: it is one word, as in the shell and YAML."""
    comments_alone: bool = False
    """A comment has a line of its own; behind something else, its marker is no marker."""
    recipes: bool = False
    """Of a line's indentation only whether it begins with a tab matters."""


_SLASHES = Rules(("//",), ("/*", "*/"), operators=True)
_HASHES = Rules(("#",), comments_in_words=False)
_BRACES = Rules(("//",), ("/*", "*/"), quotes='"', operators=True, newlines=False)
_SCRIPT = Rules(("//",), ("/*", "*/"), quotes="\"'`", operators=True)
_RULES = {
    "python": Rules(("#",), triple_quotes=True, operators=True, indentation=True),
    "javascript": _SCRIPT,
    "typescript": _SCRIPT,
    "tsx": _SCRIPT,
    "go": Rules(("//",), ("/*", "*/"), quotes='"`', operators=True),
    "rust": _BRACES,
    "java": replace(_BRACES, triple_quotes=True),
    "csharp": replace(_BRACES, triple_quotes=True),
    "c": _BRACES,
    "cpp": _BRACES,
    "kotlin": replace(_SLASHES, triple_quotes=True),
    "swift": replace(_SLASHES, triple_quotes=True),
    "scala": replace(_SLASHES, triple_quotes=True),
    "php": Rules(("//", "#"), ("/*", "*/"), operators=True, newlines=False),
    "css": Rules((), ("/*", "*/"), newlines=False),
    "scss": Rules(("//",), ("/*", "*/"), newlines=False, comments_in_words=False),
    "json": Rules(("//",), ("/*", "*/"), quotes='"', operators=True, newlines=False),
    "bash": _HASHES,
    "ruby": _HASHES,
    "toml": _HASHES,
    "dockerfile": replace(_HASHES, comments_alone=True),
    "ini": Rules(("#", ";"), quotes='"', indentation=True, comments_alone=True),
    "indented": Rules(quotes='"', indentation=True),
    "yaml": Rules(("#",), comments_in_words=False, indentation=True),
    "makefile": Rules(("#",), comments_in_words=False, indentation=True, recipes=True),
}
_UNKNOWN = Rules(quotes='"')

_OPERATORS = (
    "<<= >>= **= //= ... === !== >>> && || ++ -- += -= *= /= %= |= &= ^= == != <= >= -> => :: ** // << >> := ?? ?. <-"
)
_OPERATOR = "|".join(re.escape(text) for text in _OPERATORS.split())
_WORD = re.compile(r"[ \t\r\f\v]*((?:\w|(?<=\d)\.(?=\d))+|" + _OPERATOR + r"|[^\s])?")
_RUN = re.compile(r"[ \t\r\f\v]*([^\s\"'`()\[\]{}#;/*]+|[^\s])?")
_STRINGS = {quote: re.compile(rf"{quote}(?:[^{quote}\\]|\\[\s\S])*{quote}?") for quote in "\"'`"}
_ONE_LINE = {quote: re.compile(rf"{quote}(?:[^{quote}\\\n]|\\[\s\S])*{quote}?") for quote in "\"'"}
_CHARACTER = re.compile(r"'(?:[^'\\\n]|\\[^\n][0-9a-fA-F{}]{0,10})'")


def tokens_of(text: str, language: str | None) -> Iterator[str]:
    """The text's tokens in order. Between two lines that both matter stands "\\n", with a number of levels where
    indentation matters; comments are left out, and strings are kept as they are written."""
    return _tokens(text, _RULES.get(language or "", _UNKNOWN))


def outline_of(text: str, language: str) -> Iterator[str]:
    """The tokens without what may be optional: lines' ends, `;`, a comma before a closing bracket, the choice of
    quotes; operators by character. Texts whose outlines differ mean different things; whether those with equal ones
    mean the same, a parser has to tell."""
    commas = 0
    for token in _tokens(text, replace(_RULES[language], operators=True)):
        if token.startswith("\n") or token == ";":
            continue
        if token == ",":
            commas += 1
            continue
        if token not in (")", "]", "}"):
            yield from "," * commas
        commas = 0
        if token[0] in "\"'":
            yield token[1:-1]
        elif token[0].isalnum() or token[0] in "_`":
            yield token
        else:
            yield from token


def same_sequence(left: Iterable[str], right: Iterable[str]) -> bool:
    """Whether both yield the same; what follows the first difference is not asked for."""
    return all(x == y for x, y in zip_longest(left, right))


def _tokens(text: str, rules: Rules) -> Iterator[str]:
    levels: list[int] = []
    for indent, words in _lines(text, rules):
        if rules.indentation:
            yield f"\n{indent if rules.recipes else _level(indent, levels)}"
        elif rules.newlines or words[0][0] == "#":
            yield "\n"  # a line of C's preprocessor ends where it ends
        yield from words
        if not rules.newlines and words[0][0] == "#":
            yield "\n"


def _level(indent: int, levels: list[int]) -> int:
    """How deep a line of that indentation lies, counted in the levels that were seen: 4 spaces or 2, it is one."""
    while levels and indent < levels[-1]:
        levels.pop()
    if not levels or indent > levels[-1]:
        levels.append(indent)
    return len(levels)


def _lines(text: str, rules: Rules) -> Iterator[tuple[int, list[str]]]:
    """The logical lines that are not empty: (indentation in columns, tokens)."""
    rest = text[LONGEST:].rstrip()
    text = text[:LONGEST].replace("\r\n", "\n")
    words: list[list[str]] = []
    indent = start = position = depth = 0
    while position < len(text):
        if text[position] == "\n":
            position += 1
            if depth == 0:
                if words:
                    yield indent, ["".join(parts) for parts in words]
                words, start = [], position
            continue
        word, end = _next(text, position, rules, not words)
        if word:
            first = end - len(word)
            if not words:
                indent = (
                    len(text[start:first][:200].expandtabs(8))
                    if not rules.recipes
                    else text.count("\t", start, start + 1)
                )
            if rules.operators or not words or first > position:
                words.append([word])
            else:
                words[-1].append(word)  # no white space before it: one run
            if word in "([" and rules.operators:
                depth += 1
            elif word in ")]" and depth:
                depth -= 1
        position = end
    if rest:
        words.append([rest])
    if words:
        yield indent, ["".join(parts) for parts in words]


def _next(text: str, position: int, rules: Rules, first: bool) -> tuple[str, int]:
    """The token at `position` (empty for a comment, or white space before a line's end), and where it ends.
    `first`: its line has none before it."""
    match = (_WORD if rules.operators else _RUN).match(text, position)
    word, end = match.group(1) or "", match.end()
    if not word:
        return "", max(end, position + 1) if text[end : end + 1] != "\n" else end
    start = end - len(word)
    if (first or not rules.comments_alone) and _opens_comment(text, start, rules):
        stop = text.find("\n", start)
        return "", len(text) if stop < 0 else stop
    if rules.block_comment and text.startswith(rules.block_comment[0], start):
        stop = text.find(rules.block_comment[1], start + 2)
        return "", len(text) if stop < 0 else stop + len(rules.block_comment[1])
    quote = text[start]
    if quote in rules.quotes:
        if rules.triple_quotes and text.startswith(quote * 3, start):
            stop = text.find(quote * 3, start + 3)
            end = len(text) if stop < 0 else stop + 3
        else:
            end = (_STRINGS if quote == "`" else _ONE_LINE)[quote].match(text, start).end()
    elif quote == "'" and (character := _CHARACTER.match(text, start)):
        end = character.end()
    return text[start:end], end


def _opens_comment(text: str, start: int, rules: Rules) -> bool:
    if not any(text.startswith(marker, start) for marker in rules.line_comments):
        return False
    if text.startswith("#[", start) and "//" in rules.line_comments:
        return False  # PHP's attributes
    return rules.comments_in_words or start == 0 or text[start - 1] in " \t\n"

"""What a search query asks for, apart from how it is spelled.

A query is read as a search engine reads it: words, "quoted phrases", operators (`site:`, `filetype:`, `before:`, ...),
`-exclusions` and `NOT`, `OR` groups and parentheses. Words lose case, width and accents of Latin letters (NFKC), the
punctuation around them, possessives, and the plural's ending; hyphens, slashes, and the border of letters and digits
part them (`gpt-4` and `gpt4` are `gpt`, `4`). Words that only join others are left out.
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field

from pivotrl.verifiers import url
from pivotrl.verifiers.search_words import LIMITS, LINKS, NEGATIONS, OPERATORS, ROMAN, STOP, fold, stem, trim

DEEPEST = 16
"""Parentheses within each other that are told apart; deeper ones are passed over."""

_LEXEME = re.compile(r'"([^"]*)"|([()|])|([^\s"()|]+)')
_QUOTES = str.maketrans(
    dict.fromkeys("\u201c\u201d\u201e\u201f\u00ab\u00bb\u2033", '"') | {"\u2019": "'", "\u2018": "'"}
)
_DATE_OR_RANGE = re.compile(r"\d+(?:[-/.:\u2013]{1,2}[$\u20ac\u00a3\u00a5]?\d+)+%?")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_ZEROS = re.compile(r"(?<!\d)0+(?=\d)")
_PARTS = re.compile(r"[^\s\-\u2010-\u2015/\\,;:!?=~*^<>\[\]{}_@\"()|]+")
_RUNS = re.compile(r"\d+(?:\.\d+)*|\D+")
_UNIT = re.compile(r"[$\u20ac\u00a3\u00a5%]")

Element = tuple
"""`("word", w)`, `("number", n)`, `("unit", sign)`, `("negation",)`, `("phrase", words)`, `("operator", name, value)`,
`("url", form)`, and of elements `("not", element)`, `("or", frozenset)`, `("and", frozenset)`."""


@dataclass(slots=True)
class Query:
    """What must be equal (`exact`, `phrases`), and what may vary (`terms`)."""

    terms: set[str] = field(default_factory=set)
    """Plain words without their plural's ending."""
    words: set[str] = field(default_factory=set)
    """Plain words, folded."""
    names: set[str] = field(default_factory=set)
    """Those of `words` that stand out by their capitals."""
    lower: set[str] = field(default_factory=set)
    """Those of `words` that have no capital."""
    exact: set[Element] = field(default_factory=set)
    """Operators, exclusions, OR groups, numbers and their units, URLs, and whether anything is negated."""
    phrases: list[Element] = field(default_factory=list)
    """Quoted phrases, sorted; each counts."""
    links: dict[str, set[str]] = field(default_factory=dict)
    """By the word of LINKS, the terms that follow it; by a word, the numbers that follow it."""


def parse(text: str) -> Query:
    """Read a query, in time linear in its length but for the sorting. Never raises."""
    text = unicodedata.normalize("NFKC", text.translate(_QUOTES)).translate(_QUOTES)
    query = Query()
    for element in _flat(_elements(text, _Words(query))):
        if element[0] == "word":
            query.terms.add(element[1])
        elif element[0] == "phrase":
            query.phrases.append(element)
        else:
            query.exact.add(element)
    query.phrases.sort()
    if not query.lower:
        query.names = set()  # A Title Says Nothing About Names
    return query


def _elements(text: str, words: "_Words") -> list[Element]:
    groups, prefix = _Groups(), ""
    for lexeme in _LEXEME.finditer(text):
        phrase, mark, chunk = lexeme.groups()
        if chunk and text[lexeme.end() : lexeme.end() + 1] in ('"', "(") and chunk[-1] in "-+:":
            prefix = chunk.casefold()  # as in -"a phrase", intitle:"a phrase" and -(a group)
            continue
        negated = prefix.startswith("-")
        if phrase is not None:
            groups.negated |= negated
            name = OPERATORS.get(prefix.strip("-+:"))
            parts = tuple(filter(None, (trim(fold(part)) for part in _PARTS.findall(phrase))))
            if parts:
                groups.put([("operator", name, parts) if name else ("phrase", parts)])
            words.forget()
        elif mark == "(":
            groups.open(negated)
        elif mark == ")":
            groups.close()
        elif mark == "|" or chunk in ("OR", "||"):
            groups.either()
        elif chunk == "NOT":
            groups.negated = True
        elif chunk != "AND":
            excluded = chunk[0] == "-" and chunk[1:2] not in ("", "-")  # `--verbose` is a word
            groups.negated |= excluded
            groups.put(words.read(chunk.lstrip("-+"), groups.negated))
        prefix = ""
    return groups.finish()


class _Groups:
    """The elements so far, in the parentheses that are open."""

    def __init__(self) -> None:
        self.negated = False
        """Whether what comes next is excluded."""
        self._frames: list[list[Element]] = [[]]
        self._waiting = [False]  # for each frame: an OR waits for its right side
        self._excluded = [False]  # for each frame but the first: its group is excluded
        self._passed_over = 0

    def put(self, elements: list[Element]) -> None:
        """Elements that were written as one."""
        frame, negated, self.negated = self._frames[-1], self.negated, False
        waiting, self._waiting[-1] = self._waiting[-1] and bool(frame), False
        if not elements:
            return
        if negated or waiting:
            element = elements[0] if len(elements) == 1 else ("and", frozenset(elements))
            element = ("not", element) if negated else element
            elements = [_either(frame.pop(), element) if waiting else element]
        frame += elements

    def either(self) -> None:
        self._waiting[-1] = True

    def open(self, negated: bool) -> None:
        if len(self._frames) > DEEPEST:
            self._passed_over += 1
            return
        self._frames.append([])
        self._waiting.append(False)
        self._excluded.append(negated or self.negated)
        self.negated = False

    def close(self) -> None:
        if self._passed_over:
            self._passed_over -= 1
        elif len(self._frames) > 1:
            group, _, self.negated = self._frames.pop(), self._waiting.pop(), self._excluded.pop()
            self.put(group)

    def finish(self) -> list[Element]:
        self._passed_over = 0
        while len(self._frames) > 1:
            self.close()
        return self._frames[0]


def _either(left: Element, right: Element) -> Element:
    sides: set[Element] = set()
    for side in (left, right):
        sides |= side[1] if side[0] == "or" else {side}
    return next(iter(sides)) if len(sides) == 1 else ("or", frozenset(sides))


def _flat(elements: Iterable[Element]) -> Iterable[Element]:
    """Elements, with a group of which all are wanted replaced by its elements."""
    for element in elements:
        if element[0] == "and":
            yield from _flat(element[1])
        else:
            yield element


class _Words:
    """Reads text without spaces, quotes or parentheses, one run after the other, and remembers what stood before."""

    def __init__(self, query: Query):
        self._query = query
        self._link = self._last = ""
        self._first = True

    def forget(self) -> None:
        """Something else came between."""
        self._link = self._last = ""
        self._first = False

    def read(self, chunk: str, negated: bool) -> list[Element]:
        name, colon, value = chunk.partition(":")
        name = OPERATORS.get(name.casefold()) if colon else None
        if name and (value or name.startswith("allin")):
            self.forget()
            return [("operator", name, _value(name, fold(value)))]
        if chunk.startswith(("http://", "https://", "www.")):
            self.forget()
            return [("url", url.canonical(chunk) or chunk)]
        found: list[Element] = [("unit", unit) for unit in _UNIT.findall(chunk)]
        chunk = _THOUSANDS.sub("", chunk)
        date = chunk.strip(".,;:!?$\u20ac\u00a3\u00a5")
        if _DATE_OR_RANGE.fullmatch(date):
            date = date.replace("/", "-").replace("\u2013", "-")
            return [*found, self._number(_ZEROS.sub("", date) if "-" in date else date)]
        for part in _PARTS.findall(_UNIT.sub("", chunk)):
            found += filter(None, (self._run(run, negated) for run in _RUNS.findall(part)))
        return found

    def _number(self, number: str) -> Element:
        if self._last:
            self._query.links.setdefault("number after " + self._last, set()).add(number)
        if self._link in LIMITS:
            number = f"{self._link} {number}"
        self.forget()
        return ("number", number)

    def _run(self, run: str, negated: bool) -> Element | None:
        if run[0].isdigit():
            return self._number(run)
        word = trim(fold(run))
        if word in ROMAN:
            return self._number(ROMAN[word])
        if word.endswith("n't") or word in NEGATIONS:
            return ("negation",)
        if word in LINKS:
            self._link, self._last = LINKS[word], ""
            return None
        word = word.removesuffix("'s").replace("'", "")
        if word in STOP or not word:
            return None
        if not negated:
            capitals = [letter.isupper() for letter in run]
            self._query.words.add(word)
            if any(capitals[1:] if self._first else capitals):
                self._query.names.add(word)
            if not any(capitals):
                self._query.lower.add(word)
        self._first = False
        term = stem(word)
        if self._link:
            self._query.links.setdefault(self._link, set()).add(term)
        self._link, self._last = "", term
        return ("word", term)


def _value(name: str, value: str) -> str:
    """An operator's value, folded, in its one spelling."""
    if name == "site":
        form = url.canonical(value.removeprefix("*."))
        return form.removesuffix("/") if form else value
    if name == "filetype":
        return value.lstrip(".")
    return _ZEROS.sub("", value.replace("/", "-")) if name in ("before", "after", "daterange") else value

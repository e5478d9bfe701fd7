"""What free text states: its negations, numbers, dates and times, names; found in one pass over its tokens."""

import re
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import zip_longest

from pivotrl.verifiers.robust import words
from pivotrl.verifiers.robust.tokens import Fact, Token, normal, tokens_of

MOST_QUOTES = 50
"""Quoted strings of one text that are looked for in the other."""

_QUOTED = re.compile('"([^"\n]{2,200})"|\u201c([^\u201d\n]{2,200})\u201d|`([^`\n]{2,200})`')
_NO_NAMES = {"customer", "user", "client", "caller", "agent", "passenger", "guest", "member", "everyone", "id", "ids"}
_NO_NAMES |= {"usd", "eur", "gbp", "asap", "am", "pm"}
_VERBS = {"is", "was", "has", "had", "will", "would", "can", "wants", "wanted", "needs", "needed", "asks", "asked"}
_VERBS |= {"says", "said", "requests", "requested", "wishes", "lives", "works", "likes", "prefers"}
_MAY_NEGATE = words.NEGATIONS.union(*words.NEGATE.values(), ("stop", "stops", "stopped"))
_WAYS = ("from", "to", "for", "with", "into")
_BOUNDS = (
    ("at least", ("at least", "no less than", "no fewer than", "not less than", "n't less than", "minimum")),
    ("at most", ("at most", "no more than", "not more than", "n't more than", "up to", "maximum")),
    ("more", ("more than",)),
    ("less", ("less than", "fewer than")),
)
_KNOWN = words.STOP | words.NEGATIONS | words.MONTHS.keys() | words.DAYS | words.SMALL.keys() | words.SCALES.keys()


@dataclass(slots=True)
class Said:
    """One text, taken apart."""

    folded: str
    """NFKC, folded case, single spaces."""
    size: int = 0
    """Words and facts, stop words included."""
    words: set[str] = field(default_factory=set)
    """Every word, folded."""
    content: Counter[str] = field(default_factory=Counter)
    """Stems of the words that carry a topic, and the facts, with how often they come."""
    negations: int = 0
    negated: set[str] = field(default_factory=set)
    """Stems that the negations stand in front of."""
    plain: set[str] = field(default_factory=set)
    """Stems that none stands in front of."""
    numbers: set[int | float] = field(default_factory=set)
    ones: set[int | float] = field(default_factory=set)
    """Numbers that may be none: the words `one`, `first`, `second`."""
    dates: set[Fact] = field(default_factory=set)
    """(year, month, day), 0 where the text does not say."""
    marks: set[str] = field(default_factory=set)
    """Identifiers, addresses, paths, times, days of the week."""
    names: set[str] = field(default_factory=set)
    quotes: list[str] = field(default_factory=list)
    ways: set[tuple[str, str]] = field(default_factory=set)
    """(from, to, for, with or into; the stem behind it)."""
    told: dict[tuple[str, int | float | str], set[str | int | float]] = field(default_factory=dict)
    """Of a number its measures (`$`, `km`) and its bounds (at least, at most), and of what is counted its numbers: two
    texts that both tell one and share none of its values differ."""
    grams: set[str] | None = None
    """Trigrams of the content's stems, once `similarity` has asked for them."""


def fold(text: str) -> str:
    """NFKC, folded case, single spaces, one form of apostrophe, and nothing that cannot be seen."""
    return " ".join(normal(text).casefold().replace("\u2019", "'").split())


@lru_cache(maxsize=512)
def said_by_expert(text: str) -> Said:
    """`said`, kept for the samples of a turn."""
    return said(text)


@lru_cache(maxsize=128)
def said_by_model(text: str) -> Said:
    """`said`, kept while a text is compared with each of several."""
    return said(text)


def said(text: str) -> Said:
    """Take a text apart."""
    clean = normal(text)
    found = Said(fold(clean))
    tokens = tokens_of(clean)
    found.size = len(tokens)
    _read_words(tokens, found)
    _read_numbers(tokens, found)
    _read_names(tokens, found)
    found.quotes = [
        quote for match in _QUOTED.findall(clean)[:MOST_QUOTES] if (quote := fold(next(filter(None, match), "")))
    ]
    return found


def _read_words(tokens: list[Token], found: Said) -> None:
    waiting, way, prefix = False, "", ""
    for token, following in zip_longest(tokens, tokens[1:]):
        next_word = following.word if following is not None else ""
        waiting = waiting and not token.begins
        if token.kind != "word":
            if token.kind == "time":
                found.marks.add(f"{_on_the_clock(token, next_word)} min")
                found.content[token.word] += 1
            elif token.kind == "mark":
                found.marks.add(token.word)
                found.content[token.word] += 1
            said = str(token.value[0]) if token.kind == "number" else token.word
            (found.negated if waiting else found.plain).add(said)
            if way:
                found.ways.add((way, said))
            waiting, way = False, ""
            continue
        word = prefix + token.word
        found.words.add(word)
        prefix = ""
        if word == "non" and next_word.isalpha():
            prefix = word
            continue
        if word in words.DAYS:
            found.marks.add(word.removesuffix("s") if word.endswith("days") else word)
        if word in words.TIMES:
            found.marks.add(f"{words.TIMES[word]} min")
        if (word in _MAY_NEGATE or "'" in word) and _negates(word, next_word):
            found.negations += 1
            waiting = True
        elif word in words.STOP:
            way = word if word in _WAYS else way if word in ("the", "a", "an", "my", "your") else ""
        elif word not in words.SMALL and word not in words.SCALES:
            stem = words.stem(word)
            found.content[stem] += 1
            (found.negated if waiting else found.plain).add(stem)
            if way:
                found.ways.add((way, stem))
            waiting, way = False, way if word in words.CARRIERS else ""
        else:
            way = ""


def _negates(word: str, next_word: str) -> bool:
    if word in words.NEGATIONS or word.endswith("n't"):
        return True
    if next_word in words.NEGATE and word in words.NEGATE[next_word]:
        return True
    return word in ("stop", "stops", "stopped") and next_word.endswith("ing")


def _on_the_clock(token: Token, half: str) -> int | float | str:
    """Minutes after midnight of a time in front of `am`, `pm` or any other word."""
    minutes = token.value[0]
    if half not in ("am", "pm") or not isinstance(minutes, int) or minutes >= 780:
        return minutes
    return minutes % 720 + 720 * (half == "pm")


def _read_numbers(tokens: list[Token], found: Said) -> None:
    """Numbers in digits and in words, and the dates and times that they are part of."""
    at = 0
    while at < len(tokens):
        if used := _date(tokens, at, found):
            at += used
            continue
        token = tokens[at]
        if token.kind == "date":
            found.dates.add(token.value)
        elif token.kind == "number":
            start, at = at, at + 1
            following = tokens[at] if at < len(tokens) else None
            if following is not None and following.word in ("am", "pm") and following.kind == "word":
                hour = int(token.value[0]) % 12 + 12 * (following.word[0] == "p")
                found.marks.add(f"{60 * hour} min")
                at += 1
                continue
            value = token.value[0]
            if following is not None and following.word in words.SCALES and following.kind == "word":
                value *= words.SCALES[following.word]
                at += 1
            found.numbers.add(value)
            _tell(tokens, start, at, value, found)
            continue
        elif token.kind == "ordinal":
            found.numbers.add(token.value[0])
        elif token.kind == "word" and token.word in words.ORDINALS:
            value = words.ORDINALS[token.word]
            (found.ones if value <= 2 else found.numbers).add(value)
        elif token.kind == "word" and (token.word in words.SMALL or token.word in words.SCALES):
            value, used = _spelled(tokens, at)
            (found.ones if value == 1 else found.numbers).add(value)
            _tell(tokens, at, at + used, value, found)
            at += used
            continue
        at += 1


def _tell(tokens: list[Token], start: int, end: int, value: int | float, found: Said) -> None:
    """What the words around a number, which stands in `tokens[start:end]`, say about it."""
    sign = next((sign for sign in "$\u20ac\u00a3\u00a5%" if sign in tokens[start].word), "")
    following = tokens[end] if end < len(tokens) and not tokens[end - 1].closed else None
    name = sign or (following.word if following is not None and following.kind == "word" else "")
    if name in words.MEASURES:
        found.told.setdefault(("measure", value), set()).update(words.MEASURES[name])
    elif name and not following.begins and name not in words.STOP and name not in words.SCALES:
        found.told.setdefault(("count", words.stem(name)), set()).add(value)
    before = " ".join(token.word for token in tokens[max(start - 4, 0) : start]).removesuffix(" of").removesuffix(" a")
    for bound, phrases in _BOUNDS:
        if before.endswith(phrases):
            found.told.setdefault(("bound", value), set()).add(bound)
            return


def _spelled(tokens: list[Token], at: int) -> tuple[int, int]:
    """The number that words spell from `at` on, such as `two hundred and five`, and how many tokens it takes."""
    total, part, used, start = 0, 0, 0, at
    last = 10**12
    while at < len(tokens) and tokens[at].kind == "word" and used < 12:
        word = tokens[at].word
        if word in words.SMALL:
            value = words.SMALL[word]
            if used and not (last >= 100 or (last >= 20 and value < 10)):
                break
            part, last = part + value, value
        elif word in words.SCALES:
            scale = words.SCALES[word]
            part = (part or 1) * scale
            last = scale
            if scale >= 1000:
                total, part = total + part, 0
        elif not (
            word == "and" and last >= 100 and used and at + 1 < len(tokens) and tokens[at + 1].word in words.SMALL
        ):
            break
        at += 1
        used += 1
    return total + part, max(at - start, 1)


def _date(tokens: list[Token], at: int, found: Said) -> int:
    """Add the date that begins at `at` (`May 5th, 2024`, `5 May`, `May 2024`, `in May`); the tokens that it takes."""
    token = tokens[at]
    month = words.MONTHS.get(token.word) if token.kind == "word" else None
    day, year, used = 0, 0, 1
    if month is not None:
        if _is_day(tokens, at + 1):
            day, used = int(tokens[at + 1].value[0]), 2
        if _is_year(tokens, at + used):
            year, used = int(tokens[at + used].value[0]), used + 1
        if used == 1 and token.word in words.AMBIGUOUS_MONTHS and (not token.capital or token.begins):
            return 0
    elif _is_day(tokens, at):
        used = 3 if at + 1 < len(tokens) and tokens[at + 1].word == "of" else 2
        place = at + used - 1
        month = words.MONTHS.get(tokens[place].word) if place < len(tokens) else None
        if month is None:
            return 0
        day = int(token.value[0])
        if _is_year(tokens, place + 1):
            year, used = int(tokens[place + 1].value[0]), used + 1
    else:
        return 0
    found.dates.add((year, month, day))
    return used


def _is_day(tokens: list[Token], at: int) -> bool:
    if at >= len(tokens) or tokens[at].kind not in ("number", "ordinal"):
        return False
    return tokens[at].word[0].isdecimal() and tokens[at].value[0] in range(1, 32)


def _is_year(tokens: list[Token], at: int) -> bool:
    return at < len(tokens) and tokens[at].kind == "number" and tokens[at].value[0] in range(1800, 2200)


def _read_names(tokens: list[Token], found: Said) -> None:
    """Words with a capital letter inside a sentence; and at its start, in front of another or of a verb that a person
    takes. A text in capitals throughout tells nothing."""
    letters = [token for token in tokens if token.kind == "word"]
    shouted = 2 * sum(token.capital for token in letters) > len(letters) and len(letters) > 6
    for at, token in enumerate(letters):
        if not token.capital or shouted or token.word in _NO_NAMES or token.word in _KNOWN:
            continue
        following = letters[at + 1] if at + 1 < len(letters) else None
        if not token.begins or (
            following is not None
            and (following.word in _VERBS or (following.capital and not following.begins and len(letters) <= 6))
        ):
            found.names.add(token.word)

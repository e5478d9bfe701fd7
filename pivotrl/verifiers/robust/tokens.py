"""Free text cut into words, numbers, dates, times and identifiers. Linear in the text's length."""

import re
from datetime import date, datetime
from typing import NamedTuple
from unicodedata import normalize

from pivotrl.verifiers.robust.words import SMALL, UNITS

Fact = tuple[str | int | float, ...]


class Token(NamedTuple):
    """One piece of text."""

    kind: str
    """`word`, `number`, `ordinal` (5th), `date`, `time` or `mark` (an identifier, address, path)."""
    word: str
    """Folded; for a fact as it is written."""
    value: Fact = ()
    """(number,), (year, month, day), (minutes after midnight,)."""
    capital: bool = False
    """Written with a capital letter in front."""
    begins: bool = False
    """First of its sentence, or of its line."""
    closed: bool = False
    """Of a number: punctuation stands behind it."""


_EDGE = "\"'`.,;:!?()[]{}<>*_|\u201c\u201d\u2018\u2019\u201e\u00ab\u00bb\u2026\u2013\u2014\u2022-=~^"
_LEFT = _EDGE.replace("~", "").replace(".", "").replace("-", "") + "+#"
_NUMBER = re.compile(r"[-+]?[$\u20ac\u00a3\u00a5#]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[-+]?\d{1,3})?%?")
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::\d{2})?(am|pm)?")
_HOUR = re.compile(r"(\d{1,2})(am|pm)")
_ORDINAL = re.compile(r"(\d+)(?:st|nd|rd|th)")
_DIGITS_UNIT = re.compile(r"(\d+(?:\.\d+)?)([a-z]{1,4})")
_SLASHES = re.compile(r"\d{1,4}[/.]\d{1,2}[/.]\d{1,4}")
_THOUSANDS = re.compile(r"[-+]?[$\u20ac\u00a3\u00a5]?\d{1,9}(?:\.\d{1,9})?k")
_ENUMERATED = re.compile(r"[(*_]{0,3}\d{1,2}[.)][*_]{0,2}")
_UNSEEN = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]+")
_LATIN, _LIKE_LATIN = re.compile("[a-z]"), re.compile("[\u0370-\u04ff]")
_CHUNK = re.compile(r"\S+")
_LONGEST_NUMBER = 300
"""Characters of a number; what is longer is an identifier."""


def normal(text: str) -> str:
    """NFKC, without characters that cannot be seen and part a word for nobody but a program."""
    return text if text.isascii() else _UNSEEN.sub("", normalize("NFKC", text))


def tokens_of(text: str) -> list[Token]:
    """The tokens of a text that is normalised (`normal`), in order. The numbers of a list's items are none."""
    found: list[Token] = []
    begins, last = True, 0
    for match in _CHUNK.finditer(text):
        chunk = match.group().replace("\u2019", "'")
        starts_line = last == 0 or "\n" in text[last : match.start()]
        begins |= starts_line
        last = match.end()
        if starts_line and _ENUMERATED.fullmatch(chunk) and text[last : last + 1] == " ":
            continue
        core = chunk.lstrip(_LEFT).rstrip(_EDGE)
        if core.startswith("-") and not core[1:2].isdigit():
            core = core.lstrip("-")
        core = core.lstrip(".") if core[:1] == "." and core[1:2] not in "./" else core
        if core:
            _cut(core, begins, found)
            begins = False
            if chunk[-1] in _EDGE and found and (found[-1].kind == "number" or found[-1].word in SMALL):
                found[-1] = found[-1]._replace(closed=True)
        if chunk.rstrip("\"')]}*_\u201d\u2019").endswith((".", "!", "?", ":")) or not core:
            begins = True
    return found


def _cut(core: str, begins: bool, found: list[Token]) -> None:
    """The tokens of one chunk, without the punctuation around it, are appended."""
    folded, capital = core.casefold(), core[0].isupper()
    if folded.endswith("'s"):
        core, folded = core[:-2], folded[:-2]
    if not core.isascii() and _LATIN.search(folded) and _LIKE_LATIN.search(folded):
        found.append(Token("mark", folded))  # one word in two scripts: letters that only look like others
    elif "://" in core or "@" in core[1:] or folded.startswith("www.") or "_" in core or "\\" in core:
        found.append(Token("mark", folded))
    elif any(map(str.isdigit, core)):
        found.extend(_with_digits(core, folded, begins))
    elif "/" in core:
        parts = core.split("/")
        if core[0] in "/~." or len(parts) > 3 or not all(part.isalpha() for part in parts):
            found.append(Token("mark", folded))
        else:
            found.extend(Token("word", part.casefold(), (), part[0].isupper(), begins) for part in parts)
    elif "." in core:
        found.extend(_dotted(core, folded, begins))
    else:
        for part in folded.split("-") if "-" in folded and not folded.startswith("non-") else (folded,):
            part = part.strip("'.,;:!?()[]").replace("-", "")
            if part:
                found.append(Token("word", part, (), capital, begins))
                begins = False


def _dotted(core: str, folded: str, begins: bool) -> list[Token]:
    """`U.S.` is a word, `setup.py` and `example.com` are identifiers, and `done.Then` lacks a space."""
    parts = [part for part in core.split(".") if part]
    if all(len(part) == 1 for part in parts):
        return [Token("word", folded.replace(".", ""), (), core[0].isupper(), begins)]
    if len(parts) > 1 and parts[-1].isalpha() and parts[-1].islower() and len(parts[-1]) <= 4:
        return [Token("mark", folded)]
    return [Token("word", part.casefold(), (), part[0].isupper(), begins) for part in parts]


def _with_digits(core: str, folded: str, begins: bool) -> list[Token]:
    if len(folded) > _LONGEST_NUMBER:
        return [Token("mark", folded)]
    if _NUMBER.fullmatch(folded):
        return [Token("number", folded, (number(folded),))]
    if _THOUSANDS.fullmatch(folded):
        return [Token("number", folded, (number(f"{folded[:-1]}e3"),))]
    if match := _ORDINAL.fullmatch(folded):
        return [Token("ordinal", folded, (int(match[1]),))]
    if match := _HOUR.fullmatch(folded):
        return [Token("time", folded, _minutes(match[1], "0", match[2]))]
    if match := _CLOCK.fullmatch(folded):
        return [Token("time", folded, _minutes(match[1], match[2], match[3] or ""))]
    if iso := _iso(core):
        return iso
    if _SLASHES.fullmatch(folded):
        parts = re.split("[/.]", folded)
        return [Token("mark", "/".join(str(int(part)) for part in parts))]
    if (match := _DIGITS_UNIT.fullmatch(folded)) and match[2] in UNITS:
        return [Token("number", match[1], (number(match[1]),)), Token("word", match[2])]
    parts = core.split("-")
    if len(parts) > 1 and all(
        part.isdecimal() or (part.isalpha() and part.islower() and len(part) > 2) for part in parts
    ):
        return [
            Token("number", part, (number(part),)) if part.isdecimal() else Token("word", part, (), False, begins)
            for part in parts
        ]
    return [Token("mark", folded)]


def number(text: str) -> int | float:
    """The value of a number's text, with thousands' separators and signs of currency or percent left out."""
    bare = text.translate(_NO_SIGNS)
    if bare.lstrip("+-").isdecimal():
        return int(bare)
    value = float(bare)
    return int(value) if value.is_integer() else value


_NO_SIGNS = str.maketrans("", "", ",$\u20ac\u00a3\u00a5#%")


def _minutes(hours: str, minutes: str, half: str) -> Fact:
    """Minutes after midnight."""
    hour = int(hours) % 12 + 12 * (half == "pm") if half else int(hours)
    return (60 * hour + int(minutes),)


def _iso(core: str) -> list[Token]:
    """The date, and the time, of ISO 8601 text; empty where it is none."""
    if len(core) < 8 or core.count("-") < 2:
        return []
    try:
        if len(core) <= 10:
            day: date = date.fromisoformat(core)
            return [Token("date", core, (day.year, day.month, day.day))]
        found = datetime.fromisoformat(core.upper())
    except ValueError:
        return []
    return [
        Token("date", core, (found.year, found.month, found.day)),
        Token("time", core, (60 * found.hour + found.minute,)),
        *([Token("mark", str(found.tzinfo))] if found.tzinfo else ()),
    ]

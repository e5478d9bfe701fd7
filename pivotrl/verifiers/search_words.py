"""The words of search queries: which of them join, negate or command, and one spelling for each."""

import unicodedata

OPERATORS = {
    **dict.fromkeys(("filetype", "ext", "extension"), "filetype"),
    **dict.fromkeys(("intext", "inbody"), "intext"),
    **dict.fromkeys(("language", "lang"), "language"),
    **dict.fromkeys(("location", "loc"), "location"),
    **{
        name: name for name in ("site", "intitle", "allintitle", "inurl", "allinurl", "allintext", "inanchor", "before")
    },
    **{name: name for name in ("after", "daterange", "related", "cache", "link", "source", "author", "repo", "user")},
    **{name: name for name in ("org", "path", "is", "label", "state", "created", "topic")},
}
"""Operators of web and code search, by the one name of each."""
LINKS = {
    **{name: name for name in ("of", "on", "at", "by", "for", "from", "about", "with", "than", "as", "between")},
    **{name: name for name in ("since", "before", "after")},
    **dict.fromkeys(("to", "into", "towards"), "to"),
    **dict.fromkeys(("in", "during"), "in"),
    **dict.fromkeys(("until", "till"), "until"),
    **dict.fromkeys(("over", "above"), "over"),
    **dict.fromkeys(("under", "below"), "under"),
}
"""Words that say what the next word is to the rest. They may be left out, but not handed to another word."""
OPPOSED = ("from", "to", "before", "after", "since", "until", "under", "over")
"""Those links of which none may take another's place."""
LIMITS = OPPOSED[2:]
"""Those that are part of a number: under 1000 is neither 1000 nor over 1000."""
STOP = frozenset(
    {"a", "an", "the", "and", "or", "is", "are", "was", "were", "be", "been", "am", "do", "does", "did", "can", "could"}
    | {"should", "would", "will", "shall", "must", "have", "has", "had", "i", "me", "my", "we", "our", "you", "your"}
    | {"he", "his", "she", "her", "they", "their", "it", "its", "this", "that", "these", "those", "there", "please"}
    | {"what", "which", "vs", "versus"}
)
"""Words that say nothing alone. Who, when, where, why and how are no such words."""
NEGATIONS = frozenset(
    {"not", "no", "never", "without", "except", "excluding", "exclude", "cannot", "nor", "neither", "non"}
)
ROMAN = dict(
    zip(
        ("ii", "iii", "iv", "vi", "vii", "viii", "ix", "xi", "xii", "xiii", "xiv", "xv", "xvi", "xvii", "xviii", "xix"),
        ("2", "3", "4", "6", "7", "8", "9", "11", "12", "13", "14", "15", "16", "17", "18", "19"),
        strict=True,
    )
)
"""Numerals that are hardly ever words: of World War I and World War II, the one-letter ones are left alone."""
_NOT_PLURAL = frozenset({"news", "always", "lens", "aws", "ios", "dns", "sms", "gps", "mars", "less", "paris"})


def fold(text: str) -> str:
    """Without case, and without the accents of Latin letters."""
    kept: list[str] = []
    for letter in unicodedata.normalize("NFKD", text.casefold()):
        if not (unicodedata.combining(letter) and kept and kept[-1].isascii()):
            kept.append(letter)
    return unicodedata.normalize("NFC", "".join(kept))


def trim(word: str) -> str:
    """Without the punctuation around it; `c++`, `c#` and `.net` keep theirs, and `U.S.` loses its points."""
    start, end = 0, len(word)
    while end and not (_is_letter(word[end - 1]) or word[end - 1] in "+#"):
        end -= 1
    while start < end and not (_is_letter(word[start]) or (word[start] == "." and _is_letter(word[start + 1]))):
        start += 1
    word = word[start:end]
    return word.replace(".", "") if len(word) > 2 and set(word[1::2]) == {"."} and "." not in word[::2] else word


def stem(word: str) -> str:
    """An English word without its plural's ending: cities, city; boxes, box; books, book."""
    if len(word) < 4 or not word.endswith("s") or not word.isascii() or word in _NOT_PLURAL:
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zzes")):
        return word[:-2]
    return word if word.endswith(("ss", "us", "is")) else word[:-1]


def _is_letter(letter: str) -> bool:
    return letter.isalnum() or unicodedata.combining(letter) > 0 or unicodedata.category(letter) == "Mc"

"""English words that the comparison of free text treats apart, and its stems."""

from functools import lru_cache


def _listed(text: str) -> list[str]:
    return text.split()


def _counted(text: str, first: int = 0, step: int = 1) -> dict[str, int]:
    """Words with their values; those joined by `=` share one."""
    return {word: first + step * place for place, words in enumerate(_listed(text)) for word in words.split("=")}


STOP = frozenset(
    _listed(
        """a an the this that these those i me my mine we us our ours you your yours he him his she her hers it its
        they them their theirs who whom whose which what there here is are was were be been being am do does did done
        doing have has had having will would shall should can could may might must ought to of in on at by for from
        with as into onto upon about over under than then so and or but if because while when where how why also too
        very just only really quite rather still already again ever some any each both all such own same more most much
        many few get gets got getting want wants wanted wanting need needs needed needing wish wishes like likes let
        lets make makes made please kindly thanks thank hello hi hey dear sorry sure okay ok yes well now up down out
        off away through during via per able let's i'm i'd i'll i've it's that's there's hereby currently re"""
    )
)
"""Words that carry no topic of their own: articles, pronouns, auxiliaries, prepositions, politeness."""

NEGATIONS = frozenset(
    _listed(
        """not no never without cannot cant dont doesnt didnt wont isnt arent wasnt werent shouldnt couldnt wouldnt
        unless neither nor none nothing nobody nowhere unable unwilling except excluding hardly barely rarely seldom
        avoid avoids avoided avoiding refrain refrains refrained refraining lack lacks lacked lacking"""
    )
)
"""With every word in n't."""
NEGATE = {
    "to": frozenset(_listed("refuse refuses refused decline declines declined fail fails failed neglected forgot")),
    "of": frozenset({"instead"}),
    "than": frozenset({"rather", "other"}),
    "but": frozenset({"all", "anything", "everything"}),
}
"""Negations by the word that follows them, as in `refused to` and `instead of`."""

OPPOSITES = tuple(
    tuple(frozenset(side.split()) for side in pair.split("|"))
    for pair in (
        "before|after",
        "yes|no",
        "on|off",
        "up|down",
        "above over|below under",
        "earlier sooner|later",
        "earliest|latest",
        "increase increased increasing raise raised|decrease decreased decreasing reduce reduced lower lowered",
        "enable enabled activate activated|disable disabled deactivate deactivated",
        "add added adding|remove removed removing delete deleted deleting",
        "accept accepted approve approved agree agreed grant granted|reject rejected deny denied decline declined "
        "refuse refused",
        "allow allowed permit permitted|forbid forbidden prohibit prohibited disallow disallowed",
        "open opened opening|close closed closing",
        "start started starting begin began|stop stopped stopping",
        "buy bought|sell sold",
        "send sent|receive received",
        "upgrade upgraded upgrading|downgrade downgraded downgrading",
        "cheapest lowest minimum least|most highest maximum",
        "true|false",
        "always|never",
        "all every|some none",
        "morning|evening afternoon",
        "more|less fewer",
        "first|last",
        "once|twice double",
        "twice double|thrice triple",
        "half|quarter",
        "old|new",
        "left|right",
        "inside within|outside beyond",
        "often frequently|occasionally sometimes",
        "keep|return cancel",
        "economy|business",
        "debit|credit",
    )
)
"""Pairs of sides; where one text is on one side only, and the other on the other side only, they say different
things."""

PREFIXES = ("un", "non", "dis", "in", "im", "ir", "il")
"""What turns a word into its opposite, as in refundable and nonrefundable."""

MONTHS = _counted(
    """january=jan february=feb march=mar april=apr may june=jun july=jul august=aug september=sep=sept october=oct
    november=nov december=dec""",
    first=1,
)
AMBIGUOUS_MONTHS = frozenset({"may", "march", "mar", "sep"})
"""A month only beside a number, or with a capital letter inside a sentence."""
DAYS = frozenset(
    _listed(
        """monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays fridays
        saturdays sundays today tomorrow yesterday tonight"""
    )
)
TIMES = {"noon": 720, "midday": 720, "midnight": 0}
"""Minutes after midnight."""

SMALL = _counted(
    """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen"""
) | _counted("twenty thirty forty fifty sixty seventy eighty ninety", first=20, step=10)
SCALES = {"hundred": 100, "thousand": 1000, "million": 1_000_000, "billion": 1_000_000_000, "dozen": 12}
ORDINALS = _counted("first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth", first=1)
UNITS = frozenset(_listed("kg g mg km m cm mm lb lbs oz h hr hrs min mins s sec secs ms gb mb kb tb x px pm am"))
"""What may follow a number's digits without a space."""

MEASURES = {
    name: frozenset(measures.split("+"))
    for measures, names in (
        ("$", "$ usd dollar dollars"),
        ("\u20ac", "\u20ac eur euro euros"),
        ("\u00a3", "\u00a3 gbp"),
        ("\u00a5", "\u00a5 jpy yen"),
        ("%", "% percent"),
        ("second", "s sec secs second seconds"),
        ("minute", "min mins minute minutes"),
        ("minute+meter", "m"),
        ("meter", "meter meters metre metres"),
        ("hour", "h hr hrs hour hours"),
        *((name, f"{name} {name}s") for name in ("day", "week", "month", "year", "mile")),
        ("km", "km kilometer kilometers kilometre kilometres"),
        ("kg", "kg kilo kilos kilogram kilograms"),
        ("gram", "g gram grams"),
        *((name, name) for name in ("cm", "mm", "kb", "mb", "gb", "tb")),
    )
    for name in names.split()
}
"""What a number may count, by its signs and names; a name of several may be any of them."""
EXCHANGES = frozenset({"replac", "exchang", "swap", "switch", "chang", "substitut", "convert", "trad"})
"""Stems after which what is behind `for`, `with` and `into` is the new one."""
CARRIERS = frozenset(_listed("item items product products flight flights order orders number seat account id"))
"""Words between such a word and what it is about, as in `for item 12`."""

_SUFFIXES = ("ations", "ation", "ments", "ment", "ances", "ance", "ings", "ing", "edly", "ed", "ly", "es", "s")


@lru_cache(maxsize=32768)
def stem(word: str) -> str:
    """A folded English word without its commonest endings: `cancellation`, `cancelled` and `cancels` are `cancel`.

    Light on purpose: what it joins wrongly would be two different words taken for one.
    """
    if word.endswith(("ies", "ied")) and len(word) > 4:
        return word[:-3] + "i"
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3 and not word.endswith("ss"):
            word = word[: -len(suffix)]
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiou":
        word = word[:-1]
    if len(word) > 3 and word[-1] == "e":
        word = word[:-1]
    return word[:-1] + "i" if len(word) > 2 and word[-1] == "y" else word

"""Options of a command in one spelling: order, bundling, long and short forms, separate and attached values."""

from dataclasses import dataclass, field
from typing import Any

from pivotrl.verifiers.shell.forms import Word, drop, head, join

_OPENS_UNKNOWN = frozenset(("$", "${", "$(", "$((", "`", "{"))
NONE, VALUE, OPTIONAL, NUMBER = "", "=", "?", "#"
"""An option's kinds: without a value; with one, attached or the next word; with one only where it is attached; with a
number, where one is attached or follows."""


@dataclass(frozen=True)
class Tool:
    """What is known of a command's arguments. An option that is not in it makes the whole call compare word by word."""

    short: dict[str, tuple[str, str]]
    long: dict[str, tuple[str, str]]
    """Spelling (without dashes) -> canonical name and kind."""
    operands: str = "verbatim"
    """`verbatim`; `paths`; `command`: another command; `elsewhere`: a command that runs on another file system;
    `program`: a file, or a module's name, and its arguments; `joined`: words that are put together with spaces. After
    `mode `, the first operand is none of these."""
    unordered: bool = False
    """The operands are a set."""
    keep_slash: bool = False
    """A final slash of an operand says something."""
    permute: bool = True
    """Options may follow operands, as GNU's getopt has it."""
    default: str | None = None
    """The operand that is meant where there is none."""
    number: str | None = None
    """`-5` is this option with the value 5."""
    number_first: int = 0
    """... but only as the first of so many arguments at most; 0: anywhere."""
    script: tuple[str, ...] = ()
    """Where none of these options is given, the first operand is the value of the first of them (sed -e, grep -e)."""
    paths: frozenset[str] = frozenset()
    """Options whose values are paths."""
    free: bool = False
    """It does not matter where it runs, once its paths are known."""
    keep_dashes: bool = False
    """`--` says something more than that no options follow."""
    exclusive: tuple[str, ...] = ()
    """Groups of options of which the later wins, or whose order matters."""
    defaults: dict[str, str] = field(default_factory=dict)
    """Options whose value is the same as leaving them out."""
    positional: frozenset[str] = frozenset()
    """Options that act on the operands after them."""
    last: frozenset[str] = frozenset()
    """Options after whose value no options follow (python -c, -m)."""
    directory: str | None = None
    """The option that says where to run, as `-C` of git and make."""
    literal_globs: bool = False
    """Brackets and stars in operands are meant literally (`pip install a[b]`)."""
    attached: bool = True
    """`--option=value` is read as `--option value` is."""
    shared: bool = False
    """Options mean the same before and after a sub-command."""
    sub: dict[str, "Tool"] = field(default_factory=dict)
    """Sub-commands by name, and by their other names."""
    other_names: dict[str, str] = field(default_factory=dict)
    """Other name of a sub-command -> its name."""
    bare: str | None = None
    """The sub-command that is meant where none is given; it knows all options of this level."""
    pathspecs: bool = False
    """Operands behind `--`, and those that begin with `./`, are paths (git)."""
    durations: bool = False
    """The first operand is a time, as in `timeout 1m`."""
    spread: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """An option that gives its value to those of others that are not given themselves (grep -C: -A and -B)."""


def tool(options: str = "", *, sub: dict[str, Tool] | None = None, **settings: Any) -> Tool:
    """A Tool out of a short notation.

    Args:
        options: entries apart by spaces, each the spellings of one option, `/` between them, the canonical one first,
            one letter short and more letters long, and its kind at the end: `n/lines=`. A spelling may have a kind of
            its own (`U=/unified?`); `?` at the end is for long ones, as short ones seldom take an optional value.
        settings: the fields of Tool; `paths`, `positional`, `last`, `exclusive` and `script` as words apart by spaces.
    """
    short: dict[str, tuple[str, str]] = {}
    long: dict[str, tuple[str, str]] = {}
    for entry in options.split():
        spellings = entry.split("/")
        canonical, last = spellings[0].rstrip("=?#"), entry[-1]
        for spelling in spellings:
            name = spelling.rstrip("=?#")
            kind = spelling[len(name) :] or (last if last in "=#" or (last == "?" and len(name) > 1) else NONE)
            (short if len(name) == 1 else long)[name] = canonical, kind
    for name in ("paths", "positional", "last"):
        settings[name] = frozenset(settings.get(name, "").split())
    for name in ("exclusive", "script"):
        settings[name] = tuple(settings.get(name, "").split())
    return Tool(short, long, sub=sub or {}, **settings)


def read_options(known: Tool, words: list[Word]) -> tuple[list[tuple[str, Any]], list[Word]] | None:
    """Options as (canonical name, value or None) in the order given, and operands; None where a word is not known."""
    options: list[tuple[str, Any]] = []
    operands: list[Word] = []
    position, uncertain = 0, False
    while position < len(words):
        word = words[position]
        position += 1
        text = head(word)
        if len(text) < 2 or text[0] != "-":
            uncertain |= not isinstance(word, str) and word[0][0] in _OPENS_UNKNOWN and not text
            operands.append(word)
            if not known.permute:
                return options, operands + words[position:]
            continue
        if word == "--":
            operands.extend(words[position - 1 + (not known.keep_dashes) :])
            return options, operands
        if uncertain:
            return None  # an expansion before it may hold options, or `--`
        following = words[position] if position < len(words) else None
        read = (
            _long(known, word, text, following)
            if text[1] == "-"
            else _short(known, word, text, following, position == 1 and len(words) <= known.number_first)
        )
        if read is None:
            return None
        found, taken = read
        if operands and known.positional and any(name in known.positional for name, _ in found):
            return None
        options.extend(found)
        position += taken
        if known.last and any(name in known.last for name, _ in found):
            return options, operands + words[position:]
    return options, operands


def _long(known: Tool, word: Word, text: str, following: Word | None) -> tuple[list[tuple[str, Any]], int] | None:
    name, equals, _ = text[2:].partition("=")
    if name not in known.long or (not equals and not isinstance(word, str)):
        return None
    option, kind = known.long[name]
    if equals:
        if kind == NONE or not known.attached:
            return None
        # No file's name starts with the option, so that its stars stand for themselves.
        return [(option, literal_globs(drop(word, len(name) + 3)))], 0
    if kind == VALUE:
        return None if following is None else ([(option, following)], 1)
    if kind == NUMBER and isinstance(following, str) and following.isdigit():
        return [(option, following)], 1
    return [(option, None)], 0


def _short(
    known: Tool, word: Word, text: str, following: Word | None, may_be_number: bool
) -> tuple[list[tuple[str, Any]], int] | None:
    if known.number and isinstance(word, str) and word[1:].isdigit() and (may_be_number or not known.number_first):
        return [(known.number, word[1:])], 0
    options: list[tuple[str, Any]] = []
    for index, letter in enumerate(text[1:], start=2):
        if letter not in known.short:
            return None
        option, kind = known.short[letter]
        if kind == NONE:
            options.append((option, None))
            continue
        attached = drop(word, index)
        if attached:
            return [*options, (option, attached)], 0
        if kind == VALUE:
            return None if following is None else ([*options, (option, following)], 1)
        if kind == NUMBER and isinstance(following, str) and following.isdigit():
            return [*options, (option, following)], 1
        return [*options, (option, None)], 0
    return (options, 0) if isinstance(word, str) else None


def literal_globs(word: Word) -> Word:
    """The word with its stars and brackets standing for themselves."""
    if isinstance(word, str):
        return word
    return join(tuple(part[0] if len(part) == 1 and part[0] in "*?[]" else part for part in word))

"""TOML by value: comments, white space, the kind of quotes and the order of keys are free."""

import tomllib

LONGEST = 50_000
"""Characters that are parsed; a longer text is compared by its tokens."""
LONGEST_LINE = 2000
"""Characters of a line: a key of many dots takes a time that grows with their square."""


def value_of(text: str) -> str | None:
    """The value, written in one way; None where the text is no TOML, nor the entries of an array (then with a mark), or
    is beyond the limits."""
    if len(text) > LONGEST or max(map(len, text.split("\n"))) > LONGEST_LINE:
        return None
    for before, after in (("", ""), ("entries = [\n", "\n]")):
        try:
            return before + repr(_sorted(tomllib.loads(before + text.replace("\r\n", "\n") + after)))
        except (ValueError, RecursionError):
            continue
    return None


def _sorted(value: object) -> object:
    if isinstance(value, dict):
        return [(key, _sorted(value[key])) for key in sorted(value)]
    return [0, *map(_sorted, value)] if isinstance(value, list) else value

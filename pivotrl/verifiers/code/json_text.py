"""JSON files by value: order of keys, white space and the spelling of numbers are free."""

import json
from decimal import Decimal, DecimalException

LONGEST = 200_000
"""Characters that are parsed."""


def value_of(text: str) -> str | None:
    """The value, written in one way; None where the text is no JSON. A snippet of an object's or an array's entries is
    read as if its brackets were there; its last comma counts. Of a key that is written twice the last one counts."""
    if len(text) > LONGEST:
        return None
    text = text.strip()
    comma = text.endswith(",")
    entries = text[:-1] if comma else text
    for whole in (text, "{" + entries + "}", "[" + entries + "]"):
        try:
            value = json.loads(whole, parse_int=_number, parse_float=_number, parse_constant=_constant)
            return json.dumps([whole is text, comma, value], sort_keys=True)
        except (ValueError, RecursionError):
            continue
    return None


def _number(text: str) -> dict[str, str]:
    try:
        sign, digits, exponent = Decimal(text).as_tuple()
    except (DecimalException, ValueError):
        return {"\0": text}
    short = "".join(map(str, digits)).lstrip("0")
    kept = short.rstrip("0")
    return {"\0": f"{sign if kept else 0}:{kept}e{exponent + len(short) - len(kept) if kept else 0}"}


def _constant(text: str) -> dict[str, str]:
    return {"\0": text}

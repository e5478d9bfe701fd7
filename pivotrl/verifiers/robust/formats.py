"""Strings whose schema names a `format`, compared by value: ISO 8601 dates and times, e-mail addresses, URIs,
UUIDs.

Formats as in JSON Schema 2020-12 (validation, section 7.3); any other format compares exactly.
"""

from datetime import date, datetime, time

LONGEST_DATE = 64
"""Characters of a date or a time."""


def same_in_format(form: str, expected: str, actual: str) -> bool:
    """Whether two trimmed strings are one value of a format. What is not of the format equals only itself."""
    if expected == actual:
        return True
    if form in ("uri", "url", "iri", "uri-reference", "iri-reference"):
        from pivotrl.verifiers.url import compare

        return compare(expected, actual) is None
    parse = _PARSERS.get(form)
    if parse is None:
        return False
    wanted, found = parse(expected), parse(actual)
    return wanted is not None and wanted == found


def _date(text: str) -> date | None:
    """`2024-05-01`, `20240501` or `2024-W18-3`."""
    if len(text) > LONGEST_DATE:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _date_time(text: str) -> datetime | None:
    """Any ISO 8601 date and time, such as `2024-05-01T02:00+02:00`; with an offset it is an instant, and without one
    it equals no instant."""
    if len(text) > LONGEST_DATE:
        return None
    try:
        return datetime.fromisoformat(text.upper())
    except (ValueError, OverflowError):
        return None


def _time(text: str) -> tuple[time, object] | None:
    """Any ISO 8601 time of a day; with an offset it equals none without."""
    if len(text) > LONGEST_DATE:
        return None
    try:
        found = time.fromisoformat(text.upper())
    except ValueError:
        return None
    return found, found.tzinfo is None


def _email(text: str) -> tuple[str, str] | None:
    """The mailbox's name as it is, and the domain without case (RFC 5321, section 2.4)."""
    name, mark, domain = text.rpartition("@")
    return (name, domain.casefold()) if mark and name and domain else None


_PARSERS = {
    "date": _date,
    "date-time": _date_time,
    "time": _time,
    "email": _email,
    "idn-email": _email,
    "uuid": str.casefold,
}

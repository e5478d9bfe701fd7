"""YAML as its stream of events: comments, quotes, flow or block style and the amount of indentation are free.

Only the parser of PyYAML's C library looks at the text: no value is built, and an alias stays a name.
"""

import re
from typing import Any

import yaml

LONGEST = 50_000
"""Characters that are parsed; a longer text is compared by its tokens."""
DEEPEST = 100
"""Open brackets, or entries that open on one line (`- - -`); the library's time grows with their square."""
LONGEST_SPECIAL = 64
"""Characters of a plain scalar that may be a number, a date or a truth value."""

_BRACKETS = re.compile(r"[\[\]{}]")
_ENTRIES = re.compile(r"(?:[-?:][ \t]+){8}")

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_RESOLVER = yaml.resolver.Resolver()

Events = tuple[tuple, ...]


def events_of(text: str) -> Events | None:
    """The events in order, scalars by value; None where the text is no YAML, is beyond the limits, or may be a stretch
    of plain text (out of a `|` block, say), whose line ends count. Keys keep their order."""
    if len(text) > LONGEST or _too_deep(text):
        return None
    try:
        found = list(yaml.parse(text, Loader=_LOADER))
    except (yaml.YAMLError, ValueError, RecursionError, MemoryError):  # ValueError: a lone surrogate
        return None
    if not any(isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent) for event in found):
        return None
    return tuple(_form(event) for event in found if not isinstance(event, yaml.StreamStartEvent | yaml.StreamEndEvent))


def _too_deep(text: str) -> bool:
    depth = 0
    for bracket in _BRACKETS.findall(text):
        depth = depth + 1 if bracket in "[{" else max(depth - 1, 0)
        if depth > DEEPEST:
            return True
    return _ENTRIES.search(text) is not None


def _form(event: Any) -> tuple:
    """Without marks and styles; a plain scalar is text, unless it reads as something else."""
    kind = type(event).__name__
    if isinstance(event, yaml.ScalarEvent):
        tag = event.tag
        if tag is None and event.implicit[0] and len(event.value) <= LONGEST_SPECIAL:
            tag = _RESOLVER.resolve(yaml.ScalarNode, event.value, (True, False)).removeprefix("tag:yaml.org,2002:str")
        return (kind, event.anchor, tag or "", event.value)
    return (kind, getattr(event, "anchor", None), getattr(event, "tag", None))

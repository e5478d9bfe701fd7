"""Do two pieces of source mean the same, whatever their comments and formatting?"""

from functools import lru_cache
from typing import Any

from pivotrl.trajectories.faults import excerpt
from pivotrl.verifiers.base import Difference
from pivotrl.verifiers.code import json_text, lexer, python_tree, syntax, toml_text, yaml_text

LONGEST = 1_000_000
"""Characters of a text that is compared at all: a longer one is equal to itself alone."""
KEPT = 256
"""Texts whose reading is kept: the samples of a turn share the expert's, and often each other's."""
LONGEST_KEPT = 20_000
"""Characters of such a text; of longer ones KEPT_LONG are kept."""
KEPT_LONG = 12


def compare(expected: Any, actual: Any, language: str | None = None) -> Difference | None:
    """None where both mean the same; symmetric.

    Python is compared by its syntax tree (`python_tree`), the languages of `syntax` by theirs, JSON, TOML and YAML by
    value, plain text by its lines without the white space at their ends, anything else by its tokens (`lexer`). A text
    that does not parse is compared by tokens, which then both are. Snippets cut out of a file may be indented as a
    whole. A `#!` line is no comment.

    Args:
        expected: the expert's text.
        actual: a model's, untrusted.
        language: as `languages.language_of` names it; None: unknown.
    """
    if not isinstance(expected, str) or not isinstance(actual, str):
        return Difference("other_type", f"found {excerpt(actual)}")
    if expected == actual:
        return None
    if len(expected) > LONGEST or len(actual) > LONGEST:
        return Difference("too_long", f"{max(len(expected), len(actual))} characters, of at most {LONGEST}")
    if (expected[:2] == "#!" or actual[:2] == "#!") and _interpreter(expected) != _interpreter(actual):
        return Difference("other_code", f"another #! line: {excerpt(actual)}")
    equal = _COMPARISONS.get(language or "", _by_tokens)(expected, actual, language)
    return None if equal else Difference("other_code", f"found {excerpt(actual)}")


def _interpreter(text: str) -> list[str]:
    """The words of a `#!/usr/bin/env x` line; Rust's `#![x]` is none."""
    if not text.startswith("#!"):
        return []
    line = text.partition("\n")[0][2:].strip()
    return line.split() if line.startswith("/") else []


def same_words(expected: str, actual: str) -> bool:
    """Whether the texts are equal but for the amount of white space: comments count, for an edit that changes nothing
    else."""
    return expected.split() == actual.split()


def same_margin(expected: str, actual: str, language: str | None) -> bool:
    """Whether code stands equally far from the left, where that matters or may: `compare` takes both for snippets that
    were cut out anywhere; put in the place of one text, the first line's margin counts, and that of each line further
    left than those before it. Where Python does not parse, a snippet may begin inside a line: then the same is asked of
    the lines behind the first."""
    if language is not None and language not in _INDENTED:
        return True
    if _steps_left(expected) != _steps_left(actual):
        return False
    whole = language != "python" or _reading(expected, language) is not None
    return whole or _steps_left(expected, 1) == _steps_left(actual, 1)


def _steps_left(text: str, skipped: int = 0) -> list[int]:
    """The columns of white space before the first line of code, and of each line that has less than all before it."""
    steps: list[int] = []
    for line in text.split("\n"):
        code = line.lstrip()
        if not code or code[0] == "#":
            continue
        if skipped:
            skipped -= 1
            continue
        margin = len(line[: len(line) - len(code)][:500].expandtabs(8))
        if not steps or margin < steps[-1]:
            steps.append(margin)
            if margin == 0:
                break
    return steps


def _by_lines(expected: str, actual: str, language: str | None) -> bool:
    return _lines(expected) == _lines(actual)


def _lines(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.split("\n")).strip("\n")


def _by_tokens(expected: str, actual: str, language: str | None) -> bool:
    return lexer.same_sequence(lexer.tokens_of(expected, language), lexer.tokens_of(actual, language))


def _by_reading(expected: str, actual: str, language: str) -> bool:
    """By what a parser makes of both; by tokens where it makes nothing of one."""
    wanted = _reading(expected, language)
    found = _reading(actual, language) if wanted is not None else None
    return _by_tokens(expected, actual, language) if found is None else wanted == found


def _by_outline(expected: str, actual: str, language: str) -> bool:
    """See `syntax`."""
    if not (syntax.fits(expected, language) and syntax.fits(actual, language)):
        return _by_tokens(expected, actual, language)
    if not lexer.same_sequence(lexer.outline_of(expected, language), lexer.outline_of(actual, language)):
        return False
    return _by_reading(expected, actual, language)


def _reading(text: str, language: str) -> Any:
    return (_kept if len(text) <= LONGEST_KEPT else _kept_long)(text, language)


def _read(text: str, language: str) -> Any:
    return _READERS.get(language, syntax.tree_of)(text, language)


_kept = lru_cache(maxsize=KEPT)(_read)
_kept_long = lru_cache(maxsize=KEPT_LONG)(_read)
_READERS = {
    "python": lambda text, language: python_tree.tree_of(text),
    "json": lambda text, language: json_text.value_of(text),
    "toml": lambda text, language: toml_text.value_of(text),
    "yaml": lambda text, language: yaml_text.events_of(text),
}
_INDENTED = ("python", "yaml", "ini", "indented")
_COMPARISONS = {
    "text": _by_lines,
    "python": _by_reading,
    "json": _by_reading,
    "toml": _by_reading,
    "yaml": _by_reading,
    **dict.fromkeys(syntax.GRAMMARS, _by_outline),
}

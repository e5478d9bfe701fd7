"""`number`: an answer that is a number, however it is written: `1,234.5`, `$1234.50`, `1.2345e3`, `50%`, `1/2`.

In a text the answer is what stands in the last `\\boxed{}`, else behind the last "answer is" (or "answer:"), else the
last number. An answer that is several numbers and no word (`(1, 2)`, a date) is all of them in their order, and the
other side ends with them. A number with a percent sign is a hundredth of it; where only one side has the sign, the bare
number on the other side is also taken as meant in percent, because a question for a percentage is answered either way.
"""

import math
import re
from functools import lru_cache
from typing import Any, NamedTuple

from pydantic import Field

from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import Difference
from pivotrl.verifiers.content import ContentParams, ContentVerifier
from pivotrl.verifiers.json_value import same_value
from pivotrl.verifiers.robust.shown import other, shown

LONGEST_TEXT = 200_000
"""Characters of a text in which a number is looked for; of longer text the end."""
RELATIVE, ABSOLUTE = 1e-6, 0.0


class Number(NamedTuple):
    """A number as it was read: with a percent sign, `value` is what stands in front of the sign."""

    value: float
    """An int where it is written as one: a float holds no more than 53 bits."""
    percent: bool = False


# A sign counts where no word or number ends in front of it; digits in groups of three, or as they come.
_NUMBER = re.compile(
    r"(?<![\w.])(?=[-+\u2212]?[$\u20ac\u00a3\u00a5]?\s?\.?\d)[-+\u2212]?[$\u20ac\u00a3\u00a5]?\s?"
    r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d{1,400})?(?:\.\d{1,400})?(?:[eE][-+]?\d{1,4})?"
    r"(?:\s?(?:thousand|million|billion|trillion)\b)?(?:\s?(?:%|\\%|percent\b))?"
)
_FRACTION = re.compile(r"([-+]?\d{1,15})\s?/\s?(\d{1,15})")
_LATEX_FRACTION = re.compile(r"([-+]?)\\[dt]?frac\{(-?\d{1,15})\}\{(\d{1,15})\}")
_MIXED = re.compile(r"([-+]?)(\d{1,15})\s(\d{1,15})/(\d{1,15})")
_TIMES_POWER = re.compile(r"\s?(?:\\times|\\cdot|[x*\u00d7])\s?10\^\{?([-+]?\d{1,3})\}?")
_POWER = re.compile(r"(?<![\w.^])10\^\{?([-+]?\d{1,3})\}?(?![\w^])")
_SCALES = {"thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12}
LONGEST_ROW = 200
"""Characters of an answer that is several numbers."""
_TWO_RUNS = re.compile(r"\d\D+\d")
_LETTERS = re.compile(r"[^\W\d_]+")
_JOINING = frozenset(("and", "or", "i"))
_ANSWER = re.compile(r"\banswer\b\s{0,3}(?:is|:|=)")


def compare(expected: Any, actual: Any, relative: float = RELATIVE, absolute: float = ABSOLUTE) -> Difference | None:
    """Why two numbers (JSON numbers, or texts that hold one) are not the same; None where they are.

    Args:
        expected: the expert's.
        actual: the model's, untrusted.
        relative: largest difference, relative to the larger of the two; one as small as the default is for rounding,
            which whole numbers do not have: they must be equal.
        absolute: largest difference, in the numbers' own unit.

    Reasons: no_number, other_value. Symmetric.
    """
    if (difference := _rows_differ(expected, actual, relative, absolute)) is not None:
        return difference
    wanted, found = number_of(expected), number_of(actual)
    if wanted is None and found is None:
        return _same(expected, actual)
    if wanted is None or found is None:
        return Difference("no_number", f"no number in {shown(expected if wanted is None else actual)}")
    return None if _close(wanted, found, relative, absolute) else other(wanted.value, found.value)


def _close(wanted: Number, found: Number, relative: float, absolute: float) -> bool:
    if wanted.percent == found.percent and wanted.value == found.value:
        return True
    left, right = _readings(wanted, found), _readings(found, wanted)
    if relative <= RELATIVE and _is_whole(wanted.value) and _is_whole(found.value):
        relative = 0.0
    return any(
        x == y or ((relative or absolute) and math.isclose(x, y, rel_tol=relative, abs_tol=absolute))
        for x in left
        for y in right
    )


def _is_whole(value: float) -> bool:
    return isinstance(value, int) or value.is_integer()


def _rows_differ(expected: Any, actual: Any, relative: float, absolute: float) -> Difference | None:
    """Where a side is several numbers and no word: whether the other does not end with the same ones."""
    rows = (_row(expected), _row(actual))
    if not rows[0] and not rows[1]:
        return None
    wanted, found = (row or _numbers(value) for row, value in zip(rows, (expected, actual)))
    if not rows[0]:
        wanted = wanted[-len(found) :]
    if not rows[1]:
        found = found[-len(wanted) :]
    if len(wanted) == len(found) and all(_close(*pair, relative, absolute) for pair in zip(wanted, found)):
        return None
    return other(str(expected), str(actual))


def _row(value: Any) -> list[Number]:
    """The numbers of a short text that is several of them; empty for anything else."""
    if not isinstance(value, str) or len(value) > LONGEST_ROW or _TWO_RUNS.search(value) is None:
        return []
    if not _JOINING.issuperset(_LETTERS.findall(value)) or _whole(_plain(value)) is not None:
        return []
    found = _numbers(value.rpartition("=")[2])
    return found if len(found) > 1 else []


def _numbers(value: Any) -> list[Number]:
    """All numbers of a text's answer, or the one that a value is."""
    if not isinstance(value, str):
        one = number_of(value)
        return [one] if one else []
    text = _plain(value)
    text = _boxed(text) or _answer_line(text) or text
    return [number for match in _NUMBER.finditer(text) if (number := _read(match.group()))]


def _same(expected: Any, actual: Any) -> Difference | None:
    """Where neither side has a number, they must be equal as JSON values."""
    try:
        return same_value(expected, actual)
    except RecursionError:
        return Difference("too_long", "nested too deeply to be compared")


def compare_argument(
    expected: Any, actual: Any, relative: float = RELATIVE, absolute: float = ABSOLUTE
) -> Difference | None:
    """As `compare`, for an argument of a call: where the expert's value is a number and nothing else, a tool gets no
    number out of a longer text."""
    alone = not isinstance(expected, str) or _whole(expected) is not None
    if alone and isinstance(actual, str) and number_of(expected) is not None and _whole(actual) is None:
        return Difference("no_number", f"{shown(actual)} is more than a number")
    return compare(expected, actual, relative, absolute)


def number_of(value: Any) -> Number | None:
    """The number that a JSON value is, or that a text gives as its answer; None where there is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        try:
            return Number(value) if math.isfinite(value) else None
        except OverflowError:
            return None
    if not isinstance(value, str):
        return None
    text = _plain(value)
    boxed = _boxed(text)
    return _whole(text) or _whole(boxed) or _last(boxed) or _behind_answer(text) or _last(text)


def _plain(value: str) -> str:
    """The end of a text without LaTeX's spaces, and powers of ten in one spelling."""
    text = value[-LONGEST_TEXT:]
    if "\\" in text:
        text = text.replace("\\$", "$").replace("\\,", "").replace("\\!", "")
    return _POWER.sub(r"1e\1", _TIMES_POWER.sub(r"e\1", text)) if "10^" in text else text


def _readings(number: Number, other: Number) -> tuple[float, ...]:
    if number.percent == other.percent:
        return (number.value,)
    return (number.value / 100, number.value) if number.percent else (number.value,)


def _whole(text: str) -> Number | None:
    """The number that a short text is, fractions included."""
    bare = text.strip().strip("$").strip()
    return _number(bare) if bare and len(bare) <= 500 else None


@lru_cache(maxsize=1024)
def _number(bare: str) -> Number | None:
    if match := _LATEX_FRACTION.fullmatch(bare):
        return _fraction(match[1] + match[2] if match[1] != "-" else _negated(match[2]), match[3])
    if match := _FRACTION.fullmatch(bare):
        return _fraction(match[1], match[2])
    if match := _MIXED.fullmatch(bare):
        part = _fraction(match[3], match[4])
        return Number((-1 if match[1] == "-" else 1) * (int(match[2]) + part.value)) if part else None
    match = _NUMBER.fullmatch(bare)
    return _read(match.group()) if match else None


def _negated(text: str) -> str:
    return text[1:] if text.startswith("-") else "-" + text


def _fraction(top: str, bottom: str) -> Number | None:
    return Number(int(top) / int(bottom)) if int(bottom) else None


def _boxed(text: str) -> str:
    """What stands in the last `\\boxed{...}` whose braces are balanced; empty where there is none."""
    start = text.rfind("\\boxed{")
    if start < 0:
        return ""
    depth, start = 1, start + len("\\boxed{")
    for place in range(start, min(len(text), start + 1000)):
        depth += (text[place] == "{") - (text[place] == "}")
        if depth == 0:
            return text[start:place]
    return ""


def _behind_answer(text: str) -> Number | None:
    """The first number behind the last "answer is", up to the end of its line."""
    line = _answer_line(text)
    words = line.strip(" .*$")
    if (whole := _whole(words)) is not None:
        return whole
    return next((number for match in _NUMBER.finditer(line) if (number := _read(match.group()))), None)


def _answer_line(text: str) -> str:
    """What follows the last "answer is" on its line; empty where there is none."""
    matches = list(_ANSWER.finditer(text.lower()))
    if not matches or len(text.lower()) != len(text):
        return ""
    return text[matches[-1].end() :].lstrip(" *:").split("\n", 1)[0][:300]


def _last(text: str) -> Number | None:
    """The last number of a text."""
    found = None
    for match in _NUMBER.finditer(text):
        found = _read(match.group()) or found
    return found


def _read(text: str) -> Number | None:
    """The value of a match of the pattern, which may be empty."""
    percent = text.endswith(("%", "percent"))
    bare = text.translate(_NO_SIGNS).replace("percent", "").replace("\u2212", "-").strip()
    if not any(map(str.isdecimal, bare)) or bare[:1] in "eE":
        return None
    scale = next((scale for scale in _SCALES if scale in bare), "") if "n" in bare else ""
    bare = bare.removesuffix(scale).replace(" ", "")
    try:
        value = int(bare) if bare.lstrip("+-").isdecimal() else float(bare)
        value = value * _SCALES[scale] if scale else value
        return Number(value, percent) if math.isfinite(value) else None
    except (ValueError, OverflowError):
        return None


_NO_SIGNS = str.maketrans("", "", ",$\u20ac\u00a3\u00a5%\\")


class NumberParams(ContentParams):
    """The parameters of `number`."""

    relative: float = Field(RELATIVE, ge=0)
    """Largest difference, relative to the larger number; of whole numbers only where it is above 1e-6."""
    absolute: float = Field(ABSOLUTE, ge=0)
    """Largest difference in the number's own unit."""


class NumberVerifier(ContentVerifier):
    """A message that ends in a number, or one argument of a call that is one."""

    PARAMS = NumberParams
    ARGUMENTS = ("answer", "value", "number", "result", "amount", "final_answer", "solution")

    def compare(self, expected: Any, actual: Any, settings: NumberParams, attempt: Attempt) -> Difference | None:
        judge = compare if attempt.expert["type"] == "message" else compare_argument
        return judge(expected, actual, settings.relative, settings.absolute)

    def argument_of(self, arguments: dict[str, Any], settings: ContentParams) -> str | None:
        """A usual name, or the only argument where it is a number."""
        if settings.argument is not None:
            return settings.argument
        usual = next((name for name in self.ARGUMENTS if name in arguments), None)
        if usual is None and len(arguments) == 1:
            name, value = next(iter(arguments.items()))
            usual = name if not isinstance(value, str) or _whole(value) else None
        return usual

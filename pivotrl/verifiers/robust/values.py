"""Do two calls give a tool the same arguments? By value, with the help of the tool's JSON schema.

- An optional argument that is left out, null (where null is admitted and there is no other default) or at its default
  is the same in any of these forms.
- Numbers compare by value: 2 is 2.0, and fractions within a relative 1e-9; true is no number, and a string is none.
- Objects compare by their own schema, whatever the order of keys; arrays by position, those of `uniqueItems` as sets.
- Strings: `robust.strings`.
"""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pivotrl.verifiers.base import Difference
from pivotrl.verifiers.matching import maximum_matching
from pivotrl.verifiers.robust.schema import (
    MISSING,
    Schema,
    admits_null,
    fits,
    is_required,
    other_properties,
    properties_of,
    resolve,
    types_of,
)
from pivotrl.verifiers.robust.shown import at, other, shown
from pivotrl.verifiers.robust.similarity import DEFAULT_THRESHOLD
from pivotrl.verifiers.robust.strings import compare_strings

Compare = Callable[[Any, Any], Difference | None]
"""Compares the expert's value with an untrusted one; None: equivalent."""

MOST_UNMATCHED = 64
"""Items of a set that are found on one side only and still compared, each with each; more are a difference."""
MOST_TEXT_OF_SETS = 300_000
"""Characters of JSON that such a comparison of each with each may go over; more is a difference."""
NUMBER_TOLERANCE = 1e-9
"""Relative difference of two fractions that are the same: what is lost when a float is written out and read."""


class ValueSettings(NamedTuple):
    """How values compare."""

    text_threshold: float = DEFAULT_THRESHOLD
    """Similarity that free text needs (`robust.similarity`)."""


DEFAULT = ValueSettings()


def compare_arguments(
    expected: dict[str, Any],
    actual: Any,
    schema: Schema | None = None,
    settings: ValueSettings = DEFAULT,
    kinds: Mapping[str, Compare] | None = None,
) -> Difference | None:
    """The first difference between the expert's arguments and a model's; None where they are equivalent.

    Args:
        expected: the expert's arguments, as `json.loads` gives them.
        actual: the model's: any JSON value.
        schema: the tool's parameters (`schema.parameters_of`).
        settings: thresholds.
        kinds: comparators of single arguments, by name; they decide instead of the schema where both sides give it.
    """
    if not isinstance(actual, dict):
        return Difference("other_type", f"the arguments are {shown(actual)}, not an object")
    try:
        return _Comparison(schema or {}, settings).objects(expected, actual, schema or {}, kinds or {})
    except RecursionError:
        return Difference("too_long", "nested too deeply to be compared")


def same_number(expected: float, actual: float) -> bool:
    """Whether two numbers (no booleans) are one, up to rounding; whole ones exactly. NaN is NaN."""
    if expected == actual or (expected != expected and actual != actual):
        return True
    if _is_whole(expected) and _is_whole(actual):
        return False
    try:
        return math.isclose(expected, actual, rel_tol=NUMBER_TOLERANCE, abs_tol=0.0)
    except OverflowError:
        return False


def _is_whole(value: float) -> bool:
    return isinstance(value, int) or value.is_integer()


def _same_number_under(schema: Schema, expected: float, actual: float) -> bool:
    """As `same_number`; but where the schema asks for no number, a tool would see them as they are written."""
    types = types_of(schema)
    if types and "number" not in types and "integer" not in types:
        return type(expected) is type(actual) and expected == actual
    return same_number(expected, actual)


class _Comparison:
    """One pair of arguments under one schema, to whose root references go."""

    def __init__(self, root: Schema, settings: ValueSettings):
        self._root, self._settings = root, settings

    def objects(
        self, expected: dict[str, Any], actual: dict[str, Any], schema: Schema, kinds: Mapping[str, Compare]
    ) -> Difference | None:
        properties = None
        for key, value in expected.items():
            found = actual.get(key, MISSING)
            if type(found) is type(value) and found == value and not isinstance(value, dict | list):
                continue
            if properties is None:
                schema = resolve(schema, self._root, expected)
                properties = properties_of(schema)
            if key in kinds and found is not MISSING:
                difference = kinds[key](value, found)
            elif found is MISSING:
                difference = self._left_out(key, value, schema, properties)
            else:
                difference = self._both(value, found, self._schema_of(key, schema, properties))
            if difference is not None:
                return at(key, difference)
        if actual.keys() <= expected.keys():
            return None
        schema = resolve(schema, self._root, expected)
        properties = properties_of(schema)
        for key, found in actual.items():
            if key not in expected and (difference := self._added(key, found, schema, properties)) is not None:
                return difference
        return None

    def _both(self, expected: Any, actual: Any, schema: Any) -> Difference | None:
        given = resolve(schema, self._root, expected)
        if (expected is None) != (actual is None):
            given_one = expected if actual is None else actual
            same = self._is_absent(None, given) and self._is_absent(given_one, given)
            return None if same else other(expected, actual, "other_type")
        if isinstance(expected, dict):
            if not isinstance(actual, dict):
                return other(expected, actual, "other_type")
            return self.objects(expected, actual, given, {})
        if isinstance(expected, list):
            if not isinstance(actual, list):
                return other(expected, actual, "other_type")
            return self._lists(expected, actual, given)
        if isinstance(expected, str):
            if not isinstance(actual, str):
                return other(expected, actual, "other_type")
            return compare_strings(expected, actual, given, self._settings.text_threshold)
        if isinstance(expected, bool) or isinstance(actual, bool):
            if type(expected) is not type(actual):
                return other(expected, actual, "other_type")
            return None if expected is actual else other(expected, actual)
        if isinstance(expected, int | float):
            if not isinstance(actual, int | float):
                return other(expected, actual, "other_type")
            return None if _same_number_under(given, expected, actual) else other(expected, actual)
        return None  # null and null

    def _lists(self, expected: list[Any], actual: list[Any], schema: Schema) -> Difference | None:
        if schema.get("uniqueItems") is True:
            return self._sets(expected, actual, schema)
        if len(expected) != len(actual):
            return Difference("other_list_length", f"{len(actual)} items, expected {len(expected)}")
        for index, (wanted, found) in enumerate(zip(expected, actual)):
            if (difference := self._both(wanted, found, _items(schema, index))) is not None:
                return at(f"[{index}]", difference)
        return None

    def _sets(self, expected: list[Any], actual: list[Any], schema: Schema) -> Difference | None:
        """Items in any order. Repeated ones count once: they break uniqueItems, and a set does not hold them twice."""
        wanted = {_canonical(item): item for item in expected}
        found = {_canonical(item): item for item in actual}
        left = [item for key, item in wanted.items() if key not in found]
        right = [item for key, item in found.items() if key not in wanted]
        if len(wanted) != len(found):
            return Difference("other_list_length", f"{len(found)} different items, expected {len(wanted)}")
        if not left:
            return None
        size = sum(len(key) for key in wanted if key not in found) + sum(len(key) for key in found if key not in wanted)
        if len(left) > MOST_UNMATCHED or len(left) * size > MOST_TEXT_OF_SETS:
            return Difference("other_value", f"{len(left)} items differ")
        items = _items(schema, 0)
        pairs = [[at for at, y in enumerate(right) if self._both(x, y, items) is None] for x in left]
        if len(maximum_matching(pairs)) == len(left):
            return None
        return Difference("other_value", f"other items in a set: {shown(right)}, expected {shown(left)}")

    def _left_out(self, key: str, value: Any, schema: Schema, properties: dict[str, Any]) -> Difference | None:
        """The expert gave `key`, the model did not."""
        if not is_required(schema, key) and key in properties:
            given = resolve(properties[key], self._root, value)
            if self._is_absent(value, given) or (value is None and given.get("default") is None):
                return None  # an expert's null means nothing, also where the schema forgot to admit it
        return Difference("missing_argument", f"expected {shown(value)}")

    def _added(self, key: str, value: Any, schema: Schema, properties: dict[str, Any]) -> Difference | None:
        """The model gave `key`, the expert did not."""
        if key not in properties:
            reason = "unknown_argument" if other_properties(schema) is None else "other_keys"
            return Difference(reason, f"{shown(key)}: {shown(value)}")
        given = resolve(properties[key], self._root)
        if self._is_absent(value, given):
            return None
        reason = "other_keys" if fits(value, resolve(properties[key], self._root, value)) else "other_type"
        return Difference(reason, f"{shown(key)}: {shown(value)}, which the expert left out")

    def _is_absent(self, value: Any, schema: Schema) -> bool:
        """Whether giving `value` is the same as leaving the argument out."""
        default = schema.get("default")
        if value is None:
            return default is None and admits_null(schema)
        return default is not None and self._both(default, value, {**schema, "default": None}) is None

    def _schema_of(self, key: str, schema: Schema, properties: dict[str, Any]) -> Any:
        return properties[key] if key in properties else other_properties(schema) or {}


def _items(schema: Schema, index: int) -> Any:
    """The schema of an array's item, in the form of 2020-12 or of the drafts before it."""
    items, prefix = schema.get("items"), schema.get("prefixItems")
    if isinstance(items, list):
        items, prefix = schema.get("additionalItems"), items
    if isinstance(prefix, list) and index < len(prefix):
        return prefix[index]
    return items


def _canonical(value: Any) -> str:
    """Text that is equal for equal JSON values (2 and 2.0 apart: they meet when items are compared)."""
    return json.dumps(value, sort_keys=True)

"""Arguments by value and by the tool's schema: every rule has a case that passes and one that fails."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pivotrl.verifiers.robust.schema import MOST_STEPS, parameters_of, resolve
from pivotrl.verifiers.robust.values import compare_arguments

STRING, NUMBER, INTEGER = {"type": "string"}, {"type": "number"}, {"type": "integer"}


def schema(required=(), **properties):
    return {"type": "object", "properties": properties, "required": list(required)}


def reason(expected, actual, parameters=None):
    found = compare_arguments(expected, actual, parameters)
    return found.reason if found else None


OPTIONAL = schema(["a"], a=INTEGER, limit={"type": "integer", "default": 10}, note={"type": ["string", "null"]})


@pytest.mark.parametrize(
    "expected, actual, says",
    [
        ({"a": 1}, {"a": 1, "limit": 10}, None),
        ({"a": 1, "limit": 10}, {"a": 1}, None),
        ({"a": 1, "limit": 10.0}, {"a": 1}, None),
        ({"a": 1}, {"a": 1, "limit": 11}, "other_keys"),
        ({"a": 1, "limit": 11}, {"a": 1}, "missing_argument"),
        ({"a": 1}, {"a": 1, "note": None}, None),
        ({"a": 1, "note": None}, {"a": 1}, None),
        ({"a": 1, "note": None}, {"a": 1, "note": "x"}, "other_type"),
        ({"a": 1}, {"a": 1, "limit": None}, "other_type"),  # null is not the default, and no integer
        ({"a": 1, "limit": None}, {"a": 1, "limit": 10}, "other_type"),
        ({"a": 1}, {"a": 1, "other": 1}, "unknown_argument"),
        ({"a": 1}, {}, "missing_argument"),
        ({"a": 1}, {"a": None}, "other_type"),
        ({"a": 1}, [], "other_type"),
        ({"a": 1}, None, "other_type"),
        ({}, "[]", "other_type"),
        ({"note": "x", "a": 1}, {"a": 1, "note": "x"}, None),
        ({"a": 1, "hidden": 2}, {"a": 1, "hidden": 2}, None),  # the expert knows better than the schema
        ({"a": 1, "hidden": 2}, {"a": 1}, "missing_argument"),
    ],
)
def test_optional_arguments(expected, actual, says):
    assert reason(expected, actual, OPTIONAL) == says


def test_null_is_not_the_default_where_that_is_something_else():
    parameters = schema(limit={"type": ["integer", "null"], "default": 10})
    assert reason({}, {"limit": None}, parameters) == "other_keys"
    assert reason({"limit": None}, {}, parameters) == "missing_argument"


def test_a_pattern_makes_an_identifier():
    assert reason({"x": "New York"}, {"x": "new york"}, schema(x=STRING)) is None
    assert reason({"x": "New York"}, {"x": "new york"}, schema(x={"pattern": "^N"})) == "other_value"


def test_a_default_does_not_excuse_a_required_argument():
    parameters = schema(["unit"], unit={"type": "string", "default": "C"})
    assert reason({"unit": "C"}, {}, parameters) == "missing_argument"
    assert reason({}, {"unit": "C"}, parameters) is None


def test_an_experts_null_is_nothing_also_where_the_schema_forgot_it():
    assert reason({"n": None}, {}, schema(n=STRING)) is None
    assert reason({}, {"n": None}, schema(n=STRING)) == "other_type"
    assert reason({"n": None}, {}, schema(["n"], n=STRING)) == "missing_argument"


@pytest.mark.parametrize(
    "more, says",
    [
        ({"additionalProperties": False}, "unknown_argument"),
        ({"additionalProperties": True}, "other_keys"),
        ({"additionalProperties": {"type": "integer"}}, "other_keys"),
        ({"patternProperties": {"^x": {}}}, "other_keys"),
        ({}, "unknown_argument"),
    ],
)
def test_arguments_that_the_schema_does_not_name(more, says):
    parameters = {**schema(["a"], a=INTEGER), **more}
    assert reason({"a": 1}, {"a": 1, "x": 2}, parameters) == says
    assert reason({"a": 1, "x": 2}, {"a": 1, "x": 2.0}, parameters) is None
    assert reason({"a": 1, "x": 2}, {"a": 1, "x": 3}, parameters) == "other_value"


def test_without_a_schema_an_extra_argument_fails():
    assert reason({"a": 1}, {"a": 1, "b": 2}) == "unknown_argument"
    assert reason({"a": 1}, {"a": 1, "b": None}) == "unknown_argument"
    assert reason({"a": 1, "b": 2}, {"a": 1}) == "missing_argument"
    assert reason({"a": 1, "b": {"c": [1, "x"]}}, {"b": {"c": [1.0, "x "]}, "a": 1}) is None


NAN, INFINITY = float("nan"), float("inf")


@pytest.mark.parametrize(
    "kind, expected, actual, says",
    [
        (NUMBER, 2, 2.0, None),
        (INTEGER, 2, 2.0, None),
        (INTEGER, 2.0, 2, None),
        (None, 2, 2.0, None),
        (STRING, 2, 2.0, "other_value"),
        (STRING, "2", "2.0", "other_value"),
        (STRING, "2", 2, "other_type"),
        (NUMBER, 2, "2", "other_type"),
        (NUMBER, 0.3, 0.1 + 0.2, None),
        (NUMBER, 0.3, 0.3000001, "other_value"),
        (INTEGER, 10**12, 10**12 + 1, "other_value"),
        (INTEGER, 10**400, 10**400, None),
        (NUMBER, 10**400, 1e308, "other_value"),
        (NUMBER, 1.5, 10**400, "other_value"),
        (INTEGER, 1, True, "other_type"),
        ({"type": "boolean"}, True, 1, "other_type"),
        ({"type": "boolean"}, False, 0, "other_type"),
        ({"type": "boolean"}, True, "true", "other_type"),
        ({"type": "boolean"}, True, False, "other_value"),
        (None, True, 1, "other_type"),
        (None, 0, False, "other_type"),
        (NUMBER, NAN, NAN, None),
        (NUMBER, 1.0, NAN, "other_value"),
        (NUMBER, INFINITY, INFINITY, None),
        (NUMBER, INFINITY, -INFINITY, "other_value"),
        (NUMBER, 1e308, INFINITY, "other_value"),
        ({"type": ["integer", "string"]}, 2, 2.0, None),
        ({"type": "object"}, {}, [], "other_type"),
        ({"type": "array"}, [], {}, "other_type"),
        (None, "", "", None),
        (None, None, None, None),
    ],
)
def test_numbers_booleans_and_types(kind, expected, actual, says):
    parameters = schema(["x"], x=kind) if kind else None
    assert reason({"x": expected}, {"x": actual}, parameters) == says


@pytest.mark.parametrize(
    "members, expected, actual, same",
    [
        (["economy", "business"], "economy", "Economy", True),
        (["economy", "business"], "economy", " economy\n", True),
        (["economy", "business"], "economy", "business", False),
        (["economy", "business"], "economy", "econ", False),
        (["a", "A"], "a", "A", False),
        (["a", "A"], "a", "a ", True),
        (["one way trip", "round trip way"], "one way trip", "round trip way", False),
        ([1, 2], 1, 1.0, True),
        ([1, 2], 1, True, False),
        (["x"], "not in it", "Not in it", False),
        (["not given", "given"], "given", "not given", False),
    ],
)
def test_enum_values(members, expected, actual, same):
    parameters = schema(["x"], x={"enum": members})
    assert (reason({"x": expected}, {"x": actual}, parameters) is None) == same


@pytest.mark.parametrize(
    "form, expected, actual, same",
    [
        ("date", "2024-05-01", "20240501", True),
        ("date", "2024-05-01", "2024-W18-3", True),
        ("date", "2024-05-01", " 2024-05-01 ", True),
        ("date", "2024-05-01", "2024-05-02", False),
        ("date", "2024-05-01", "May 1, 2024", False),
        ("date", "soon", "sooner", False),
        ("date-time", "2024-05-01T00:00Z", "2024-05-01T02:00:00+02:00", True),
        ("date-time", "2024-05-01T00:00:00Z", "2024-05-01t00:00:00z", True),
        ("date-time", "2024-05-01T00:00:00.000Z", "2024-05-01 00:00:00+00:00", True),
        ("date-time", "2024-05-01T00:00Z", "2024-05-01T00:00", False),
        ("date-time", "2024-05-01T00:00Z", "2024-05-01T00:00+02:00", False),
        ("email", "Mia@Example.COM", "Mia@example.com", True),
        ("email", "Mia@example.com", "mia@example.com", False),
        ("email", "mia@example.com", "mia@example.org", False),
        ("uri", "HTTP://Example.com:80/a", "http://example.com/a", True),
        ("uri", "http://example.com/a", "http://example.com/b", False),
        ("uuid", "1B4E28BA-2FA1-11D2-883F-0016D3CCA427", "1b4e28ba-2fa1-11d2-883f-0016d3cca427", True),
        ("hostname", "a.b", "A.b", False),
        ("date", "x" * 100, "y" * 100_000, False),
        ("time", "10:00", "10:00:00", True),
        ("time", "10:00:00Z", "10:00:00+00:00", True),
        ("time", "10:00", "22:00", False),
        ("time", "10:00", "10:00Z", False),
    ],
)
def test_formats_compare_by_value(form, expected, actual, same):
    parameters = schema(["x"], x={"type": "string", "format": form})
    assert (reason({"x": expected}, {"x": actual}, parameters) is None) == same


def test_lists_by_position_and_sets_in_any_order():
    ordered, unique = schema(x={"type": "array"}), schema(x={"type": "array", "uniqueItems": True, "items": NUMBER})
    assert reason({"x": [1, 2]}, {"x": [2, 1]}, ordered) == "other_value"
    assert reason({"x": [1, 2]}, {"x": [1]}, ordered) == "other_list_length"
    assert reason({"x": [1, 2]}, {"x": [2, 1]}, unique) is None
    assert reason({"x": [1, 2]}, {"x": [2.0, 1]}, unique) is None
    assert reason({"x": [1, 2]}, {"x": [2, 3]}, unique) == "other_value"
    assert reason({"x": [1, 2]}, {"x": [2, 1, 3]}, unique) == "other_list_length"
    assert reason({"x": [1]}, {"x": [True]}, unique) == "other_value"
    assert reason({"x": [1]}, {"x": "1"}, unique) == "other_type"
    many = [[index] for index in range(5000)]
    assert reason({"x": many}, {"x": many[::-1]}, unique) is None
    assert reason({"x": many}, {"x": [[-1 - index] for index in range(5000)]}, unique) == "other_value"


def test_items_of_a_set_are_matched_not_taken_in_turn():
    item = schema(["a"], a=STRING, b={"type": "integer", "default": 1})
    unique = schema(x={"type": "array", "uniqueItems": True, "items": item})
    assert reason({"x": [{"a": "p"}, {"a": "q", "b": 1}]}, {"x": [{"a": "q"}, {"a": "p", "b": 1}]}, unique) is None
    assert reason({"x": [{"a": "p"}]}, {"x": [{"a": "p", "b": 2}]}, unique) == "other_value"


@pytest.mark.parametrize(
    "expected, actual, same",
    [
        ("152 + 103", "152+103", True),
        ("(6 - 4) + (13 - 6)", "( 6-4 ) + ( 13-6 )", True),
        ("100 - 50 + 3", "50 - 100 + 3", False),
        ("100 - 50 + 3", "100 + 50 - 3", False),
        ("12 345 6", "123 45 6", False),
        ("1 + 2 + 3", "the sum of one, two and three", False),
        ("wireless mouse black", "wireless mouse white", False),
        ("the lord of the rings", "the lord of the flies", False),
        ("123 main street apt four", "123 elm street apt four", False),
        ("the screen is cracked", "cracked screen, it is", True),
    ],
)
def test_sums_titles_and_addresses(expected, actual, same):
    says = reason({"x": expected}, {"x": actual}, schema(["x"], x=STRING))
    assert (says is None) == same


def test_a_kind_chooses_the_branch():
    branches = [
        {**schema(["kind"], kind={"const": kind}, size={"type": "integer", "default": size})}
        for kind, size in (("a", 1), ("b", 2))
    ]
    parameters = schema(["x"], x={"oneOf": branches})
    assert reason({"x": {"kind": "b"}}, {"x": {"kind": "b", "size": 2}}, parameters) is None
    assert reason({"x": {"kind": "b"}}, {"x": {"kind": "b", "size": 1}}, parameters) == "other_keys"


def test_nested_objects_follow_their_own_schema():
    place = schema(["city"], city=STRING, country={"type": "string", "default": "US"})
    parameters = schema(["to"], to=place, stops={"type": "array", "items": place})
    assert reason({"to": {"city": "Rome"}}, {"to": {"country": "US", "city": "Rome"}}, parameters) is None
    assert reason({"to": {"city": "Rome"}}, {"to": {"country": "IT", "city": "Rome"}}, parameters) == "other_keys"
    assert reason({"to": {"city": "Rome"}}, {"to": {"city": "Rome", "x": 1}}, parameters) == "unknown_argument"
    stops = {"to": {"city": "Rome"}, "stops": [{"city": "Bari"}]}
    assert reason(stops, {**stops, "stops": [{"city": "Bari", "country": "US"}]}, parameters) is None
    assert reason(stops, {**stops, "stops": [{"country": "US"}]}, parameters) == "missing_argument"


def test_prefix_items():
    pair = schema(x={"type": "array", "prefixItems": [STRING, NUMBER]})
    assert reason({"x": ["2", 2]}, {"x": ["2", 2.0]}, pair) is None
    old = schema(x={"type": "array", "items": [{"type": "string", "format": "date"}, NUMBER]})
    assert reason({"x": ["2024-05-01", 2]}, {"x": ["20240501", 2]}, old) is None


WRAPPED = {
    "type": "object",
    "$defs": {"Unit": {"type": "string", "enum": ["C", "F"]}, "Loop": {"$ref": "#/$defs/Loop"}},
    "definitions": {"Count": {"type": "integer", "default": 3}},
    "properties": {
        "unit": {"allOf": [{"$ref": "#/$defs/Unit"}], "default": "C"},
        "count": {"$ref": "#/definitions/Count"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "loop": {"$ref": "#/$defs/Loop"},
        "far": {"$ref": "https://example.com/x.json"},
        "when": {"oneOf": [{"type": "string", "format": "date"}, {"type": "integer"}, {"type": "null"}]},
        "old": {"type": "string", "nullable": True},
    },
}


@pytest.mark.parametrize(
    "expected, actual, says",
    [
        ({}, {"unit": "c"}, None),
        ({"unit": "F"}, {"unit": "f"}, None),
        ({"unit": "F"}, {}, "missing_argument"),
        ({}, {"count": 3}, None),
        ({}, {"note": None}, None),
        ({"note": None}, {}, None),
        ({"note": "x"}, {"note": None}, "other_type"),
        ({"loop": 1}, {"loop": 1.0}, None),
        ({"loop": 1}, {"loop": 2}, "other_value"),
        ({"far": "x"}, {"far": "x "}, None),
        ({"when": "2024-05-01"}, {"when": "20240501"}, None),
        ({"when": 5}, {"when": 5.0}, None),
        ({"when": 5}, {"when": "5"}, "other_type"),
        ({}, {"when": None}, None),
        ({}, {"old": None}, None),
        ({}, {"old": "x"}, "other_keys"),
    ],
)
def test_references_and_unions(expected, actual, says):
    assert reason(expected, actual, WRAPPED) == says


JUNK = [
    None,
    True,
    [],
    "string",
    7,
    {"type": 7},
    {"type": [["string"], None]},
    {"type": "frob"},
    {"enum": "x"},
    {"enum": []},
    {"enum": [[1], {}]},
    {"anyOf": {}},
    {"anyOf": [1, None, []]},
    {"allOf": "x"},
    {"$ref": 7},
    {"$ref": "#/$defs/"},
    {"$ref": "#"},
    {"format": ["date"]},
    {"format": "frob"},
    {"default": {"a": []}},
    {"properties": [], "required": "x"},
    {"required": [[], {}]},
    {"items": 5, "uniqueItems": "yes"},
    {"properties": {"k": {"properties": 5}}},
    {"pattern": "(a+)+$"},
]


@pytest.mark.parametrize("junk", JUNK)
def test_a_junk_schema_says_nothing(junk):
    parameters = {"properties": {"x": junk}, "additionalProperties": junk, "required": junk, "anyOf": junk}
    for value in ("a", 1, 1.5, None, True, [1, "b"], {"k": {"l": 2}}):
        assert reason({"x": value}, {"x": value}, parameters) is None
        assert reason({"x": value}, {"x": "something else"}, parameters) is not None
        reason({"x": value}, {"x": [1], "y": value}, parameters)
    assert reason({"a": 1}, {"a": 1}, junk if isinstance(junk, dict) else None) is None


def test_wide_and_endless_schemas_end():
    wide = {"anyOf": [{"anyOf": [{"anyOf": [STRING] * 30}] * 30}] * 30}
    assert reason({"x": "a"}, {"x": "b"}, schema(x=wide)) == "other_value"
    root = {"$defs": {"A": {"allOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/A"}], "type": "string"}}}
    assert resolve({"$ref": "#/$defs/A"}, root) == {"type": "string"}
    chain = {"$defs": {str(at): {"$ref": f"#/$defs/{at + 1}"} for at in range(5000)}}
    assert resolve({"$ref": "#/$defs/0"}, chain) == {}
    assert MOST_STEPS < 200  # below Python's stack


def test_kinds_decide_about_their_argument():
    called = []

    def kind(expected, actual):
        called.append((expected, actual))

    parameters = schema(["q"], q=STRING)
    assert compare_arguments({"q": "a b c"}, {"q": 7}, parameters, kinds={"q": kind}) is None
    assert called == [("a b c", 7)]
    assert compare_arguments({"q": "a"}, {}, parameters, kinds={"q": kind}).reason == "missing_argument"


def test_the_place_of_a_difference_is_told():
    found = compare_arguments({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}})
    assert found.detail == "'a': 'b': [1]: 3, expected 2"


@pytest.mark.parametrize("tools", [None, [], {}, "x", [None], [{}], [{"function": 5}], [{"function": {"name": "f"}}]])
def test_tools_of_any_shape(tools):
    assert parameters_of(tools, "f") is None


def test_parameters_are_found_by_name_in_both_forms():
    nested = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    assert parameters_of([nested], "f") == {"type": "object"}
    assert parameters_of([{"type": "function", "name": "f", "parameters": {"a": 1}}], "f") == {"a": 1}
    assert parameters_of([nested], "g") is None and parameters_of([nested], ["f"]) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
ARGUMENTS = st.dictionaries(st.text(max_size=5), JSON, max_size=5)
PLAIN = [
    {},
    STRING,
    NUMBER,
    INTEGER,
    {"type": "boolean"},
    {"type": "string", "format": "date-time"},
    {"enum": ["a", 1]},
]
PLAIN += [{"type": ["string", "null"]}, {"type": "string", "format": "uri"}, {"default": 0}, {"$ref": "#/properties/a"}]
SCHEMAS = st.recursive(
    st.sampled_from(PLAIN),
    lambda inner: st.one_of(
        st.builds(lambda x: {"type": "array", "items": x, "uniqueItems": True}, inner),
        st.builds(lambda x: {"anyOf": [x, {"type": "null"}]}, inner),
        st.builds(
            lambda xs, r: {"type": "object", "properties": xs, "required": r},
            st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
            st.lists(st.sampled_from("abc"), max_size=2),
        ),
    ),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(ARGUMENTS, SCHEMAS)
def test_arguments_are_equivalent_to_themselves_in_any_order(arguments, parameters):
    def turned(value):
        if isinstance(value, dict):
            return {key: turned(inner) for key, inner in reversed(value.items())}
        return [turned(inner) for inner in value] if isinstance(value, list) else value

    assert compare_arguments(arguments, turned(arguments), parameters) is None


@settings(max_examples=150, deadline=None)
@given(ARGUMENTS, JSON, SCHEMAS)
def test_any_pair_gets_an_answer(expected, actual, parameters):
    found = compare_arguments(expected, actual, parameters)
    same = json.dumps(expected, sort_keys=True) == json.dumps(actual, sort_keys=True)
    assert found is None if same else found is None or (found.detail.isascii() and "\n" not in found.detail)

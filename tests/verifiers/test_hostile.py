"""Whatever a model writes gets a verdict, soon."""

import json
import time
from random import Random

import pytest

from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import VerifierConfig
from pivotrl.verifiers.hostile_cases import DOMAINS, expert_action, items_of, tools_for
from pivotrl.verifiers.matching import maximum_matching
from pivotrl.verifiers.registry import VERIFIERS, build_verifier

EVERY = [(name, preset) for name, presets in VERIFIERS.items() for preset in presets if name != "judge"]
EXPERT = {"type": "function_call", "name": "f", "arguments": '{"a": 1, "s": "one two three", "x": 0.5, "l": [1]}'}
BATCH = {"type": "function_call_batch", "calls": [EXPERT, EXPERT]}
MESSAGE = {"type": "message", "content": "hello"}


def with_value(key: str, text: str) -> str:
    values = {"a": "1", "s": '"one two three"', "x": "0.5", "l": "[1]"} | {key: text}
    return "{" + ", ".join(f'"{name}": {value}' for name, value in values.items()) + "}"


HOSTILE = {
    "deep list": "[" * 200_000 + "]" * 200_000,
    "deep object": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "deep value": with_value("l", "[" * 5000 + "]" * 5000),
    "nesting just below the parser's limit": with_value("l", "[" * 700 + "]" * 700),
    "huge integer": with_value("a", "9" * 100_000),
    "huge float": with_value("x", "1e999999"),
    "NaN": with_value("x", "NaN"),
    "infinity": with_value("x", "-Infinity"),
    "lone surrogate": with_value("s", '"\\ud800 \\udfff x"'),
    "raw surrogate": with_value("s", '"\ud800 y z"'),
    "zero byte": "\x00",
    "10 MB string": with_value("s", '"' + "word " * 2_000_000 + '"'),
    "1 MB of words": with_value("s", '"' + "w " * 499_000 + '"'),
    "many keys": json.dumps({str(index): index for index in range(50_000)}),
    "10 MB of digits": "1" * 10_000_000,
    "repeated keys": '{"a": 2, "a": 1, "s": "one two three", "x": 0.5, "l": [1]}',
    "empty": "",
}


@pytest.mark.parametrize("name", ["tool_call", "exact"])
@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_arguments_get_a_verdict(name, case):
    verifier = build_verifier(VerifierConfig(name=name))
    item = {"type": "function_call", "name": "f", "arguments": HOSTILE[case]}
    start = time.process_time()
    for expert in (EXPERT, BATCH, MESSAGE):
        verdict = verifier.verify(Attempt(expert, [item]))
        right = case == "repeated keys" and expert is EXPERT  # the last one counts, as for json.loads
        assert verdict.reward == float(right), verdict
    assert time.process_time() - start < 2


ITEMS = [
    {},
    {"type": "function_call"},
    {"type": "function_call", "name": None, "arguments": None},
    {"type": "function_call", "name": ["f"], "arguments": {"a": 1}},
    {"type": "function_call", "name": "f", "arguments": b"{}"},
    {"type": "function_call", "name": "f" * 10_000_000, "arguments": "{}"},
    {"type": "message"},
    {"type": "message", "content": None},
    {"type": "message", "content": "\ud800"},
    {"type": ["x"]},
]


@pytest.mark.parametrize("name", ["tool_call", "exact"])
@pytest.mark.parametrize("item", ITEMS)
def test_items_of_any_shape_get_a_verdict(name, item):
    verifier = build_verifier(VerifierConfig(name=name))
    for expert in (EXPERT, BATCH):
        assert verifier.verify(Attempt(expert, [item])).reward == 0
    assert verifier.verify(Attempt(MESSAGE, [item])).reward in (0, 1)


@pytest.mark.parametrize("name", ["tool_call", "exact"])
@pytest.mark.parametrize("items", [None, [5], [None, "x", ["y"]]])
def test_what_is_no_item_is_absent(name, items):
    verifier = build_verifier(VerifierConfig(name=name))
    for expert in (EXPERT, BATCH, MESSAGE):
        assert verifier.verify(Attempt(expert, items)).reason == "no_action"
    assert verifier.verify(Attempt(EXPERT, [*(items or ()), EXPERT])).reward == 1


@pytest.mark.parametrize("name", ["tool_call", "exact"])
@pytest.mark.parametrize("expected, actual", [(50, 50_000), (2000, 2000)])
def test_many_calls_against_many_are_quick(name, expected, actual):
    verifier = build_verifier(VerifierConfig(name=name))
    expert = {"type": "function_call_batch", "calls": [EXPERT] * expected}
    wrong = {"type": "function_call", "name": "f", "arguments": with_value("a", "2")}
    start = time.process_time()
    assert verifier.verify(Attempt(expert, [wrong] * actual)).reward == 0
    assert time.process_time() - start < 0.5


def test_calls_after_the_64th_match_nothing():
    verifier = build_verifier(VerifierConfig())
    wrong = {"type": "function_call", "name": "f", "arguments": "{}"}
    assert verifier.verify(Attempt(EXPERT, [wrong] * 63 + [EXPERT])).reward == 1
    assert verifier.verify(Attempt(EXPERT, [wrong] * 64 + [EXPERT])).reward == 0
    many = {"type": "function_call_batch", "calls": [EXPERT] * 65}
    assert verifier.verify(Attempt(many, [EXPERT] * 65)).reason == "number_of_calls"


def test_a_long_chain_of_exchanges_needs_no_stack():
    size = 3000
    pairs = maximum_matching([[index, index + 1] for index in range(size)] + [[0, size]])
    assert len(pairs) == len(set(pairs.values())) == size + 1
    chain = [*([index + 1, index] for index in range(1, size)), [size], [1]]
    found = maximum_matching(chain)
    assert len(found) == size and all(actual in chain[expected] for expected, actual in found.items())


def test_params_nested_deeply_are_a_users_error():
    deep = []
    for _ in range(2000):
        deep = [deep]
    with pytest.raises(ValueError, match=r"verifier\.params"):
        build_verifier(VerifierConfig()).verify(Attempt(EXPERT, [EXPERT]), {"a": deep})


def test_a_flood_of_calls_is_quick():
    verifier = build_verifier(VerifierConfig())
    flood = [{"type": "function_call", "name": "f", "arguments": with_value("a", str(index))} for index in range(5000)]
    start = time.process_time()
    assert verifier.verify(Attempt(BATCH, flood)).reward == 0
    assert verifier.verify(Attempt(EXPERT, flood)).reward == 1
    assert time.process_time() - start < 2


@pytest.mark.parametrize("name, preset", EVERY)
def test_every_verifier_judges_whatever_the_arguments_the_items_and_the_text(name, preset):
    verifier = build_verifier(VerifierConfig(name=name, preset=preset))
    experts = [EXPERT, BATCH, MESSAGE, *(expert_action(Random(7), domain) for domain in DOMAINS[::3])]
    texts = [text for case, text in HOSTILE.items() if "10 MB" not in case] + ["word " * 400_000]
    own = [[{"type": "function_call", "name": "f", "arguments": text}] for text in texts]
    own += [[{"type": "message", "content": text}] for text in texts]
    own += [[item] for item in ITEMS] + [None, [5], [None, "x", ["y"]], [EXPERT] * 3000]
    for number, items in enumerate(own):
        expert = experts[number % len(experts)]
        name = expert.get("name")
        items = [
            item | {"name": name} if name and isinstance(item, dict) and item.get("name") == "f" else item
            for item in items or ()
        ]
        start = time.process_time()
        verdict = verifier.verify(Attempt(expert, items, texts[number % len(texts)] if number % 2 else None))
        assert time.process_time() - start < 2, (number, verdict)
        assert 0 <= verdict.reward <= 1 and verdict.reason, (number, verdict)


@pytest.mark.parametrize("name, preset", EVERY)
def test_a_schema_may_be_anything(name, preset):
    verifier = build_verifier(VerifierConfig(name=name, preset=preset))
    rng = Random(3)
    for _ in range(60):
        domain = rng.choice(DOMAINS)
        expert = expert_action(rng, domain)
        verdict = verifier.verify(Attempt(expert, items_of(expert), None, tools_for(rng, expert), [], {"harness": 5}))
        assert 0 <= verdict.reward <= 1 and verdict.reason

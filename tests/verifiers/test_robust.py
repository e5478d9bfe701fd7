"""`tool_call`, preset `robust`: a table for every promise, and the experts of a real file against themselves."""

import json
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pivotrl.trajectories.config import TrajectoriesConfig
from pivotrl.trajectories.records import Turn
from pivotrl.trajectories.turns import TurnReader
from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import Verdict, VerifierConfig
from pivotrl.verifiers.registry import build_verifier


def call(arguments, name="f"):
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"type": "function_call", "name": name, "arguments": text}


def message(text="Your order is cancelled."):
    return {"type": "message", "content": text}


def batch(*calls):
    return {"type": "function_call_batch", "calls": list(calls)}


def tool(parameters, name="f"):
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def build(**params):
    return build_verifier(VerifierConfig(preset="robust", params=params))


def verdict(expert, items, text=None, tools=(), **params):
    return build(**params).verify(Attempt(expert, items, text, list(tools)))


A, B, C = call({"x": "a"}), call({"x": "b"}), call({"x": "c"})


@pytest.mark.parametrize(
    "expert, items, f1, reason",
    [
        (A, [A], 1, "call_matches"),
        (A, [B], 0, "other_value"),
        (A, [A, A], 2 / 3, "number_of_calls"),
        (A, [A, B], 2 / 3, "number_of_calls"),
        (A, [A] + [B] * 20, 2 / 22, "number_of_calls"),
        (A, [B, B], 0, "number_of_calls"),
        (batch(A, B), [A, B], 1, "calls_match"),
        (batch(A, B), [B, A], 1, "calls_match"),
        (batch(A, B), [A], 2 / 3, "number_of_calls"),
        (batch(A, B), [A, A], 1 / 2, "other_value"),
        (batch(A, B), [A, C], 1 / 2, "other_value"),
        (batch(A, B), [A, B, C], 4 / 5, "number_of_calls"),
        (batch(A, A), [A, A], 1, "calls_match"),
        (batch(A, A), [A], 2 / 3, "number_of_calls"),
        (batch(A, B), [call({"x": "a"}, "g"), B], 1 / 2, "other_tool"),
        (batch(A, B), [], 0, "no_action"),
    ],
)
def test_the_number_of_calls_matters(expert, items, f1, reason):
    found = verdict(expert, items)
    assert (found.reward, found.reason) == (pytest.approx(f1), reason)
    assert verdict(expert, items, count="strict").reward == float(f1 == 1)


def test_matching_is_optimal():
    loose = call({"s": "cancel order lamp table chair rug"})
    near = call({"s": "cancel order lamp table shelf pillow"})
    far = call({"s": "cancel order chair rug sofa desk"})
    one, two = verdict(loose, [near]).reward, verdict(near, [far]).reward
    assert (one, two, verdict(loose, [far]).reward) == (1, 0, 1)
    assert verdict(batch(loose, near), [near, far]).reward == 1  # the first fit for `loose` would be `near`


def test_calls_after_the_64th_match_nothing_but_count():
    many = [call({"x": str(index)}) for index in range(65)]
    assert verdict(batch(*many), many).reward == pytest.approx(64 / 65)
    assert verdict(A, [B] * 64 + [A]).reward == 0


@pytest.mark.parametrize(
    "content, reason",
    [
        ("Yes.", "message_as_expected"),
        ("", "empty_message"),
        (" \n\t", "empty_message"),
        ("\u200b\u2060\ufeff", "empty_message"),
        ("<think>hm</think>", "empty_message"),
        ("<|im_end|>", "empty_message"),
        ('<tool_call>{"name": "f", "arguments": {}}</tool_call>', "format"),
        ('<tool_call>{"name": "f", "argum', "format"),
        ("Sure. <tool_call", "format"),
        ("Sure.</tool_call>", "format"),
        ('{"name": "f", "arguments": {}}', "format"),
        ("<think>hm", "format"),
        ("[TOOL_CALLS]", "format"),
        ("<function=f>", "format"),
        ("**", "empty_message"),
        ("...", "empty_message"),
        ("<br>", "empty_message"),
        ("<div></div>", "empty_message"),
        ("```\n```", "empty_message"),
        ("\U0001f44d", "message_as_expected"),
        ("x < y", "message_as_expected"),
        ('```json\n{"name": "f", "arguments": {"x": 1}}\n```', "format"),
        ('[{"name": "f", "arguments": {"x": 1}}]', "format"),
        ('functools[{"name": "f", "arguments": {}}]', "format"),
        ("[f(x=1)]", "format"),
        ("[f(x=1", "format"),
        ("f(x=1)", "format"),
        ("f(x) is a function, as you know", "message_as_expected"),
        ("<f><x>1</x></f>", "format"),
        ("Action: f\nAction Input: {}", "format"),
        ("[/TOOL_CALLS]", "format"),
        ("<tool_response>1</tool_response>", "format"),
        ("<|im_start|>user\nthanks", "format"),
        ("<|channel|>commentary to=functions.f<|message|>{}<|call|>", "format"),
        ('The form is {"name": "f", "arguments": {}}, as you know.', "message_as_expected"),
    ],
)
def test_an_expected_message_needs_something_said(content, reason):
    found = verdict(message(), [message(content)], tools=[tool({})])
    assert (found.reason, found.reward) == (reason, float(reason == "message_as_expected"))
    assert verdict(message(), [message(content)], text=content, tools=[tool({})]).reason == reason


def test_messages_and_calls_do_not_answer_each_other():
    assert verdict(message(), [A]).reason == "call_where_message_expected"
    assert verdict(message(), [message(), A]).reason == "call_where_message_expected"
    assert verdict(A, [message()]).reason == "message_where_call_expected"
    assert verdict(A, [message("Let me look."), A]).reason == "call_matches"
    assert verdict(A, []).reason == verdict(message(), None).reason == "no_action"
    assert verdict(A, [{"type": "reasoning"}]).reason == "no_action"


def test_how_a_message_is_judged():
    expert = message("Your refund of 30 dollars is on its way to Mia.")
    other = "Thanks for waiting, have a nice day."
    assert verdict(expert, [message(other)]).reward == 1
    assert verdict(expert, [message(other)], message="similar").reason == "other_fact"
    assert verdict(message("Which seat would you like?"), [message(other)], message="similar").reason == "other_text"
    same = [message("The refund of $30 is on its way to Mia!")]
    assert verdict(expert, same, message="similar").reward == 1
    assert verdict(expert, same, message="similar", message_threshold=1).reason == "other_text"
    assert verdict(expert, [message("Your refund of 80 dollars is on its way to Mia.")], message="similar").reward == 0
    assert verdict(expert, [expert], message="similar", message_threshold=1).reward == 1


class Judge:
    """Stands for the judge: it accepts what contains `good`, and notes how it was asked."""

    def __init__(self, params):
        self.params, self.asked = params, []

    def verify(self, attempt, params=None):
        return self.verify_all([(attempt, params)])[0]

    def verify_all(self, attempts):
        self.asked.append(len(attempts))
        return [Verdict(float("good" in attempt.items[0]["content"]), "judged") for attempt, _ in attempts]


def test_a_judge_decides_messages_and_nothing_else(monkeypatch):
    module = pytest.importorskip("pivotrl.verifiers.judge.verifier")
    monkeypatch.setattr(module, "JudgeVerifier", Judge)
    verifier = build(message="judge", judge={"model": "m"})
    assert not verifier.in_pool and build().in_pool
    attempts = [
        (Attempt(message(), [message("good")]), None),
        (Attempt(A, [A]), None),
        (Attempt(message(), [message("bad")]), None),
        (Attempt(message(), [message("")]), None),
        (Attempt(message(), [message("bad")]), {"message": "any"}),
    ]
    found = verifier.verify_all(attempts)
    assert [x.reward for x in found] == [1, 1, 0, 0, 1]
    assert [x.reason for x in found][:4] == ["judged", "call_matches", "judged", "empty_message"]
    judge = verifier._judge
    assert judge.asked == [2] and judge.params == {"model": "m"}
    assert verifier.verify(*attempts[0]).reward == 1


@pytest.mark.parametrize("params", [{"judge": {"endpoint": "http://elsewhere/v1"}}, {"message": "judge"}])
def test_a_row_brings_no_judge(params):
    """Data decides neither where questions go nor which key they carry."""
    with pytest.raises(ValueError, match="a row may not choose a judge"):
        build().verify(Attempt({"type": "message", "content": "Done."}, []), params)


SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "amount": {"type": "number"},
        "cabin": {"type": "string", "enum": ["economy", "business"]},
        "day": {"type": "string", "format": "date"},
        "at": {"type": "string", "format": "date-time"},
        "mail": {"type": "string", "format": "email"},
        "link": {"type": "string", "format": "uri"},
        "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        "note": {"type": "string"},
        "loud": {"type": "boolean", "default": False},
    },
    "required": ["id"],
}
FULL = {
    "id": "A-1",
    "amount": 2,
    "cabin": "economy",
    "day": "2024-05-01",
    "at": "2024-05-01T00:00Z",
    "mail": "Mia@Example.com",
    "link": "http://a.example/x",
    "tags": ["a", "b"],
    "note": "refund 30 dollars to Mia",
}


@pytest.mark.parametrize(
    "change, reason",
    [
        ({}, "call_matches"),
        ({"amount": 2.0}, "call_matches"),
        ({"amount": 3}, "other_value"),
        ({"amount": "2"}, "other_type"),
        ({"amount": True}, "other_type"),
        ({"loud": False}, "call_matches"),
        ({"loud": True}, "other_keys"),
        ({"loud": 0}, "other_type"),
        ({"id": " A-1\n"}, "call_matches"),
        ({"id": "a-1"}, "other_value"),
        ({"id": "A-2"}, "other_value"),
        ({"cabin": "Economy"}, "call_matches"),
        ({"cabin": "business"}, "other_value"),
        ({"day": "20240501"}, "call_matches"),
        ({"day": "2024-05-02"}, "other_value"),
        ({"at": "2024-05-01T02:00:00+02:00"}, "call_matches"),
        ({"at": "2024-05-01T02:00:00Z"}, "other_value"),
        ({"mail": "Mia@EXAMPLE.COM"}, "call_matches"),
        ({"mail": "Bob@example.com"}, "other_value"),
        ({"link": "HTTP://A.example:80/x"}, "call_matches"),
        ({"link": "http://a.example/y"}, "other_value"),
        ({"tags": ["b", "a"]}, "call_matches"),
        ({"tags": ["b", "c"]}, "other_value"),
        ({"note": "Refund $30 to Mia, please."}, "call_matches"),
        ({"note": "refund 80 dollars to Mia"}, "other_fact"),
        ({"note": "refund 30 dollars to Bob"}, "other_fact"),
        ({"note": "do not refund 30 dollars to Mia"}, "other_fact"),
        ({"note": "what is the weather like"}, "other_fact"),
        ({"extra": 1}, "unknown_argument"),
    ],
)
def test_arguments_compare_by_value_and_schema(change, reason):
    arguments = {**FULL, **change}
    found = verdict(call(FULL), [call(dict(reversed(arguments.items())))], tools=[tool({}, "g"), tool(SCHEMA)])
    assert (found.reason, found.reward) == (reason, float(reason == "call_matches"))


@pytest.mark.parametrize(
    "expected, actual, same",
    [
        ("Mia Li", "mia  li", True),
        ("Mia Li", "Mia Lee", False),
        ("Mia Li", "Mia Li Jones", False),
        ("New York", "New Jersey", False),
        ("pwd", "pwd && ls", False),
        ("HAT136", "HAT139", False),
        ("Juan Carlos Lopez", "Juan Carlos Perez", False),
        ("grep -rn foo src | head", "grep -rn foo src | tail", False),
        ("SELECT name FROM users", "SELECT mail FROM users", False),
        ("def f(x):\n    return x", "def f(x):  \n    return x\n", True),
        ("def f(x):\n    return x", "def f(x):\n    return y", False),
        ("cancel the order now", "please cancel the order now", True),
        ("cancel the order now", "do not cancel the order", False),
        ("cancel the order now", "cancel", False),
        ("", " ", True),
        ("", "x", False),
    ],
)
def test_strings_are_compared_as_what_they_are(expected, actual, same):
    assert verdict(call({"x": expected}), [call({"x": actual})]).reward == float(same)


@pytest.mark.parametrize(
    "arguments, reason",
    [
        ('{"x": "a"', "arguments_not_json"),
        ("", "arguments_not_json"),
        ("[]", "other_type"),
        ("null", "other_type"),
        ('{"x": "b", "x": "a"}', "duplicate_key"),
        ('{"x": {"y": 1, "y": 1}}', "duplicate_key"),
        ('{"x": NaN}', "other_type"),
        ("{}", "missing_argument"),
    ],
)
def test_malformed_arguments(arguments, reason):
    assert verdict(A, [call(arguments)]).reason == reason


def test_not_a_number_is_only_itself():
    assert verdict(call('{"x": NaN}'), [call('{ "x": NaN}')]).reward == 1
    assert verdict(call('{"x": 1.0}'), [call('{"x": NaN}')]).reward == 0
    assert verdict(call('{"x": 1.0}'), [call('{"x": Infinity}')]).reward == 0


def test_kinds_of_arguments():
    expert, same = call({"q": "ls -l -a", "n": 1}), call({"q": "ls -la", "n": 1})
    assert verdict(expert, [same]).reward == 0
    assert verdict(expert, [same], arguments={"q": "shell"}).reward == 1
    assert verdict(expert, [call({"q": "ls -la", "n": 2})], arguments={"q": "shell"}).reward == 0
    exact = {"x": "exact"}
    assert verdict(call({"x": "a b c"}), [call({"x": "a b c "})], arguments=exact).reward == 0
    with pytest.raises(ValueError, match=r"verifier\.params\.arguments: .*'shel' is not a kind of argument; write"):
        build(arguments={"q": "shel"})


def test_thresholds_of_a_row():
    expert, near = call({"s": "the lamp in the hall is broken"}), call({"s": "the lamp is broken"})
    verifier = build(text_threshold=0.95)
    assert verifier.verify(Attempt(expert, [near])).reward == 0
    assert verifier.verify(Attempt(expert, [near]), {"text_threshold": 0.5}).reward == 1
    with pytest.raises(ValueError, match=r"verifier\.params\.text_threshold"):
        verifier.verify(Attempt(expert, [near]), {"text_threshold": 2})


BLOCK = '<tool_call>\n{"name": "f", "arguments": {"x": "a"}}\n</tool_call>'


@pytest.mark.parametrize(
    "text, thinking, reason",
    [
        (BLOCK, "auto", "call_matches"),
        (f"<think>hm</think>\n{BLOCK}", "auto", "call_matches"),
        (f"<think>hm</think>\n{BLOCK}", "required", "call_matches"),
        (f"<think>hm\n{BLOCK}", "auto", "format"),
        (f"<think>hm</think></think>\n{BLOCK}", "auto", "format"),
        (BLOCK, "required", "format"),
        (f"<think>hm</think>\n{BLOCK}", "forbidden", "format"),
        (BLOCK.removesuffix("</tool_call>"), "auto", "format"),
        (f"{BLOCK} Done.", "auto", "format"),
        (f"{BLOCK}\n<tool_call>broken</tool_call>", "auto", "format"),
        (f"{BLOCK} and {BLOCK}", "auto", "format"),
    ],
)
def test_a_completion_must_be_well_formed(text, thinking, reason):
    assert verdict(A, [A], text=text, thinking=thinking).reason == reason


def test_order_of_items_where_the_text_is_not_known():
    assert verdict(A, [A, message("Done.")]).reason == "format"
    assert verdict(batch(A, B), [A, message("and"), B]).reason == "format"


def turns_of(shared_data):
    path = str(shared_data / "trajectories" / "tau_bench_airline_gpt4o.json")
    reader = TurnReader(TrajectoriesConfig(files=[path]), seed=0)
    return [turn for turn in reader if isinstance(turn, Turn)]


def test_real_experts_are_themselves_and_nobody_else(shared_data):
    turns, verifier = turns_of(shared_data), build(message="similar")
    assert len(turns) > 1000

    def items(turn):
        return turn.expert.get("calls", [turn.expert])

    wrong = 0
    for turn, other in zip(turns, turns[517:] + turns[:517]):
        attempt = Attempt(turn.expert, items(turn), None, turn.tools, turn.messages)
        found = verifier.verify(attempt)
        assert found.reward == 1, (turn.id, found)
        turned = [
            call(dict(reversed(json.loads(item["arguments"]).items())), item["name"]) if "name" in item else item
            for item in items(turn)
        ]
        assert verifier.verify(replace(attempt, items=turned)).reward == 1
        reward = verifier.verify(replace(attempt, items=items(other))).reward
        assert reward == 0 or turn.expert["type"] == "message" or turn.expert == other.expert, (turn.id, other.id)
        wrong += reward > 0 and turn.expert != other.expert
    assert wrong <= 12  # farewells and the like


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(["f", "g"])
CALLS = st.builds(call, st.dictionaries(st.text(max_size=5), JSON, max_size=4).map(json.dumps), NAMES)
TEXTS = st.text(max_size=40).filter(lambda text: text.strip() and "<" not in text and "{" not in text)
ACTIONS = CALLS | st.builds(message, TEXTS) | st.lists(CALLS, min_size=1, max_size=3).map(lambda calls: batch(*calls))
ROBUST = build(message="similar")


@settings(max_examples=150, deadline=None)
@given(ACTIONS)
def test_an_action_is_equivalent_to_itself(expert):
    items = expert.get("calls", [expert])
    assert ROBUST.verify(Attempt(expert, items, None, [tool(SCHEMA)])).reward == 1
    if "calls" in expert:
        assert ROBUST.verify(Attempt(expert, items[::-1])).reward == 1
        assert ROBUST.verify(Attempt(expert, [*items, items[0]])).reward < 1


VALID = st.fixed_dictionaries(
    {"id": st.text(min_size=1, max_size=8)},
    optional={
        "amount": st.integers() | st.floats(allow_nan=False),
        "cabin": st.sampled_from(["economy", "business"]),
        "day": st.dates().map(str),
        "at": st.datetimes().map(lambda x: x.isoformat() + "Z"),
        "mail": st.emails(),
        "tags": st.lists(st.text(max_size=5), unique=True, max_size=4),
        "note": st.text(max_size=60),
        "loud": st.booleans(),
    },
)


@settings(max_examples=150, deadline=None)
@given(VALID, st.randoms(use_true_random=False))
def test_valid_arguments_in_any_writing(arguments, random):
    other = {**arguments}
    if not other.get("loud", True):
        del other["loud"]
    if "tags" in other:
        other["tags"] = other["tags"][::-1]
    if "day" in other:
        other["day"] = other["day"].replace("-", "")
    if isinstance(other.get("amount"), int) and abs(other["amount"]) < 2**53:
        other["amount"] = float(other["amount"])
    keys = list(other)
    random.shuffle(keys)
    text = json.dumps({key: other[key] for key in keys}, indent=1, ensure_ascii=False)
    assert ROBUST.verify(Attempt(call(arguments), [call(text)], None, [tool(SCHEMA)])).reward == 1
    other["id"] += "x"
    assert ROBUST.verify(Attempt(call(arguments), [call(other)], None, [tool(SCHEMA)])).reward == 0


ITEMS = st.dictionaries(
    st.sampled_from(["type", "name", "arguments", "content", "x"]),
    st.sampled_from(["function_call", "message", "f", "{}", "<tool_call>", '{"id": "A-1"}']) | JSON,
)


@settings(max_examples=200, deadline=None)
@given(ACTIONS, st.lists(ITEMS | JSON, max_size=4) | st.none(), st.none() | st.text(max_size=30), JSON)
def test_no_output_makes_it_raise(expert, items, text, odd):
    found = ROBUST.verify(Attempt(expert, items, text, [tool(SCHEMA), odd]))
    assert 0 <= found.reward <= 1 and found.detail.isascii() and "\n" not in found.detail


def test_hostile_arguments_get_a_verdict_soon():
    expert = call({"a": 1, "s": "one two three", "x": 0.5, "l": [1]})
    hostile = [
        "[" * 200_000,
        '{"a":' * 100_000 + "1" + "}" * 100_000,
        '{"l": ' + "[" * 900 + "]" * 900 + "}",
        '{"a": ' + "9" * 100_000 + "}",
        '{"a": 1, "s": "' + "word " * 180_000 + '", "x": 0.5, "l": [1]}',
        '{"a": 1, "s": "\\ud800 \\udfff x", "x": 0.5, "l": [1]}',
        json.dumps({str(index): index for index in range(50_000)}),
        "1" * 10_000_000,
        "\x00",
    ]
    start = time.process_time()
    for text in hostile:
        for expected in (expert, batch(expert, expert), message()):
            assert ROBUST.verify(Attempt(expected, [call(text)], None, [tool(SCHEMA)])).reward == 0
    flood = [call({"a": index}) for index in range(5000)]
    assert ROBUST.verify(Attempt(batch(*[expert] * 2000), flood)).reward == 0
    assert time.process_time() - start < 5


def test_speed_on_one_core(shared_data):
    with open(shared_data / "verifier_golden" / "tool_call.jsonl") as file:
        attempts = [Attempt(row["expected_action"], row["response"]) for row in map(json.loads, file)]
    verifier, best = build(), 0.0
    for _ in range(5):
        start = time.process_time()
        for attempt in attempts * 4:
            verifier.verify(attempt)
        best = max(best, len(attempts) * 4 / (time.process_time() - start))
    assert best >= 5_000, f"{best:.0f} verdicts/s"


def test_many_long_arguments_are_compared_soon():
    words = [f"word{'abcdefghij'[i % 10]}{'klmnopqrst'[i // 10 % 10]}{'uvwxyz'[i // 100 % 6]}" for i in range(600)]
    texts = [" ".join(words[i:] + words[:i]) * 3 for i in range(64)]
    lists = tool({"type": "object", "properties": {"x": {"type": "array", "uniqueItems": True}}}, "s")
    cases = [
        (batch(*(call({"x": text + " end"}) for text in texts[:3])), [call({"x": text}) for text in texts]),
        (call({"x": texts[:60]}, "s"), [call({"x": [text + " x" for text in texts[:60]]}, "s")]),
        (call({"x": texts[:2]}, "s"), [call({"x": [text[:900] for text in texts]}, "s")] * 64),
    ]
    for expert, items in cases:
        start = time.process_time()
        verdict(expert, items, tools=[lists])
        assert time.process_time() - start < 2
    start = time.process_time()
    verdict(message(), [message("\ufdfa" * 1_000_000)], message="similar")
    assert time.process_time() - start < 2


def test_a_batch_of_many_long_texts_is_still_matched():
    texts = [f"item {i} " + "some words about it that go on and on " * 60 for i in range(20)]
    expert = batch(*(call({"x": text}) for text in texts))
    assert verdict(expert, [call({"x": text + "."}) for text in reversed(texts)]).reward == 1

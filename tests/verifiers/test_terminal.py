import json
import statistics
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import VerifierConfig
from pivotrl.verifiers.registry import build_verifier
from pivotrl.verifiers.terminal import TerminalVerifier

RIGHT, NO_EXPERT, NO_OUTPUT, FORM, OPEN, UNLIKE, HARNESS = (
    "equivalent",
    "expected_answer_invalid",
    "model_output_invalid",
    "schema_check_failed",
    "task_complete_check_failed",
    "string_similarity_below_threshold",
    "unknown_harness",
)
T1, T2 = "terminus_1", "terminus_2"


def message(content, **more):
    return {"type": "message", "content": content, **more}


def part(text):
    return {"type": "output_text", "text": text}


def as_text(answer):
    return answer if isinstance(answer, str) else json.dumps(answer)


def answer(*commands, **more):
    """Of Terminus 2; a command is its keystrokes, or the whole object."""
    whole = [{"keystrokes": command} if isinstance(command, str) else command for command in commands]
    return {"analysis": "a", "plan": "p", "commands": whole, **more}


def first(*commands, complete=False, **more):
    """Of Terminus 1."""
    whole = [
        {"keystrokes": command, "is_blocking": True, "timeout_sec": 1} if isinstance(command, str) else command
        for command in commands
    ]
    return {"state_analysis": "a", "explanation": "p", "commands": whole, "is_task_complete": complete, **more}


def judge(expert, items, metadata=None, **params):
    verifier = build_verifier(VerifierConfig(name="terminal", params=params))
    return verifier.verify(Attempt(expert, items, metadata={"harness": T2} if metadata is None else metadata))


LS, TEN, NINE, EIGHT = "ls -la\n", "abcdefghij", "abcdefghi", "abcdefgh"
DEEP = "[" * 100_000
DIGITS = '{"analysis": ' + "9" * 5000 + "}"
# (harness, the expert's answer, the text of the model's one message, reward, reason), default parameters.
CASES = [
    # keystrokes
    (T2, answer(LS), answer(LS), 1, RIGHT),
    (T2, answer(LS), answer(LS, analysis="another", plan=""), 1, RIGHT),
    (T2, answer(LS), answer({"keystrokes": LS, "duration": 60}), 1, RIGHT),
    (T2, answer("cd a\n", LS), answer("cd a\n" + LS), 1, RIGHT),
    (T2, answer("cd a\n", LS), answer(LS, "cd a\n"), 0, UNLIKE),
    (T2, answer(TEN), answer(NINE), 1, RIGHT),
    (T2, answer(TEN), answer(EIGHT), 0, UNLIKE),
    (T2, answer(), answer(), 1, RIGHT),
    (T2, answer(), answer(LS), 0, UNLIKE),
    (T2, answer(LS), answer(), 0, UNLIKE),
    (T2, answer(""), answer(""), 1, RIGHT),
    (T2, answer(""), answer(), 0, UNLIKE),
    (T2, answer(""), answer(LS), 0, UNLIKE),
    (T1, first("C-c"), first("C-c"), 1, RIGHT),
    (T1, first("C-c"), first("C-d"), 0, UNLIKE),
    # the end of the task
    (T2, answer(LS, task_complete=True), answer(LS, task_complete=True), 1, RIGHT),
    (T2, answer(LS, task_complete=True), answer(LS, task_complete=False), 0, OPEN),
    (T2, answer(LS, task_complete=True), answer(LS), 0, OPEN),
    (T2, answer(LS, task_complete=True), answer("pwd"), 0, OPEN),
    (T2, answer(LS, task_complete=False), answer(LS, task_complete=True), 1, RIGHT),
    (T2, answer(LS), answer(LS, task_complete=True), 1, RIGHT),
    (T1, first(LS, complete=True), first(LS, complete=True), 1, RIGHT),
    (T1, first(LS, complete=True), first(LS), 0, OPEN),
    (T1, first(LS), first(LS, complete=True), 1, RIGHT),
    # the format
    (T2, answer(LS), answer(LS, notes=""), 0, FORM),
    (T2, answer(LS), answer(LS, is_task_complete=True), 0, FORM),
    (T2, answer(LS), {"analysis": "a", "commands": [{"keystrokes": LS}]}, 0, FORM),
    (T2, answer(LS), {}, 0, FORM),
    (T2, answer(LS), answer(LS, plan=None), 0, FORM),
    (T2, answer(LS), answer(LS, plan=["p"]), 0, FORM),
    (T2, answer(LS), answer(LS, commands=LS), 0, FORM),
    (T2, answer(LS), answer(LS, commands={"keystrokes": LS}), 0, FORM),
    (T2, answer(LS), answer(LS, task_complete=1), 0, FORM),
    (T2, answer(LS), answer(LS, task_complete="true"), 0, FORM),
    (T2, answer(LS), answer(LS, task_complete=None), 0, FORM),
    (T2, answer(LS), answer(5), 0, FORM),
    (T2, answer(LS), answer([LS]), 0, FORM),
    (T2, answer(LS), answer({"duration": 1}), 0, FORM),
    (T2, answer(LS), answer({"keystrokes": None}), 0, FORM),
    (T2, answer(LS), answer({"keystrokes": LS, "duration": True}), 0, FORM),
    (T2, answer(LS), answer({"keystrokes": LS, "duration": "1"}), 0, FORM),
    (T2, answer(LS), answer({"keystrokes": LS, "duration": None}), 0, FORM),
    (T2, answer(LS), answer({"keystrokes": LS, "timeout_sec": 1}), 0, FORM),
    (T2, answer(LS), answer({"keystrokes": LS, "duration": float("nan")}), 1, RIGHT),
    (T2, answer(LS), answer({"keystrokes": LS, "duration": -1e400}), 1, RIGHT),
    (T2, answer(LS), first(LS), 0, FORM),
    (T1, first(LS), answer(LS), 0, FORM),
    (T1, first(LS), first({"keystrokes": LS, "is_blocking": True}), 0, FORM),
    (T1, first(LS), first({"keystrokes": LS, "is_blocking": 1, "timeout_sec": 1}), 0, FORM),
    (T1, first(LS), first({"keystrokes": LS, "is_blocking": False, "timeout_sec": 0.5}), 1, RIGHT),
    (T1, first(LS), first(LS, complete=None), 0, FORM),
    # the expert's half
    (T2, first(LS), answer(LS), 0, NO_EXPERT),
    (T2, answer(LS, notes=""), answer(LS), 0, NO_EXPERT),
    (T2, answer({"keystrokes": 5}), {}, 0, NO_EXPERT),
    (T2, "ls", answer(LS), 0, NO_EXPERT),
    (T2, "[]", answer(LS), 0, NO_EXPERT),
    (T2, "[]", "not JSON", 0, NO_EXPERT),
    # the text around the JSON
    (T2, answer(LS), "<think>a {</think>\n" + as_text(answer(LS)), 1, RIGHT),
    (T2, answer(LS), "a</think>b</think>" + as_text(answer(LS)), 1, RIGHT),
    (T2, answer(LS), "<think>" + as_text(answer(LS)), 0, NO_OUTPUT),
    (T2, answer(LS), as_text(answer(LS)) + "</think>", 0, NO_OUTPUT),
    (T2, answer(LS), as_text(answer(LS)) + " done", 0, NO_OUTPUT),
    (T2, answer(LS), "```json\n" + as_text(answer(LS)) + "\n```", 0, NO_OUTPUT),
    (T2, answer(LS), " \n\u3000" + as_text(answer(LS)) + "\n ", 1, RIGHT),
    (T2, answer(LS), [answer(LS)], 0, NO_OUTPUT),
    (T2, answer(LS), "null", 0, NO_OUTPUT),
    (T2, answer(LS), as_text(answer(LS)).replace('"plan"', '"plan": 5, "plan"'), 1, RIGHT),
    (T2, answer(LS), as_text(answer(LS)).replace('"p"', '"p", "plan": 5'), 0, FORM),
    (T2, answer("\ud800"), answer("\ud800"), 1, RIGHT),
]


@pytest.mark.parametrize("harness, expected, actual, reward, reason", CASES)
def test_answers_compare_as_in_nemo_gym(harness, expected, actual, reward, reason):
    verdict = judge(message(as_text(expected)), [message(as_text(actual))], {"harness": harness})
    assert (verdict.reward, verdict.reason) == (reward, reason)


EXPERT = answer(TEN)
# (the model's answer to EXPERT, parameters, reward, reason).
SETTINGS = [
    (answer(NINE), {"string_similarity_threshold": 0.95}, 0, UNLIKE),
    (answer(NINE), {"string_similarity_threshold": 2 * 9 / 19}, 1, RIGHT),
    (answer(EIGHT), {"string_similarity_threshold": 0.88}, 1, RIGHT),
    (answer(EIGHT), {"threshold": 0.88}, 1, RIGHT),
    (answer(EIGHT), {"threshold": 0.89, "string_similarity_threshold": 0.1}, 0, UNLIKE),
    (answer("z"), {"threshold": 0.0}, 1, RIGHT),
    (answer(), {"threshold": 0.0}, 1, RIGHT),
    (answer(TEN), {"threshold": 1.0}, 1, RIGHT),
    (answer(TEN), {"threshold": 1.1}, 0, UNLIKE),
    (answer("z"), {"enable_string_similarity": False}, 1, RIGHT),
    (answer("z", notes=""), {"enable_string_similarity": False}, 0, FORM),
]


@pytest.mark.parametrize("actual, params, reward, reason", SETTINGS)
def test_parameters_act_as_in_nemo_gym(actual, params, reward, reason):
    verdict = judge(message(as_text(EXPERT)), [message(as_text(actual))], **params)
    assert (verdict.reward, verdict.reason) == (reward, reason)


TEXT = as_text(EXPERT)
HEAD, TAIL = TEXT.split(", ", 1)
# (the model's output for EXPERT, reward, reason); where NeMo-Gym raises, no reward.
OUTPUTS = [
    ([message(HEAD + ","), message(TAIL)], 1, RIGHT),
    ([message("<think>a</think>"), message(TEXT)], 1, RIGHT),
    ([message(TEXT), message("Done.")], 0, NO_OUTPUT),
    ([message([part(TEXT)])], 1, RIGHT),
    ([message([part("a</think>"), {"type": "refusal", "refusal": "b"}, part(TEXT)])], 1, RIGHT),
    ([message([part(TEXT[:9]), part(TEXT[9:])])], 0, NO_OUTPUT),
    ([message(TEXT, role="assistant")], 1, RIGHT),
    ([message("hi", role="user"), message(TEXT)], 1, RIGHT),
    ([message(TEXT, role="user")], 0, NO_OUTPUT),
    ([{"type": "reasoning", "content": "{"}, {"type": "function_call", "name": "f"}, message(TEXT)], 1, RIGHT),
    ([message("")], 0, NO_OUTPUT),
    ([message(" \n")], 0, NO_OUTPUT),
    ([message([])], 0, NO_OUTPUT),
    ([message(None), message({"text": TEXT}), message([part(None)])], 0, NO_OUTPUT),
    ([], 0, NO_OUTPUT),
    ([message(DEEP)], 0, NO_OUTPUT),
    ([message(DIGITS)], 0, NO_OUTPUT),
]


@pytest.mark.parametrize("items, reward, reason", OUTPUTS)
def test_all_messages_of_the_output_are_read(items, reward, reason):
    verdict = judge(message(TEXT), items)
    assert (verdict.reward, verdict.reason) == (reward, reason)


# (the expert's action, metadata, reward, reason), where the model answers as EXPERT.
EXPERTS = [
    (message(TEXT), {"harness": T2, "expected_answer": "ignored"}, 1, RIGHT),
    (message(""), {"harness": T2, "expected_answer": TEXT}, 1, RIGHT),
    ({"type": "function_call", "name": "f", "arguments": "{}"}, {"harness": T2, "expected_answer": TEXT}, 1, RIGHT),
    ({"type": "function_call", "name": "f", "arguments": "{}"}, {"harness": T2}, 0, NO_EXPERT),
    (message(""), {"harness": T2, "expected_answer": EXPERT}, 0, NO_EXPERT),
    (message(""), {"harness": T2, "expected_answer": ""}, 0, NO_EXPERT),
    (message(""), {"harness": T2}, 0, NO_EXPERT),
    (message(DEEP), {"harness": T2}, 0, NO_EXPERT),
    (message(DIGITS), {"harness": T2}, 0, NO_EXPERT),
    (message(TEXT), {}, 0, HARNESS),
    (message(TEXT), {"harness": None}, 0, HARNESS),
    (message(TEXT), {"harness": "terminus_3"}, 0, HARNESS),
    (message(TEXT), {"harness": [T2]}, 0, HARNESS),
    (message(TEXT), {"harness": T1}, 0, NO_EXPERT),
]


@pytest.mark.parametrize("expert, metadata, reward, reason", EXPERTS)
def test_the_rows_metadata_counts(expert, metadata, reward, reason):
    verdict = judge(expert, [message(TEXT)], metadata)
    assert (verdict.reward, verdict.reason) == (reward, reason)


def test_the_parameter_harness_is_for_rows_without():
    assert judge(message(TEXT), [message(TEXT)], {}, harness=T2).reward == 1
    assert judge(message(TEXT), [message(TEXT)], {}, harness=T1).reason == NO_EXPERT
    assert judge(message(TEXT), [message(TEXT)], {"harness": T2}, harness=T1).reward == 1
    assert judge(message(TEXT), [message(TEXT)], {"harness": "other"}, harness=T2).reason == HARNESS
    with pytest.raises(ValueError, match=r"verifier\.params\.harness"):
        judge(message(TEXT), [message(TEXT)], harness="other")


def test_what_is_no_item_is_absent():
    assert judge(message(TEXT), None).reason == NO_OUTPUT
    assert judge(message(TEXT), [None, 5, ["x"], {}, {"type": ["message"]}, message(TEXT)]).reward == 1


def test_beyond_the_caps_there_is_no_reward():
    assert judge(message(TEXT), [message(" " * 1_000_001 + TEXT + "x" * 1_000_000)]).reason == "too_long"
    many = "".join(chr(0x4E00 + index) for index in range(200)) * 200
    verdict = judge(message(as_text(answer(many))), [message(as_text(answer(many[1:])))])
    assert (verdict.reward, verdict.reason) == (0, "too_long")
    assert judge(message(as_text(answer(many))), [message(as_text(answer(many)))]).reward == 1


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
commands = st.lists(st.fixed_dictionaries({"keystrokes": st.text()}, optional={"duration": st.floats()}), max_size=4)
answers = st.fixed_dictionaries(
    {"analysis": st.text(), "plan": st.text(), "commands": commands}, optional={"task_complete": st.booleans()}
)
TERMINAL = TerminalVerifier({"harness": T2})


@settings(max_examples=200, deadline=None)
@given(answers, st.data())
def test_an_answer_is_its_own_equivalent_whatever_the_order_of_keys(expected, data):
    again = {key: expected[key] for key in data.draw(st.permutations(list(expected)))}
    items = [message(json.dumps(again, ensure_ascii=False))]
    assert TERMINAL.verify(Attempt(message(json.dumps(expected)), items)).reward == 1


@settings(max_examples=300, deadline=None)
@given(answers, st.sampled_from(["analysis", "commands", "task_complete", "keystrokes", "notes"]), json_values)
def test_no_answer_makes_it_raise(expected, key, value):
    items = [message(json.dumps(expected | {key: value})), {"type": "message", "content": value}]
    TERMINAL.verify(Attempt(message(json.dumps(expected)), items))
    TERMINAL.verify(Attempt(message(json.dumps({key: value})), items[:1]))


def golden(shared_data):
    with open(shared_data / "verifier_golden" / "terminal.jsonl") as file:
        rows = [json.loads(line) for line in file]
    experts = [message(row["expected_answer"]) for row in rows]
    jobs = [
        (Attempt(expert, row["response"], metadata=row["metadata"]), row["params"])
        for expert, row in zip(experts, rows)
    ]
    return rows, jobs


def test_golden_verdicts_all_agree(shared_data):
    rows, jobs = golden(shared_data)
    verifier = build_verifier(VerifierConfig(name="terminal"))
    found = [verifier.verify(*job) for job in jobs]
    assert len(rows) == 120
    assert [verdict.reward for verdict in found] == [row["reward"] for row in rows]
    keys = ["none" if verdict.reason == RIGHT else verdict.reason for verdict in found]
    assert keys == [row["peer_category"] for row in rows]


def test_speed_on_one_core(shared_data):
    _, jobs = golden(shared_data)
    seconds = [min(_timed(job) for _ in range(5)) for job in jobs]
    assert 1 / statistics.median(seconds) >= 2000


def _timed(job):
    start = time.perf_counter()
    TERMINAL.verify(*job)
    return time.perf_counter() - start

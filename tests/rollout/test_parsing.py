"""Sampled text to actions. The expected values were read off vLLM 0.32's parsers and are what its server answers."""

import json
import random

import pytest

from pivotrl.rollout.parsing import ActionParser
from tests.rollout.tiny import save_tokenizer

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_order",
            "description": "One order.",
            "parameters": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
        },
    }
]
CALL = '<tool_call>\n{"name": "get_order", "arguments": {"id": "w1"}}\n</tool_call>'
GET = {"type": "function_call", "name": "get_order", "arguments": '{"id": "w1"}'}


def said(text: str) -> dict:
    return {"type": "message", "content": text}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    from transformers import AutoTokenizer

    folder = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(folder)
    return AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def hermes(tokenizer) -> ActionParser:
    return ActionParser(tokenizer, "hermes")


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("Your order is on its way.", [said("Your order is on its way.")]),
        ("", [said("")]),
        (CALL, [GET]),
        ("Let me look.\n" + CALL, [said("Let me look.\n"), GET]),
        (CALL + "\n" + CALL, [GET, GET]),
        (CALL.removesuffix("\n</tool_call>"), [GET]),
        (CALL + " and more", [GET]),
        (CALL.replace('"}', '"'), [said(CALL.replace('"}', '"'))]),
        (CALL + "<tool_call>{}</tool_call>", [said(CALL + "<tool_call>{}</tool_call>")]),
        (CALL.replace('"get_order"', "5"), [said(CALL.replace('"get_order"', "5"))]),
        (CALL.replace('{"id": "w1"}', '"w1"'), [GET | {"arguments": '"w1"'}]),
        (CALL.replace("w1", "\u00e9"), [GET | {"arguments": '{"id": "\u00e9"}'}]),
    ],
)
def test_hermes(hermes: ActionParser, text: str, items: list[dict]) -> None:
    assert hermes.parse(text, TOOLS) == items
    assert hermes.parse(text, []) == items


@pytest.mark.parametrize("bomb", ["[" * 100_000, '{"a":' * 50_000, "9" * 10_000, "\\ud800", "\0", '{"name": NaN}'])
def test_hostile_text_is_a_message(hermes: ActionParser, bomb: str) -> None:
    text = f"<tool_call>{bomb}</tool_call>"
    assert hermes.parse(text, TOOLS) == [said(text)]


def test_random_damage_never_raises(hermes: ActionParser) -> None:
    rng = random.Random(0)
    alphabet = '{}[]",:<>/\\ \n"tool_call'
    for _ in range(2000):
        cut = rng.randrange(len(CALL))
        noise = "".join(rng.choice(alphabet) for _ in range(rng.randrange(8)))
        items = hermes.parse(CALL[:cut] + noise + CALL[cut + rng.randrange(4) :], TOOLS)
        assert items and all(item["type"] in ("message", "function_call") for item in items)


def test_reasoning_is_dropped(tokenizer) -> None:
    parser = ActionParser(tokenizer, "hermes", "deepseek_r1")
    assert parser.parse("<think>which?</think>" + CALL, TOOLS) == [GET]
    assert parser.parse("which?</think>Hello", TOOLS) == [said("Hello")]
    assert parser.parse(f"maybe {CALL}", TOOLS) == [said("")], "a thought that never ended is no action"


def test_a_schema_driven_parser_gets_the_tools_of_each_turn(tokenizer) -> None:
    """Pythonic calls name their arguments in Python's syntax; the parser is another one than hermes."""
    parser = ActionParser(tokenizer, "pythonic")
    (item,) = parser.parse('[get_order(id="w1")]', TOOLS)
    assert (item["name"], json.loads(item["arguments"])) == ("get_order", {"id": "w1"})


def test_unknown_parsers_are_refused_by_key(tokenizer) -> None:
    with pytest.raises(ValueError, match=r"rollout\.tool_parser is 'nope'"):
        ActionParser(tokenizer, "nope")
    with pytest.raises(ValueError, match=r"rollout\.reasoning_parser is 'nope'"):
        ActionParser(tokenizer, "hermes", "nope")


def test_a_reasoning_parser_whose_markup_the_tokenizer_lacks_is_refused(tmp_path) -> None:
    from transformers import AutoTokenizer

    save_tokenizer(tmp_path, markup=())
    with pytest.raises(ValueError, match=r"rollout\.reasoning_parser 'deepseek_r1' does not fit"):
        ActionParser(AutoTokenizer.from_pretrained(tmp_path), "hermes", "deepseek_r1")

"""The tokenizer made from scratch: round trips, whole tokens, and a template that equals the fast renderer."""

import json
import random

import pytest

from pivotrl.demo.noise import NOISE, play
from pivotrl.demo.tasks import make_task
from pivotrl.demo.tokenizer import MARKUP, SPECIAL, VALUES, VOCABULARY, render


def desks():
    rng = random.Random(0)
    return [play(make_task("tokens", n), rng, NOISE)[0] for n in range(30)]


def parsed(messages):
    """The messages with tool-call arguments as dicts, as `ChatTemplate` gives them to the template."""
    copy = json.loads(json.dumps(messages))
    for message in copy:
        for called in message.get("tool_calls", ()):
            called["function"]["arguments"] = json.loads(called["function"]["arguments"])
    return copy


def test_template_equals_renderer_and_ids_concatenate(tokenizer):
    for desk in desks():
        parts = render(desk.messages, desk.tools)
        text = "".join(parts)
        for messages in (desk.messages, parsed(desk.messages)):
            assert tokenizer.apply_chat_template(messages, tools=desk.tools, tokenize=False) == text
        ids = tokenizer(text)["input_ids"]
        assert ids == [i for part in parts for i in tokenizer(part)["input_ids"]]
        assert tokenizer.decode(ids) == text


@pytest.mark.parametrize("text", ["Zürich, 東京 \U0001f600\t\n\n  x", 'a "quoted" \\ w10w10 lampshade 3.14', " ", ""])
def test_any_text_survives(tokenizer, text):
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_vocabulary(tokenizer):
    assert len(tokenizer) == VOCABULARY
    assert all(len(tokenizer.tokenize(text)) == 1 for text in SPECIAL + MARKUP + VALUES)
    special = {token.content for token in tokenizer.added_tokens_decoder.values() if token.special}
    assert set(SPECIAL) <= special and all("spare" in token for token in special - set(SPECIAL))


def test_dialogs_without_a_system_prompt(tokenizer):
    """Questions of the families have neither tools nor a system prompt; tools alone still get a block."""
    user = [{"role": "user", "content": "Add 1 and 2"}]
    text = tokenizer.apply_chat_template(user, tokenize=False, add_generation_prompt=True)
    assert text == "<|im_start|>user\nAdd 1 and 2<|im_end|>\n<|im_start|>assistant\n"
    tools = desks()[0].tools[:1]
    text = tokenizer.apply_chat_template(user, tools=tools, tokenize=False)
    assert text.startswith("<|im_start|>system\nfind_user(user_id)<|im_end|>\n<|im_start|>user\n")


def test_several_calls_in_one_turn(tokenizer):
    function = {"name": "transfer", "arguments": {"why": "owner"}}
    message = {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": function}] * 2}
    text = tokenizer.apply_chat_template([{"role": "user", "content": "x"}, message], tokenize=False)
    call = '<tool_call>\n{"name": "transfer", "arguments": {"why": "owner"}}\n</tool_call>'
    assert text.endswith(f"<|im_start|>assistant\n{call}\n{call}<|im_end|>\n")

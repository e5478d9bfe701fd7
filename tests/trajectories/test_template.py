"""Messages to ids and back, on a tokenizer made here."""

from pathlib import Path

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from pivotrl.trajectories.template import ChatTemplate
from tests.trajectories.rows import TOOLS, call, chat_row

COMPACT = Path(__file__).resolve().parents[2] / "configs" / "templates" / "hermes_compact.jinja"
PLAIN = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{{ '<|im_start|>assistant\n' }}"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Byte-level tokenizer; the call markup is marked special, as some published tokenizers do."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: index for index, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>"]
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in names])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    fast.chat_template = PLAIN
    out = tmp_path_factory.mktemp("tokenizer")
    fast.save_pretrained(out)
    return out


def test_decoding_keeps_markup_and_drops_control_tokens(folder):
    template = ChatTemplate(folder)
    text = 'Sure.\n<tool_call>\n{"name": "f"}\n</tool_call>'
    ids = template.tokenizer.encode(text + "<|im_end|>", add_special_tokens=False)
    assert template.decode([*ids, 0]) == text + template.tokenizer.decode([0])
    assert template.decode(ids) == text
    assert template.decode([*ids, 100_000]) == text, "an id beyond the tokenizer (a padded vocabulary) is nothing"
    euro = template.tokenizer.encode("\u20ac", add_special_tokens=False)
    assert template.decode(euro[:2]) == "\ufffd", "a character cut short does not stop anything"


def test_a_prompt_ends_where_the_assistant_begins(folder):
    template = ChatTemplate(folder)
    messages = [{"role": "user", "content": "hi <|im_end|>"}]
    assert template.decode(template.encode(messages, [])).endswith("assistant\n")
    assert template.render(messages, []) == "<|im_start|>user\nhi <|im_end|><|im_end|>\n<|im_start|>assistant\n"


def test_arguments_reach_the_template_as_objects(folder, tmp_path):
    jinja = tmp_path / "t.jinja"
    loop = (
        "{% for m in messages %}{% for c in m.tool_calls %}{{ c.function.arguments.order_id }};{% endfor %}{% endfor %}"
    )
    jinja.write_text(loop)
    template = ChatTemplate(folder, jinja)
    messages = chat_row()["messages"]
    assert template.render(messages, []) == "A-1;"
    assert messages[2]["tool_calls"][0]["function"]["arguments"] == '{"order_id": "A-1"}', "the record is not changed"
    broken = [{"role": "assistant", "content": "", "tool_calls": [call(arguments="{")]}]
    assert template.render(broken, []) == ";", "a malformed call of the history stays what the expert saw"


def test_the_hash_names_template_and_tokenizer(folder, tmp_path):
    jinja = tmp_path / "t.jinja"
    jinja.write_text(PLAIN)
    same = ChatTemplate(folder, jinja)
    assert ChatTemplate(folder).hash == same.hash
    jinja.write_text(PLAIN + " ")
    assert ChatTemplate(folder, jinja).hash != same.hash


def test_errors_name_the_key_and_the_remedy(folder, tmp_path):
    with pytest.raises(ValueError, match=r"model\.path: there is no folder"):
        ChatTemplate(tmp_path / "none")
    with pytest.raises(ValueError, match=r"model\.path: no tokenizer at"):
        ChatTemplate(tmp_path)
    with pytest.raises(ValueError, match=r"model\.chat_template: .* cannot be read"):
        ChatTemplate(folder, tmp_path / "none.jinja")
    jinja = tmp_path / "t.jinja"
    jinja.write_text("{{ raise_exception('no tools here') }}")
    with pytest.raises(ValueError, match="the chat template refused the messages"):
        ChatTemplate(folder, jinja).encode([{"role": "user", "content": "x"}], [])


def test_the_compact_template_shows_tools_calls_and_results(folder):
    tool = {
        "type": "function",
        "function": {
            "name": "book",
            "description": "Book seats.",
            "parameters": {
                "type": "object",
                "properties": {
                    "seats": {"type": "array", "items": {"type": "object", "properties": {"row": {"type": "integer"}}}},
                    "note": {"type": ["null", "string"]},
                },
                "required": ["seats"],
            },
        },
    }
    text = ChatTemplate(folder, COMPACT).render(chat_row()["messages"], [*TOOLS, tool])
    assert text == (
        "<|im_start|>system\nBe brief.\n\n# Tools\n- get_order()\n"
        "- book(seats: [{row?: integer}], note?: any): Book seats.\n"
        "Either answer the user, or call one tool by writing only\n<tool_call>\n"
        '{"name": "tool", "arguments": {"argument": "value"}}\n</tool_call><|im_end|>\n'
        "<|im_start|>user\nWhere is A-1?<|im_end|>\n"
        '<|im_start|>assistant\n<tool_call>\n{"name": "get_order", "arguments": {"order_id": "A-1"}}\n'
        "</tool_call><|im_end|>\n"
        "<|im_start|>user\n<tool_response>\nsent\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\nIt is on its way.<|im_end|>\n<|im_start|>assistant\n"
    )


FAILING = {
    "raise_exception": "{{ raise_exception('no\nno') }}",
    "division": "{{ 1 / 0 }}",
    "undefined": "{{ messages.foo.bar }}",
    "encoding": "{{ 'a'.encode('utf-99') }}",
    "range": "{% for i in range(10**9) %}{% endfor %}",
    "recursion": "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}",
    "types": "{{ 1 + 'a' }}",
    "strftime": "{{ strftime_now(5) }}",
    "half a character": "{{ '\\ud800' }}",
}


@pytest.mark.parametrize("case", FAILING)
def test_whatever_a_template_raises_is_one_line_for_one_turn(folder, tmp_path, case):
    jinja = tmp_path / "t.jinja"
    jinja.write_text(FAILING[case])
    template = ChatTemplate(folder, jinja)
    with pytest.raises(ValueError, match=r"the chat template refused the messages|half of a character") as found:
        template.encode([{"role": "user", "content": "x"}], [])
    assert type(found.value) is ValueError and "\n" not in str(found.value)


def test_half_a_character_is_no_prompt(folder):
    with pytest.raises(ValueError, match="half of a character pair"):
        ChatTemplate(folder).encode([{"role": "user", "content": "\ud83d"}], [])


@pytest.mark.parametrize("text", ["ok\n{% for %}", "ok\n{{ x | nofilter }}", "a\n{% if x %}"])
def test_a_template_with_a_syntax_error_is_refused_when_it_is_loaded(folder, tmp_path, text):
    jinja = tmp_path / "t.jinja"
    jinja.write_text(text)
    with pytest.raises(ValueError, match=r"^model\.chat_template: .*t\.jinja:2: not a Jinja template"):
        ChatTemplate(folder, jinja)


def test_a_template_that_is_not_text_names_its_file(folder, tmp_path):
    jinja = tmp_path / "t.jinja"
    jinja.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"model\.chat_template: .*t\.jinja cannot be read \(it is not UTF-8 text\)"):
        ChatTemplate(folder, jinja)

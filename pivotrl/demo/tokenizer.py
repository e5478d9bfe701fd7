"""The demo's tokenizer: byte-level BPE of 640 tokens with a Qwen-style chat template.

Digits stand alone, frequent pieces of JSON are single tokens, and so are the desk's values. The markup of tool calls is
not special (Qwen's is not either), so that decoding keeps it and a hermes parser sees it.
"""

import random
import re

from pivotrl.demo.desk_tools import CITIES, ITEMS, METHODS, ORDER_IDS, REASONS, STATUSES, USER_IDS
from pivotrl.demo.families import FAMILIES, LETTERS, questions
from pivotrl.demo.noise import NOISE, play
from pivotrl.demo.tasks import make_task

VOCABULARY = 640
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MARKUP = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
VALUES = ITEMS + CITIES + METHODS + REASONS + STATUSES + USER_IDS + ORDER_IDS
"""Whole tokens, the same in prose and in JSON, so that a tiny model copies and looks them up in one step."""

TEMPLATE = """\
{%- if messages[0].role == 'system' or tools -%}
{{- '<|im_start|>system' -}}
{%- if messages[0].role == 'system' -%}{{- '\\n' + messages[0].content -}}{%- endif -%}
{%- for t in (tools or []) -%}
{{- '\\n' + t.function.name + '(' + (t.function.parameters.properties | join(', ')) + ')' -}}
{%- endfor -%}
{{- '<|im_end|>\\n' -}}
{%- endif -%}
{%- for m in messages -%}
{%- if m.role == 'system' -%}
{%- elif m.role == 'tool' -%}
{{- '<|im_start|>user\\n<tool_response>\\n' + m.content + '\\n</tool_response><|im_end|>\\n' -}}
{%- else -%}
{{- '<|im_start|>' + m.role + '\\n' + (m.content or '') -}}
{%- for c in (m.tool_calls or []) -%}
{%- if m.content or not loop.first -%}{{- '\\n' -}}{%- endif -%}
{{- '<tool_call>\\n{"name": "' + c.function.name + '", "arguments": ' -}}
{%- if c.function.arguments is string -%}{{- c.function.arguments -}}
{%- else -%}{{- c.function.arguments | tojson -}}{%- endif -%}
{{- '}\\n</tool_call>' -}}
{%- endfor -%}
{{- '<|im_end|>\\n' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}
"""

GENERATION_PROMPT = "<|im_start|>assistant\n"


def render(messages: list[dict], tools: list[dict]) -> list[str]:
    """What the template renders, one string a message; for pretraining, where Jinja would be the slowest part.

    Expects what this package writes: a system message first wherever there are tools, arguments as JSON strings.
    """
    parts = []
    for message in messages:
        text = message["content"]
        if message["role"] == "system":
            functions = (tool["function"] for tool in tools)
            text += "".join(f"\n{f['name']}({', '.join(f['parameters']['properties'])})" for f in functions)
        elif message["role"] == "tool":
            parts.append(f"<|im_start|>user\n<tool_response>\n{text}\n</tool_response><|im_end|>\n")
            continue
        for called in message.get("tool_calls", ()):
            function = called["function"]
            body = f'{{"name": "{function["name"]}", "arguments": {function["arguments"]}}}'
            text += ("\n" if text else "") + f"<tool_call>\n{body}\n</tool_call>"
        parts.append(f"<|im_start|>{message['role']}\n{text}<|im_end|>\n")
    return parts


def _corpus(dialogs: int) -> list[str]:
    """Text to learn merges from: noisy dialogs and the families."""
    rng = random.Random("tokenizer")
    texts = []
    for index in range(dialogs):
        desk, _ = play(make_task("tokenizer", index), rng, NOISE)
        texts += render(desk.messages, desk.tools)
    for family in FAMILIES:
        texts += [text for pair in questions(family, dialogs, "tokenizer") for text in pair]
    texts += [f" {letter} {letter}" for letter in LETTERS] * 50
    cut = re.compile("|".join(map(re.escape, SPECIAL + MARKUP + VALUES)))
    return [piece for text in texts for piece in cut.split(text) if piece]


def train_tokenizer():
    """-> a `PreTrainedTokenizerFast` of VOCABULARY tokens with the chat template."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    whole = MARKUP + VALUES
    tokenizer = Tokenizer(models.BPE())
    # A word with its space and punctuation, or one digit, or one white space. Values and markup are cut out before.
    words = Regex(r" ?[^\s\d]+|\d|\s")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(words, "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(whole),
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_corpus(3000), trainer)
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in whole])
    # The corpus may hold fewer merges than there is room for; the model's vocabulary must still split evenly.
    spare = range(VOCABULARY - tokenizer.get_vocab_size())
    tokenizer.add_special_tokens([AddedToken(f"<|spare_{n}|>", special=True, normalized=False) for n in spare])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    fast.chat_template = TEMPLATE
    return fast

"""Messages to token ids and back, through the model's own chat template."""

import hashlib
from pathlib import Path
from typing import Any

from pivotrl.trajectories.store import parse_json

MARKUP = frozenset({"<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"})
"""Tokens that carry an action's structure. Some tokenizers call them special; the parsers need to see them."""


class ChatTemplate:
    """A tokenizer with its chat template, and a hash that names the pair."""

    def __init__(self, model_path: str | Path, template: str | Path | None = None):
        """Load the tokenizer of `model_path`, with the Jinja file `template` in place of its own where that is given.

        Raises ValueError where there is no tokenizer, no such file, or no template at all.
        """
        if not Path(model_path).is_dir():
            raise ValueError(f"model.path: there is no folder {model_path}; give a Hugging Face model folder")
        from transformers import AutoTokenizer

        try:
            self.tokenizer = AutoTokenizer.from_pretrained(str(model_path))
        except (OSError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise ValueError(
                f"model.path: no tokenizer at {model_path} ({reason}); give a Hugging Face model folder"
            ) from None
        if template is not None:
            try:
                self.tokenizer.chat_template = Path(template).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
                raise ValueError(
                    f"model.chat_template: {template} cannot be read ({reason}); give a Jinja file"
                ) from None
        if not self.tokenizer.chat_template:
            raise ValueError(
                f"model.path: the tokenizer at {model_path} has no chat template; set model.chat_template to a file"
            )
        self._check_syntax(template or model_path)
        names = f"{self.tokenizer.chat_template}\0{self.tokenizer.backend_tokenizer.to_str()}"
        self.hash = hashlib.sha256(names.encode()).hexdigest()[:16]
        specials = self.tokenizer.added_tokens_decoder.items()
        self._control_ids = {index for index, token in specials if token.special and token.content not in MARKUP}

    def _check_syntax(self, source: str | Path) -> None:
        """Raise ValueError with the line where the template is no Jinja; `source` is where it came from."""
        from jinja2 import TemplateSyntaxError

        try:
            self.tokenizer.apply_chat_template([{"role": "user", "content": "x"}], tokenize=False)
        except TemplateSyntaxError as error:
            raise ValueError(
                f"model.chat_template: {source}:{error.lineno}: not a Jinja template ({_one_line(error)}); repair it"
            ) from None
        except Exception:
            return  # it was compiled; what it says to real messages is told turn by turn

    def render(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]], reply: bool = True) -> str:
        """The prompt's text, up to where the assistant begins to write (without `reply`: only the messages). Raises
        ValueError where the template refuses the messages or fails on them: it is a program of the user's, which may
        raise anything."""
        try:
            return self.tokenizer.apply_chat_template(
                [_with_parsed_arguments(message) for message in messages],
                tools=tools or None,
                tokenize=False,
                add_generation_prompt=reply,
            )
        except Exception as error:
            raise ValueError(f"the chat template refused the messages ({_one_line(error)})") from None

    def encode(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> list[int]:
        """The prompt's token ids, up to where the assistant begins to write. Raises ValueError as `render` does."""
        prompt = self.render(messages, tools)
        try:
            prompt.encode("utf-8")
        except UnicodeEncodeError:
            raise ValueError(
                "the prompt holds half of a character pair (\\ud800 to \\udfff alone), which no tokenizer reads"
            ) from None
        return self.tokenizer.encode(prompt, add_special_tokens=False)

    def decode(self, token_ids: list[int]) -> str:
        """Text of sampled ids without control tokens (end of turn, padding), with the markup of tool calls and
        thinking."""
        kept = [index for index in token_ids if index not in self._control_ids]
        return self.tokenizer.decode(kept, skip_special_tokens=False, clean_up_tokenization_spaces=False)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _with_parsed_arguments(message: dict[str, Any]) -> dict[str, Any]:
    """Give each call's arguments to the template as a dict, as Qwen's expects; a string that is not an object stays
    what the expert saw."""
    if not message.get("tool_calls"):
        return message
    calls = []
    for call in message["tool_calls"]:
        function = dict(call["function"])
        try:
            arguments = parse_json(function["arguments"])
        except ValueError:
            arguments = None
        if isinstance(arguments, dict):
            function["arguments"] = arguments
        calls.append({**call, "function": function})
    return {**message, "tool_calls": calls}

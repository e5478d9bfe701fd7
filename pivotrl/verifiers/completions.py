"""Raw completions of a file, read by vLLM's parsers as in a run. vLLM is imported when the first one comes."""

import difflib
import time
from pathlib import Path
from typing import Any

from pivotrl.trajectories.records import Tool
from pivotrl.verifiers.attempt import Item

DEMO_BASE = Path(__file__).resolve().parents[1] / "demo" / "base"
MARKUP = (
    *("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_calls>", "</tool_calls>"),
    *("<|python_tag|>", "[TOOL_CALLS]", "<|tool_call_start|>", "<|tool_call_end|>"),
)
"""Tokens that parsers look for in a vocabulary, though it is text that they read here."""


class CompletionParser:
    """Called with a completion and the turn's tools; gives its output items."""

    def __init__(self, tokenizer: str | Path | None, tool_parser: str, reasoning_parser: str | None):
        """`tokenizer`: the policy's folder; None: the demo's, with the tokens of MARKUP."""
        self._tokenizer, self._tool_parser, self._reasoning_parser = tokenizer, tool_parser, reasoning_parser
        self._parser: Any = None
        self.seconds_to_load = 0.0
        """Seconds that vLLM and the parsers took to load; 0 where no completion came."""

    def __call__(self, text: str, tools: list[Tool]) -> list[Item]:
        """Raises ValueError where the tokenizer or a parser cannot be loaded."""
        if self._parser is None:
            started = time.perf_counter()
            self._parser = self._load()
            self.seconds_to_load = time.perf_counter() - started
        return self._parser.parse(text, tools)

    def _load(self) -> Any:
        from pivotrl.rollout.parsing import ActionParser
        from pivotrl.trajectories.template import ChatTemplate

        try:
            tokenizer = ChatTemplate(self._tokenizer or DEMO_BASE).tokenizer
        except ValueError as error:
            raise ValueError(str(error).replace("model.path", "--tokenizer")) from None
        if self._tokenizer is None:
            tokenizer.add_tokens(list(MARKUP))
        try:
            return ActionParser(tokenizer, self._tool_parser, self._reasoning_parser)
        except ValueError as error:
            words = str(error).replace("rollout.tool_parser", "--tool-parser")
            words = words.replace("rollout.reasoning_parser", "--reasoning-parser")
            raise ValueError(words + self._near_names()) from None

    def _near_names(self) -> str:
        """`; did you mean hermes?` for a parser that vLLM does not have."""
        from vllm.reasoning import ReasoningParserManager
        from vllm.tool_parsers import ToolParserManager

        for name, manager in ((self._tool_parser, ToolParserManager), (self._reasoning_parser, ReasoningParserManager)):
            known = manager.list_registered()
            if name is not None and name not in known:
                near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
                return f"; did you mean {', '.join(near)}?" if near else f"; it has {', '.join(known)}"
        return ""

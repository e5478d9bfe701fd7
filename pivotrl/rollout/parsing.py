"""Sampled text to actions, by vLLM's own tool and reasoning parsers. Needs a tokenizer, not an engine."""

import json
import logging
from typing import Any

from pivotrl.rollout import environment

_KEPT_TOOL_LISTS = 256


class ActionParser:
    """Turns what a model wrote into Responses-API output items, as vLLM's server would."""

    def __init__(self, tokenizer: Any, tool_parser: str = "hermes", reasoning_parser: str | None = None):
        """Look the parsers up by the names that vLLM registers.

        Args:
            tokenizer: of the policy; some parsers look their markup up in its vocabulary.
            tool_parser: `rollout.tool_parser`.
            reasoning_parser: `rollout.reasoning_parser`; None keeps the whole text.

        Raises:
            ValueError: vLLM has no parser of that name, or the tokenizer lacks the parser's markup.
        """
        environment.prepare()
        from vllm.reasoning import ReasoningParserManager
        from vllm.tool_parsers import ToolParserManager

        self._tokenizer = tokenizer
        self._tool_class = _find(ToolParserManager.get_tool_parser, "rollout.tool_parser", tool_parser)
        self._reasoning = None
        if reasoning_parser is not None:
            parser_class = _find(
                ReasoningParserManager.get_reasoning_parser, "rollout.reasoning_parser", reasoning_parser
            )
            self._reasoning = _construct("rollout.reasoning_parser", reasoning_parser, parser_class, tokenizer)
        self._prepared: dict[str, tuple[Any, Any]] = {}
        self._tool_name = tool_parser
        self._for_tools([])

    def parse(self, text: str, tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """What one sampled text does.

        The parser's behaviour is kept as it is. Of hermes: a `<tool_call>` that is never closed still counts as a call
        where the rest is JSON; one malformed call among several makes the whole text a message; text behind the first
        call is dropped. A verifier that must know more looks at the text itself.

        Args:
            text: a decoded completion, with the markup of tool calls and thinking, without the end token.
            tools: the turn's tools in OpenAI form.

        Returns:
            One or more items in order: `{"type": "message", "content": str}`, `{"type": "function_call", "name": str,
            "arguments": str}` with the arguments as the parser wrote them. Text without a call is one message; so is
            text that a parser fails on, whole. A thought that never ended is a message of empty content.
        """
        parser, request = self._for_tools(tools)
        try:
            content: str | None = text
            if self._reasoning is not None:
                _, content = self._reasoning.extract_reasoning(text, request)
            if content is None:
                return [{"type": "message", "content": ""}]
            extracted = parser.extract_tool_calls(content, request)
            if not extracted.tools_called:
                return [{"type": "message", "content": content}]
            calls = [
                {"type": "function_call", "name": call.function.name, "arguments": call.function.arguments}
                for call in extracted.tool_calls
            ]
        except Exception:  # hostile text: the parsers are many and none promises what it raises
            return [{"type": "message", "content": text}]
        spoken = extracted.content
        return [{"type": "message", "content": spoken}, *calls] if spoken and spoken.strip() else calls

    def _for_tools(self, tools: list[dict[str, Any]]) -> tuple[Any, Any]:
        """The tool parser and the request that it is asked with, made once for each list of tools."""
        key = json.dumps(tools)
        if key not in self._prepared:
            from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest

            if len(self._prepared) == _KEPT_TOOL_LISTS:
                self._prepared.clear()
            request = ChatCompletionRequest(model="policy", messages=[], tools=tools or None)
            parser = _construct(
                "rollout.tool_parser", self._tool_name, self._tool_class, self._tokenizer, request.tools
            )
            self._prepared[key] = (parser, request)
        return self._prepared[key]


def _find(get: Any, key: str, name: str) -> Any:
    """The parser class, made silent: hermes logs a stack trace for every call that is not JSON, as samples may be.

    By a filter, because starting an engine configures vLLM's loggers anew and resets their levels.
    """
    try:
        found = get(name)
    except KeyError:
        raise ValueError(
            f"{key} is {name!r}, which vLLM does not register: see the names in vLLM's documentation of its parsers"
        ) from None
    logging.getLogger(found.__module__).addFilter(_drop)
    return found


def _drop(record: logging.LogRecord) -> bool:
    return False


def _construct(key: str, name: str, parser_class: Any, *arguments: Any) -> Any:
    try:
        return parser_class(*arguments)
    except (RuntimeError, ValueError) as error:
        raise ValueError(f"{key} {name!r} does not fit the model's tokenizer ({error}): choose another") from None

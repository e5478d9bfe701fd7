"""`terminal_functional`: steps of a terminal agent by what they do.

Three ways in which agents reach a terminal:

- Terminus answers (JSON in the message, `terminus`): `task_complete` is equal on both sides (NVIDIA's check lets a
  model end a task early), and the keystrokes do the same (`keystrokes`). Analysis, plan, durations, timeouts and
  `is_blocking` are free; so are empty keystrokes, which only wait. The answer is the JSON and nothing else: thinking
  may stand in front of it, but no prose and no code fence around it.
- Calls: of a tool of the same kind (`tool_categories`), with the same command where it is a shell (`shell.compare`),
  else with the same arguments (`robust.values`). Arguments that only say how long to wait are free.
- Messages with one fenced code block, as `shell`; messages without one, as free text.

A terminal is one shell, so that a `cd` counts, unless `persistent` says otherwise.
"""

import json
from functools import lru_cache
from typing import Any, ClassVar, Literal

from pivotrl.verifiers.action import split_items
from pivotrl.verifiers.attempt import Attempt, Item
from pivotrl.verifiers.base import Difference, Verdict
from pivotrl.verifiers.content import ContentParams, fenced_block
from pivotrl.verifiers.robust.arguments import parse_arguments
from pivotrl.verifiers.robust.calls import compare_calls
from pivotrl.verifiers.robust.free_text import compare_text
from pivotrl.verifiers.robust.schema import parameters_of
from pivotrl.verifiers.robust.values import compare_arguments
from pivotrl.verifiers.robust.wellformed import format_fault, is_blank, spoken
from pivotrl.verifiers.shell.forms import names
from pivotrl.verifiers.shell.keystrokes import compare_keystrokes
from pivotrl.verifiers.shell.verifier import ShellParams, ShellVerifier
from pivotrl.verifiers.terminus import FORMATS, keystrokes, says_complete
from pivotrl.verifiers.terminus import format_fault as answer_fault
from pivotrl.verifiers.tool_categories import category

WAITING = names(
    "timeout timeout_ms timeout_sec timeout_seconds duration is_blocking blocking security_risk thought description "
    "explanation summary yield_time_ms max_output_tokens"
)
"""Arguments of a shell tool that do not change what its command does."""


class TerminalFunctionalParams(ShellParams):
    """Beyond those of `shell`."""

    persistent: bool = True
    """All commands run in one shell, so that a `cd` in front of a command matters later on."""
    harness: Literal["terminus_1", "terminus_2"] | None = None
    """The format of answers in rows whose metadata has no `harness`; null: told from the keys of the expert's."""


class TerminalFunctionalVerifier(ShellVerifier):
    """See the module's docstring. Reasons: those of `shell` and `content`, and schema, task_complete, other_keys,
    not_sent, expected_answer_invalid."""

    PARAMS: ClassVar[type[ContentParams]] = TerminalFunctionalParams

    def verify(self, attempt: Attempt, params: dict[str, Any] | None = None) -> Verdict:
        content = attempt.expert.get("content")
        if attempt.expert["type"] != "message" or not isinstance(content, str):
            return super().verify(attempt, params)
        answer = _expected_answer(content)
        if answer is None and fenced_block(content) is not None:
            return super().verify(attempt, params)
        settings = self._params.of_row(params)
        text = _only_message(attempt, settings)
        if isinstance(text, Verdict):
            return text
        if answer is not None:
            return _judge_answer(answer, text, settings, attempt.metadata)
        difference = compare_text(content, text)
        return Verdict(0.0, *difference) if difference else Verdict(1.0, "message_as_expected")

    def _judge_calls(self, expected: list[dict], calls: list[dict], settings: Any, attempt: Attempt) -> Verdict:
        shells = [call for call in expected if category(call["name"]) == "bash"]
        if shells and len(expected) == len(calls):
            calls = [self._as_expected(call, shells[0], settings) for call in calls]
        if len(expected) != len(calls):
            return Verdict(0.0, "number_of_calls", f"{len(calls)} calls, expected {len(expected)}")

        def compare(name: str, wanted: dict[str, Any], found: Any) -> Difference | None:
            argument = self.argument_of(wanted, settings)
            kinds = {}
            if argument is not None:
                kinds[argument] = lambda x, y: self.compare(x, y, settings, attempt)
            if category(name) == "bash" and isinstance(found, dict):
                wanted = {key: value for key, value in wanted.items() if key not in WAITING or key == argument}
                found = {key: value for key, value in found.items() if key not in WAITING or key == argument}
            return compare_arguments(wanted, found, parameters_of(attempt.tools, name), kinds=kinds)

        matched, difference = compare_calls(expected, calls, compare)
        if matched == len(expected):
            return Verdict(1.0, "call_matches" if matched == 1 else "calls_match")
        return Verdict(0.0, *(difference or Difference("number_of_calls")))

    def _as_expected(self, call: Item, expected: Item, settings: Any) -> Item:
        """A call of another shell tool as one of the expert's: its name, and its name for the command."""
        name = call.get("name")
        if not isinstance(name, str) or name == expected["name"] or category(name) != "bash":
            return call
        wanted = json.loads(expected["arguments"])
        argument = self.argument_of(wanted, settings) if isinstance(wanted, dict) else None
        given = parse_arguments(call.get("arguments"))
        if argument is None or not isinstance(given, dict) or argument in given:
            return {**call, "name": expected["name"]}
        usual = next((key for key in self.ARGUMENTS if key in given), None)
        renamed = {argument if key == usual else key: value for key, value in given.items()}
        return {**call, "name": expected["name"], "arguments": json.dumps(renamed)}


def _only_message(attempt: Attempt, settings: TerminalFunctionalParams) -> str | Verdict:
    """The text of the one message of a well-formed completion, or why there is none."""
    if (fault := format_fault(attempt, settings.thinking)) is not None:
        return Verdict(0.0, *fault)
    calls, message = split_items(attempt.items)
    if calls:
        return Verdict(0.0, "call_where_message_expected")
    if message is None:
        return Verdict(0.0, "no_action")
    texts = [item.get("content") for item in attempt.items if isinstance(item, dict) and item.get("type") == "message"]
    if sum(isinstance(text, str) and not is_blank(text) for text in texts) > 1:
        return Verdict(0.0, "format", "several messages")
    text = spoken(message)
    return Verdict(0.0, "empty_message") if is_blank(text) else text


def _judge_answer(expected: dict[str, Any], text: str, settings: Any, metadata: dict[str, Any]) -> Verdict:
    harness = metadata.get("harness") if isinstance(metadata, dict) else None
    if not isinstance(harness, str) or harness not in FORMATS:
        harness = settings.harness or ("terminus_1" if "state_analysis" in expected else "terminus_2")
    if fault := answer_fault(expected, harness):
        return Verdict(0.0, "expected_answer_invalid", f"{harness}: {fault}")
    actual = parse_arguments(text.strip())
    if isinstance(actual, Difference):
        return Verdict(0.0, "schema", "the message is not JSON, or JSON with something around it")
    if fault := answer_fault(actual, harness):
        return Verdict(0.0, "schema", f"{harness}: {fault}")
    if says_complete(expected) != says_complete(actual):
        return Verdict(0.0, "task_complete", f"expected {says_complete(expected)}, found {says_complete(actual)}")
    difference = compare_keystrokes(
        keystrokes(expected), keystrokes(actual), cwd=settings.cwd, persistent=settings.persistent
    )
    return Verdict(0.0, *difference) if difference else Verdict(1.0, "equivalent")


@lru_cache(maxsize=1024)
def _expected_answer(content: str) -> dict[str, Any] | None:
    """The expert's answer, shared by the samples of a turn and never changed; None where it is no Terminus answer."""
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) and "commands" in answer else None

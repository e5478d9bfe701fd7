"""`swe`: does a software engineer's action do the expert's job: the same kind of tool, the same target, equivalent
content?

- An edit has the same effect, whatever its form (`code_edit`); a look at a file shows the same lines (or up to twice as
  many around them); a search has the same pattern and place; a command is the same command (`shell`).
- Between kinds, and among commands: `cat FILE`, `sed -n 'A,Bp' FILE` and `head -n N FILE` are looks at a file, and
  `grep -rn TEXT DIR` is a search.
- A relative path starts from the working directory where an answer in the history tells it (`(Current directory: /a)`).
- Finishing is free in its words, as are thoughts; a plan is by the parameter `planning`; a tool of no known kind has
  the same name and the same arguments, text exactly.
- A call that lacks what its tool cannot do without earns nothing: NVIDIA's swe_pivot lets it pass.
- Where the expert wrote a message, a message with something in it is needed.
"""

from dataclasses import replace
from typing import Any, Literal

from pivotrl.schema import Section
from pivotrl.verifiers.action import expert_calls, other_kind, split_items
from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import Difference, Verdict, Verifier
from pivotrl.verifiers.code.effects import Known
from pivotrl.verifiers.code.history import file_text, place_of
from pivotrl.verifiers.code.jobs import compare_jobs
from pivotrl.verifiers.code.languages import language_of
from pivotrl.verifiers.code.pairing import compare_batches
from pivotrl.verifiers.code.syntax import GRAMMARS
from pivotrl.verifiers.params import Overridable
from pivotrl.verifiers.robust.wellformed import Thinking, format_fault, is_blank, spoken

MOST_FILE_CHARACTERS = 500_000
"""Characters of known files on which edits are tried in one verdict; after them edits are compared as snippets."""
DEAR = 3
"""How many times a character counts in a language whose syntax tree is dear."""


class SweParams(Section):
    """The parameters of `swe`, and of `swe_pivot` in the preset `robust`."""

    count: Literal["f1", "strict"] = "f1"
    """Several calls: `f1` earns 2 matched / (expected + given); `strict` earns 1 where all match and no more are
    given."""
    planning: Literal["kind", "equal"] = "kind"
    """A planning tool's call: `kind`: any plan; `equal`: the expert's items."""
    thinking: Thinking = "auto"
    """`required`: the completion must close its thinking; `forbidden`: it must not think; `auto`: it may."""


class SweVerifier(Verifier):
    """See the module's docstring. Reasons: format, no_action, call_where_message_expected, empty_message,
    message_as_expected, message_where_call_expected, number_of_calls, call_matches, calls_match, other_tool,
    other_target, other_edit, other_command, other_range, edit_does_not_apply, missing_argument, unknown_argument,
    too_long, and those of `robust.values` and `robust.arguments`."""

    def __init__(self, params: dict[str, Any]):
        self._params = Overridable(SweParams, params)

    def verify(self, attempt: Attempt, params: dict[str, Any] | None = None) -> Verdict:
        settings = self._params.of_row(params)
        attempt = as_lists(attempt)
        calls, verdict = judge_kind(attempt, settings.thinking)
        if verdict is not None:
            return verdict
        known = known_of(attempt)

        def compare(wanted: dict, expected: dict, call: dict, actual: dict) -> Difference | None:
            return compare_jobs(wanted, expected, call, actual, attempt.tools, known, settings.planning)

        return compare_batches(expert_calls(attempt.expert), calls, compare, settings.count == "f1")


def judge_kind(attempt: Attempt, thinking: Thinking) -> tuple[list[dict], Verdict | None]:
    """The model's calls, and the verdict where it needs no look at them."""
    if (fault := format_fault(attempt, thinking)) is not None:
        return [], Verdict(0.0, *fault)
    calls, message = split_items(attempt.items)
    expected = expert_calls(attempt.expert)
    if (verdict := other_kind(expected, calls, message)) is not None:
        return [], verdict
    if expected:
        return calls, None
    if is_blank(spoken(message or "")):
        return [], Verdict(0.0, "empty_message")
    return [], Verdict(1.0, "message_as_expected")


def as_lists(attempt: Attempt) -> Attempt:
    """The attempt with empty lists where a row holds something else."""
    if isinstance(attempt.items, list) and isinstance(attempt.tools, list) and isinstance(attempt.messages, list):
        return attempt
    odd = {key: [] for key in ("items", "tools", "messages") if not isinstance(getattr(attempt, key), list)}
    return replace(attempt, **odd)


def known_of(attempt: Attempt) -> Known:
    """What the history shows: where the call is made, and files until MOST_FILE_CHARACTERS have been given out."""
    left = MOST_FILE_CHARACTERS

    def text_of(path: str) -> str | None:
        nonlocal left
        text = file_text(attempt.messages, path)
        left -= len(text or "") * (DEAR if language_of(path) in GRAMMARS else 1)
        return text if left >= 0 else None

    return Known(text_of, *place_of(attempt.messages))

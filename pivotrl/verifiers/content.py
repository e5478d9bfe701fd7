"""The base of verifiers that judge one piece of content: a command, a query, a number, a text.

The content is a message's text, or one argument of a call; a subclass says when two contents are equivalent, and this
file all the rest: the completion is well formed, a message answers a message and calls answer calls, in the same
number, each by the same tool and with equivalent other arguments (`robust.values`).
"""

from abc import abstractmethod
from typing import Any, ClassVar

from pivotrl.schema import Section
from pivotrl.verifiers.action import expert_calls, other_kind, split_items
from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import Difference, Verdict, Verifier
from pivotrl.verifiers.params import Overridable
from pivotrl.verifiers.robust.calls import compare_calls
from pivotrl.verifiers.robust.schema import parameters_of
from pivotrl.verifiers.robust.values import compare_arguments
from pivotrl.verifiers.robust.wellformed import Thinking, format_fault, is_blank, spoken


class ContentParams(Section):
    """What every verifier of one content can be told; subclasses add their own."""

    argument: str | None = None
    """Name of the argument that holds the content; null: the first of the verifier's usual names that the expert's
    call has, and where it has none of them, its only argument of text."""
    thinking: Thinking = "auto"
    """`required`: the completion must close its thinking; `forbidden`: it must not think; `auto`: it may."""


class ContentVerifier(Verifier):
    """See the module's docstring. Reasons beyond those of `compare`: format, no_action, empty_message,
    call_where_message_expected, message_where_call_expected, number_of_calls, other_tool, and those of
    `robust.values`."""

    PARAMS: ClassVar[type[ContentParams]] = ContentParams
    """The class of the verifier's parameters."""
    ARGUMENTS: ClassVar[tuple[str, ...]] = ()
    """Usual names of the argument that holds the content, the likeliest first."""
    FENCED: ClassVar[bool] = False
    """In a message, the content is its one fenced code block where it has exactly one, else the whole text."""

    def __init__(self, params: dict[str, Any]):
        self._params = Overridable(self.PARAMS, params)

    @abstractmethod
    def compare(self, expected: Any, actual: Any, settings: Any, attempt: Attempt) -> Difference | None:
        """Why two contents are not equivalent; None where they are.

        Args:
            expected: the expert's: text, or any JSON value where the argument is no text.
            actual: the model's: any JSON value. Never raises because of it.
            settings: the `PARAMS` of the row.
            attempt: for the history and the metadata.
        """

    def verify(self, attempt: Attempt, params: dict[str, Any] | None = None) -> Verdict:
        settings = self._params.of_row(params)
        if (fault := format_fault(attempt, settings.thinking)) is not None:
            return Verdict(0.0, *fault)
        calls, message = split_items(attempt.items)
        expected = expert_calls(attempt.expert)
        if (verdict := other_kind(expected, calls, message)) is not None:
            return verdict
        if expected:
            return self._judge_calls(expected, calls, settings, attempt)
        text = spoken(message or "")
        if is_blank(text):
            return Verdict(0.0, "empty_message")
        difference = self.compare(self._content(attempt.expert["content"]), self._content(text), settings, attempt)
        return Verdict(0.0, *difference) if difference else Verdict(1.0, "message_as_expected")

    def _judge_calls(self, expected: list[dict], calls: list[dict], settings: Any, attempt: Attempt) -> Verdict:
        if len(expected) != len(calls):
            return Verdict(0.0, "number_of_calls", f"{len(calls)} calls, expected {len(expected)}")

        def compare(name: str, wanted: dict[str, Any], found: Any) -> Difference | None:
            argument = self.argument_of(wanted, settings)
            kinds = {}
            if argument is not None:
                kinds[argument] = lambda x, y: self.compare(x, y, settings, attempt)
            return compare_arguments(wanted, found, parameters_of(attempt.tools, name), kinds=kinds)

        matched, difference = compare_calls(expected, calls, compare)
        if matched == len(expected):
            return Verdict(1.0, "call_matches" if matched == 1 else "calls_match")
        return Verdict(0.0, *(difference or Difference("number_of_calls")))

    def argument_of(self, arguments: dict[str, Any], settings: ContentParams) -> str | None:
        """The name of the argument that holds the content in an expert's call; None where no argument does."""
        if settings.argument is not None:
            return settings.argument
        usual = next((name for name in self.ARGUMENTS if name in arguments), None)
        if usual is not None:
            return usual
        texts = [name for name, value in arguments.items() if isinstance(value, str)]
        return texts[0] if len(texts) == 1 else None

    def _content(self, message: str) -> str:
        return fenced_block(message) or message.strip() if self.FENCED else message


def fenced_block(text: str) -> str | None:
    """What stands in the one fenced code block (``` or ~~~, CommonMark 4.5) of a text; None where there is none, or
    several, or one that is not closed."""
    inside: list[str] | None = None
    found: str | None = None
    fence = ""
    for line in text.split("\n"):
        bare = line.strip()
        if inside is None and bare[:3] in ("```", "~~~") and "`" not in bare[3:].lstrip("`"):
            fence, inside = bare[: len(bare) - len(bare.lstrip(bare[0]))], []
        elif inside is not None and bare.startswith(fence) and not bare.strip(fence[0]):
            if found is not None:
                return None
            found, inside = "\n".join(inside), None
        elif inside is not None:
            inside.append(line)
    return found if inside is None else None

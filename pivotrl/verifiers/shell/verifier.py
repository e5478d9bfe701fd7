"""`shell`: the content of a call or a message is a shell command; is it the expert's?"""

from typing import Any, ClassVar

from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import Difference
from pivotrl.verifiers.content import ContentParams, ContentVerifier
from pivotrl.verifiers.shell.compare import compare


class ShellParams(ContentParams):
    """Beyond those of every verifier of one content."""

    cwd: str | None = None
    """The directory in which commands run, where it is known: `cat a` is then `cat CWD/a`. null: not known."""
    persistent: bool = False
    """All commands run in one shell, so that a `cd` in front of a command matters later on. false: a leading `cd`
    only says where the rest of its command runs."""


class ShellVerifier(ContentVerifier):
    """Commands by their canonical form (`shell.compare`); nothing is run. A message's command stands in its one fenced
    code block, as mini-swe-agent writes it, and the prose around it is free."""

    PARAMS: ClassVar[type[ContentParams]] = ShellParams
    ARGUMENTS: ClassVar[tuple[str, ...]] = (
        *("command", "cmd", "commands", "script", "bash_command", "shell_command", "keystrokes"),
    )
    FENCED: ClassVar[bool] = True

    def compare(self, expected: Any, actual: Any, settings: ShellParams, attempt: Attempt) -> Difference | None:
        return compare(expected, actual, cwd=settings.cwd, persistent=settings.persistent)

    def argument_of(self, arguments: dict[str, Any], settings: ContentParams) -> str | None:
        """The argument of a usual name; no other one, as calls of other tools (an edit, a Python cell) hold text that
        is no shell command."""
        if settings.argument is not None:
            return settings.argument
        return next((name for name in self.ARGUMENTS if name in arguments), None)

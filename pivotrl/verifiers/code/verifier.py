"""`code_edit`: does an edit leave the file as the expert's does?

Edits are read from the calls of the usual tools (`shapes`): replaced strings, whole files, inserted or replaced lines,
unified diffs and `*** Begin Patch` envelopes, in any of these forms on either side. Where the history shows the file's
text, both are applied to it and the results compared (`source.compare`: comments, docstrings and formatting aside);
elsewhere what they take out and put in. Nothing is written, run or imported.

Other calls of the expert (a `view`, say) are compared as `swe` does. A message that holds one ```diff block is an edit
too.
"""

from typing import Any

from pivotrl.schema import Section
from pivotrl.verifiers.action import expert_calls, split_items
from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import Difference, Verdict, Verifier
from pivotrl.verifiers.code.diffs import diff_in
from pivotrl.verifiers.code.effects import compare_edits
from pivotrl.verifiers.code.jobs import compare_jobs
from pivotrl.verifiers.code.pairing import compare_batches
from pivotrl.verifiers.code.shapes import patch_edits
from pivotrl.verifiers.code.swe import as_lists, judge_kind, known_of
from pivotrl.verifiers.params import Overridable
from pivotrl.verifiers.robust.wellformed import Thinking


class CodeEditParams(Section):
    """The parameters of `code_edit`."""

    thinking: Thinking = "auto"
    """`required`: the completion must close its thinking; `forbidden`: it must not think; `auto`: it may."""


class CodeEditVerifier(Verifier):
    """See the module's docstring. Reward 1 where each call has one of the expert's, and there are no others. Reasons
    as for `swe`."""

    def __init__(self, params: dict[str, Any]):
        self._params = Overridable(CodeEditParams, params)

    def verify(self, attempt: Attempt, params: dict[str, Any] | None = None) -> Verdict:
        settings = self._params.of_row(params)
        attempt = as_lists(attempt)
        calls, verdict = judge_kind(attempt, settings.thinking)
        if verdict is not None:
            return _judge_diff(attempt) if verdict.reason == "message_as_expected" else verdict
        known = known_of(attempt)

        def compare(wanted: dict, expected: dict, call: dict, actual: dict) -> Difference | None:
            return compare_jobs(wanted, expected, call, actual, attempt.tools, known, "equal")

        return compare_batches(expert_calls(attempt.expert), calls, compare, False)


def _judge_diff(attempt: Attempt) -> Verdict:
    """A message where one is expected: its diff, if the expert's has one that can be read."""
    wanted = diff_in(attempt.expert["content"])
    expected = patch_edits(wanted) if wanted is not None else None
    if expected is None:
        return Verdict(1.0, "message_as_expected")
    found = diff_in(split_items(attempt.items)[1] or "")
    if found is not None and found == wanted:
        return Verdict(1.0, "message_as_expected")
    actual = patch_edits(found) if found is not None else None
    if actual is None:
        return Verdict(0.0, "missing_argument", "no diff that can be read")
    difference = compare_edits(expected, actual, known_of(attempt))
    return Verdict(0.0, *difference) if difference else Verdict(1.0, "message_as_expected")

"""From a sampled completion to its verdict: the one path that profiling, training and evaluation share."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pivotrl.trajectories.records import Turn
from pivotrl.trajectories.template import ChatTemplate
from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import Verdict, Verifier, VerifierConfig
from pivotrl.verifiers.registry import build_verifier, row_config

if TYPE_CHECKING:
    from pivotrl.rollout.parsing import ActionParser
    from pivotrl.rollout.records import Sample

Key = tuple[str, str | None]
"""A verifier's name and preset."""
Params = dict[str, Any] | None
CUT_OFF = Verdict(0.0, "cut_off", "the token limit ended it")


class Scorer:
    """Decodes, parses and judges completions by the run's verifier, or by the one that a row names."""

    def __init__(self, config: VerifierConfig, parser: "ActionParser", template: ChatTemplate):
        """Raises ValueError where the section names no verifier, or parameters that it does not know."""
        self._config, self._parser, self._template = config, parser, template
        self._verifiers: dict[Key, Verifier] = {}
        self._verifier(config)

    def check(self, turn: Turn) -> None:
        """Raise ValueError where the turn's row asks for a verifier or a parameter that there is not."""
        self._verifier(row_config(self._config, turn.verifier)).verify(
            self._attempt(turn, []), turn.verifier.get("params")
        )

    def verdicts(self, turns: Sequence[Turn], groups: Sequence[Sequence["Sample"]]) -> list[list[Verdict]]:
        """Judge a group of completions at each turn, whatever the model wrote.

        An action is a whole completion: one that the token limit cut off earns nothing. Without this, a policy learns
        to ramble in messages, whose content the verifiers of NeMo-Gym never look at.
        """
        found: list[list[Verdict]] = [[CUT_OFF] * len(group) for group in groups]
        work: dict[Key, list[tuple[int, int, Attempt, Params]]] = {}
        for row, (turn, group) in enumerate(zip(turns, groups, strict=True)):
            config = row_config(self._config, turn.verifier)
            self._verifier(config)
            for column, sample in enumerate(group):
                if sample.finish == "length":
                    continue
                text = self._template.decode(sample.token_ids)
                attempt = self._attempt(turn, self._parser.parse(text, turn.tools), text)
                place = work.setdefault((config.name, config.preset), [])
                place.append((row, column, attempt, turn.verifier.get("params")))
        for key, cells in work.items():
            verdicts = self._verifiers[key].verify_all([(attempt, params) for *_, attempt, params in cells])
            for (row, column, *_), verdict in zip(cells, verdicts, strict=True):
                found[row][column] = verdict
        return found

    def _verifier(self, config: VerifierConfig) -> Verifier:
        key = (config.name, config.preset)
        if key not in self._verifiers:
            self._verifiers[key] = build_verifier(config)
        return self._verifiers[key]

    @staticmethod
    def _attempt(turn: Turn, items: list[dict[str, Any]], text: str | None = None) -> Attempt:
        return Attempt(turn.expert, items, text, turn.tools, turn.messages, turn.metadata)

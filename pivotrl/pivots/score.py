"""From a sampled completion to its verdict: the one path that profiling, training and evaluation share."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pivotrl.trajectories.records import Turn
from pivotrl.trajectories.template import ChatTemplate
from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import Verdict, VerifierConfig
from pivotrl.verifiers.pools import RowJob, VerdictPools
from pivotrl.verifiers.registry import row_config

if TYPE_CHECKING:
    from pivotrl.rollout.parsing import ActionParser
    from pivotrl.rollout.records import Sample

CUT_OFF = Verdict(0.0, "cut_off", "the token limit ended it")


class Scorer:
    """Decodes, parses and judges completions by the run's verifier, or by the one that a row names.

    Each verifier has its own worker processes (`verifiers.pools`), which start with its first completions.
    """

    def __init__(self, config: VerifierConfig, parser: "ActionParser", template: ChatTemplate):
        """Raises ValueError where the section names no verifier, or parameters that it does not know."""
        self._config, self._parser, self._template = config, parser, template
        self._pools = VerdictPools(config)

    def attach(self, ask: Callable[..., Any]) -> None:
        """Give `ask` to each verifier that has `attach`: the judge, whose endpoint may be the run's own engine."""
        self._pools.attach(ask)

    def close(self) -> None:
        """End the worker processes. Happens by itself when Python ends."""
        self._pools.close()

    def check(self, turn: Turn) -> None:
        """Raise ValueError where the turn's row asks for a verifier or a parameter that there is not."""
        verifier = self._pools.verifier(row_config(self._config, turn.verifier))
        verifier.verify(self._attempt(turn, []), turn.verifier.get("params"))

    def judges_apart(self, turn: Turn) -> bool:
        """Whether the turn's verifier works in processes of its own, and so beside an engine that samples."""
        config = row_config(self._config, turn.verifier)
        return config.workers > 0 and self._pools.verifier(config).in_pool

    def verdicts(self, turns: Sequence[Turn], groups: Sequence[Sequence["Sample"]]) -> list[list[Verdict]]:
        """Judge a group of completions at each turn, whatever the model wrote.

        An action is a whole completion: one that the token limit cut off earns nothing. Without this, a policy learns
        to ramble in messages, whose content the verifiers of NeMo-Gym never look at.
        """
        found: list[list[Verdict]] = [[CUT_OFF] * len(group) for group in groups]
        cells: list[tuple[int, int]] = []
        jobs: list[RowJob] = []
        for row, (turn, group) in enumerate(zip(turns, groups, strict=True)):
            config = row_config(self._config, turn.verifier)
            for column, sample in enumerate(group):
                if sample.finish == "length":
                    continue
                text = self._template.decode(sample.token_ids)
                attempt = self._attempt(turn, self._parser.parse(text, turn.tools), text)
                cells.append((row, column))
                jobs.append((config, attempt, turn.verifier.get("params")))
        for (row, column), verdict in zip(cells, self._pools.judge(jobs), strict=True):
            found[row][column] = verdict
        return found

    @staticmethod
    def _attempt(turn: Turn, items: list[dict[str, Any]], text: str | None = None) -> Attempt:
        return Attempt(turn.expert, items, text, turn.tools, turn.messages, turn.metadata)

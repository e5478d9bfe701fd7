"""From a sampled completion to its verdict: the one path that profiling, training and evaluation share."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pivotrl.trajectories.records import Turn
from pivotrl.trajectories.template import ChatTemplate
from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import Verdict, VerifierConfig
from pivotrl.verifiers.pool import VerdictPool
from pivotrl.verifiers.registry import row_config

if TYPE_CHECKING:
    from pivotrl.rollout.parsing import ActionParser
    from pivotrl.rollout.records import Sample

Key = tuple[str, str | None]
"""A verifier's name and preset."""
Params = dict[str, Any] | None
CUT_OFF = Verdict(0.0, "cut_off", "the token limit ended it")


class Scorer:
    """Decodes, parses and judges completions by the run's verifier, or by the one that a row names.

    Each verifier has its own `VerdictPool` of `config.workers` processes, which start with its first completions.
    """

    def __init__(self, config: VerifierConfig, parser: "ActionParser", template: ChatTemplate):
        """Raises ValueError where the section names no verifier, or parameters that it does not know."""
        self._config, self._parser, self._template = config, parser, template
        self._pools: dict[Key, VerdictPool] = {}
        self._ask: Callable[..., Any] | None = None
        self._pool(config)

    def attach(self, ask: Callable[..., Any]) -> None:
        """Give `ask` to each verifier that has `attach`: the judge, whose endpoint may be the run's own engine."""
        self._ask = ask
        for pool in self._pools.values():
            self._hand_over(pool)

    def close(self) -> None:
        """End the worker processes. Happens by itself when Python ends."""
        for pool in self._pools.values():
            pool.close()
        self._pools.clear()

    def check(self, turn: Turn) -> None:
        """Raise ValueError where the turn's row asks for a verifier or a parameter that there is not."""
        pool = self._pool(row_config(self._config, turn.verifier))
        pool.verifier.verify(self._attempt(turn, []), turn.verifier.get("params"))

    def verdicts(self, turns: Sequence[Turn], groups: Sequence[Sequence["Sample"]]) -> list[list[Verdict]]:
        """Judge a group of completions at each turn, whatever the model wrote.

        An action is a whole completion: one that the token limit cut off earns nothing. Without this, a policy learns
        to ramble in messages, whose content the verifiers of NeMo-Gym never look at.
        """
        found: list[list[Verdict]] = [[CUT_OFF] * len(group) for group in groups]
        work: dict[Key, list[tuple[int, int, Attempt, Params]]] = {}
        for row, (turn, group) in enumerate(zip(turns, groups, strict=True)):
            config = row_config(self._config, turn.verifier)
            self._pool(config)
            for column, sample in enumerate(group):
                if sample.finish == "length":
                    continue
                text = self._template.decode(sample.token_ids)
                attempt = self._attempt(turn, self._parser.parse(text, turn.tools), text)
                place = work.setdefault((config.name, config.preset), [])
                place.append((row, column, attempt, turn.verifier.get("params")))
        for key, cells in work.items():
            verdicts = self._pools[key].judge([(attempt, params) for *_, attempt, params in cells])
            for (row, column, *_), verdict in zip(cells, verdicts, strict=True):
                found[row][column] = verdict
        return found

    def _pool(self, config: VerifierConfig) -> VerdictPool:
        key = (config.name, config.preset)
        if key not in self._pools:
            self._pools[key] = VerdictPool(config, config.workers, config.seconds)
            self._hand_over(self._pools[key])
        return self._pools[key]

    def _hand_over(self, pool: VerdictPool) -> None:
        if self._ask is not None and hasattr(pool.verifier, "attach"):
            pool.verifier.attach(self._ask)

    @staticmethod
    def _attempt(turn: Turn, items: list[dict[str, Any]], text: str | None = None) -> Attempt:
        return Attempt(turn.expert, items, text, turn.tools, turn.messages, turn.metadata)

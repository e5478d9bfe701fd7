"""From sampled token ids to a verdict: the one path that profiling, training and evaluation share."""

from typing import TYPE_CHECKING

from pivotrl.trajectories.records import Turn
from pivotrl.trajectories.template import ChatTemplate
from pivotrl.verifiers.base import Verdict, Verifier, VerifierConfig, build_verifier

if TYPE_CHECKING:
    from pivotrl.rollout.parsing import ActionParser
    from pivotrl.rollout.records import Sample


class Scorer:
    """Decodes, parses and judges completions by the run's verifier, or by the one that a row names."""

    def __init__(self, config: VerifierConfig, parser: "ActionParser", template: ChatTemplate):
        self._config, self._parser, self._template = config, parser, template
        self._verifiers: dict[str, Verifier] = {config.name: build_verifier(config)}

    def check(self, turn: Turn) -> None:
        """Raise ValueError where the turn's row asks for a verifier or a parameter that there is not."""
        self._verifier(turn).verify(turn.expert, [], turn.verifier.get("params"))

    def verdict(self, turn: Turn, sample: "Sample") -> Verdict:
        """Judge one completion, whatever the model wrote.

        An action is a whole completion: one that the token limit cut off earns nothing. Without this, a policy learns
        to ramble in messages, whose content the verifiers of NeMo-Gym never look at.
        """
        if sample.finish == "length":
            return Verdict(0.0, "cut_off")
        items = self._parser.parse(self._template.decode(sample.token_ids), turn.tools)
        return self._verifier(turn).verify(turn.expert, items, turn.verifier.get("params"))

    def _verifier(self, turn: Turn) -> Verifier:
        name = turn.verifier.get("name", self._config.name)
        if not isinstance(name, str):
            raise ValueError(f"verifier.name: {name!r} is not a string; write tool_call or exact")
        if name not in self._verifiers:
            self._verifiers[name] = build_verifier(VerifierConfig(name=name))
        return self._verifiers[name]

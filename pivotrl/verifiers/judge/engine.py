"""The run's own co-located engine as the judge."""

from collections.abc import Callable
from typing import Any

from pivotrl.verifiers.judge.usage import Completion


def ask_with_engine(engine: Any, template: Any) -> Callable[[list[str], int], list[Completion]]:
    """A function for `JudgeVerifier.attach`: answers prompts greedily, as a user's messages, in order.

    Args:
        engine: `pivotrl.rollout.engine.Engine`. Only one of a single rank can judge.
        template: `pivotrl.trajectories.template.ChatTemplate` of the engine's model.

    What it gives raises ValueError where an engine has several ranks: each would judge other completions, and wait for
    the others.
    A prompt that does not fit into `rollout.max_model_len`, and an answer that is cut off, have no text.
    """

    def ask(prompts: list[str], max_tokens: int) -> list[Completion]:
        from pivotrl.rollout.records import Request

        if engine.config.tensor > 1:
            raise ValueError(
                f"rollout.tensor is {engine.config.tensor}: an engine of several ranks cannot be the judge; write 1, "
                "or the http://host:port/v1 of a server in verifier.params.endpoint"
            )
        encoded = [template.encode([{"role": "user", "content": prompt}], []) for prompt in prompts]
        longest = engine.config.max_model_len - max_tokens
        fitting = [index for index, ids in enumerate(encoded) if len(ids) <= longest]
        requests = [
            Request(encoded[index], n=1, seed=0, temperature=0.0, top_p=1.0, max_tokens=max_tokens) for index in fitting
        ]
        answers = [Completion(None, refused=True)] * len(prompts)
        for index, (sample,) in zip(fitting, engine.generate(requests) if requests else (), strict=True):
            text = None if sample.finish == "length" else template.decode(sample.token_ids)
            answers[index] = Completion(text, len(encoded[index]), len(sample.token_ids))
        return answers

    return ask

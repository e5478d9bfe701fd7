"""Routed experts from vLLM's engine core to the trainer's samples, through a core that answers as vLLM 0.32's does.

vLLM returns them on GPUs only; what its core gives is read from the installed source: with every step's tokens the rows
of the tokens run since the last one, from `routed_experts_prompt_start` on, and none of the last token sampled.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pivotrl.rollout import environment
from pivotrl.rollout.records import Request

LAYERS, TOP_K = 3, 2
PROMPT = [5, 6, 7, 8]


def rows(sample: int, start: int, end: int) -> np.ndarray:
    """Routes of the tokens at [start, end): those of the prompt's are every sample's."""
    owner = [sample if position >= len(PROMPT) else 0 for position in range(start, end)]
    values = [
        [[8 * own + position, layer] for layer in range(LAYERS)] for own, position in zip(owner, range(start, end))
    ]
    return np.array(values, np.uint8).reshape(end - start, LAYERS, TOP_K)


class Core:
    """Samples `lengths[i]` tokens for the i-th request, in steps of at most two."""

    def __init__(self, lengths: Sequence[int], returns_routes: bool = True):
        self.lengths, self.returns_routes = lengths, returns_routes
        self.requests: list[Any] = []
        self.done: list[int] = []
        self.aborted: list[str] = []

    def add_request(self, request: Any) -> None:
        self.requests.append(request)
        self.done.append(0)

    def get_output(self) -> Any:
        outputs = []
        for index, request in enumerate(self.requests):
            before = self.done[index]
            new = min(1 + (before > 0), self.lengths[index] - before)
            if not new:
                continue
            self.done[index] = before + new
            start = len(PROMPT) + before - 1 if before else request.sampling_params.routed_experts_prompt_start
            routed = rows(index, start, len(PROMPT) + before + new - 1)
            outputs.append(
                SimpleNamespace(
                    request_id=request.request_id,
                    new_token_ids=[100 + index] * new,
                    new_logprobs=SimpleNamespace(logprobs=np.full((new, 1), -1.0)),
                    finish_reason="stop" if self.done[index] == self.lengths[index] else None,
                    routed_experts=routed if self.returns_routes else None,
                )
            )
        return SimpleNamespace(outputs=outputs)

    def abort_requests(self, names: list[str]) -> None:
        self.aborted += names


@pytest.fixture(scope="module")
def generation():
    environment.prepare()
    from pivotrl.rollout import generation

    return generation


def engine(core: Core) -> Any:
    def process_inputs(name: str, prompt: dict, params: Any, tasks: object) -> Any:
        return SimpleNamespace(request_id=name, external_req_id=name, sampling_params=copy(params))

    return SimpleNamespace(
        engine_core=core,
        input_processor=SimpleNamespace(process_inputs=process_inputs),
        get_supported_tasks=lambda: None,
    )


def request(n: int, routes: bool, temperature: float = 1.0) -> Request:
    return Request(PROMPT, n, 0, temperature, 1.0, 8, routes)


def test_the_prompt_s_routes_come_once_and_the_last_token_has_none(generation) -> None:
    core = Core([4, 1, 5])
    (samples,) = generation.run(engine(core), [request(3, routes=True)])
    starts = [one.sampling_params.routed_experts_prompt_start for one in core.requests]
    assert starts == [0, len(PROMPT), len(PROMPT)], "the prompt's are asked of the first sample only"
    for index, (sample, length) in enumerate(zip(samples, [4, 1, 5], strict=True)):
        assert sample.routes.prompt is samples[0].routes.prompt
        assert (sample.routes.prompt == rows(0, 0, len(PROMPT))).all()
        assert (sample.routes.response == rows(index, len(PROMPT), len(PROMPT) + length - 1)).all()


def test_greedy_samples_share_their_routes(generation) -> None:
    (samples,) = generation.run(engine(Core([3])), [request(2, routes=True, temperature=0.0)])
    assert samples[0] is samples[1] and len(samples[0].routes.response) == 2


def test_routes_that_nobody_asked_for_are_dropped(generation) -> None:
    core = Core([2, 3])
    (samples,) = generation.run(engine(core), [request(2, routes=False)])
    assert [sample.routes for sample in samples] == [None, None]
    assert all(one.sampling_params.routed_experts_prompt_start == len(PROMPT) for one in core.requests)


def test_missing_routes_stop(generation) -> None:
    with pytest.raises(AssertionError, match="an engine that returns none"):
        generation.run(engine(Core([2], returns_routes=False)), [request(1, routes=True)])
    core = Core([2])
    core.get_output = lambda get=core.get_output: _without_the_first_row(get())
    with pytest.raises(AssertionError, match="rows of routes where"):
        generation.run(engine(core), [request(1, routes=True)])


def _without_the_first_row(output: Any) -> Any:
    for one in output.outputs:
        one.routed_experts = one.routed_experts[1:]
    return output


def test_every_rank_of_a_tensor_parallel_engine_keeps_routes() -> None:
    environment.prepare()
    from vllm.distributed.aux_output_connector import worker

    original = worker.get_tp_group
    with environment.routes_on_every_rank():
        assert worker.get_tp_group().is_first_rank
    assert worker.get_tp_group is original


def test_samples_drawn_in_rounds_have_the_seeds_of_one_request(generation) -> None:
    def seeds(*requests: Request) -> list[int]:
        core = Core([1] * 6)
        generation.run(engine(core), requests)
        return [one.sampling_params.seed for one in core.requests]

    whole = request(6, routes=False)
    rounds = [replace(whole, n=n, first=first) for n, first in [(2, 0), (3, 2), (1, 5)]]
    assert seeds(*rounds) == seeds(whole) and len(set(seeds(whole))) == 6

"""Requests through vLLM's engine core, with as little Python for each token as possible.

`LLM.generate` keeps a detokenizer, a log-prob processor and an output object for every sequence, and touches each for
every token. Here only what a `Sample` needs is kept. On a tiny model, where Python is most of the time, that pays for
what training asks for beyond plain sampling (a seed of its own for every sequence, and log-probs).
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any

import numpy as np

from pivotrl.policy.routes import Routes, of_group
from pivotrl.rollout.records import Request, Sample
from pivotrl.rollout.split import engine_seed

_serial = itertools.count()
Finished = Callable[[int, list[Sample]], None]
"""Hears the number of a request and its samples."""


class _Sequence:
    """One sample while it grows."""

    __slots__ = ("finish", "group", "logprobs", "routes", "token_ids")

    def __init__(self, group: int) -> None:
        self.group = group
        self.token_ids: list[int] = []
        self.logprobs: list[np.ndarray] = []
        self.routes: list[np.ndarray] = []
        self.finish = ""

    def sample(self, routes: Routes | None) -> Sample:
        logprobs = np.concatenate(self.logprobs)[:, 0].tolist()
        assert self.finish in ("stop", "length") and len(logprobs) == len(self.token_ids), self.finish
        return Sample(self.token_ids, logprobs, self.finish, routes)


def run(engine: Any, requests: Sequence[Request], finished: Finished | None = None) -> list[list[Sample]]:
    """Sample all requests and wait for the last.

    Args:
        engine: vLLM's `LLMEngine` with an in-process core.
        requests: prompts that fit the model's length with their `max_tokens`.
        finished: hears of each request when its last sample is done, while others go on. It holds up the engine, and
            must not touch it.

    Returns:
        The samples of each request, in order.
    """
    core = engine.engine_core
    groups: list[list[_Sequence]] = []
    growing: dict[str, _Sequence] = {}
    results: list[list[Sample]] = [[] for _ in requests]
    left: list[int] = []
    try:
        for number, request in enumerate(requests):
            group = []
            for core_request in _core_requests(engine, request):
                growing[core_request.request_id] = sequence = _Sequence(number)
                group.append(sequence)
                core.add_request(core_request)
            groups.append(group)
            left.append(len(group))
        while growing:
            for output in core.get_output().outputs:
                sequence = growing[output.request_id]
                sequence.token_ids += output.new_token_ids
                sequence.logprobs.append(output.new_logprobs.logprobs)
                if output.routed_experts is not None:
                    sequence.routes.append(output.routed_experts)
                if output.finish_reason is not None:
                    sequence.finish = str(output.finish_reason)
                    del growing[output.request_id]
                    number = sequence.group
                    left[number] -= 1
                    if not left[number]:
                        results[number] = _samples(requests[number], groups[number])
                        if finished is not None:
                            finished(number, results[number])
    finally:
        core.abort_requests(list(growing))
    return results


def _samples(request: Request, group: list[_Sequence]) -> list[Sample]:
    samples = _each(request, group)
    return samples * request.n if _is_greedy(request) else samples


def _each(request: Request, group: list[_Sequence]) -> list[Sample]:
    if not request.routes:
        return [sequence.sample(None) for sequence in group]
    prompt, rows = len(request.prompt_ids), []
    for index, sequence in enumerate(group):
        assert sequence.routes, "routes were asked of an engine that returns none"
        rows.append(np.concatenate(sequence.routes))
        expected = len(sequence.token_ids) - 1 + (0 if index else prompt)
        assert len(rows[-1]) == expected, f"{len(rows[-1])} rows of routes where {expected} tokens were run"
    return [sequence.sample(routes) for sequence, routes in zip(group, of_group(rows, prompt), strict=True)]


def sampling_params(request: Request) -> Any:
    """vLLM's parameters for a request: raw log-probs of the sampled tokens, no text."""
    from vllm import SamplingParams

    return SamplingParams(
        n=1 if _is_greedy(request) else request.n,
        seed=engine_seed(request.seed),
        temperature=request.temperature,
        top_p=request.top_p,
        max_tokens=request.max_tokens,
        logprobs=0,
        flat_logprobs=True,
        detokenize=False,
    )


def _is_greedy(request: Request) -> bool:
    """At temperature 0 all samples are the same one, and vLLM refuses n > 1."""
    return request.temperature == 0


def _core_requests(engine: Any, request: Request) -> Iterator[Any]:
    """One core request for each sample; sample i draws from the request's seed + `first` + i: with `first` 0, as in
    `LLM.generate`.

    Routes of the prompt are asked of the first sample only.
    """
    prompt = {"type": "token", "prompt_token_ids": request.prompt_ids}
    template = engine.input_processor.process_inputs(
        str(next(_serial)), prompt, sampling_params(request), engine.get_supported_tasks()
    )
    for index in range(template.sampling_params.n):
        one, params = copy(template), copy(template.sampling_params)
        params.n, params.seed = 1, template.sampling_params.seed + request.first + index
        params.routed_experts_prompt_start = 0 if request.routes and index == 0 else len(request.prompt_ids)
        one.sampling_params = params
        one.request_id = one.external_req_id = f"{template.request_id}_{index}"
        yield one

"""Requests over engines, and seeds: pure functions."""

import random
from dataclasses import replace
from itertools import pairwise

from pivotrl.rollout.records import Request
from pivotrl.rollout.split import engine_seed, split_requests


def request(prompt: list[int], n: int = 4, max_tokens: int = 8) -> Request:
    return Request(prompt, n, seed=0, temperature=1.0, top_p=1.0, max_tokens=max_tokens)


def test_every_request_goes_to_one_engine_and_work_is_balanced() -> None:
    rng = random.Random(0)
    requests = [request([rng.randrange(9) for _ in range(rng.randrange(10, 200))]) for _ in range(200)]
    shares = split_requests(requests, 4)
    assert sorted(index for share in shares for index in share) == list(range(200))
    work = [sum(len(requests[index].prompt_ids) + 32 for index in share) for share in shares]
    assert max(work) < 1.1 * sum(work) / 4, work


def parts(requests: list[Request], engines: int) -> tuple[list[float], list[float]]:
    """Each engine's part of all prompt tokens, and of all samples, where 1 is an even part."""
    shares = split_requests(requests, engines)
    sizes = [(sum(len(requests[i].prompt_ids) for i in share), sum(requests[i].n for i in share)) for share in shares]
    return tuple([engines * one / sum(kind) for one in kind] for kind in zip(*sizes, strict=True))


def test_prompts_count_however_much_may_be_sampled() -> None:
    """Histories of 100 to 20,000 tokens, the long ones side by side: 16 samples of at most 8,192 tokens each dwarf
    them, and are rarely taken."""
    rng = random.Random(1)
    requests = [
        request([trajectory] * (100 + 20 * trajectory * turn), 16, 8192)
        for trajectory in range(32)
        for turn in rng.sample(range(1, 33), 4)
    ]
    rng.shuffle(requests)
    prompts, samples = parts(requests, 4)
    assert max(prompts) < 1.4 and max(samples) < 2.0, (prompts, samples)
    assert all(a + b < 2.1 for a, b in zip(prompts, samples)), "an engine with fewer prompt tokens has more samples"
    more = [replace(one, max_tokens=4 * one.max_tokens) for one in requests]
    assert split_requests(more, 4) == split_requests(requests, 4), "how much may be sampled does not matter"


def test_the_split_follows_from_the_requests_alone() -> None:
    rng = random.Random(2)
    lengths = [rng.randrange(1, 90) for _ in range(99)]
    requests = [request([rng.randrange(5) for _ in range(length)], n=rng.randrange(1, 9)) for length in lengths]
    first = split_requests(requests, 5)
    split_requests(requests[:50], 3)
    assert split_requests(list(requests), 5) == first
    prompts, samples = parts(requests, 5)
    assert max(prompts + samples) < 1.25, (prompts, samples)


def test_turns_of_one_trajectory_stay_together_whatever_their_order() -> None:
    """Two trajectories of two turns each; each later turn's prompt begins with the earlier one's."""
    first, second = [1] * 50, [2] * 50
    requests = [request([*first, 3]), request([*second, 4]), request(first), request(second)]
    assert [sorted(share) for share in split_requests(requests, 2)] == [[0, 2], [1, 3]]


def test_fewer_requests_than_engines_leaves_some_empty() -> None:
    shares = split_requests([request([1])], 3)
    assert sorted(map(len, shares)) == [0, 0, 1]
    assert split_requests([], 2) == [[], []]


def test_neighbouring_seeds_do_not_overlap() -> None:
    """vLLM draws sample i of a request from seed + i, of which a CPU generator uses the low 32 bits."""
    starts = sorted(engine_seed(seed) % 2**32 for seed in range(1000))
    assert min(b - a for a, b in pairwise(starts)) > 16
    assert all(0 <= engine_seed(seed) < 2**63 for seed in (-1, 0, 2**64 - 1, 2**70))

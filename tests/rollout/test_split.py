"""Requests over engines, and seeds: pure functions."""

import random
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

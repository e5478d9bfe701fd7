"""Which engine takes which request. Pure: every rank computes the same answer from the same list."""

from collections.abc import Sequence

from pivotrl.rollout.records import Request

_MASK = (1 << 64) - 1


def split_requests(requests: Sequence[Request], engines: int) -> list[list[int]]:
    """Indices of the requests for each engine, about equally much work in each.

    Requests are laid out in the order of their prompts' tokens, which puts prompts with a common beginning (turns of
    one trajectory, turns with the same tools) side by side, and are cut into one stretch per engine: what they share is
    then computed once, by one engine's prefix cache. Work is counted in tokens, prompt plus what may be sampled.
    """
    order = sorted(range(len(requests)), key=lambda index: requests[index].prompt_ids)
    costs = [len(requests[index].prompt_ids) + requests[index].n * requests[index].max_tokens for index in order]
    total = sum(costs)
    shares: list[list[int]] = [[] for _ in range(engines)]
    before = 0
    for index, cost in zip(order, costs):
        middle = before + cost / 2
        shares[min(engines - 1, int(engines * middle / total)) if total else 0].append(index)
        before += cost
    return shares


def engine_seed(seed: int) -> int:
    """Spread a request's seed over 63 bits (SplitMix64's finaliser; Steele, Lea and Flood 2014, "Fast splittable
    pseudorandom number generators").

    vLLM seeds sample i of a request with seed + i, so requests with neighbouring seeds would share most of their noise.
    """
    state = (seed + 0x9E3779B97F4A7C15) & _MASK
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
    return (state ^ (state >> 31)) >> 1

"""Which engine takes which request. Pure: every rank computes the same answer from the same list."""

from collections.abc import Sequence

from pivotrl.rollout.records import Request

_MASK = (1 << 64) - 1


def split_requests(requests: Sequence[Request], engines: int) -> list[list[int]]:
    """Indices of the requests for each engine, about equally many prompt tokens and samples in each.

    Requests are laid out in the order of their prompts' tokens, which puts prompts with a common beginning (turns of
    one trajectory, turns with the same tools) side by side, and are cut into one stretch per engine: what they share is
    then computed once, by one engine's prefix cache.

    Half of the work is counted by a request's share of all prompt tokens, half by its share of all that may be sampled.
    How long responses will be is not known, and `max_tokens` is most often far above it: in a sum of the two, prompts
    would hardly count. This way neither kind of work is ever more than two engines' parts of it, whatever responses and
    prompts cost, and the answer follows from the requests alone, so a resumed run splits as before.
    """
    order = sorted(range(len(requests)), key=lambda index: requests[index].prompt_ids)
    prompts = [len(requests[index].prompt_ids) for index in order]
    sampled = [requests[index].n * requests[index].max_tokens for index in order]
    all_prompts, all_sampled = max(1, sum(prompts)), max(1, sum(sampled))
    costs = [prompt * all_sampled + most * all_prompts for prompt, most in zip(prompts, sampled, strict=True)]
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

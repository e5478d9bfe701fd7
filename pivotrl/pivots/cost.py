"""What a selection cost, over all its attempts: the key `cost` of its summary."""

from collections.abc import Sequence
from typing import Any

from pivotrl.pivots.progress_read import Attempt


def cost_of(attempts: Sequence[Attempt], samples: int, prompt_tokens: int, sampled_tokens: int) -> dict[str, Any]:
    """The cost as JSON values: `samples`, `prompt_tokens` (each turn's prompt once), `sampled_tokens`; `seconds` on the
    clock from the first to the last turn, without the start of the engines, of all attempts together;
    `engine_seconds` in which the engines worked; `gpu_hours`, ranks times seconds: on a CPU, the processes' hours.

    Args:
        attempts: of every engine and attempt.
    """
    seconds: dict[int, float] = {}
    ranks: dict[int, int] = {}
    for attempt in attempts:
        seconds[attempt.number] = max(seconds.get(attempt.number, 0.0), attempt.seconds)
        ranks[attempt.number] = attempt.ranks
    return {
        "samples": samples,
        "prompt_tokens": prompt_tokens,
        "sampled_tokens": sampled_tokens,
        "seconds": round(sum(seconds.values()), 3),
        "engine_seconds": round(sum(attempt.seconds for attempt in attempts), 3),
        "gpu_hours": round(sum(ranks[number] * seconds[number] for number in seconds) / 3600, 6),
    }

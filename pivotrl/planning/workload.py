"""What one step has to do: how many tokens, in which micro-batches, seen by whom."""

import functools
from dataclasses import dataclass
from pathlib import Path

from pivotrl.config import RunConfig
from pivotrl.pivots.store import PivotFile
from pivotrl.policy.architecture import Architecture
from pivotrl.policy.balance import assign
from pivotrl.policy.cost import Cost, trunk_tokens
from pivotrl.policy.packing import Sample

DEFAULT_PROMPT = 4500
"""Mean prompt of NVIDIA's public conversational tool-use pivots, as published with its recipe (99 % are below 8.7k)."""
DEFAULT_RESPONSE = 1000
"""Mean response assumed for a model that thinks first, before training makes it longer."""

MOST_PIVOTS = 500
"""Read, evenly over the file, for the mean length of a prompt."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """Mean lengths of a step's sequences, in tokens."""

    prompt: int = DEFAULT_PROMPT
    response: int = DEFAULT_RESPONSE


@dataclass(frozen=True, slots=True)
class Round:
    """The micro-batches that all data-parallel ranks work on at one time, as the costliest of them."""

    tokens: int
    """Tokens that go through the layers."""
    responses: int
    """Response tokens, which go through the head."""
    pairs: float
    """Pairs of a query and a key that it sees."""


@dataclass(frozen=True, slots=True)
class Work:
    """An update's micro-batches, as `policy.balance` lays them."""

    rounds: tuple[Round, ...]
    """One for each micro-batch of a data-parallel rank."""
    packing: str
    """What comes of `training.packing`: `prompt_once` becomes `plain` where it would save little."""
    gain: float
    """Tokens of the samples apart, for each token that goes through the layers."""


def lengths_of(config: RunConfig, prompt: int | None = None, response: int | None = None) -> Lengths:
    """Mean lengths as asked for, or the mean prompt of the run's own pivots where they are selected already.

    Args:
        config: with `rollout.max_model_len` set.
    """
    file = Path(config.output) / "pivots" / "pivots.jsonl"
    if prompt is None and file.is_file() and (pivots := PivotFile(file)):
        some = pivots[:: -(-len(pivots) // MOST_PIVOTS)]
        prompt = round(sum(len(pivot.prompt_ids) for pivot in some) / len(some))
    if prompt is None:  # a short context leaves a prompt what it leaves beside a response
        prompt = min(DEFAULT_PROMPT, config.rollout.max_model_len - config.rollout.max_new_tokens)
    if response is None:
        response = min(DEFAULT_RESPONSE, config.rollout.max_new_tokens)
    return Lengths(prompt, response)


def check_lengths(config: RunConfig, lengths: Lengths) -> None:
    """Stop where such sequences cannot be sampled.

    Raises:
        ValueError: a prompt and its response are longer than the engine's context, or one of them is empty.
    """
    rollout = config.rollout
    if min(lengths.prompt, lengths.response) < 1:
        raise ValueError(f"--prompt-tokens {lengths.prompt} --response-tokens {lengths.response}: give 1 or more")
    if lengths.response > rollout.max_new_tokens:
        raise ValueError(
            f"--response-tokens {lengths.response} is above rollout.max_new_tokens, {rollout.max_new_tokens}: "
            "lower the first, or raise the second"
        )
    if lengths.prompt + lengths.response > rollout.max_model_len:
        raise ValueError(
            f"--prompt-tokens {lengths.prompt} and --response-tokens {lengths.response} together are above "
            f"rollout.max_model_len, {rollout.max_model_len}: lower them, or raise it"
        )


def work_of(config: RunConfig, arch: Architecture, lengths: Lengths, data_ranks: int) -> Work:
    """The micro-batches of one update whose samples all have the mean lengths.

    Args:
        data_ranks: data-parallel size.
    """
    training, parallel = config.training, config.parallel
    runs_of = parallel.pipeline if parallel.virtual_pipeline > 1 else 1
    shape = (training.pivots_per_step, training.group_size, training.micro_batch_tokens, training.packing)
    return _work(arch, lengths, data_ranks, runs_of, *shape)


@functools.lru_cache(maxsize=256)
def _work(
    arch: Architecture, lengths: Lengths, ranks: int, runs_of: int, groups: int, size: int, budget: int, packing: str
) -> Work:
    response = range(lengths.response)
    prompts = [range(group, group + lengths.prompt) for group in range(groups)]  # no two alike
    samples = [Sample(prompt, response) for prompt in prompts for _ in range(size)]
    cost = Cost.of(arch)
    plan = assign(samples, budget, ranks, packing, cost, runs_of)
    rounds = []
    for batches in zip(*plan.ranks, strict=True):
        members = [len(piece) for piece in max(batches, key=lambda batch: sum(map(len, batch)) + len(batch) / size)]
        rounds.append(_round(members, lengths))
    return Work(tuple(rounds), plan.packing, plan.gain)


def _round(members: list[int], lengths: Lengths) -> Round:
    prompt, response = lengths.prompt, lengths.response
    inputs = response - 1  # a response's last token is the input of nothing
    own = inputs * prompt + inputs * response / 2
    return Round(
        tokens=sum(trunk_tokens(prompt, [response] * count) for count in members),
        responses=response * sum(members),
        pairs=sum(prompt * (prompt + 1) / 2 + count * own for count in members),
    )


def log_prob_passes(config: RunConfig) -> int:
    """Passes without a gradient before the first update: none that cannot matter is run.

    One for the old log-probs where a batch gets several updates, and one under the reference where objective.beta > 0.
    """
    return int(config.training.updates_per_batch > 1) + int(config.objective.beta > 0)

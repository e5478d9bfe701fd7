"""Profiling: K samples of the frozen policy at each candidate turn, judged, in chunks that a kill cannot undo.

A chunk's result is a pure function of the chunk: its turns, per-request seeds from the run's seed and the turn's id,
and a prefix cache that starts empty. It does not depend on how many engines there are, which of them took the chunk,
or where an earlier run was killed.
"""

import sys
import time
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any

from pivotrl.cluster.preemption import Stopped, never
from pivotrl.config import RunConfig
from pivotrl.pivots.candidates import Survey, candidates, chunks
from pivotrl.pivots.progress import ProgressLog
from pivotrl.pivots.score import Scorer
from pivotrl.pivots.select import make_profile, outcome
from pivotrl.rollout.records import Request
from pivotrl.telemetry.progress import Progress
from pivotrl.trajectories.faults import Place, RowFault
from pivotrl.trajectories.ids import stable_hash
from pivotrl.trajectories.records import Profile, Turn
from pivotrl.trajectories.template import ChatTemplate

if TYPE_CHECKING:
    from pivotrl.rollout.engine import Engine


def gather(engine: "Engine", value: Any) -> list[Any]:
    """Collective: every rank gets one value of each engine, in the engines' order."""
    if engine.world_size == 1:
        return [value]
    import torch.distributed as dist

    values: list[Any] = [None] * engine.world_size
    dist.all_gather_object(values, value, group=engine.object_group)
    return values[:: engine.world_size // engine.engines]


def profile(
    config: RunConfig,
    found: Survey,
    engine: "Engine",
    scorer: Scorer,
    template: ChatTemplate,
    log: ProgressLog,
    finished: int,
    asked: Callable[[], str] = never,
) -> None:
    """Profile every chunk after the first `finished` ones and append the results to `log` (collective; rank 0
    writes).

    Args:
        asked: why to stop, of this rank alone; "" to go on. Called once a round of chunks.

    Raises:
        Stopped: on every rank: one was asked to. What was profiled is in the log.
    """
    if config.pivots.profiling != "fixed":
        raise ValueError(f"pivots.profiling: {config.pivots.profiling} is not wired in yet; write fixed")
    size = config.pivots.chunk
    todo = chunks(islice(candidates(config, found), finished * size, None), size)
    number, profiled, mixed, tokens = finished, 0, 0, 0
    done = min(finished * size, found.count)
    if engine.rank == 0 and done < found.count:
        print(
            f"each turn is sampled {config.pivots.samples} times; mixed: the share of turns where some samples earn "
            "more than others, which can be pivots",
            file=sys.stderr,
            flush=True,
        )
    with Progress(found.count, "profiling", "turn", rank=engine.rank, done=done) as progress:
        while turns := list(islice(todo, engine.engines)):
            result = None
            if engine.engine_index < len(turns):
                chunk = turns[engine.engine_index]
                result = profile_chunk(config, number + engine.engine_index, chunk, engine, scorer, template)
            gathered = gather(engine, (result, asked()))
            results = [item for item, _ in gathered if item is not None]
            if engine.rank == 0:
                log.append(results)
            number += len(turns)
            for item in results:
                profiled += len(item["profiles"])
                mixed += sum(outcome(Profile.from_json(row)) == "mixed" for row in item["profiles"])
                tokens += item["sampled_tokens"]
            share = f"{mixed / profiled:.0%}" if profiled else "-"
            progress.advance(sum(map(len, turns)), mixed=share, tokens=f"{tokens:,}")
            reason = max(reason for _, reason in gathered)
            if reason and progress.done < found.count:
                raise Stopped(progress.done, found.count, "turns", reason)


def profile_chunk(
    config: RunConfig, number: int, turns: list[Turn], engine: "Engine", scorer: Scorer, template: ChatTemplate
) -> dict[str, Any]:
    """The profiles, rejections, tokens and seconds of one chunk, as JSON values."""
    start = time.perf_counter()
    sampling = {
        "n": config.pivots.samples,
        "temperature": config.pivots.temperature,
        "top_p": config.pivots.top_p,
        "max_tokens": config.rollout.max_new_tokens,
    }
    kept: list[Turn] = []
    requests: list[Request] = []
    rejected: list[dict[str, Any]] = []
    for turn in turns:
        try:
            prompt_ids = usable_prompt(config, turn, scorer, template)
        except RowFault as fault:
            rejected.append(fault.at(Place.parse(turn.source), turn.id).to_json())
            continue
        kept.append(turn)
        requests.append(
            Request(prompt_ids=prompt_ids, seed=stable_hash("profile", config.seed, turn.id) % 2**31, **sampling)
        )
    engine.reset_prefix_cache()
    profiles = []
    sampled_tokens = 0
    groups = engine.generate(requests) if requests else []
    for turn, samples, verdicts in zip(kept, groups, scorer.verdicts(kept, groups)):
        sampled_tokens += sum(len(sample.token_ids) for sample in samples)
        rewards, reasons = [item.reward for item in verdicts], [item.reason for item in verdicts]
        profiles.append(make_profile(turn.id, rewards, reasons, config.model.path, sampling).to_json())
    return {
        "chunk": number,
        "profiles": profiles,
        "rejected": rejected,
        "prompt_tokens": sum(len(request.prompt_ids) for request in requests),
        "sampled_tokens": sampled_tokens,
        "seconds": round(time.perf_counter() - start, 3),
    }


def usable_prompt(config: RunConfig, turn: Turn, scorer: Scorer, template: ChatTemplate) -> list[int]:
    """The turn's prompt ids. Raises RowFault where the turn cannot be sampled or judged."""
    try:
        scorer.check(turn)
    except ValueError as error:
        raise RowFault(
            "no_such_verifier", str(error), "name a verifier of this release in the row, or leave the row out"
        ) from None
    try:
        prompt_ids = template.encode(turn.messages, turn.tools)
    except ValueError as error:
        raise RowFault("template_refused", str(error), "change the messages, or set model.chat_template") from None
    room = config.rollout.max_model_len - config.rollout.max_new_tokens
    if len(prompt_ids) > room:
        raise RowFault(
            "prompt_too_long",
            f"{len(prompt_ids)} prompt tokens, and rollout.max_model_len leaves room for {room}",
            "raise rollout.max_model_len, lower rollout.max_new_tokens, or shorten the history",
        )
    return prompt_ids

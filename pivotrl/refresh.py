"""Fresh pivots in the training loop: the sampler of a run, and the re-profiling with the current policy."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pivotrl.judging import Judging
from pivotrl.pivots.fresh import FreshSampler
from pivotrl.pivots.pool import Pool, write_pool
from pivotrl.pivots.sampler import PivotSampler
from pivotrl.policy.agree import on_first
from pivotrl.rollout.records import Request
from pivotrl.telemetry.metrics import PhaseTimer
from pivotrl.trajectories.ids import stable_hash

if TYPE_CHECKING:
    from pivotrl.collect import Group
    from pivotrl.session import Session

Sampler = PivotSampler | FreshSampler


def sampler_of(session: "Session", static: PivotSampler) -> Sampler:
    """`static`, or with `fresh.enabled` a sampler that learns (collective; rank 0 writes `pool.jsonl`).

    Raises:
        ValueError: as `pivots.pool.write_pool`.
    """
    config = session.config
    if not config.fresh.enabled:
        return static
    folder = Path(config.output) / "pivots"
    on_first(session.world, lambda: write_pool(config, folder, session.scorer, session.template))
    pool = Pool(folder)
    return FreshSampler(pool, pool.pivots, config)


def carried(sampler: Sampler) -> FreshSampler | None:
    """What a checkpoint must hold of the sampler: nothing of one that is a pure function of the step."""
    return sampler if isinstance(sampler, FreshSampler) else None


def before_step(session: "Session", sampler: Sampler, step: int, timer: PhaseTimer) -> None:
    """Re-profile some turns with the engine's weights where that is due (collective).

    A turn's seed follows from the run's seed, the step and the turn's id. The prefix cache is left empty, as a refit
    leaves it.
    """
    if not isinstance(sampler, FreshSampler) or not sampler.due(step):
        return
    with timer.phase("reprofile"):
        rewards: dict[int, list[float]] = {index: [] for index in sampler.candidates(step)}
        wanted = {index: sampler.rule.more([]) for index in rewards}
        while wanted:
            for index, found in _round(session, sampler, step, wanted, rewards).items():
                rewards[index] += found
            wanted = {index: more for index in wanted if (more := sampler.rule.more(rewards[index]))}
        session.engine.reset_prefix_cache()
    sampler.profiled(step, rewards)


def _round(
    session: "Session", sampler: FreshSampler, step: int, wanted: dict[int, int], drawn: dict[int, list[float]]
) -> dict[int, list[float]]:
    """The rewards of `wanted` further samples at each turn, on every rank (collective)."""
    rollout = session.config.rollout
    pivots = [sampler.turn(index) for index in wanted]
    requests = [
        Request(
            prompt_ids=pivot.prompt_ids,
            n=more,
            seed=stable_hash("reprofile", session.config.seed, step, pivot.id) % 2**31,
            temperature=rollout.temperature,
            top_p=rollout.top_p,
            max_tokens=rollout.max_new_tokens,
            first=len(drawn[index]),
        )
        for pivot, (index, more) in zip(pivots, wanted.items(), strict=True)
    ]
    with Judging(session, [pivot.turn for pivot in pivots]) as judging:
        samples = session.engine.generate_all(requests, judging.hear)
    verdicts = judging.verdicts(samples)
    return {index: [one.reward for one in row] for index, row in zip(wanted, verdicts, strict=True)}


def after_step(sampler: Sampler, step: int, groups: "Sequence[Group]") -> dict[str, float]:
    """Let the sampler learn from the step's groups, all that were sampled; gives its metrics."""
    if not isinstance(sampler, FreshSampler):
        return {}
    sampler.observe(step, [group.rewards for group in groups])
    return sampler.metrics()

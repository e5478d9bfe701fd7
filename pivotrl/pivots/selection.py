"""The whole selection: survey, profile, select, write. One function, for the command and for the demo's driver."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pivotrl.cluster.preemption import never
from pivotrl.config import RunConfig
from pivotrl.pivots.candidates import Survey, candidates, read_rejections, survey
from pivotrl.pivots.lock import FolderLock
from pivotrl.pivots.profile import gather, profile
from pivotrl.pivots.progress import ProgressLog, header_of
from pivotrl.pivots.reasons import ReasonTally
from pivotrl.pivots.score import Scorer
from pivotrl.pivots.select import Tally, is_kept
from pivotrl.trajectories.records import Pivot, Profile
from pivotrl.trajectories.store import write_json, write_jsonl
from pivotrl.trajectories.template import ChatTemplate
from pivotrl.verifiers.judge.engine import ask_with_engine
from pivotrl.verifiers.registry import build_verifier

if TYPE_CHECKING:
    from pivotrl.rollout.engine import Engine
    from pivotrl.rollout.parsing import ActionParser


def select_pivots(
    config: RunConfig,
    engine: "Engine",
    parser: "ActionParser",
    template: ChatTemplate,
    out_dir: str | Path,
    asked: Callable[[], str] = never,
) -> dict[str, Any]:
    """Find the pivots of the run's trajectories with the engine's policy (collective).

    Writes into `out_dir`: `profile.jsonl`, `pivots.jsonl`, `rejected.jsonl` (equal bytes for equal inputs, however
    often the run was killed and started again), `summary.json` (which has the wall-clock seconds) and the working log
    `progress.jsonl`, from which a killed run continues. `selection.lock` keeps a second writer out.

    Args:
        asked: why to stop early, of this rank alone; "" to go on (`Preemption.asked_here`).

    Returns:
        The summary, on every rank.

    Raises:
        ValueError: a file cannot be used, too many rows are bad, no turn could be profiled, or `out_dir` cannot be
            written, holds a selection with other settings or a damaged one, or another process is writing there.
        Stopped: it was asked to stop; the next start continues.
    """
    out = Path(out_dir)
    scorer = Scorer(config.verifier, parser, template)
    scorer.attach(ask_with_engine(engine, template))
    log = ProgressLog(out)
    finished, problem = 0, ""
    with FolderLock(out) as lock:
        try:
            found = survey_files(config, out, lock if engine.rank == 0 else None)
            if engine.rank == 0:
                finished = log.open(header_of(config, template.hash), found.count)
        except ValueError as error:
            if engine.rank != 0:
                raise
            problem = str(error)
        finished, problem = gather(engine, (finished, problem))[0]
        if problem:
            raise ValueError(problem)
        profile(config, found, engine, scorer, template, log, finished, asked)
        summary = write_selection(config, found, template, log, out) if engine.rank == 0 else None
        if summary and not summary["candidates"]:
            problem = none_profiled(log, out)
            log.discard()  # it holds no samples, and its settings must change
        summary, problem = gather(engine, (summary, problem))[0]
        if problem:
            raise ValueError(problem)
        return summary


def survey_files(config: RunConfig, out: Path, lock: FolderLock | None) -> Survey:
    """Read everything once and stop on what needs no engine to be found wrong.

    Rank 0 gives the folder's `lock`, which is taken here; where no selection was started in the folder, the bad rows
    are written first, so that a user finds them after an error.

    Raises ValueError as `select_pivots` does.
    """
    build_verifier(config.verifier)
    found = survey(config)
    if lock:
        lock.take()
        if not ProgressLog(out).check(header_of(config)):
            write_jsonl(out / "rejected.jsonl", read_rejections(config))
    found.reader.check_bad_share(config.pivots.max_bad_share)
    if not found.count:
        raise ValueError(
            f"no turn is left to profile: {found.reader.turns} turns read, {found.heldout} of them held out "
            f"(trajectories.heldout_share {config.trajectories.heldout_share:g}), {found.reader.bad_rows} bad rows, "
            f"{sum(found.reader.filtered.values())} trajectories under min_reward; give more trajectories, or lower one"
        )
    return found


def write_selection(
    config: RunConfig, found: Survey, template: ChatTemplate, log: ProgressLog, out: Path
) -> dict[str, Any]:
    """Turn a finished log into the four files; each appears whole. Returns the summary."""
    tally, reasons = Tally(config.pivots.max_mean, config.pivots.keep), ReasonTally()
    write_jsonl(out / "pivots.jsonl", _pivot_rows(config, found, template, log, tally, reasons))
    write_jsonl(out / "profile.jsonl", (row for result in log.results() for row in result["profiles"]))
    write_jsonl(out / "rejected.jsonl", _rejected_rows(config, log))
    summary = _summary(config, found, template, log, tally, reasons)
    write_json(out / "summary.json", summary)
    return summary


def none_profiled(log: ProgressLog, out: Path) -> str:
    """One line on a finished log without a profile: the most frequent reason, one turn's case of it, the remedy."""
    counts = Counter(row["reason"] for result in log.results() for row in result["rejected"])
    ((reason, count),) = counts.most_common(1)
    case = next(row for result in log.results() for row in result["rejected"] if row["reason"] == reason)
    return (
        f"no turn could be profiled: {count} of {counts.total()} were rejected as {reason} (turn {case['id']}: "
        f"{case['found']}); {case['write']} ({out / 'rejected.jsonl'} has every turn's case)"
    )


def _pivot_rows(
    config: RunConfig, found: Survey, template: ChatTemplate, log: ProgressLog, tally: Tally, reasons: ReasonTally
) -> Iterator[dict[str, Any]]:
    """Walk profiles and candidates side by side (both are in file order), count every profile and yield the pivots."""
    turns = candidates(config, found)
    for result in log.results():
        for row in result["profiles"]:
            profiled = Profile.from_json(row)
            turn = next((turn for turn in turns if turn.id == profiled.id), None)
            if turn is None:
                raise log.fault(result["chunk"] + 2, f"turn {profiled.id!r} is not the files' next one")
            tally.add(turn, profiled)
            reasons.add(profiled.rewards, profiled.reasons)
            if is_kept(profiled, config.pivots.max_mean, config.pivots.keep):
                prompt_ids = template.encode(turn.messages, turn.tools)
                yield Pivot(turn, profiled, prompt_ids, template.hash).to_json()


def _rejected_rows(config: RunConfig, log: ProgressLog) -> Iterator[dict[str, Any]]:
    yield from read_rejections(config)
    for result in log.results():
        yield from result["rejected"]


def _summary(
    config: RunConfig, found: Survey, template: ChatTemplate, log: ProgressLog, tally: Tally, reasons: ReasonTally
) -> dict[str, Any]:
    reader = found.reader
    rejected = Counter(reader.rejected)
    spent: Counter[str] = Counter()
    for result in log.results():
        rejected.update(row["reason"] for row in result["rejected"])
        for key in ("prompt_tokens", "sampled_tokens", "seconds"):
            spent[key] += result[key]
    return {
        **tally.report(),
        "reasons": {name: reason._asdict() for name, reason in reasons.report().items()},
        "rejected": dict(sorted(rejected.items())),
        "filtered": dict(sorted(reader.filtered.items())),
        "rows": reader.rows,
        "bad_rows": reader.bad_rows,
        "trajectories": reader.trajectories,
        "turns": reader.turns,
        "heldout_turns": found.heldout,
        "turns_left_out_by_limit": found.left_out,
        "prompt_tokens": spent["prompt_tokens"],
        "sampled_tokens": spent["sampled_tokens"],
        "engine_seconds": round(spent["seconds"], 3),
        "files": list(config.trajectories.files),
        "policy": config.model.path,
        "template_hash": template.hash,
        "samples": config.pivots.samples,
        "profiling": config.pivots.profiling,
        "keep": config.pivots.keep,
        "temperature": config.pivots.temperature,
        "top_p": config.pivots.top_p,
        "max_mean": config.pivots.max_mean,
        "verifier": config.verifier.model_dump(),
        "seed": config.seed,
    }

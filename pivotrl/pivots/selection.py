"""The whole selection: survey, profile, select, write. One function, for the command and for the demo's driver."""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pivotrl.cluster.preemption import never
from pivotrl.config import RunConfig
from pivotrl.pivots.candidates import Survey, candidates, read_rejections, survey
from pivotrl.pivots.cost import cost_of
from pivotrl.pivots.lock import FolderLock
from pivotrl.pivots.profile import profile
from pivotrl.pivots.progress import ProgressLog, header_of
from pivotrl.pivots.progress_read import Results
from pivotrl.pivots.reasons import ReasonTally
from pivotrl.pivots.score import Scorer
from pivotrl.pivots.select import Tally, is_kept
from pivotrl.pivots.shared import everyone
from pivotrl.trajectories.records import Pivot, Profile, Turn
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
    often the run was killed and started again, and with however many ranks), `summary.json` (which has what it cost,
    with seconds) and the working log `progress/`, from which a killed run continues. `selection.lock` keeps a second
    writer out.

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
    start, problem = (b"", 0), ""
    with FolderLock(out) as lock:
        try:
            found = survey_files(config, out, lock if engine.rank == 0 else None)
            if engine.rank == 0:
                start = log.open(header_of(config, template.hash), found.count)
        except ValueError as error:
            if engine.rank != 0:
                raise
            problem = str(error)
        (done, attempt), problem = everyone(engine, (start, problem))[0]
        if problem:
            raise ValueError(problem)
        profile(config, found, engine, scorer, template, log, done, attempt, asked)
        summary = write_selection(config, found, template, log, out) if engine.rank == 0 else None
        if summary and not summary["candidates"]:
            problem = none_profiled(log.results(found.count), out)
            log.discard()  # it holds no samples, and its settings must change
        summary, problem = everyone(engine, (summary, problem))[0]
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
            write_jsonl(out / "rejected.jsonl", read_rejections(config, found))
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
    totals, results = _Totals(config), log.results(found.count)
    write_jsonl(out / "pivots.jsonl", _pivot_rows(config, found, template, log, results, totals))
    write_jsonl(out / "profile.jsonl", results.profiles())
    write_jsonl(out / "rejected.jsonl", chain(read_rejections(config, found), results.rejected()))
    summary = _summary(config, found, template, results, totals)
    write_json(out / "summary.json", summary)
    return summary


def none_profiled(results: Results, out: Path) -> str:
    """One line on a finished log without a profile: the most frequent reason, one turn's case of it, the remedy."""
    counts = Counter(row["reason"] for row in results.rejected())
    ((reason, count),) = counts.most_common(1)
    case = next(row for row in results.rejected() if row["reason"] == reason)
    return (
        f"no turn could be profiled: {count} of {counts.total()} were rejected as {reason} (turn {case['id']}: "
        f"{case['found']}); {case['write']} ({out / 'rejected.jsonl'} has every turn's case)"
    )


class _Totals:
    """Counts over all profiled turns."""

    def __init__(self, config: RunConfig):
        self.tally, self.reasons = Tally(config.pivots.max_mean, config.pivots.keep), ReasonTally()
        self.prompt_tokens = self.sampled_tokens = 0

    def add(self, turn: Turn, profiled: Profile, row: dict[str, Any]) -> None:
        self.tally.add(turn, profiled)
        self.reasons.add(profiled.rewards, profiled.reasons)
        self.prompt_tokens += row["prompt_tokens"]
        self.sampled_tokens += row["sampled_tokens"]


def _pivot_rows(
    config: RunConfig, found: Survey, template: ChatTemplate, log: ProgressLog, results: Results, totals: _Totals
) -> Iterator[dict[str, Any]]:
    """Walk the candidates and their results side by side, count every profile and what it cost, and yield what is
    kept."""
    for place, (turn, row) in enumerate(zip(candidates(config, found), results, strict=True)):
        result = row.get("profile") or row["rejected"]
        if result["id"] != turn.id:
            found_id = f"turn {place} is {result['id']!r}, and in the files it is {turn.id!r}"
            raise log.fault(results.where(place), found_id)
        if "rejected" in row:
            continue
        profiled = Profile.from_json(result)
        totals.add(turn, profiled, row)
        if is_kept(profiled, config.pivots.max_mean, config.pivots.keep):
            prompt_ids = template.encode(turn.messages, turn.tools)
            yield Pivot(turn, profiled, prompt_ids, template.hash).to_json()


def _summary(
    config: RunConfig, found: Survey, template: ChatTemplate, results: Results, totals: _Totals
) -> dict[str, Any]:
    reader = found.reader
    rejected = Counter(reader.rejected)
    rejected.update(row["reason"] for row in results.rejected())
    cost = cost_of(results.attempts, totals.reasons.samples, totals.prompt_tokens, totals.sampled_tokens)
    return {
        **totals.tally.report(),
        "reasons": {name: reason._asdict() for name, reason in totals.reasons.report().items()},
        "rejected": dict(sorted(rejected.items())),
        "filtered": dict(sorted(reader.filtered.items())),
        "rows": reader.rows,
        "bad_rows": reader.bad_rows,
        "trajectories": reader.trajectories,
        "turns": reader.turns,
        "heldout_turns": found.heldout,
        "turns_left_out_by_limit": found.left_out,
        "cost": cost,
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

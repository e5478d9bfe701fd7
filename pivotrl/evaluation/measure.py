"""One policy, measured: whatever weights are in the session, on the run's held-out turns, live tasks and questions."""

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pivotrl.evaluation.config import EvaluationConfig
from pivotrl.evaluation.heldout import Heldout, read_heldout
from pivotrl.evaluation.parts import measure_families, measure_tasks, measure_turns
from pivotrl.evaluation.questions import Question, read_questions
from pivotrl.evaluation.store import PartStore, digest, file_digest
from pivotrl.pivots.select import is_pivot, make_profile
from pivotrl.policy.agree import on_first

if TYPE_CHECKING:
    from pivotrl.config import RunConfig
    from pivotrl.session import Session

FOLDER = "evaluation"
"""In the run's folder: parts, comparison and page."""


def evaluate(
    session: "Session", parts: EvaluationConfig, name: str, pivots: Sequence[str] | None = None
) -> dict[str, Any]:
    """Measure the policy whose weights are in the session's engine (collective).

    What is already on disk for these weights and settings is read; a killed evaluation goes on where it was.

    Args:
        parts: what to measure.
        name: how the policy is called in tables.
        pivots: from `heldout_pivots`; unset, there is no figure on held-out pivots.

    Returns:
        Plain JSON values, on every rank: `name`, `weights` (their fingerprint), `seconds`, `settings`, `pivots`, and
        for each part that was measured its results by decoding, an object an item:
        `turns: {"sampled": [{"id", "trajectory", "group", "rewards", "reasons"}], "greedy": ...}`,
        `tasks: {...: [{"id", "reward", "turns", "ended", "facts"}]}` and
        `families: {...: [{"id", "family", "right", "answer"}]}`.

    Raises:
        ValueError: nothing is to be measured, nothing is held out, a file cannot be read, or a stored part is damaged.
    """
    config, started = session.config.model_copy(update={"evaluation": parts}), time.perf_counter()
    store, weights = PartStore(Path(config.output) / FOLDER / "parts", session.world), _weights(session)
    result: dict[str, Any] = {"name": name, "weights": weights, "settings": parts.model_dump(mode="json")}
    result["pivots"] = None if pivots is None else sorted(pivots)
    for part in parts_of(parts):
        result[part] = {}
        for decoding in ("sampled", "greedy"):
            if part in getattr(parts, decoding):
                items, decided_by, measure = _plan(session, config, part, decoding)
                decided_by |= {"weights": weights, "decoding": decoding}
                result[part][decoding] = store.measured(f"{part}_{decoding}", decided_by, items, measure)
    return result | {"seconds": round(time.perf_counter() - started, 3)}


def heldout_pivots(session: "Session", parts: EvaluationConfig) -> list[str]:
    """Ids of the held-out turns that are pivots of the policy in the session: mixed, with a mean below lambda
    (collective). Call it with the base's weights in the session; every policy is then compared on the same turns.

    They are chosen by `pivots.samples` samples of their own. Were the base's score made of the same ones, it would be
    too low by the bad luck that a pivot was chosen for, and every other policy would seem to gain.

    Raises:
        ValueError: as `evaluate`.
    """
    config = session.config.model_copy(update={"evaluation": parts})
    heldout, decided_by = _heldout(session, config)
    pivots = config.pivots
    decoding = {"samples": pivots.samples, "temperature": pivots.temperature, "top_p": pivots.top_p}
    measure = partial(measure_turns, session, **decoding, seed=_profile_seed(parts.seed))
    decided_by |= {"weights": _weights(session), **decoding, "seed": parts.seed}
    store = PartStore(Path(config.output) / FOLDER / "parts", session.world)
    items = list(zip(heldout.turns, heldout.prompts, heldout.groups, strict=True))
    found = store.measured("profile", decided_by, items, measure)
    profiles = [make_profile(one["id"], one["rewards"], one["reasons"], "base", {}) for one in found]
    return [profile.id for profile in profiles if is_pivot(profile, pivots.max_mean)]


def parts_of(parts: EvaluationConfig) -> list[str]:
    """The parts that are measured in some way.

    Raises:
        ValueError: none is.
    """
    wanted = {*parts.sampled, *parts.greedy}
    there = {"turns": True, "tasks": parts.environment is not None, "families": parts.families is not None}
    found = [part for part, given in there.items() if given and part in wanted]
    if not found:
        raise ValueError(
            "evaluation: nothing is to be measured; put turns into evaluation.sampled or evaluation.greedy, or set "
            "evaluation.environment or evaluation.families"
        )
    return found


def check(config: "RunConfig") -> None:
    """Stop on what can be known to be wrong before a session is opened.

    Raises:
        ValueError: as `evaluate`.
    """
    from pivotrl.environment import build_environment
    from pivotrl.evaluation.heldout import heldout_ids

    parts = config.evaluation
    for part in parts_of(parts):
        if part == "turns":
            heldout_ids(config)
        elif part == "tasks":
            build_environment(parts.environment, parts.stream)
        else:
            read_questions(parts.families)


def _plan(session: "Session", config: "RunConfig", part: str, decoding: str) -> tuple[Any, dict[str, Any], Any]:
    """The items of a part, what decides their results, and what measures a chunk of them."""
    parts = config.evaluation
    temperature, samples = (0.0, 1) if decoding == "greedy" else (parts.temperature, parts.samples)
    how: dict[str, Any] = {"temperature": temperature, "seed": parts.seed}
    if part == "tasks":
        how |= {"name": parts.environment, "stream": parts.stream}
        limits = {"rollout": _rollout(config), "max_turns": config.environment.max_turns}
        template = {"template": session.template.hash}
        return range(parts.tasks), how | limits | template, partial(measure_tasks, session, **how)
    how |= {"samples": samples}
    if part == "families":
        questions: list[Question] = read_questions(parts.families)
        how |= {"max_tokens": parts.answer_tokens}
        files = {"file": file_digest(parts.families), "template": session.template.hash}
        return questions, how | files | {"rollout": _rollout(config)}, partial(measure_families, session, **how)
    heldout, decided_by = _heldout(session, config)
    how |= {"top_p": 1.0}
    items = list(zip(heldout.turns, heldout.prompts, heldout.groups, strict=True))
    return items, how | decided_by, partial(measure_turns, session, **how)


def _heldout(session: "Session", config: "RunConfig") -> tuple[Heldout, dict[str, Any]]:
    """The held-out turns, and what decides them and their verdicts."""
    heldout = read_heldout(config, session.scorer, session.template)
    section = config.trajectories.model_dump(mode="json")
    files = [*config.trajectories.files, *filter(None, [config.trajectories.tools])]
    return heldout, {
        "trajectories": section | {"content": [file_digest(path) for path in files]},
        "at_most": config.evaluation.trajectories,
        "split_seed": config.seed,
        "verifier": config.verifier.model_dump(mode="json"),
        "rollout": _rollout(config),
        "template": session.template.hash,
        "left_out": heldout.left_out,
        "groups": digest(heldout.groups),
    }


def _rollout(config: "RunConfig") -> dict[str, Any]:
    keys = ("tensor", "max_model_len", "max_new_tokens", "max_num_seqs", "tool_parser", "reasoning_parser")
    return {key: getattr(config.rollout, key) for key in keys} | {"dtype": config.model.dtype}


def _weights(session: "Session") -> str:
    """The fingerprint of the engine's weights, which all ranks share since the last refit."""
    engine, world = session.engine, session.world
    assert engine.weights, "refit before an evaluation"
    return on_first(world, lambda: engine.weights) if world.world_size > 1 else engine.weights


def _profile_seed(seed: int) -> int:
    """Of the profiling samples, apart from every seed of `evaluate`."""
    return -1 - seed

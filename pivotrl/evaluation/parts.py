"""The three measurements of the policy that is in a session. Each is collective and gives one JSON object an item."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pivotrl.environment import build_environment
from pivotrl.episodes import Play, play
from pivotrl.evaluation.questions import Question
from pivotrl.policy.agree import together
from pivotrl.rollout.records import Request
from pivotrl.trajectories.ids import stable_hash
from pivotrl.trajectories.records import Turn

if TYPE_CHECKING:
    from pivotrl.session import Session


def request_seed(seed: int, name: str) -> int:
    """A request's own seed, the same on every machine (31 bits)."""
    return stable_hash("evaluate", seed, name) % 2**31


def measure_turns(
    session: "Session",
    chunk: Sequence[tuple[Turn, list[int], str]],
    samples: int,
    temperature: float,
    top_p: float,
    seed: int,
) -> list[dict[str, Any]]:
    """Sample every turn from the expert's history and judge as training does.

    Returns:
        `{"id", "trajectory", "group", "rewards", "reasons"}` of each (turn, prompt, group).
    """
    turns = [turn for turn, _, _ in chunk]
    requests = [
        Request(
            prompt_ids=prompt,
            n=samples,
            seed=request_seed(seed, turn.id),
            temperature=temperature,
            top_p=top_p,
            max_tokens=session.config.rollout.max_new_tokens,
        )
        for turn, prompt, _ in chunk
    ]
    session.engine.reset_prefix_cache()
    groups = session.engine.generate_all(requests)
    mine = range(session.world.rank, len(turns), session.world.world_size)

    def judge() -> list[tuple[list[float], list[str]]]:
        verdicts = session.scorer.verdicts([turns[index] for index in mine], [groups[index] for index in mine])
        return [([one.reward for one in row], [one.reason for one in row]) for row in verdicts]

    everyone = together(session.world.object_group, judge) if session.world.world_size > 1 else [judge()]
    found = [everyone[index % len(everyone)][index // len(everyone)] for index in range(len(turns))]
    return [
        {"id": turn.id, "trajectory": turn.trajectory_id, "group": group, "rewards": rewards, "reasons": reasons}
        for (turn, _, group), (rewards, reasons) in zip(chunk, found, strict=True)
    ]


def measure_tasks(
    session: "Session", tasks: Sequence[int], name: str, stream: str, temperature: float, seed: int
) -> list[dict[str, Any]]:
    """Let the policy act in the live world, one dialog a task; the next turns of all open dialogs are sampled at once.

    Returns:
        `{"id", "reward", "turns", "ended"}` of each task, with the numbers that the environment's `facts` gives, if it
        has that method.

    Raises:
        ValueError: there is no such environment, or it raised something or gave nonsense; on every rank.
    """
    config, world = session.config, session.world
    worlds = [build_environment(name, stream) for _ in tasks]
    how = Play(
        temperature=temperature,
        top_p=1.0,
        max_new_tokens=config.rollout.max_new_tokens,
        context=config.rollout.max_model_len,
        max_turns=config.environment.max_turns,
    )

    def seed_of(dialog: int, turn: int) -> int:
        return request_seed(seed, f"{name}-{stream}-{tasks[dialog]}/{turn}")

    session.engine.reset_prefix_cache()
    together_with = world if world.world_size > 1 else None
    episodes = play(session.engine, session.parser, session.template, worlds, tasks, seed_of, how, together_with)

    def facts() -> dict[int, dict[str, float]]:
        mine = range(world.rank, len(tasks), world.world_size)
        return {index: _facts(worlds[index], tasks[index]) for index in mine if hasattr(worlds[index], "facts")}

    parts = together(world.object_group, facts) if world.world_size > 1 else [facts()]
    told = {index: found for part in parts for index, found in part.items()}
    for index, found in told.items():
        if found.keys() != told[0].keys():
            raise ValueError(
                f"environment: facts() of task {tasks[index]} names {sorted(found)}, and of task {tasks[0]} "
                f"{sorted(told[0])}; name the same ones in every task"
            )
    return [
        {
            "id": f"{stream}/{episode.task}",
            "reward": episode.reward,
            "turns": len(episode.turns),
            "ended": episode.ended,
            "facts": told.get(index, {}),
        }
        for index, episode in enumerate(episodes)
    ]


def _facts(environment: Any, task: int) -> dict[str, float]:
    """What the user's `facts` says of its dialog. Raises ValueError where it raises, or says no numbers."""
    try:
        found = {str(name): float(value) for name, value in environment.facts().items()}
    except Exception as error:
        raise ValueError(
            f"environment: facts() of task {task} raised {type(error).__name__}: {error}; return numbers by name there"
        ) from error
    if not all(map(math.isfinite, found.values())):
        raise ValueError(f"environment: facts() of task {task} gave {found}; return finite numbers there")
    return found


def measure_families(
    session: "Session", questions: Sequence[Question], samples: int, temperature: float, max_tokens: int, seed: int
) -> list[dict[str, Any]]:
    """Ask each question; an answer is right where its text, without the thinking and surrounding blanks, is the file's.

    Returns:
        `{"id", "family", "right", "answer"}` of each: 1 or 0 for every sample, and what the first one said.
    """
    template = session.template
    requests = [
        Request(
            prompt_ids=template.encode(question.messages, []),
            n=samples,
            seed=request_seed(seed, question.id),
            temperature=temperature,
            top_p=1.0,
            max_tokens=max_tokens,
        )
        for question in questions
    ]
    session.engine.reset_prefix_cache()
    results = []
    for question, group in zip(questions, session.engine.generate_all(requests), strict=True):
        said = [_spoken(session.parser.parse(template.decode(sample.token_ids), [])) for sample in group]
        right = [int(answer == question.answer.strip()) for answer in said]
        results.append({"id": question.id, "family": question.family, "right": right, "answer": said[0][:200]})
    return results


def _spoken(items: list[dict[str, Any]]) -> str:
    return "\n".join(item["content"] for item in items if item["type"] == "message").strip()

"""What a policy can do: turn reward on held-out turns, whole tasks in the live desk, answers of the other families.

Each function makes few, large calls of `engine.generate_all`, which is collective: under torchrun every rank calls it
with the same arguments and gets the same report.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Protocol

from pivotrl.demo.expert import success
from pivotrl.demo.families import FAMILIES, questions
from pivotrl.demo.tasks import Task
from pivotrl.demo.world import Desk
from pivotrl.pivots.score import Scorer
from pivotrl.rollout.records import Request, Sample
from pivotrl.trajectories.ids import stable_hash
from pivotrl.trajectories.records import Turn
from pivotrl.trajectories.template import ChatTemplate

TURN_TOKENS = 48
"""Longest desk turn sampled; the expert's longest has 20 tokens."""
ANSWER_TOKENS = 16
"""Longest answer sampled in a family; the longest right one has 9 tokens and an end token."""


class Generates(Protocol):
    """What is needed of `pivotrl.rollout.engine.Engine`."""

    def generate_all(self, requests: list[Request]) -> list[list[Sample]]:
        """Samples of every request, in order."""


class Parses(Protocol):
    """What is needed of `pivotrl.rollout.parsing.ActionParser`."""

    def parse(self, text: str, tools: list[dict]) -> list[dict]:
        """Generated text -> Responses-API items."""


@dataclass(frozen=True)
class TurnReport:
    """`reward`: mean over turns and samples; `mixed`: share of turns whose samples differ in reward."""

    reward: float
    mixed: float
    turns: int


@dataclass(frozen=True)
class TaskReport:
    """`success`: share of tasks solved end to end; `turns`: mean assistant turns; `solved`: one bool a task;
    `violations`: share of dialogs that broke a rule; `unfinished`: share that ran out of turns or of context."""

    success: float
    turns: float
    solved: list[bool]
    violations: float
    unfinished: float


def turn_reward(
    engine: Generates,
    scorer: Scorer,
    template: ChatTemplate,
    turns: Sequence[Turn],
    samples: int = 8,
    temperature: float = 1.0,
    seed: int = 0,
) -> TurnReport:
    """Sample every turn `samples` times from the expert's history, and judge as training does. Rewards in [0, 1]."""
    if not turns:
        raise ValueError("there is no held-out turn to measure: raise the number of held-out tasks")
    requests = [
        Request(
            prompt_ids=template.encode(turn.messages, turn.tools),
            n=samples,
            seed=_seed(seed, turn.id),
            temperature=temperature,
            top_p=1.0,
            max_tokens=TURN_TOKENS,
        )
        for turn in turns
    ]
    means, mixed = [], 0
    for verdicts in scorer.verdicts(turns, engine.generate_all(requests)):
        rewards = [verdict.reward for verdict in verdicts]
        means.append(sum(rewards) / len(rewards))
        mixed += min(rewards) < max(rewards)
    return TurnReport(sum(means) / len(means), mixed / len(means), len(means))


def task_success(
    engine: Generates,
    parser: Parses,
    template: ChatTemplate,
    tasks: Sequence[Task],
    temperature: float = 1.0,
    seed: int = 0,
    context: int = 512,
) -> TaskReport:
    """Let the policy talk to the live desk, one dialog a task; the next turns of all open dialogs are sampled in one
    call. A dialog that outgrows `context` (the engine's, in tokens) ends there, unsolved."""
    if not tasks:
        raise ValueError("there is no task to play: raise the number of live tasks")
    desks = [Desk(task) for task in tasks]
    while playing := [desk for desk in desks if not desk.done]:
        prompts = [template.encode(desk.messages, desk.tools) for desk in playing]
        fits = [len(prompt) + TURN_TOKENS <= context for prompt in prompts]
        for desk in compress(playing, [not fit for fit in fits]):
            desk.hang_up()
        playing, prompts = list(compress(playing, fits)), list(compress(prompts, fits))
        requests = [
            Request(
                prompt_ids=prompt,
                n=1,
                seed=_seed(seed, f"{desk.task.id}/{desk.turns}"),
                temperature=temperature,
                top_p=1.0,
                max_tokens=TURN_TOKENS,
            )
            for desk, prompt in zip(playing, prompts, strict=True)
        ]
        for desk, group in zip(playing, engine.generate_all(requests), strict=True):
            desk.step(parser.parse(template.decode(group[0].token_ids), desk.tools))
    solved = [success(desk) for desk in desks]
    return TaskReport(
        success=sum(solved) / len(desks),
        turns=sum(desk.turns for desk in desks) / len(desks),
        solved=solved,
        violations=sum(bool(desk.outcome.violations) for desk in desks) / len(desks),
        unfinished=sum(not desk.satisfied for desk in desks) / len(desks),
    )


def family_accuracy(
    engine: Generates, template: ChatTemplate, count: int = 100, seed: int | str = "heldout"
) -> dict[str, float]:
    """Share of `count` questions a family whose greedy answer is exactly right, and "mean" over the families."""
    asked = [(family, *pair) for family in FAMILIES for pair in questions(family, count, seed)]
    requests = [
        Request(
            prompt_ids=template.encode([{"role": "user", "content": question}], []),
            n=1,
            seed=0,
            temperature=0.0,
            top_p=1.0,
            max_tokens=ANSWER_TOKENS,
        )
        for _, question, _ in asked
    ]
    right = dict.fromkeys(FAMILIES, 0)
    for (family, _, answer), group in zip(asked, engine.generate_all(requests), strict=True):
        right[family] += template.decode(group[0].token_ids) == answer
    report = {family: right[family] / count for family in FAMILIES}
    return report | {"mean": sum(report.values()) / len(report)}


def _seed(seed: int, name: str) -> int:
    """A request's own seed, the same on every machine (31 bits)."""
    return stable_hash("evaluate", seed, name) % 2**31

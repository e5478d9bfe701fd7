"""Many dialogs in a live world at once: the next turns of all open ones are sampled in one call of the engines."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, Protocol

from pivotrl.environment import Environment, Observation, fault_of
from pivotrl.policy.agree import together
from pivotrl.rollout.records import Request, Sample

if TYPE_CHECKING:
    from pivotrl.config import RunConfig
    from pivotrl.trajectories.template import ChatTemplate

Ended = Literal["done", "turns", "context"]
Next = list[int] | tuple[float, Ended]
"""The next turn's prompt; or the episode's reward, and how it ended."""


class Generates(Protocol):
    """What is needed of `pivotrl.rollout.engine.Engine`."""

    def generate_all(self, requests: Sequence[Request]) -> list[list[Sample]]:
        """Samples of every request, in order, on every rank."""


class Parses(Protocol):
    """What is needed of `pivotrl.rollout.parsing.ActionParser`."""

    def parse(self, text: str, tools: list[dict]) -> list[dict]:
        """Generated text -> Responses-API items."""


@dataclass(frozen=True, slots=True)
class Play:
    """How turns are sampled, and where an episode is abandoned."""

    temperature: float
    """0 is greedy."""
    top_p: float
    max_new_tokens: int
    """Sampled tokens of one turn, at most."""
    context: int
    """Longest prompt with `max_new_tokens` behind it, in tokens."""
    max_turns: int
    routes: bool = False
    """Whether the samples bring their tokens' experts, see `Request`."""

    @classmethod
    def of(cls, config: "RunConfig") -> "Play":
        """As a run's sections `rollout` and `environment` have it."""
        rollout, world = config.rollout, config.environment
        return cls(
            temperature=rollout.temperature,
            top_p=rollout.top_p,
            max_new_tokens=rollout.max_new_tokens,
            context=min(rollout.max_model_len, world.max_episode_tokens or rollout.max_model_len),
            max_turns=world.max_turns,
            routes=config.training.router_replay == "engine",
        )


@dataclass(frozen=True, slots=True)
class EpisodeTurn:
    """One action of the policy, behind the prompt that it was sampled from."""

    prompt_ids: list[int]
    sample: Sample


@dataclass(frozen=True, slots=True)
class Episode:
    """One dialog from its first turn to its end."""

    task: int
    turns: list[EpisodeTurn]
    reward: float
    ended: Ended
    """`done`: by the environment. `turns`, `context`: abandoned, because it ran out of them."""

    @property
    def abandoned(self) -> bool:
        return self.ended != "done"


def play(
    engine: Generates,
    parser: Parses,
    template: "ChatTemplate",
    environments: Sequence[Environment],
    tasks: Sequence[int],
    seed_of: Callable[[int, int], int],
    how: Play,
    world: Any = None,
) -> list[Episode]:
    """One episode of each task, on every rank (collective).

    Args:
        environments: one for each task; a rank touches those of its own dialogs only.
        tasks: their numbers; one may come several times.
        seed_of: (index of the dialog, number of the turn, from 0) -> the seed of the turn's request.
        world: `policy.parallel.World` of the run; unset, this process is alone.

    Raises:
        ValueError: an environment failed, or the chat template refused a dialog; the first such rank's on all.
    """
    size, rank = (world.world_size, world.rank) if world is not None else (1, 0)
    own = [
        _Dialog(index, environments[index], tasks[index], parser, template, how)
        for index in range(rank, len(tasks), size)
    ]

    def move(last: list[list[EpisodeTurn]]) -> list[tuple[int, Next]]:
        """Play the turns that were sampled in this rank's dialogs, and look at what comes next in each."""
        open_ones = [dialog for dialog in own if not dialog.told]
        for dialog in open_ones:
            dialog.begin() if not last[dialog.index] else dialog.act(last[dialog.index][-1].sample)
        return [(dialog.index, dialog.next()) for dialog in open_ones]

    turns: list[list[EpisodeTurn]] = [[] for _ in tasks]
    ends: dict[int, tuple[float, Ended]] = {}
    while True:
        parts = together(world.object_group, partial(move, turns)) if size > 1 else [move(turns)]
        prompts: dict[int, list[int]] = {}
        for index, found in chain.from_iterable(parts):
            if isinstance(found, list):
                prompts[index] = found
            else:
                ends[index] = found
        if not prompts:
            return [Episode(task, turns[index], *ends[index]) for index, task in enumerate(tasks)]
        playing = sorted(prompts)
        requests = [
            Request(
                prompt_ids=prompts[index],
                n=1,
                seed=seed_of(index, len(turns[index])),
                temperature=how.temperature,
                top_p=how.top_p,
                max_tokens=how.max_new_tokens,
                routes=how.routes,
            )
            for index in playing
        ]
        for index, (sample,) in zip(playing, engine.generate_all(requests), strict=True):
            turns[index].append(EpisodeTurn(prompts[index], sample))


class _Dialog:
    """One dialog on the rank that holds it."""

    def __init__(
        self, index: int, environment: Environment, task: int, parser: Parses, template: "ChatTemplate", how: Play
    ) -> None:
        self.index, self.told = index, False
        """`told`: `next` has said how it ended."""
        self._environment, self._task = environment, task
        self._parser, self._template, self._how = parser, template, how
        self._turns = 0
        self._seen: Observation

    def begin(self) -> None:
        self._seen = self._ask("reset", self._task)

    def next(self) -> Next:
        ended: Ended = "done"
        if not self._seen.done:
            prompt = self._template.encode(self._seen.messages, self._seen.tools)
            if self._turns == self._how.max_turns:
                ended = "turns"
            elif len(prompt) + self._how.max_new_tokens > self._how.context:
                ended = "context"
            else:
                return prompt
            self._seen = self._ask("abandon")
            if not self._seen.done:
                raise ValueError(f"environment: abandon() of task {self._task} did not end it; return done=True there")
        self.told = True
        return float(self._seen.reward), ended

    def act(self, sample: Sample) -> None:
        items = self._parser.parse(self._template.decode(sample.token_ids), self._seen.tools)
        self._turns += 1
        self._seen = self._ask("step", items)

    def _ask(self, method: str, *arguments: Any) -> Observation:
        """The environment is the user's program, which may raise anything: it is said on all ranks, with the task."""
        try:
            seen = getattr(self._environment, method)(*arguments)
        except Exception as error:
            raise ValueError(
                f"environment: {method}() of task {self._task} raised {type(error).__name__}: {error}; repair it there"
            ) from error
        if wrong := fault_of(seen):
            raise ValueError(f"environment: {method}() of task {self._task} returned {wrong}; repair it there")
        return seen

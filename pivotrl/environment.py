"""A live world that a policy acts in: tasks by number, dialogs of turns, one reward for the whole episode."""

import importlib
import math
from dataclasses import dataclass
from numbers import Real
from typing import Any, Protocol

from pydantic import Field

from pivotrl.schema import Section
from pivotrl.trajectories.records import Message, Tool

ENVIRONMENTS = {"desk": "pivotrl.demo.environment:DeskEnvironment"}
"""Short names of the environments that come with this program."""
_METHODS = ("reset", "step", "abandon")


class EnvironmentConfig(Section):
    """Section `environment` of a run that acts in a live world (`pivotrl.baselines.end_to_end`)."""

    name: str = "desk"
    """`desk`, or your own class as `my_package.module:MyEnvironment`; it is built with the stream's name alone."""
    stream: str = "train"
    """Which stream of tasks to play; the demo's are any names, streams of two names share nothing."""
    tasks: int | None = Field(None, ge=1)
    """Tasks of the stream that training draws from, shuffled anew for each pass; null: every task once, in order."""
    max_turns: int = Field(32, ge=1)
    """Turns of one episode, at most; an episode that needs more is abandoned."""
    max_episode_tokens: int | None = Field(None, ge=2)
    """Longest prompt with its next turn, in tokens; an episode that outgrows it is abandoned. Null:
    rollout.max_model_len, which is also the most that counts."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What the policy sees of a dialog."""

    messages: list[Message]
    """The whole dialog so far, in OpenAI's form, ending where the policy is to act."""
    tools: list[Tool]
    done: bool
    """The episode is over: nobody acts any more."""
    reward: float
    """Of the whole episode; it counts where `done` is true."""


class Environment(Protocol):
    """One dialog at a time; an object is used for many, one after another. Its constructor takes the stream's name.

    What the policy writes is hostile input: `step` answers it with a message, and raises nothing. Only one rank holds
    a dialog, so a world with an outside (a container, a web site) is entered once.
    """

    def reset(self, task: int) -> Observation:
        """Begin the stream's task of this number (from 0). The same number is the same task on every rank."""

    def step(self, items: list[dict]) -> Observation:
        """Play one turn: Responses-API items as `rollout.parsing.ActionParser` gives them."""

    def abandon(self) -> Observation:
        """End the dialog where it stands, because it outgrew the context or its turns; `done` is true."""


def fault_of(seen: Any) -> str:
    """What is wrong with what an environment returned; empty where it is an observation that can be used."""
    if not isinstance(seen, Observation):
        return f"a {type(seen).__name__} in place of a pivotrl.environment.Observation"
    if not (isinstance(seen.done, bool) and isinstance(seen.messages, list) and isinstance(seen.tools, list)):
        return "an Observation whose done is no bool, or whose messages or tools are no list"
    if seen.done and not (isinstance(seen.reward, Real) and math.isfinite(seen.reward)):
        return f"the reward {seen.reward!a:.80} with done=True, in place of a finite number"
    if not seen.done and not seen.messages:
        return "no messages with done=False: there is nothing to act on"
    return ""


def build_environment(name: str, stream: str) -> Environment:
    """A new environment of this name (see `EnvironmentConfig.name`) on a stream of tasks.

    Raises:
        ValueError: there is no such name, class or stream, or the class lacks a method.
    """
    target = ENVIRONMENTS.get(name, name)
    module, colon, attribute = target.partition(":")
    if not (colon and module and attribute):
        known = ", ".join(ENVIRONMENTS)
        raise ValueError(
            f"environment.name: {name!r} is not an environment; write {known}, or your own as my_package.module:MyWorld"
        )
    try:
        kind = getattr(importlib.import_module(module), attribute)
    except ImportError as error:
        raise ValueError(
            f"environment.name: {name!r} cannot be imported ({error}); install its package, or set PYTHONPATH"
        ) from None
    except AttributeError:
        raise ValueError(f"environment.name: the module {module} has no {attribute!r}") from None
    missing = [method for method in _METHODS if not callable(getattr(kind, method, None))]
    if missing:
        raise ValueError(f"environment.name: {name!r} has no {', '.join(missing)}; see pivotrl.environment.Environment")
    return kind(stream)

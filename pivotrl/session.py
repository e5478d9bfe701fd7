"""What one process of a run holds: its place in the world, the policy, the engine, and what judges their actions."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from pivotrl.config import RunConfig
from pivotrl.pivots.score import Scorer
from pivotrl.planning import sizes
from pivotrl.policy import checkpoint_random, device, router_replay, startup
from pivotrl.policy.architecture import Architecture
from pivotrl.policy.parallel import World, check_layout, initialize
from pivotrl.policy.step import Policy
from pivotrl.rollout.checks import check_engine
from pivotrl.rollout.engine import Engine
from pivotrl.rollout.parsing import ActionParser
from pivotrl.rollout.refit import refit
from pivotrl.trajectories.template import ChatTemplate
from pivotrl.verifiers.judge.engine import ask_with_engine


@dataclass(frozen=True, slots=True)
class Session:
    config: RunConfig
    world: World
    policy: Policy
    engine: Engine
    template: ChatTemplate
    parser: ActionParser
    scorer: Scorer


def open_session(config: RunConfig) -> Session:
    """Build the policy and its co-located engine in this process, and prove that they agree (collective).

    What can be known to be wrong before a process group starts is found before it starts. What the configuration leaves
    to the plan is set in the session's. The engine does not read the folder's weights: the policy's first refit fills
    it. The device is the engine's then: `handover.to_trainer` comes before an update.

    Raises:
        ValueError: the layout, the model folder, the chat template, a parser or the verifier cannot be used.
        RefitError: the engine does not give the policy's log-probs.
    """
    arch, replay, asked = Architecture.from_hf(config.model.path), config.training.router_replay, config
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    config = sizes.with_context(config, arch, device.current().kind)
    check_layout(config.parallel, arch, ranks)
    check_engine(config.rollout, config.model.path, ranks, device.current().kind)
    router_replay.check(replay, arch, device.current().kind)
    startup.check(config, arch)
    settled = sizes.for_session(config, arch, ranks)
    template = ChatTemplate(config.model.path, config.model.chat_template)
    parser = ActionParser(template.tokenizer, config.rollout.tool_parser, config.rollout.reasoning_parser)
    scorer = Scorer(config.verifier, parser, template)
    world = initialize(config.parallel, config.seed)
    policy = Policy(config, world)
    policy.sleep()  # what it puts away makes room for the engine
    if world.rank == 0:
        print("\n".join([*startup.report(policy), *sizes.engine_lines(settled, asked)]), flush=True)
    engine = Engine(
        settled.rollout,
        config.model.path,
        config.model.dtype,
        config.seed,
        world,
        routes=replay == "engine",
        group=config.training.group_size,
        empty=True,
    )
    scorer.attach(ask_with_engine(engine, template))
    refit(policy, engine)
    return Session(settled, world, policy, engine, template, parser, scorer)


_SETTLED = ("model", "parallel", "rollout", "training.router_replay")
"""What the process groups, the engine and the template were made from."""
_FREE = ("rollout.temperature", "rollout.top_p", "rollout.max_new_tokens", "rollout.bank")


def reset(session: Session, config: RunConfig) -> Session:
    """The session of another training in the same process: a new policy with the weights of `model.path` and a new
    optimizer beside the engine that is there, which gets the weights (collective).

    The old session's policy is closed, and its memory given back. A training in the new session does the same, bit for
    bit, as one in processes of its own. (A key-value cache, which a refit empties, is all that an engine remembers.)

    Args:
        config: of the new training; whatever is not of `model`, `parallel` or the engine may be another.

    Raises:
        ValueError: it asks for another model, layout or engine, or for a verifier that cannot be used.
        RefitError: the engine does not give the policy's log-probs.
    """
    config = sizes.as_in(session.config, config)
    then, now = session.config.model_dump(), config.model_dump()
    for key in _SETTLED:
        for name, was, value in _settled(key, then, now):
            if name not in _FREE and was != value:
                raise ValueError(
                    f"{name} is {value!r}, and was {was!r} when this session's engine was started: start another one"
                )
    scorer = session.scorer
    if config.verifier != session.config.verifier:
        scorer = Scorer(config.verifier, session.parser, session.template)
        scorer.attach(ask_with_engine(session.engine, session.template))
    startup.check(config, session.policy.arch)
    session.engine.sleep()
    session.policy.close()
    checkpoint_random.reseed(config.seed, 0)
    policy = Policy(config, session.world)
    policy.sleep()
    refit(policy, session.engine)
    return replace(session, config=config, policy=policy, scorer=scorer)


def _settled(key: str, then: dict[str, Any], now: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """(dotted key, its value then, its value now) of a section, or of one key of it."""
    section, _, name = key.partition(".")
    for inner in [name] if name else now[section]:
        yield f"{section}.{inner}", then[section][inner], now[section][inner]

"""What one process of a run holds: its place in the world, the policy, the engine, and what judges their actions."""

import os
from dataclasses import dataclass

from pivotrl.config import RunConfig
from pivotrl.policy.architecture import Architecture
from pivotrl.policy.parallel import World, check_layout, initialize
from pivotrl.policy.step import Policy
from pivotrl.rollout.engine import Engine
from pivotrl.rollout.parsing import ActionParser
from pivotrl.rollout.refit import refit
from pivotrl.trajectories.template import ChatTemplate
from pivotrl.verifiers.base import Verifier, build_verifier


@dataclass(frozen=True, slots=True)
class Session:
    config: RunConfig
    world: World
    policy: Policy
    engine: Engine
    template: ChatTemplate
    parser: ActionParser
    verifier: Verifier


def open_session(config: RunConfig) -> Session:
    """Join the process group, build the policy and the co-located engine, and prove that they agree (collective).

    Raises:
        ValueError: the layout, the model folder or the chat template cannot be used; no process group is left open
            for errors that can be known before it starts.
    """
    arch = Architecture.from_hf(config.model.path)
    check_layout(config.parallel, arch, int(os.environ.get("WORLD_SIZE", "1")))
    verifier = build_verifier(config.verifier)
    template = ChatTemplate(config.model.path, config.model.chat_template)
    world = initialize(config.parallel, config.seed)
    policy = Policy(config, world)
    engine = Engine(config.rollout, config.model.path, config.model.dtype, config.seed, world)
    refit(policy, engine)
    parser = ActionParser(template.tokenizer, config.rollout.tool_parser, config.rollout.reasoning_parser)
    return Session(config, world, policy, engine, template, parser, verifier)

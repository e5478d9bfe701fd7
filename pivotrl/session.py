"""What one process of a run holds: its place in the world, the policy, the engine, and what judges their actions."""

import os
from dataclasses import dataclass

from pivotrl.config import RunConfig
from pivotrl.pivots.score import Scorer
from pivotrl.policy import device, router_replay, startup
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

    What can be known to be wrong before a process group starts is found before it starts.

    Raises:
        ValueError: the layout, the model folder, the chat template, a parser or the verifier cannot be used.
        RefitError: the engine does not give the policy's log-probs.
    """
    arch, replay = Architecture.from_hf(config.model.path), config.training.router_replay
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    check_layout(config.parallel, arch, ranks)
    check_engine(config.rollout, config.model.path, ranks, device.current().kind)
    router_replay.check(replay, arch, device.current().kind)
    startup.check(config, arch)
    template = ChatTemplate(config.model.path, config.model.chat_template)
    parser = ActionParser(template.tokenizer, config.rollout.tool_parser, config.rollout.reasoning_parser)
    scorer = Scorer(config.verifier, parser, template)
    world = initialize(config.parallel, config.seed)
    policy = Policy(config, world)
    if world.rank == 0:
        print("\n".join(startup.report(policy)), flush=True)
    engine = Engine(config.rollout, config.model.path, config.model.dtype, config.seed, world, replay == "engine")
    scorer.attach(ask_with_engine(engine, template))
    refit(policy, engine)
    return Session(config, world, policy, engine, template, parser, scorer)

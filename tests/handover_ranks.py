"""One rank of test_handover.py: two steps of training with an engine that sleeps, and the first one replayed.

Usage (under torchrun): handover_ranks.py FOLDER. Prints `HELD` and, as JSON, what was in memory at each moment.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pivotrl import collect
from pivotrl.config import load_config
from pivotrl.demo.trajectories import write
from pivotrl.pivots.sampler import PivotSampler
from pivotrl.pivots.store import PivotFile
from pivotrl.policy import checkpoint_state
from pivotrl.policy.memory import measured_bytes
from pivotrl.rollout.engine import Engine
from pivotrl.rollout.residence import Residence
from pivotrl.rollout.transport import Transport
from pivotrl.session import Session, open_session
from pivotrl.train import train
from pivotrl.trajectories.records import Pivot, Profile, Turn
from pivotrl.trajectories.store import write_jsonl
from pivotrl.trajectories.turns import TurnReader
from tests.fake_sleep import FakeSleep
from tests.rollout.engine_ranks import raises

STEPS = 2


def write_pivots(session: Session) -> None:
    """Pivots that nobody profiled, of the demo's trajectories."""
    config = session.config
    turns = [one for one in TurnReader(config.trajectories, config.seed) if isinstance(one, Turn)][:4]
    ids = [session.template.encode(turn.messages, turn.tools) for turn in turns]
    rows = [
        Pivot(turn, Profile(turn.id, [1.0, 0.0], ["a", "b"], 0.5, 0.25, "p", {}), prompt, session.template.hash)
        for turn, prompt in zip(turns, ids, strict=True)
    ]
    folder = Path(config.output) / "pivots"
    folder.mkdir(parents=True)
    write_jsonl(folder / "pivots.jsonl", (row.to_json() for row in rows))


def refuse_long_prompts(session: Session) -> None:
    """Pivots that were selected with a longer context stop the run before its first step, and say what would do."""
    config, longest = session.config, max(len(pivot.prompt_ids) for pivot in pivots_of(session))
    room = longest + config.rollout.max_new_tokens
    short = config.rollout.model_copy(update={"max_model_len": room - 1})
    with raises(ValueError, "prompt tokens, do not fit", f"set rollout.max_model_len to {room:,} or more"):
        train(replace(session, config=config.model_copy(update={"rollout": short})))
    assert not (Path(config.output) / "metrics.jsonl").exists()


def pivots_of(session: Session) -> PivotFile:
    return PivotFile(Path(session.config.output) / "pivots" / "pivots.jsonl")


class Watch:
    """What is in memory whenever something that matters begins."""

    def __init__(self, session: Session, fake: FakeSleep) -> None:
        self._session, self._fake, self.seen = session, fake, []

    def at(self, name: str, owner: Any, method: str) -> None:
        original: Callable = getattr(owner, method)

        def watched(*arguments: Any, **named: Any) -> Any:
            self.seen.append((name, self._fake.held() | measured_bytes(self._session.policy)))
            return original(*arguments, **named)

        setattr(owner, method, watched)


def assert_replays(session: Session, first: list) -> None:
    """An engine that knows nothing of the run draws the first step's samples again, from the recorded seed alone."""
    config = load_config(Path(session.config.output) / "config.yaml")
    model = config.model
    fresh = Engine(config.rollout.model_copy(update={"sleep": False}), model.path, model.dtype, 99, session.world)
    pivots = PivotSampler(pivots_of(session), config.training.pivots_per_step, config.seed).batch(0)
    assert [group.pivot.id for group in first] == [pivot.id for pivot in pivots]
    again = fresh.generate_all(collect.requests_of(config, pivots, 0, 0))
    assert again == [group.samples for group in first]
    assert fresh.generate_all(collect.requests_of(config, pivots, 1, 0)) != again, "another step draws others"


def main(folder: str) -> None:
    files, run = Path(folder) / "trajectories.jsonl", Path(folder) / "run"
    write(files, 2, "train")
    settings = [
        f"output={run}",
        f"trajectories.files=[{files}]",
        "parallel={tensor: 1, expert: 1}",
        f"training={{steps: {STEPS}, pivots_per_step: 2, group_size: 4, offload: true}}",
        "checkpoint.every=1",
        "telemetry.tensorboard=false",
        "seed=3",
    ]
    session = open_session(load_config("configs/demo_cpu.yaml", settings))
    write_pivots(session)
    refuse_long_prompts(session)
    engine = session.engine
    fake = FakeSleep(engine)
    engine.residence = Residence(fake, engine._runner, sleeps=True)
    watch, steps = Watch(session, fake), []
    for name, owner, method in (
        ("rollout", engine, "generate"),
        ("update", session.policy, "train_step"),
        ("save", checkpoint_state, "to_save"),
        ("refit", Transport, "run"),
        ("canary", engine, "score"),
    ):
        watch.at(name, owner, method)
    experience = collect.experience

    def kept(*arguments: Any) -> list:
        steps.append(experience(*arguments))
        return steps[-1]

    collect.experience = kept
    train(session)
    assert len(steps) == STEPS
    assert_replays(session, steps[0])
    print("HELD " + json.dumps(watch.seen), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""One rank of test_weights.py: other policies' weights into one session, the right ones and the wrong ones.

Usage (under torchrun): weights_ranks.py FOLDER
"""

import json
import os
import shutil
import sys
from pathlib import Path

import torch
import torch.distributed as dist

from pivotrl.config import load_config
from pivotrl.demo.run import export
from pivotrl.demo.trajectories import write
from pivotrl.evaluation import report
from pivotrl.evaluation.measure import evaluate, heldout_pivots
from pivotrl.evaluation.weights import load_into
from pivotrl.policy.checkpoint import Checkpoints
from pivotrl.rollout.proof import canary_ids
from pivotrl.rollout.refit import refit
from pivotrl.session import open_session


def main() -> None:
    folder = Path(sys.argv[1])
    settings = [
        f"output={folder / 'run'}",
        f"trajectories.files=[{folder / 't.jsonl'}]",
        "trajectories.heldout_share=0.5",
    ]
    settings += ["evaluation.environment=desk", "evaluation.tasks=4", "evaluation.samples=2", "evaluation.draws=100"]
    config = load_config("configs/demo_cpu.yaml", [*settings, "pivots.samples=4"])
    if os.environ["RANK"] == "0":
        write(folder / "t.jsonl", 6, "train")
    session = open_session(config)
    policy, engine, rank = session.policy, session.engine, session.world.rank
    ids = canary_ids(24, policy.arch.vocab)
    facts: dict = {"base": engine.weights}

    def scores() -> list[float]:
        policy_logp, engine_logp = policy.score(ids), engine.score(ids)
        assert torch.allclose(policy_logp, engine_logp, atol=1e-3), (policy_logp - engine_logp).abs().max()
        return policy_logp.tolist()

    parts = config.evaluation
    pivots = heldout_pivots(session, parts)
    base = evaluate(session, parts, "base", pivots)
    base_scores = scores()
    with torch.no_grad():
        for name, parameter in policy.model.named_parameters():
            if "norm" not in name:
                parameter.mul_(1.25)
    refit(policy, engine)
    facts["changed"], changed_scores = engine.weights, scores()
    export(session, folder / "hf")
    with Checkpoints(policy, folder / "run" / "checkpoints") as checkpoints:
        checkpoints.save_now(3)
    dist.barrier(group=session.world.object_group)

    load_into(session, config.model.path)
    facts["base again"] = engine.weights
    assert scores() == base_scores
    for number, source in enumerate((str(folder / "hf"), "step=3", str(folder / "run"))):
        load_into(session, source)
        facts[f"changed {number}"] = engine.weights
        assert scores() == changed_scores, source
        load_into(session, config.model.path)
    load_into(session, "step=3")
    changed = evaluate(session, parts, "changed", pivots)
    again = evaluate(session, parts, "again", pivots)
    assert again | {"name": "", "seconds": 0} == changed | {"name": "", "seconds": 0}

    if rank == 0:
        damaged = folder / "run" / "checkpoints" / "step_000004"
        shutil.copytree(folder / "run" / "checkpoints" / "step_000003", damaged)
        shard = max(damaged.glob("*.distcp"), key=lambda path: path.stat().st_size)
        content = bytearray(shard.read_bytes())
        content[len(content) // 2] ^= 1
        shard.write_bytes(content)
        words = folder / "words"
        shutil.copytree(folder / "hf", words)
        tokens = json.loads((words / "tokenizer.json").read_text())
        vocabulary = tokens["model"]["vocab"]
        one, other = sorted(vocabulary, key=vocabulary.get)[50:52]
        vocabulary[one], vocabulary[other] = vocabulary[other], vocabulary[one]
        (words / "tokenizer.json").write_text(json.dumps(tokens))
        wide = folder / "wide"
        shutil.copytree(folder / "hf", wide)
        settings = json.loads((wide / "config.json").read_text())
        (wide / "config.json").write_text(json.dumps(settings | {"moe_intermediate_size": 128}))
    dist.barrier(group=session.world.object_group)
    for source, says in (
        ("step=4", "is damaged"),
        (str(folder / "words"), "another vocabulary than model.path's: 2 tokens differ"),
        (str(folder / "wide"), "another architecture than model.path's: expert_ffn is 128, not 64"),
        ("step=5", "there is no"),
    ):
        try:
            load_into(session, source)
        except ValueError as error:
            assert says in str(error) and "\n" not in str(error), error
        else:
            raise AssertionError(f"{source} was loaded")
        assert scores() == changed_scores and engine.weights == facts["changed"], "nothing has changed"
    if rank == 0:
        comparison = report.write(config, [base, changed], {"base": "m", "changed": "step=3"}, folder / "evaluation")
        facts["measures"] = [measure["key"] for measure in comparison["measures"]]
        facts["turns"] = len(base["turns"]["sampled"])
        (folder / "facts.json").write_text(json.dumps(facts))


if __name__ == "__main__":
    main()

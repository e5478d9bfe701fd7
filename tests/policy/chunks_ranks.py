"""One rank of test_chunks.py: interleaved stages export, save and load as any other layout does.

Usage (under torchrun): chunks_ranks.py MODEL_FOLDER...
"""

import sys
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist

from pivotrl.policy import device, parallel
from pivotrl.policy.hf_files import HfFiles
from pivotrl.policy.step import Policy
from pivotrl.policy.weights import load_model_weights, save_model
from tests.policy.parity_reference import run_config, samples_of

INTERLEAVED = {"pipeline": 2, "virtual_pipeline": 2}
TENSOR = {"tensor": 2, "expert": 2}


def exported(policy: Policy) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in policy.export()}


def equal(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> bool:
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in theirs)


def loaded(folder: Path, layout: dict, checkpoint: Path) -> Policy:
    """A policy whose weights are the checkpoint's, and nothing else."""
    parallel.destroy()
    config = run_config(folder, parallel=layout)
    policy = Policy(config, parallel.initialize(config.parallel, 0))
    with torch.no_grad():
        for parameter in policy.model.parameters():
            parameter.fill_(torch.nan)
    load_model_weights(checkpoint, policy.model)
    return policy


def check(folder: Path) -> None:
    config = run_config(folder, parallel=INTERLEAVED, objective={"beta": 0.0, "entropy_bonus": 0.0})
    world = parallel.initialize(config.parallel, 0)
    policy = Policy(config, world)
    files = HfFiles(folder)
    assert equal(exported(policy), {name: files.whole(name) for name in files.file_of}), "exported as it was loaded"
    stage = [name for name, _ in policy.model.named_parameters() if ".0.input_layernorm" in name]
    assert stage == [f"chunk{v}.decoder.layers.0.input_layernorm.weight" for v in (0, 1)], stage
    silent = policy.train_step([replace(sample, advantage=0.0) for sample in samples_of(0)], 0)
    assert silent["grad_norm"] == 0, "a batch without signal: a run of dummies, as many as there are stages"
    policy.train_step(samples_of(0), 0)
    stepped = exported(policy)

    interleaved, tensor = folder / "interleaved", folder / "tensor"
    if world.rank == 0:
        interleaved.mkdir()
        tensor.mkdir()
    dist.barrier()
    save_model(policy.model, interleaved)
    policy = loaded(folder, TENSOR, interleaved)
    assert equal(exported(policy), stepped), "an interleaved pipeline's checkpoint on a tensor-parallel layout"
    save_model(policy.model, tensor)
    policy = loaded(folder, INTERLEAVED, tensor)
    assert equal(exported(policy), stepped), "and back"
    parallel.destroy()
    if world.rank == 0:
        print("CHUNKS HOLD", folder.name, flush=True)


def main() -> None:
    device.prepare()
    for folder in sys.argv[1:]:
        check(Path(folder))


if __name__ == "__main__":
    main()

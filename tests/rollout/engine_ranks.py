"""Checks of a co-located engine, run by every rank of torchrun: engine_ranks.py FOLDER TENSOR NAME...

vLLM takes 10 s to start and keeps global state, so all checks of one layout share a process group, and pytest's own
process stays without it. The model is random and transformers is the oracle. Prints one line for each check, from
rank 0: `CHECK name ok`, or `CHECK name` and the ranks' stack traces.
"""

import contextlib
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import torch
import torch.distributed as dist

from pivotrl.rollout import landings
from pivotrl.rollout.config import RolloutConfig
from pivotrl.rollout.engine import Engine, Request, Sample
from pivotrl.rollout.refit import RefitError, prove, refit
from tests.rollout.tiny import END, VOCABULARY, TransformersPolicy, WholeShards, log_probs, spread

MAX_LEN = 256


class Stand:
    """An engine, and a transformers model that plays the policy."""

    def __init__(self, folder: Path, tensor: int):
        from transformers import AutoModelForCausalLM

        dist.init_process_group("gloo")
        self.folder = folder
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self.policy = TransformersPolicy(folder, self.model)
        self.engine = Engine(
            RolloutConfig(tensor=tensor, max_model_len=MAX_LEN, kv_cache_gib=0.25), folder, "float32", 0
        )
        generator = torch.Generator().manual_seed(7)
        shared = torch.randint(3, VOCABULARY, (70,), generator=generator).tolist()
        self.prompts = [
            (shared if number % 2 else [])
            + torch.randint(3, VOCABULARY, (9 * number + 2,), generator=generator).tolist()
            for number in range(9)
        ]

    def requests(self, n: int = 3, seed: int = 0, temperature: float = 1.0, top_p: float = 1.0) -> list[Request]:
        return [Request(ids, n, seed + i, temperature, top_p, 24) for i, ids in enumerate(self.prompts)]

    def off(self, results: list[list[Sample]]) -> float:
        """Largest gap between the samples' log-probs and transformers'."""
        return max(
            float((log_probs(self.model, ids + one.token_ids)[len(ids) - 1 :] - torch.tensor(one.logprobs)).abs().max())
            for ids, samples in zip(self.prompts, results, strict=True)
            for one in samples
        )

    def assert_greedy(self) -> None:
        """Greedy generation is transformers' argmax at every position."""
        results = self.engine.generate_all(self.requests(n=1, temperature=0.0))
        for ids, (one,) in zip(self.prompts, results, strict=True):
            with torch.no_grad():
                logits = self.model(torch.tensor([ids + one.token_ids])).logits[0, len(ids) - 1 : -1]
            assert logits.argmax(-1).tolist() == one.token_ids


def greedy(stand: Stand) -> None:
    stand.assert_greedy()
    three = stand.engine.generate_all(stand.requests(n=3, temperature=0.0))
    assert all(len(samples) == 3 and samples[0] == samples[2] for samples in three)


def sampled_log_probs(stand: Stand) -> None:
    results = stand.engine.generate_all(stand.requests())
    assert [len(samples) for samples in results] == [3] * 9
    assert stand.off(results) < 1e-4
    # They stay the model's own at another temperature.
    assert stand.off(stand.engine.generate_all(stand.requests(temperature=0.5, top_p=0.8))) < 1e-4


def seeds(stand: Stand) -> None:
    engine, runs = stand.engine, []
    for seed in (0, 0, 1):
        engine.reset_prefix_cache()
        runs.append(engine.generate_all(stand.requests(seed=seed)))
    assert runs[0] == runs[1] and runs[0] != runs[2]
    same_prompt = [Request(stand.prompts[3], 8, seed, 1.0, 1.0, 24) for seed in range(4)]
    drawn = [tuple(one.token_ids) for samples in engine.generate_all(same_prompt) for one in samples]
    assert len(set(drawn)) == 32, "samples of one prompt repeat each other"
    rounds = [replace(same_prompt[0], n=n, first=first) for n, first in [(3, 0), (5, 3)]]
    again = [tuple(one.token_ids) for samples in engine.generate_all(rounds) for one in samples]
    assert again == drawn[:8], "drawn in rounds, a prompt's samples are other ones"


def groups_are_heard_as_they_finish(stand: Stand) -> None:
    """Every rank hears of its engine's requests, each once, before the last is done, and gets what the rest gives."""
    engine, heard, running = stand.engine, [], []

    def finished(number: int, samples: list) -> None:
        heard.append((number, samples))
        running.append(engine.llm.llm_engine.engine_core.engine_core.scheduler.has_unfinished_requests())

    requests = [replace(one, max_tokens=4 * (index + 1)) for index, one in enumerate(stand.requests(n=2))]
    engine.reset_prefix_cache()
    results = engine.generate_all(requests, finished)
    assert all(samples == results[number] for number, samples in heard)
    assert any(running), "none was heard before the last was done"
    numbers = sorted(number for number, _ in heard)
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, numbers)
    assert sorted(number for mine in everyone[:: engine.config.tensor] for number in mine) == list(range(len(requests)))
    engine.reset_prefix_cache()
    assert engine.generate_all(requests) == results, "listening changes nothing"


def every_rank_has_all(stand: Stand) -> None:
    results = stand.engine.generate_all(stand.requests(n=2))
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, results)
    assert all(one == results for one in everyone)
    few = stand.engine.generate_all(stand.requests(n=2)[:1])  # fewer requests than engines
    assert [len(samples) for samples in few] == [2]


def endings(stand: Stand) -> None:
    end = stand.engine.tokenizer.convert_tokens_to_ids(END)
    samples = [one for group in stand.engine.generate_all(stand.requests(n=32)) for one in group]
    stopped = [one for one in samples if one.finish == "stop"]
    assert stopped, "no sample met the end token: draw more"
    assert all(one.token_ids.index(end) == len(one.token_ids) - 1 for one in stopped)
    assert all(len(one.token_ids) == 24 and end not in one.token_ids for one in samples if one.finish == "length")
    assert {one.finish for one in samples} == {"stop", "length"}
    assert all(len(one.token_ids) == len(one.logprobs) for one in samples)


def too_long(stand: Stand) -> None:
    request = Request([5] * 250, 1, 0, 1.0, 1.0, 7)
    with raises(ValueError, "250", "max_tokens 7", f"max_model_len {MAX_LEN}"):
        stand.engine.generate_all([*stand.requests()[:3], request])
    stand.engine.generate_all([Request([5] * 249, 1, 0, 1.0, 1.0, 7)])


def leaves_no_shared_memory(stand: Stand) -> None:
    """What two ranks of an engine share has no name any more, so a killed run leaves none."""
    assert not list(Path("/dev/shm").glob(f"{stand.engine.name}*"))


def refit_moves_everything(stand: Stand) -> None:
    spread(stand.model, seed=11)
    before = stand.engine.generate_all(stand.requests())
    assert stand.off(before) > 0.5, "the new weights are too like the old ones"
    report = refit(stand.policy, stand.engine)
    assert report.canary_error < 1e-4
    sizes = {tensor.data_ptr(): tensor.nbytes for _, tensor in stand.policy.tensors()}
    assert report.bytes == sum(sizes.values())
    assert report.remote_bytes == report.buffer_bytes == 0 < report.landed_bytes <= report.bytes + 640 * 512
    # The prompts were cached under the old weights; a cache that was kept would show here.
    assert stand.off(stand.engine.generate_all(stand.requests())) < 1e-4
    stand.assert_greedy()


def refit_is_quick(stand: Stand) -> None:
    seconds = []
    for seed in range(5):
        spread(stand.model, seed)
        seconds.append(refit(stand.policy, stand.engine).seconds)
    assert min(seconds) < 0.2, seconds


def moe_layout_corruption_stops_the_run(stand: Stand) -> None:
    """Expert weights left in the checkpoint's layout, as a plain copy leaves them on a CPU."""

    def copy_only(self, written: torch.Tensor) -> None:
        getattr(self.layer, self.attribute).data.copy_(written)

    with swapped(landings.PrepackedExperts, "close", copy_only), raises(RefitError, "canary", "position", "stopped"):
        refit(stand.policy, stand.engine)
    heal(stand)


def reload_weights_of_vllm_stops_the_run(stand: Stand) -> None:
    """vLLM's own reload of the very weights that the engine holds."""
    from safetensors.torch import load_file

    stand.model.load_state_dict(type(stand.model).from_pretrained(stand.folder, dtype=torch.float32).state_dict())
    heal(stand)
    assert prove(stand.policy, stand.engine) < 1e-4
    runner = stand.engine.llm.llm_engine.model_executor.driver_worker.worker.model_runner
    runner.reload_weights(weights_iterator=iter(load_file(stand.folder / "model.safetensors").items()))
    stand.engine.reset_prefix_cache()
    with raises(RefitError, "canary", "rollout.canary_tolerance"):
        prove(stand.policy, stand.engine)
    heal(stand)


def stale_head_stops_the_run(stand: Stand) -> None:
    """The output head's parameter is written, the packed copy that the logits come from is not."""
    spread(stand.model, seed=21)
    with swapped(landings.PackedHead, "close", lambda self, written: None), raises(RefitError, "canary"):
        refit(stand.policy, stand.engine)
    heal(stand)


def a_near_tie_is_decided_by_another_canary(stand: Stand) -> None:
    """Three positions of one rank are off on the first canary; then on every canary."""
    refit(stand.policy, stand.engine)
    score, asked = stand.policy.score, []

    def tied(ids: list[int], every: bool = False) -> torch.Tensor:
        asked.append(ids)
        found = score(ids).clone()
        if dist.get_rank() == dist.get_world_size() - 1 and (every or len(asked) == 1):
            found[3:6] += 0.5
        return found

    with swapped(stand.policy, "score", tied):
        assert prove(stand.policy, stand.engine) < 1e-4
    assert len(asked) == 2 and asked[0] != asked[1]
    with swapped(stand.policy, "score", lambda ids: tied(ids, every=True)), raises(RefitError, "canary", "3 of"):
        prove(stand.policy, stand.engine)


def one_wrong_tensor_stops_the_run(stand: Stand) -> None:
    """The trainer scores with one expert's row changed after it was exported."""
    name, tensor = next((n, t) for n, t in stand.policy.tensors() if n.endswith("down_proj"))
    refit(stand.policy, stand.engine)
    kept = tensor.clone()
    tensor.flatten()[: tensor.numel() // 8] *= 1.5
    with raises(RefitError, "canary"):
        prove(stand.policy, stand.engine)
    tensor.copy_(kept)
    # One rank's replica of a weight drifted from the other's: the checksums name it.
    name, tensor = next((n, t) for n, t in stand.policy.tensors() if n.endswith("1.input_layernorm.weight"))
    kept = tensor.clone()
    if dist.get_rank() == 1:
        tensor.flatten()[0] += 1
    with raises(RefitError, f"rank 1 and rank 0 hold other values of {name}[0:128]"):
        refit(stand.policy, stand.engine)
    tensor.copy_(kept)
    heal(stand)


def what_is_not_exported_is_named(stand: Stand) -> None:
    policy, engine = stand.policy, stand.engine
    victim = "model.layers.1.self_attn.k_proj.weight"

    def owning(change: Callable) -> SimpleNamespace:
        engine.refit_route = None
        tensors = dict(changed for name, tensor in policy.tensors() for changed in change(name, tensor))
        return SimpleNamespace(arch=policy.arch, shards=WholeShards(tensors), score=policy.score)

    with raises(RefitError, f"needs {victim}, which no rank of the policy owns"):
        refit(owning(lambda n, t: [] if n == victim else [(n, t)]), engine)
    with raises(RefitError, "the policy's ranks own", f"elements of {victim} that rank"):
        refit(owning(lambda n, t: [(n, t[:-1] if n == victim else t)]), engine)
    with raises(RefitError, "the policy has other.weight, which no engine needs"):
        refit(owning(lambda n, t: [(n, t)] if n != victim else [(n, t), ("other.weight", t)]), engine)
    with raises(RefitError, "weights are torch.bfloat16, the engine's torch.float32"):
        refit(owning(lambda n, t: [(n, t.bfloat16())]), engine)
    engine.refit_route = None
    heal(stand)


def a_policy_of_another_shape_writes_nothing(stand: Stand) -> None:
    import dataclasses

    engine = stand.engine
    refit(stand.policy, engine)
    before = engine.score([5, 6, 7, 8])
    route, engine.refit_route = engine.refit_route, None
    arch = dataclasses.replace(stand.policy.arch, hidden=2 * stand.policy.arch.hidden)
    other = SimpleNamespace(arch=arch, shards=None, score=None)
    with raises(RefitError, "model.embed_tokens.weight is [", "in the policy"):
        refit(other, engine)
    arch = dataclasses.replace(stand.policy.arch, layers=stand.policy.arch.layers + 1)
    with raises(RefitError, "the policy exports model.layers.", "no place in the engine"):
        refit(SimpleNamespace(arch=arch, shards=None, score=None), engine)
    engine.refit_route = route
    assert torch.equal(engine.score([5, 6, 7, 8]), before)


def every_sync_holds_what_is_live_against_the_plan(stand: Stand) -> None:
    """A tensor of one rank that is no longer what the plan was made for stops all, before anything is written."""
    policy, engine, rank = stand.policy, stand.engine, dist.get_rank()
    heal(stand)
    before = engine.score([5, 6, 7, 8])
    where = "" if rank == 1 else r" (rank 1)"
    norm = engine.model.model.norm.weight
    kept = norm.data
    if rank == 1:
        norm.data = kept.clone()
    with raises(RefitError, "engine's model.norm.weight is another tensor than the one that refits write to" + where):
        refit(policy, engine)
    norm.data = torch.zeros(3) if rank == 1 else kept
    with raises(RefitError, "engine's model.norm.weight is [3] of torch.float32, and was [128] of"):
        refit(policy, engine)
    norm.data = kept
    manifest = engine.refit_route.manifest
    lines, fingerprint = manifest.lines, manifest.fingerprint
    if rank == 1:
        manifest.lines, manifest.fingerprint = (
            [line.replace("norm.weight [128]", "norm.weight [64]") for line in lines],
            "x",
        )
    with raises(
        RefitError, "rank 1 planned other transfers than rank 0, and they differ in model.", "norm.weight [128]"
    ):
        refit(policy, engine)
    manifest.lines, manifest.fingerprint = lines, fingerprint
    assert torch.equal(engine.score([5, 6, 7, 8]), before)
    heal(stand)


def heal(stand: Stand) -> None:
    assert refit(stand.policy, stand.engine).canary_error < 1e-4


@contextlib.contextmanager
def raises(kind: type[Exception], *parts: str) -> Iterator[None]:
    try:
        yield
    except kind as error:
        assert all(part in str(error) for part in parts), (parts, str(error))
    else:
        raise AssertionError(f"no {kind.__name__} with {parts}")


@contextlib.contextmanager
def swapped(owner: type, name: str, value: object) -> Iterator[None]:
    original = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, original)


def main(folder: str, tensor: str, *names: str) -> None:
    stand = Stand(Path(folder), int(tensor))
    for name in names:
        try:
            globals()[name](stand)
            outcome = ""
        except Exception:
            outcome = traceback.format_exc()
        everyone = [""] * dist.get_world_size()
        dist.all_gather_object(everyone, outcome)
        if dist.get_rank() == 0:
            print(f"CHECK {name} {'ok' if not any(everyone) else chr(10).join(everyone)}", flush=True)
    dist.barrier()


if __name__ == "__main__":
    main(*sys.argv[1:])

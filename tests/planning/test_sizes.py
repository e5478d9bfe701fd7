"""What a configuration leaves to the plan, and that a run gets what tools/plan.py shows."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pivotrl.config import RunConfig, parse_config
from pivotrl.planning import sizes
from pivotrl.planning.assumptions import Assumptions
from pivotrl.planning.hardware import GIB, H100, H200
from pivotrl.planning.plan import make_plan
from pivotrl.planning.workload import Lengths
from pivotrl.policy import device
from tests.planning.sizes import RANKS, model, run
from tests.test_session import SIZES

UNSET = ("rollout.kv_cache_gib=null", "rollout.sleep=null")


def small(folder: Path, rollout: dict) -> RunConfig:
    (folder / "config.json").write_text(json.dumps(SIZES | {"rope_theta": 1e4}))
    tree = {"output": "x", "model": {"path": str(folder), "dtype": "float32"}, "rollout": rollout}
    return parse_config(tree, "test")


@pytest.mark.parametrize("gpu", [H100, H200], ids=lambda gpu: gpu.name)
@pytest.mark.parametrize("more", [(), ("rollout.sleep=false",), ("training.offload=true",), ("parallel.pipeline=2",)])
def test_the_cache_is_what_the_plan_leaves_less_the_margin(gpu, more: tuple[str, ...]) -> None:
    plan = make_plan(run(*UNSET, *more), model(), RANKS, Lengths(), Assumptions(), gpu.memory)
    assert plan.fits(gpu)
    with_cache = [one.total for one in plan.memory.phases.values() if one.kv_cache]
    held_in = {("rollout.sleep=false",): 4, ("training.offload=true",): 1}.get(more, 2)
    assert len(with_cache) == held_in
    spare = (gpu.memory - max(with_cache)) / GIB
    assert 0 <= spare - Assumptions().margin_gib <= 1 / 64


def test_a_run_gets_the_cache_that_its_plan_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    config = run(*UNSET)
    shown = make_plan(config, model(), RANKS, Lengths(), Assumptions(), H100.memory).config
    monkeypatch.setattr(device, "memory_bytes", lambda: H100.memory)
    got = sizes.for_session(sizes.with_context(config, model(), "cuda"), model(), RANKS)
    assert got == shown
    kept = run("rollout.kv_cache_gib=3", "rollout.max_model_len=9000")
    assert sizes.for_session(sizes.with_context(kept, model(), "cuda"), model(), RANKS) == kept


def test_a_gpu_without_room_for_one_sequence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    config = sizes.with_context(run(*UNSET, "optimizer.precision_aware=false"), model(), "cuda")
    monkeypatch.setattr(device, "memory_bytes", lambda: 40 * GIB)
    with pytest.raises(
        ValueError, match=r"plan leaves 0.0 of this GPU's 40.0 GiB .* rollout.max_model_len 32,768 takes 0.9"
    ):
        sizes.for_session(config, model(), RANKS)
    tiny = replace(H100, memory=40 * GIB)
    plan = make_plan(config, model(), RANKS, Lengths(), Assumptions(), tiny.memory)
    assert not plan.fits(tiny)
    assert plan.config.rollout.kv_cache_gib == sizes.least_cache_gib(config, model()), "one sequence's, for the report"


def test_the_context_is_a_micro_batch_or_what_the_model_has(tmp_path: Path) -> None:
    config = small(tmp_path, {"max_new_tokens": 64})
    arch = sizes.Architecture.from_hf(tmp_path)
    assert sizes.with_context(config, arch, "cpu").rollout.max_model_len == SIZES["max_position_embeddings"]
    long = run("rollout.max_model_len=null", "training.micro_batch_tokens=20000")
    assert sizes.with_context(long, model(), "cuda").rollout.max_model_len == 20000
    with pytest.raises(ValueError, match=r"max_new_tokens is 512, and rollout.max_model_len, which is unset, .* 512"):
        sizes.with_context(small(tmp_path, {"max_new_tokens": 512}), arch, "cpu")


def test_an_engine_sleeps_where_it_can_and_is_not_told_otherwise() -> None:
    for asked, kind, sleeps in ((None, "cuda", True), (None, "cpu", False), (False, "cuda", False)):
        config = run(f"rollout.sleep={'null' if asked is None else 'false'}")
        assert sizes.with_context(config, model(), kind).rollout.sleep is sleeps


def test_on_a_cpu_the_cache_is_as_large_as_its_use(tmp_path: Path) -> None:
    def cache(**rollout: object) -> float:
        return sizes.for_engine_alone(small(tmp_path, {"max_new_tokens": 8, **rollout})).rollout.kv_cache_gib

    per_token = 2 * SIZES["num_key_value_heads"] * SIZES["head_dim"] * SIZES["num_hidden_layers"] * 4
    assert cache(max_model_len=512, max_num_seqs=256) == pytest.approx(256 * 512 * per_token / GIB, abs=1 / 64)
    assert cache(max_model_len=512, max_num_seqs=4096) == 1
    one = cache(max_model_len=512, max_num_seqs=1)
    assert 512 * per_token / GIB < one <= 1 / 64 + 1.25 * 512 * per_token / GIB
    assert cache(kv_cache_gib=0.3) == 0.3


def test_without_a_policy_an_engine_takes_the_gpu_and_stays_awake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small(tmp_path, {"max_new_tokens": 8, "max_num_seqs": 10**6})
    monkeypatch.setattr(device, "memory_bytes", lambda: H100.memory)
    rollout = sizes.for_engine_alone(config).rollout
    assert 60 < rollout.kv_cache_gib < H100.memory / GIB - Assumptions().margin_gib
    assert rollout.sleep is False and rollout.max_model_len == SIZES["max_position_embeddings"]


def test_the_start_says_what_was_planned() -> None:
    asked = run(*UNSET, "rollout.sleep=true")
    settled = make_plan(asked, model(), RANKS, Lengths(), Assumptions()).config
    (line,) = sizes.engine_lines(settled, asked)
    assert line.endswith("GiB of cache a rank (kv_cache_gib from the plan), sleeps while the policy trains")
    (line,) = sizes.engine_lines(run(), run())
    assert line == "engine: 32,768 tokens of context, 24 GiB of cache a rank, stays while the policy trains"

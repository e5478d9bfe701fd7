"""What only a GPU can tell of an engine's life: sleep mode's memory, its addresses, and CUDA graphs."""

from pathlib import Path

import pytest
import torch

from pivotrl.policy.memory import storage_bytes
from pivotrl.rollout.config import RolloutConfig
from pivotrl.rollout.records import Request
from tests.rollout.tiny import VOCABULARY, TransformersPolicy, log_probs, save_moe, spread

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]


def test_an_engine_that_sleeps_gives_its_memory_and_wakes_as_the_policy(tmp_path: Path) -> None:
    """Started empty, with CUDA graphs of few sizes; asleep and awake twice, with other weights each time."""
    pytest.importorskip("vllm", reason="needs vLLM")
    from pivotrl.rollout.engine import Engine
    from pivotrl.rollout.refit import refit

    model = save_moe(tmp_path).eval()
    policy = TransformersPolicy(tmp_path, model)
    config = RolloutConfig(max_model_len=256, max_num_seqs=24, kv_cache_gib=1.0, sleep=True, canary_tolerance=1e-2)
    engine = Engine(config, str(tmp_path), "float32", 0, group=6, empty=True)
    assert not loose_tensors(engine.model), "vLLM brings buffers back, and nothing else would bring these"
    assert engine.llm.llm_engine.vllm_config.compilation_config.cudagraph_capture_sizes == [1, 2, 4, 6, 8, 16, 24]
    requests = [Request([5 + k] * (3 + k), 6, k, 1.0, 1.0, 24) for k in range(5)]
    refit(policy.on("cuda"), engine)
    addresses = [parameter.data_ptr() for parameter in engine.model.parameters()]
    for seed in (1, 2):
        engine.generate(requests)
        free = torch.cuda.mem_get_info()[0]
        engine.sleep()
        given = torch.cuda.mem_get_info()[0] - free
        assert given > 0.95 * (2**30 + storage_bytes(engine.model.parameters())), given
        spread(model, seed)
        assert refit(policy.on("cuda"), engine).canary_error < 1e-2
        assert [parameter.data_ptr() for parameter in engine.model.parameters()] == addresses
        engine.reset_prefix_cache()
        samples = engine.generate(requests)
        for request, group in zip(requests, samples, strict=True):
            for sample in group:
                ids = [*request.prompt_ids, *sample.token_ids]
                assert max(ids) < VOCABULARY
                theirs = log_probs(model.cpu(), ids)[len(request.prompt_ids) - 1 :]
                assert (torch.tensor(sample.logprobs) - theirs).abs().max() < 1e-2
        engine.reset_prefix_cache()
        assert engine.generate(requests) == samples, "the same seeds give the same samples"


def loose_tensors(model: torch.nn.Module) -> list[str]:
    """Tensors on the GPU that modules, or what these hold, have as plain attributes; the cache is not theirs."""
    known = {one.untyped_storage()._cdata for one in (*model.parameters(), *model.buffers())}
    found = []
    for path, module in model.named_modules():
        held = dict(vars(module))
        for name, value in vars(module).items():
            if hasattr(value, "__dict__") and not isinstance(value, type | torch.nn.Module):
                held |= {f"{name}.{inner}": one for inner, one in vars(value).items()}
        for name, value in held.items():
            if isinstance(value, torch.Tensor) and value.is_cuda and name != "kv_cache":
                found += [f"{path}.{name}"] * (value.untyped_storage()._cdata not in known)
    return found
